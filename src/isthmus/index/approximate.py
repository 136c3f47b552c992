"""The search of approximate indexes: Faiss proposes rows, the vectors score them, and the search widens if needed.

The index only proposes rows; their inner products are computed from the vectors, as in ``exact``, so a hit has the same
score in every kind. A search needs a *quota* of rows that the filter allows, a few times ``k``. If the index finds
fewer, it searches again, four times wider. When a wider search would cost more than a scan of the allowed rows, they
are scanned: for a narrow filter this is faster, and exact.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from isthmus._optional import need
from isthmus.index.base import checked_k, checked_mask, checked_queries, filled
from isthmus.index.exact import rescored, scan
from isthmus.types import Mask, Matrix, Rows

WIDER = 4
LANES = 16


class Proposer(Protocol):
    """The methods that differ between approximate indexes."""

    vectors: Matrix
    threads: int | None

    def quota(self, k: int, filtered: bool) -> int:
        """Return the number of rows to find, so that the ``k`` best are very likely among them."""
        ...

    def effort(self, k: int, share: float) -> int:
        """Return the width of a search for ``k`` hits if this share of the rows is allowed."""
        ...

    def cost(self, effort: int) -> float:
        """Return the number of gathered rows that can be scanned in the time of one such search."""
        ...

    def propose(self, queries: Matrix, quota: int, effort: int, allowed: Mask | None) -> Rows:
        """Return ``(m, quota)`` rows, −1 where fewer were found."""
        ...


def search(index: Proposer, queries: Matrix, k: int, allowed: Mask | None) -> tuple[Matrix, Rows]:
    """Return the ``k`` best rows of each query among those proposed, or among all if the quota cannot be reached."""
    vectors, n = index.vectors, len(index.vectors)
    k, queries = checked_k(k), checked_queries(queries, vectors.shape[1])
    mask = checked_mask(allowed, n)
    there = n if mask is None else int(np.count_nonzero(mask))
    quota = min(index.quota(k, mask is not None), there)
    scores = np.full((len(queries), min(k, there)), -np.inf, dtype=np.float32)
    rows = np.full(scores.shape, -1, dtype=np.intp)
    effort = index.effort(k, there / max(n, 1))
    left = np.arange(len(queries) if there else 0)
    while left.size and index.cost(effort) < there and quota < there:
        proposed = index.propose(queries[left], quota, effort, mask)
        met = proposed[:, -1] >= 0
        done = left[met]
        if done.size:
            scores[done], rows[done] = rescored(vectors, queries[done], proposed[met], k)
        left = left[~met]
        effort *= WIDER
    if left.size:
        scores[left], rows[left] = scan(vectors, queries[left], min(k, there), mask, index.threads)
    return filled(scores, rows, k)


def roomy(width: int) -> int:
    """Return the padded width for Faiss: its fast paths need multiples of 16; one extra column is five times slower."""
    return -(-width // LANES) * LANES


def widened(rows: Matrix, width: int) -> Matrix:
    """Return rows with zeros up to a width, which change no inner product.

    >>> widened(np.ones((1, 2)), 4)
    array([[1., 1., 0., 0.]], dtype=float32)
    """
    wide = np.zeros((len(rows), width), dtype=np.float32)
    wide[:, : rows.shape[1]] = rows
    return wide


def selector(allowed: Mask | None) -> Any:
    """Return Faiss's form of a mask: a bit per row, the lowest first."""
    if allowed is None:
        return None
    return need("faiss", extra="ann").IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
