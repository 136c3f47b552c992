"""Pairs of a query and a document: labelled answers, known sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.errors import BadInput
from isthmus.types import Rows

PairsLike: TypeAlias = "NDArray[np.integer[Any]] | Sequence[int] | Sequence[Sequence[int]] | Pairs"

_FORMS = "Give (n, 2) rows of (query, document), or one document per query, with -1 for none."


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of (query row, document number), in the order of the queries; a document of one row has its number.

    >>> Pairs.of([4, -1, 2], queries=3, documents=5).documents      # one document per query, -1 for none
    array([4, 2])
    >>> Pairs.of([(0, 4), (0, 1)], queries=3, documents=5).queries  # or pairs
    array([0, 0])
    """

    queries: Rows
    documents: Rows

    @classmethod
    def of(cls, given: PairsLike | None, *, queries: int, documents: int) -> Pairs:
        """Read ``(n, 2)`` pairs of query row and document, or one document per query with -1 for none."""
        if isinstance(given, Pairs):
            given = np.column_stack([given.queries, given.documents])
        try:
            array = np.asarray([] if given is None else given)
        except ValueError:
            raise BadInput("Pairs of different lengths cannot be read. " + _FORMS) from None
        if array.size == 0:
            return cls(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))
        if array.dtype.kind not in "iu":
            raise BadInput(f"Pairs are row numbers, not {array.dtype}. " + _FORMS)
        if array.ndim == 1 and len(array) == queries:
            array = np.column_stack([np.arange(queries), array])[array != -1]
        if array.ndim != 2 or array.shape[1] != 2:
            raise BadInput(f"Pairs of shape {array.shape} cannot be read for {queries} queries. " + _FORMS)
        for name, column, size in (("query row", array[:, 0], queries), ("document", array[:, 1], documents)):
            if len(column) and not (column.min() >= 0 and column.max() < size):
                raise BadInput(
                    f"A pair names {name} {column.min() if column.min() < 0 else column.max()}, "
                    f"but there are {size} of them, numbered from 0."
                )
        array = np.unique(array, axis=0).astype(np.intp)  # in order of the queries, each pair once
        return cls(array[:, 0], array[:, 1])

    @classmethod
    def both(cls, first: Pairs, second: Pairs) -> Pairs:
        """Return the union of both, without duplicates."""
        array = np.unique(np.concatenate([np.column_stack([p.queries, p.documents]) for p in (first, second)]), axis=0)
        return cls(array[:, 0], array[:, 1])

    def __len__(self) -> int:
        return len(self.queries)

    def of_queries(self, rows: Rows) -> Pairs:
        """Return the pairs of these queries only, numbered by their position in ``rows``."""
        place = np.full(max(int(rows.max(initial=-1)), int(self.queries.max(initial=-1))) + 1, -1, dtype=np.intp)
        place[rows] = np.arange(len(rows))
        kept = place[self.queries] >= 0
        return Pairs(place[self.queries[kept]], self.documents[kept])
