"""``exact``: a scan of every row. Nothing is built, nothing is missed.

A single query is bound by memory, and so are a few, or more in a small index: threads read blocks of rows, and each
row is compared with all queries while it is in the cache. Many queries are bound by arithmetic: one matrix product per
block of rows. Either way the k best of a block join the k best so far, so the scratch is bounded whatever the number of
rows.

A score is always ``np.vecdot(row, query)`` in float32. A matrix product rounds differently from one shape to the
next, so it only proposes candidates (``SPARE`` more than ``k``), whose scores are computed again: a query
gets the same answer alone and in a batch, and equal rows tie, the lower row first.

>>> shelf = Exact(np.eye(3, dtype=np.float32))
>>> scores, rows = shelf.search(np.array([[0.0, 2.0, 1.0]]), k=2)
>>> scores.tolist(), rows.tolist()
([[2.0, 1.0]], [[1, 2]])
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.index.base import checked_k, checked_mask, checked_queries, checked_vectors, filled
from isthmus.index.select import Keys, keys, largest, ordered, top
from isthmus.index.threads import cores, in_pieces
from isthmus.types import Mask, Matrix, Rows

FEW = 8  # up to this many queries, dot products by row are faster than a matrix product
SMALL = 1 << 25  # multiplications of a search for which threads of a matrix product cost more than they save
BATCH = 256  # queries in one matrix product
SPARE = 16  # candidates beyond k from a matrix product: rows that its rounding may have put in another order
BLOCK = 2048  # rows a thread reads at a time
SCRATCH = 8_000_000  # scores held at a time, 32 MB
GATHERED = 8192  # rows copied at a time, when few are allowed
GATHER_BELOW = 0.3, 0.6  # share of allowed rows above which a scan of all is faster: few queries, many


class Exact:
    """The rows themselves. They are not copied, so they must not change."""

    kind = "exact"

    def __init__(self, vectors: Matrix, *, threads: int | None = None) -> None:
        self.vectors = checked_vectors(vectors)
        self.threads = threads

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each query and their rows, best first."""
        k, queries = checked_k(k), checked_queries(queries, self.vectors.shape[1])
        return scan(self.vectors, queries, k, checked_mask(allowed, len(self)), self.threads)

    def save(self, folder: Path, name: str) -> list[Path]:  # noqa: ARG002 - there is nothing to write
        """Write nothing: the index is the vectors."""
        return []


def scan(
    vectors: Matrix, queries: Matrix, k: int, allowed: Mask | None = None, threads: int | None = None
) -> tuple[Matrix, Rows]:
    """Search checked arrays; used by ``Exact``, and by the other kinds if a filter leaves few rows."""
    seen = Seen.of(vectors, allowed, GATHER_BELOW[not _is_small(vectors, queries)])
    found = min(k, len(seen))
    scores = np.empty((len(queries), found), dtype=np.float32)
    rows = np.empty((len(queries), found), dtype=np.intp)
    for start in range(0, len(queries) if found else 0, BATCH):
        part = slice(start, start + BATCH)
        scores[part], rows[part] = _best(seen, queries[part], found, threads)
    return filled(scores, rows, k)


@dataclass(frozen=True, slots=True)
class Seen:
    """The rows of a search: all of them, some masked, or a subset that is gathered block by block."""

    vectors: Matrix
    subset: Rows | None = None  # ascending, so that lower places are lower rows
    mask: Mask | None = None

    @classmethod
    def of(cls, vectors: Matrix, allowed: Mask | None, gather_below: float) -> Seen:
        """Choose: gather the allowed rows when they are fewer than this share of all."""
        if allowed is None:
            return cls(vectors)
        if np.count_nonzero(allowed) < gather_below * len(vectors):
            return cls(vectors, subset=np.flatnonzero(allowed))
        return cls(vectors, mask=allowed)

    def __len__(self) -> int:
        return len(self.vectors if self.subset is None else self.subset)

    def block(self, start: int, stop: int) -> Matrix:
        """Return the rows at these places, a view where possible."""
        return self.vectors[slice(start, stop) if self.subset is None else self.subset[start:stop]]

    def hide(self, scores: Matrix, start: int, stop: int) -> None:
        """Give the rows that are not allowed a score of −inf; ``scores`` is ``(queries, stop − start)``, our own."""
        if self.mask is not None:
            scores += np.where(self.mask[start:stop], np.float32(0), np.float32(-np.inf))

    def rows(self, places: Rows) -> Rows:
        """Return the row number of each place."""
        return places if self.subset is None else self.subset[places]


def _is_small(vectors: Matrix, queries: Matrix) -> bool:
    return len(queries) <= FEW or vectors.size * len(queries) <= SMALL


def _best(seen: Seen, queries: Matrix, k: int, threads: int | None) -> tuple[Matrix, Rows]:
    few = _is_small(seen.vectors, queries)
    wanted = k if few else min(k + SPARE, len(seen))
    size = max(SCRATCH // len(queries), 4 * wanted)
    if not few and seen.subset is not None:
        size = GATHERED
    best = np.empty((len(queries), 0), dtype=np.int64)
    for start in range(0, len(seen), size):
        stop = min(start + size, len(seen))
        scores = _by_row(seen, queries, start, stop, threads) if few else _by_product(seen, queries, start, stop)
        best = largest(np.concatenate([best, _top(scores, wanted, start, threads)], axis=1), wanted)
    scores, places = ordered(best)
    rows = np.where(np.isneginf(scores), -1, seen.rows(places))
    return (scores, rows) if few else rescored(seen.vectors, queries, rows, k)


def _by_row(seen: Seen, queries: Matrix, start: int, stop: int, threads: int | None) -> Matrix:
    scores = np.empty((len(queries), stop - start), dtype=np.float32)

    def work(a: int, b: int) -> None:
        block = seen.block(start + a, start + b)
        for query, out in zip(queries, scores, strict=True):
            np.vecdot(block, query, out=out[a:b])
        seen.hide(scores[:, a:b], start + a, start + b)

    in_pieces(work, stop - start, BLOCK, threads)
    return scores


def _by_product(seen: Seen, queries: Matrix, start: int, stop: int) -> Matrix:
    scores = (seen.block(start, stop) @ queries.T).T  # in this order OpenBLAS is a tenth faster
    seen.hide(scores, start, stop)
    return scores


def _top(scores: Matrix, k: int, first: int, threads: int | None) -> Keys:
    """Select in all threads at once, each in a stretch of the rows: the memory of a product runs along the queries."""
    stretches: list[Keys] = []

    def work(a: int, b: int) -> None:
        stretches.append(top(scores[:, a:b], k, first + a))

    columns = scores.shape[1]
    in_pieces(work, columns, max(-(-columns // (threads or cores())), 4096), threads)
    return np.concatenate(stretches, axis=1)


def rescored(vectors: Matrix, queries: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    """Return the ``k`` best of the given rows of each query, ``(m, k)``, by their own inner products, best first."""
    found = np.empty((len(queries), min(k, rows.shape[1])), dtype=np.int64)
    for out, query, own in zip(found, queries, rows, strict=True):
        scores = np.vecdot(vectors[own], query)
        scores[own < 0] = -np.inf
        out[:] = largest(keys(scores, own)[None], k)
    return ordered(found)
