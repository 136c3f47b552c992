"""What isthmus asks of a store that it did not build: to stream rows out, and to take folded rows into a new place.

    VectorSource    describe(), batches(size)                         a collection, a table, a file of vectors
    VectorTarget    exists(), writing(…), ids(), delete(ids)          the new one beside it
    StoreKind       how a kind is addressed, opened, and what its client returns for a query

``VALUES`` turns what clients return into inner products. Every folded row has the same length r, so each metric gives
the same order. With the length q of the folded query:

    inner = cosine · q · r                distance² = q² + r² − 2 · inner
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from isthmus.errors import BadInput
from isthmus.stores.address import StoreAddress
from isthmus.types import Matrix

Id: TypeAlias = int | str

INNER, COSINE, L2 = "inner", "cosine", "l2"
MODALITY = "modality"  # the field that is read if none is named

VALUES: Mapping[str, Callable[[Matrix, float, float], Matrix]] = MappingProxyType(
    {
        "inner": lambda value, _q, _r: value,
        "negative inner": lambda value, _q, _r: -value,
        "1 − inner": lambda value, _q, _r: 1 - value,
        "cosine": lambda value, q, r: value * q * r,
        "1 − cosine": lambda value, q, r: (1 - value) * q * r,
        "distance": lambda value, q, r: (q**2 + r**2 - value**2) / 2,
        "squared distance": lambda value, q, r: (q**2 + r**2 - value) / 2,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Some rows: ids, vectors ``(n, d)``, metadata, and the texts that some stores keep apart from metadata."""

    ids: Sequence[Id]
    vectors: Matrix
    metadata: Sequence[Mapping[str, Any]]
    texts: Sequence[str | None] | None = None

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True, eq=False)
class StoreDescription:
    """What a store holds. ``native`` is what a target of the same kind needs to make one like it."""

    count: int
    dim: int
    fields: tuple[str, ...]
    id_field: str = "id"
    vector_field: str = "vector"
    native: Any = field(default=None, repr=False)


class VectorSource(Protocol):
    """Rows of an existing store. Nothing is ever written to it."""

    def describe(self) -> StoreDescription:
        """Return what the store holds, without reading its vectors."""

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield all rows, at most ``size`` at a time, in the same order in every call if nothing changes."""

    def close(self) -> None:
        """Close files and connections."""


class VectorTarget(Protocol):
    """A new collection, table or file for folded rows."""

    whole: bool  # it is a file that is written as a whole: an update writes every row

    def exists(self) -> bool:
        """Whether something is there already."""

    def writing(self, dim: int, metric: str, like: StoreDescription) -> AbstractContextManager[Callable[[Batch], None]]:
        """Make the target if it is not there, and yield a function that writes rows; an id that is there is replaced.

        A file appears when the block ends without an error.
        """

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids of all rows, some at a time."""

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete rows."""

    def close(self) -> None:
        """Close files and connections."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """A kind of store.

    ``options``: those of its addresses. ``values``: the metrics that a new store can have, the default first, and which
    of ``VALUES`` the client returns under each. ``clients``: packages whose errors say that a store does not answer, or
    refuses.
    """

    example: str
    options: tuple[str, ...]
    values: Mapping[str, str]
    source: Callable[[StoreAddress], VectorSource]
    target: Callable[[StoreAddress, VectorSource | None], VectorTarget]
    clients: tuple[str, ...] = ()
    passes_options: bool = False  # others belong to the address of the server


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as JSON has it: NaN and infinity become None, and what JSON has not becomes a text.

    >>> plain({"year": 2021, "price": float("nan"), "tags": ("a", "b"), "id": 1 + 2j})
    {'year': 2021, 'price': None, 'tags': ['a', 'b'], 'id': '(1+2j)'}
    """
    found: dict[str, Any] = json.loads(json.dumps(row, default=str), parse_constant=lambda _: None)
    return found


def the_field(wanted: str | None, named: Iterable[str], known: Sequence[str], what: str, option: str) -> str:
    """Return the field with the vectors or ids: the one that was asked for, or the only one with a usual name."""
    if wanted is not None:
        if wanted in known:
            return wanted
        raise BadInput(f"No field is called {wanted!r}. Fields here: {', '.join(known) or 'none'}.")
    for name in named:
        if name in known:
            return name
    raise BadInput(
        f"Which field holds the {what}? Fields here: {', '.join(known) or 'none'}. Name one in the address: "
        f"?{option}=NAME."
    )
