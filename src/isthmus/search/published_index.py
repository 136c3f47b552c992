"""The folded vectors of one modality on a server, as a snapshot sees them.

The server may already hold rows that came later, and still hold rows of deleted documents. A snapshot names the last
row that it sees and the documents that are gone, so its answers do not depend on when the server gets either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from isthmus.errors import BadInput
from isthmus.search.allowed import Allowed
from isthmus.storage.protocols import PublishedVectors, RowFilter
from isthmus.types import Mask, Matrix, Rows

After: TypeAlias = Callable[[Rows], Mask]  # documents' rows → whether they may be found

SENT = 4096  # rows that a filter names, at most; an answer is filtered by longer lists after it came


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """A server's answer to one query: rows that may be found, best first."""

    inner: Matrix  # (n,)
    rows: Rows  # (n, 2): document, passage


@dataclass(frozen=True, slots=True, eq=False)
class PublishedIndex:
    """The rows of one modality in a publication, up to a row."""

    modality: str
    server: PublishedVectors
    key: str
    last: int
    size: int  # rows when it was published, without counting them again
    gone: Rows = field(default_factory=lambda: np.empty(0, np.int64))  # deleted documents that may still be there
    missing: tuple[str, ...] = ()  # shards that are not asked, because they do not answer

    def __len__(self) -> int:
        return self.size

    def without(self, gone: Rows) -> PublishedIndex:
        """Return the index without some documents."""
        mine = gone[gone <= self.last]
        return replace(self, gone=np.union1d(self.gone, mine)) if len(mine) else self

    def search(self, queries: Matrix, k: int, allowed: Allowed | None) -> list[Answered]:
        """Return at least the rows of the ``k`` best documents for each query, and all that equal the last of them.

        A document has several rows and some may not be found, so the server is asked for more until enough came.
        """
        where, after = self._filters(allowed)
        asked = k + 1
        while True:
            asked = min(asked, self.server.most)
            inner, rows = self.server.search(self.key, self.modality, queries, asked, where)
            found = [_kept(*one, after) for one in zip(inner, rows, strict=True)]
            ended = rows[:, -1, 0] < 0  # the server has no more
            if all(end or _enough(one, k) for end, one in zip(ended, found, strict=True)):
                return found
            if asked == self.server.most:
                break
            asked *= 4
        if any(not end and _documents(one) < k for end, one in zip(ended, found, strict=True)):
            raise BadInput(
                f"{self.server.address} returns at most {self.server.most:,} rows for a search, and {k:,} documents "
                "have more, or too few of them pass the filter. Ask for fewer (k, -k), or filter by fewer values."
            )
        return found

    def count(self) -> int:
        """Return how many rows there are now, on the server."""
        found = self.server.count(self.key, self.modality, RowFilter(self.last))
        several = np.split(self.gone, range(SENT, len(self.gone), SENT)) if len(self.gone) else []
        still = (RowFilter(self.last, only=some) for some in several)
        return found - sum(self.server.count(self.key, self.modality, one) for one in still)

    def _filters(self, allowed: Allowed | None) -> tuple[RowFilter, list[After]]:
        """Return what the server filters by, and what its answer is filtered by afterwards: lists too long to send."""
        where, after = RowFilter(self.last, without=self.missing), list[After]()
        if len(self.gone) <= SENT:
            where = replace(where, gone=self.gone)
        else:
            after.append(lambda documents: ~np.isin(documents, self.gone))
        if allowed is None:
            return where, after
        only, condition = allowed.only, allowed.condition
        if condition is not None and allowed.passing is not None and not self.server.pushes(condition):
            passing, condition = allowed.passing.rows, None
            only = passing if only is None else np.intersect1d(only, passing)
        if only is not None and len(only) > SENT:
            kept = only
            after.append(lambda documents: np.isin(documents, kept))
            only = None
        return replace(where, condition=condition, only=only), after


def _kept(inner: Matrix, rows: Rows, after: Sequence[After]) -> Answered:
    """Return what may be found of an answer to one query."""
    may = rows[:, 0] >= 0
    for each in after:
        may &= each(rows[:, 0])
    return Answered(inner[may], rows[may])


def _documents(found: Answered) -> int:
    return len(np.unique(found.rows[:, 0]))


def _enough(found: Answered, k: int) -> bool:
    """Whether k documents came, and a row after them: then no other document equals the last of them."""
    first = np.sort(np.unique(found.rows[:, 0], return_index=True)[1])  # where each document comes first
    return len(first) >= k and bool(found.inner[-1] < found.inner[first[k - 1]])
