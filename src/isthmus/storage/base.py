"""The values that every engine stores: documents with their vectors, units, calibrations, states."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from isthmus.documents import Document
from isthmus.errors import counted
from isthmus.storage.segments import Segment, modality
from isthmus.types import Matrix, Rows, Vectors

# Where a store is: a folder or a file, or the URL of a server.
Place: TypeAlias = Path | str
# A running transaction, passed from ``writing()`` to methods of the same engine; opaque to other code.
Transaction: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class State:
    """A state of the documents: the number of changes, and the token of the last one."""

    sequence: int
    token: str


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A document, its vectors, and the hashes of the content they were made from."""

    document: Document
    segments: Sequence[Segment]
    hashes: tuple[bytes | None, ...] = ()  # of each part
    own_hash: bytes | None = None
    unit: int | None = None
    run: int | None = None

    @property
    def modality(self) -> str:
        """The kinds that have a vector: a part without a vector cannot be found."""
        return modality(self.segments)

    @property
    def digest(self) -> bytes | None:
        """The hash of all parts together."""
        return parts_digest([part.kind for part in self.document.parts], self.hashes)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some documents' vectors: ``vectors`` has a row per combination of segments, ``owner`` the document of each."""

    rows: Rows  # the documents' row numbers in the store
    ids: list[str]
    vectors: Vectors
    owner: Rows  # positions in ``rows``


@dataclass(frozen=True, slots=True)
class Described:
    """The modality and the hashes of a document, which show whether it has changed."""

    modality: str
    hashes: tuple[bytes | None, ...]  # of each part
    own_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A file (or a picture with its sidecars, a shard) that documents came from."""

    number: int
    key: str
    stamp: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """The file and the run that a document came from, and the last run that found the file."""

    unit: int | None
    run: int | None
    root: str | None
    unit_run: int | None


class UnitRow(NamedTuple):
    """A file that documents came from, as a ledger keeps it: with its source, and the last run that found it."""

    number: int
    root: str
    key: str
    stamp: str | None
    run: int | None


class SkippedRow(NamedTuple):
    """An input that could not be read, as a ledger keeps it."""

    root: str
    key: str
    place: str
    why: str


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """All that a ledger keeps."""

    units: tuple[UnitRow, ...]
    skipped: tuple[SkippedRow, ...]


@dataclass(frozen=True, slots=True)
class StoredCalibration:
    """A fitted calibration as it is stored: ``fitted`` in the format of ``calibration.storage``, ``extras`` as JSON."""

    version: int
    made: str
    spec: str
    sequence: int
    fitted: bytes
    extras: str


@dataclass(frozen=True, slots=True)
class UnfinishedReencode:
    """A re-encoding that has started and not finished."""

    encoder: str
    done: int
    documents: int

    def __str__(self) -> str:
        return f"{self.done:,} of {counted(self.documents, 'document')} re-encoded with {self.encoder}"


@dataclass(frozen=True, slots=True)
class Compacted:
    """The size of the store in bytes, before and after, and whether the word index was damaged and rebuilt."""

    before: int
    after: int
    words_rebuilt: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that share words with a query, best first, and their share of the highest possible score."""

    documents: list[int]
    share: Matrix

    def joined(self, other: Found) -> Found:
        """Return the documents of both."""
        return Found([*self.documents, *other.documents], np.concatenate([self.share, other.share]))

    def of(self, documents: Sequence[int]) -> Matrix:
        """Return the share of each of these documents; 0 where no word is shared."""
        table = dict(zip(self.documents, self.share.tolist(), strict=True))
        return np.array([table.get(int(row), 0.0) for row in documents])


def parts_digest(kinds: Sequence[str], hashes: Sequence[bytes | None]) -> bytes | None:
    """Return the hash of parts in order; None if there are none, or one of them has no hash."""
    if not hashes or None in hashes:
        return None
    whole = hashlib.sha256()
    for kind, digest in zip(kinds, hashes, strict=True):
        whole.update(kind.encode() + b"\0" + (digest or b""))
    return whole.digest()
