"""Folded vectors on a server: published per calibration, searched there by modality with a filter.

The truth stays in the ``Store``. What a server holds is derived from it: a **publication** has the folded rows of one
calibration under a key of its own, up to one row of the documents. Such servers have no transactions, so nothing here
needs one:

    begin    ─▸ an empty publication under a new key; the served one is not touched
    write    ─▸ rows in batches, in the order of the documents; writing a row again changes nothing
    mark     ─▸ ``About``: how far it is; a publication is served only when this says that it is complete
    search   ─▸ by key, so an answer is of one calibration; rows after ``RowFilter.last`` are not seen, so rows that are
                appended meanwhile do not change an answer
    remove   ─▸ rows of deleted documents, after the store has recorded that older searches must be repeated
    drop     ─▸ a publication that is no longer served

The step that makes another publication the served one is a transaction of the store: the published calibration.
A killed process continues from ``About.last``. ``search.publisher`` does all this; an implementation only stores and
searches. Several threads may use one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from isthmus.errors import BadFile, CannotReach
from isthmus.storage.base import State
from isthmus.storage.facts import Scalar
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows


class NotPublished(BadFile):
    """A publication that is not on the server: dropped there, or lost. It is published again from the store."""


class ShardsDown(CannotReach):
    """Some of the servers that share the vectors do not answer; ``shards`` has their names."""

    def __init__(self, message: str, shards: Sequence[str]) -> None:
        super().__init__(message)
        self.shards = tuple(shards)


@dataclass(frozen=True, slots=True)
class About:
    """What a publication holds: the rows of one calibration's documents up to ``last``, as of a state.

    Documents that were deleted after ``state`` may still be there. All that the store has up to ``last`` is there.
    """

    identity: str  # of the calibration
    state: State
    last: int  # the last row of a document
    complete: bool = False  # whether it was ever complete; until then it is not searched
    written: Mapping[str, int] = field(default_factory=dict)  # rows of each modality, with those deleted since

    def to_json(self) -> str:
        """Return it as JSON, for servers that store a text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> About:
        """Read what ``to_json`` wrote."""
        read = json.loads(text)
        return cls(**{**read, "state": State(**read["state"])})


@dataclass(frozen=True, slots=True, eq=False)
class FoldedRows:
    """Rows of one modality, ready to be searched by inner product, with what a filter may ask for."""

    modality: str
    vectors: Matrix  # (n, width) float32
    rows: Rows  # (n, 2): document, passage
    ids: Sequence[str]  # of each row's document
    facts: Sequence[Sequence[tuple[str, Scalar]]]  # of each row's document: its metadata as (name, value)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Which rows a search may find. All of it must hold, exactly."""

    last: int  # documents up to this row
    gone: Rows = field(default_factory=lambda: np.empty(0, np.int64))  # and none of these documents
    only: Rows | None = None  # only these documents
    condition: Condition | None = None  # only documents whose metadata pass; one that ``pushes`` accepts
    without: tuple[str, ...] = ()  # names of shards that are not asked


@runtime_checkable
class PublishedVectors(Protocol):
    """The folded vectors of one collection on a server. Errors: ``CannotReach``, and ``NotPublished`` for a key.

    Where several servers share the vectors, the error is ``ShardsDown``, and a search leaves out ``RowFilter.without``.
    """

    @property
    def address(self) -> str:
        """Where it is, as the manifest keeps it: without secrets."""
        ...

    @property
    def most(self) -> int:
        """How many rows one search returns at most."""
        ...

    def begin(self, key: str, modalities: Sequence[str], width: int) -> None:
        """Make an empty publication; remains of one with the same key are deleted."""
        ...

    def about(self, key: str) -> About | None:
        """Return what was last marked; None where there is no such publication, or it was never marked."""
        ...

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is; everything written before is durable and visible first."""
        ...

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in place of those with the same document and passage."""
        ...

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents; those that are not there are ignored."""
        ...

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return ``(m, k)`` inner products, best first, and ``(m, k, 2)`` documents and passages.

        Where fewer than ``k`` rows may be found, −inf and −1 fill the rest. Sees every write that was acknowledged.
        """
        ...

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find, exactly."""
        ...

    def pushes(self, condition: Condition) -> bool:
        """Whether the server can apply a condition exactly; if not, the caller sends rows or filters the answer."""
        ...

    def drop(self, key: str) -> None:
        """Delete a publication; one that is not there is ignored."""
        ...

    def close(self) -> None:
        """Close connections; another call opens them again."""
        ...
