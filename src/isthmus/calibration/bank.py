"""A bank: reference queries (or documents) after the shift, and what a pass of all documents over it gives."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isthmus.calibration.pairs import Pairs
from isthmus.errors import CannotFit
from isthmus.types import Matrix, Rows, Vectors

SIMILARITY_BYTES = 1 << 25  # of one block of similarities: large enough for BLAS, small enough for the cache


class NeighbourSearch(Protocol):
    """A search for nearest neighbours by inner product, exact or not, passed in by whoever has an index."""

    def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each vector with the bank, and their rows: ``(n, k)`` twice."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """Reference queries after the shift, by modality, and their rows in what was handed to ``fit``."""

    vectors: Mapping[str, Matrix]
    rows: Mapping[str, Rows]

    @classmethod
    def of(cls, shifted: Matrix, queries: Vectors) -> References:
        """Group shifted reference queries by modality."""
        rows = {name: np.flatnonzero(queries.modality_code == code) for code, name in enumerate(queries.modalities)}
        return cls({name: shifted[numbers] for name, numbers in rows.items()}, rows)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def own(self, modality: str, sources: Pairs | None) -> Pairs | None:
        """Return which references of ``modality`` were made from which documents."""
        return sources and sources.of_queries(self.rows[modality])


def similarity_blocks(x: Matrix, bank: Matrix, own: Pairs | None = None) -> Iterator[tuple[slice, Matrix]]:
    """Yield ``(rows, x[rows] @ bank.T)``; where a reference meets its own source the similarity is −inf."""
    step = max(1, SIMILARITY_BYTES // (x.itemsize * max(1, len(bank))))
    order = None if own is None or not len(own) else np.argsort(own.documents, kind="stable")
    for start in range(0, len(x), step):
        rows = slice(start, min(start + step, len(x)))
        similarity = x[rows] @ bank.T
        if own is not None and order is not None:
            first, last = np.searchsorted(own.documents[order], [rows.start, rows.stop])
            mine = order[first:last]
            similarity[own.documents[mine] - start, own.queries[mine]] = -np.inf
        yield rows, similarity


def over_bank(x: Matrix, bank: Matrix, reduce: Callable[[Matrix, slice], Matrix], own: Pairs | None = None) -> Matrix:
    """Reduce each document's similarities to the bank to one number, ``(n,)``."""
    if own is not None:
        _refuse_only_own(len(x), len(bank), own)
    out = np.empty(len(x), dtype=x.dtype)
    cores = os.cpu_count() or 1

    def task(rows: slice, similarity: Matrix) -> None:
        out[rows] = reduce(similarity, rows)

    with ThreadPoolExecutor(cores) as pool:  # BLAS makes a block on every core; so is it reduced
        for block, similarity in similarity_blocks(x, bank, own):
            cuts = np.linspace(block.start, block.stop, cores + 1).astype(int)
            slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(cuts) if a < b]
            list(pool.map(task, slices, [similarity[s.start - block.start : s.stop - block.start] for s in slices]))
    return out


def nearest_mean(x: Matrix, bank: Matrix, k: int, search: NeighbourSearch, own: Pairs | None = None) -> Matrix:
    """Return each document's mean similarity to its ``k`` nearest references, found by ``search``, ``(n,)``."""
    if own is None or not len(own):
        return np.asarray(search(x, bank, k)[0].mean(axis=1), dtype=x.dtype)
    _refuse_only_own(len(x), len(bank), own)
    most = int(np.bincount(own.documents).max())
    similarity, rows = search(x, bank, min(k + most, len(bank)))
    pair = np.arange(len(x))[:, None] * len(bank) + rows
    other = ~np.isin(pair, own.documents * len(bank) + own.queries)
    wanted = other & (np.cumsum(other, axis=1) <= k)
    return np.asarray(np.where(wanted, similarity, 0).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1), dtype=x.dtype)


def best_by_modality(x: Matrix, documents: Vectors, bank: Matrix, minus: Matrix, own: Pairs | None) -> Matrix:
    """Return each reference's best ``similarity − minus`` in each document modality, ``(modalities, references)``."""
    best = np.full((len(documents.modalities), len(bank)), -np.inf)
    for rows, similarity in similarity_blocks(x, bank, own):
        values = similarity - minus[rows, None]
        code = documents.modality_code[rows]
        for modality in np.unique(code):
            np.maximum(best[modality], values[code == modality].max(axis=0), out=best[modality])
    return best


def _refuse_only_own(documents: int, references: int, own: Pairs) -> None:
    counts = np.bincount(own.documents, minlength=documents)
    if references and len(counts) and counts.max() >= references:
        raise CannotFit(
            f"all {references} reference queries of one modality come from document row {int(counts.argmax())}, so "
            "none is left to say how near that document is to other people's queries. Give reference queries of that "
            "modality from more documents, or none at all."
        )
