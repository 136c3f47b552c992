"""What the approximate kinds share: look where Faiss points, score by the rows themselves, look wider if need be.

The index only proposes rows; their inner products are computed from the vectors, as ``exact`` does it, so a hit has
the same score in every kind. It is asked for a *quota* of rows, a few times ``k``: of the rows that a filter allows,
the index must have met so many, or it looked in the wrong place and looks again, four times wider. When looking
wider would cost more than a scan of the allowed rows, they are scanned: a narrow filter is faster that way, and exact.
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
    """The part of an approximate index that differs from one to the other."""

    vectors: Matrix
    threads: int | None

    def quota(self, k: int, filtered: bool) -> int:
        """Return how many rows must be met to trust that the ``k`` best are among them."""
        ...

    def effort(self, k: int, share: float) -> int:
        """Return how wide to look for ``k`` hits when this share of the rows is allowed."""
        ...

    def cost(self, effort: int) -> float:
        """Return the number of gathered rows that can be scanned in the time one such look takes."""
        ...

    def propose(self, queries: Matrix, quota: int, effort: int, allowed: Mask | None) -> Rows:
        """Return ``(m, quota)`` rows, −1 where fewer were met."""
        ...


def search(index: Proposer, queries: Matrix, k: int, allowed: Mask | None) -> tuple[Matrix, Rows]:
    """Return the ``k`` best rows of each query among those proposed, or among all where the quota is out of reach."""
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
    """Return the width Faiss gets: its fast paths take 16 numbers at a time, and one bias column costs five times."""
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
