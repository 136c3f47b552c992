"""Which documents a search may find: those that pass a filter, a few that are named by their rows, or both.

An index in this process needs a mask of its rows, and one on a server the filter itself. The rows that pass the filter
are read from the store when they are first needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isthmus.storage.where import Condition
from isthmus.types import Mask, Rows


class PassingRows:
    """The rows that pass a filter, as a table that is made once."""

    def __init__(self, read: Callable[[], Rows]) -> None:
        self._read = read
        self._table: Mask | None = None

    @property
    def table(self) -> Mask:
        """Whether each row passes, up to the last that does."""
        if self._table is None:
            rows = self._read()
            table = np.zeros(int(rows.max(initial=0)) + 1, dtype=bool)
            table[rows] = True
            self._table = table
        return self._table

    @property
    def rows(self) -> Rows:
        """The rows themselves, in order."""
        return np.flatnonzero(self.table).astype(np.int64)

    def mask(self, documents: Rows) -> Mask:
        """Return which of these documents pass."""
        table = self.table
        last = len(table) - 1
        return np.asarray(table[np.minimum(documents, last)] & (documents <= last))


class Allowed:
    """What a search may find: documents that pass ``condition``, and are in ``only``; None allows all.

    >>> odd = Allowed(None, PassingRows(lambda: np.array([1, 3, 5])))
    >>> odd.among(np.array([2, 3])).mask(np.array([1, 2, 3])).tolist()
    [False, False, True]
    """

    __slots__ = ("condition", "only", "passing")

    def __init__(
        self, condition: Condition | None = None, passing: PassingRows | None = None, only: Rows | None = None
    ) -> None:
        self.condition, self.passing, self.only = condition, passing, only

    def among(self, documents: Rows) -> Allowed:
        """Return what is allowed of some documents."""
        some = documents if self.only is None else np.intersect1d(documents, self.only)
        return Allowed(self.condition, self.passing, some)

    def mask(self, documents: Rows) -> Mask:
        """Return which of these documents, by their rows in the store, may be found."""
        if self.only is None:
            return np.ones(len(documents), dtype=bool) if self.passing is None else self.passing.mask(documents)
        inside = np.isin(documents, self.only)
        return inside if self.passing is None else inside & self.passing.mask(documents)


def among(allowed: Allowed | None, documents: Rows) -> Allowed:
    """Return what is allowed of some documents; None allows all of them."""
    return Allowed(only=documents) if allowed is None else allowed.among(documents)
