"""A bank: reference queries (or documents) after the shift, and reductions of all documents over it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from isthmus.calibration.bias import Reduction
from isthmus.calibration.largest import mean_of_largest
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages, best_rows, blocks, lengths, rows_of
from isthmus.errors import CannotFit
from isthmus.types import Matrix, Rows, Vectors

SIMILARITY_BYTES = 1 << 25  # of one block of similarities: large enough for BLAS, small enough for the cache


class NeighbourSearch(Protocol):
    """A search for nearest neighbours by inner product, exact or approximate, passed in by the caller."""

    def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each vector with the bank, and their rows: ``(n, k)`` twice."""


@runtime_checkable
class ExactSearch(NeighbourSearch, Protocol):
    """A search that misses nothing, as one on a GPU: then a scale takes its statistics by it, too."""

    def search_once(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the same as a call; the bank will not be searched again, so nothing of it is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceBank:
    """Reference queries after the shift, by modality, and their rows in the input of ``fit``."""

    vectors: Mapping[str, Matrix]
    rows: Mapping[str, Rows]

    @classmethod
    def of(cls, shifted: Matrix, queries: Vectors) -> ReferenceBank:
        """Group shifted reference queries by modality."""
        rows = {name: np.flatnonzero(queries.modality_code == code) for code, name in enumerate(queries.modalities)}
        return cls({name: shifted[numbers] for name, numbers in rows.items()}, rows)

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))

    def own(self, modality: str, sources: Pairs | None) -> Pairs | None:
        """Return which references of ``modality`` were made from which documents."""
        return sources and sources.of_queries(self.rows[modality])


def similarity_blocks(
    x: Matrix, bank: Matrix, own: Pairs | None = None, starts: Rows | None = None
) -> Iterator[tuple[slice, Matrix]]:
    """Yield ``(documents, x[documents] @ bank.T)``; the similarity of a reference to its own source is −inf.

    With ``starts``, the first row of each document, a document's similarity is the largest of its rows'.
    """
    step = max(1, SIMILARITY_BYTES // (x.itemsize * max(1, len(bank))))
    order = None if own is None or not len(own) else np.argsort(own.documents, kind="stable")
    for block in blocks(starts, len(x), step):
        rows = rows_of(block, starts, len(x))
        similarity = best_rows(x[rows] @ bank.T, None if starts is None else starts[block] - rows.start)
        if own is not None and order is not None:
            first, last = np.searchsorted(own.documents[order], [block.start, block.stop])
            mine = order[first:last]
            similarity[own.documents[mine] - block.start, own.queries[mine]] = -np.inf
        yield block, similarity


def over_bank(
    x: Matrix,
    bank: Matrix,
    reduce: Callable[[Matrix, slice], Matrix],
    own: Pairs | None = None,
    starts: Rows | None = None,
) -> Matrix:
    """Reduce each document's similarities to the bank to one number, ``(documents,)``."""
    documents = len(x) if starts is None else len(starts)
    if own is not None:
        _refuse_only_own(documents, len(bank), own)
    out = np.empty(documents, dtype=x.dtype)
    cores = os.cpu_count() or 1

    def task(rows: slice, similarity: Matrix) -> None:
        out[rows] = reduce(similarity, rows)

    with ThreadPoolExecutor(cores) as pool:  # reduced on every core, as BLAS computes it
        for block, similarity in similarity_blocks(x, bank, own, starts):
            cuts = np.linspace(block.start, block.stop, cores + 1).astype(int)
            slices = [slice(int(a), int(b)) for a, b in itertools.pairwise(cuts) if a < b]
            list(pool.map(task, slices, [similarity[s.start - block.start : s.stop - block.start] for s in slices]))
    return out


@dataclass(frozen=True, slots=True, eq=False)
class BlockedBank:
    """Documents against one bank, block by block, without the whole matrix: used by folds and fits."""

    x: Matrix
    members: Matrix
    own: Pairs | None = None
    starts: Rows | None = None
    slope: Matrix | None = None  # of the scale that came before, one per document
    search: NeighbourSearch | None = None

    def __len__(self) -> int:
        return len(self.members)

    def reduce(self, reduction: Reduction) -> Matrix:
        """Reduce each document's similarities to one number, ``(documents,)``."""
        slope = self.slope

        def of_block(similarity: Matrix, block: slice) -> Matrix:
            return reduction(similarity, 1.0 if slope is None else slope[block])

        return over_bank(self.x, self.members, of_block, self.own, self.starts)

    def mean_of_largest(self, k: int) -> Matrix:
        """Return each document's mean similarity to its ``k`` nearest members, by ``search`` if there is one."""
        check_count(k, len(self))
        if self.search is not None:
            return nearest_mean(self.x, self.members, k, self.search, self.own, self.starts)
        return self.reduce(lambda similarity, _: mean_of_largest(similarity, k))


@dataclass(frozen=True, slots=True, eq=False)
class DenseBank:
    """Documents against one bank as a matrix, ``(documents, members)``: the reference path."""

    similarity: Matrix

    def __len__(self) -> int:
        return int(self.similarity.shape[1])

    def reduce(self, reduction: Reduction) -> Matrix:
        """Reduce each document's similarities to one number, ``(documents,)``."""
        return reduction(self.similarity, 1.0)

    def mean_of_largest(self, k: int) -> Matrix:
        """Return each document's mean similarity to its ``k`` nearest members, ``(documents,)``."""
        check_count(k, len(self))
        return mean_of_largest(self.similarity, k)


def check_count(k: int, members: int) -> None:
    """Refuse more nearest members than a bank has."""
    if not 1 <= k <= members:
        raise CannotFit(f"The {k} nearest of {members} reference queries were asked for. Give k from 1 to {members}.")


def nearest_mean(
    x: Matrix,
    bank: Matrix,
    k: int,
    search: NeighbourSearch,
    own: Pairs | None = None,
    starts: Rows | None = None,
) -> Matrix:
    """Return each document's mean similarity to its ``k`` nearest references, found by ``search``, ``(documents,)``."""
    if starts is not None:
        return _nearest_mean_of_passages(x, bank, k, search, own, starts)
    if own is None or not len(own):
        return np.asarray(search(x, bank, k)[0].mean(axis=1), dtype=x.dtype)
    _refuse_only_own(len(x), len(bank), own)
    most = int(np.bincount(own.documents).max())
    similarity, rows = search(x, bank, min(k + most, len(bank)))
    pair = np.arange(len(x))[:, None] * len(bank) + rows
    other = ~np.isin(pair, own.documents * len(bank) + own.queries)
    wanted = other & (np.cumsum(other, axis=1) <= k)
    return np.asarray(np.where(wanted, similarity, 0).sum(axis=1) / np.maximum(wanted.sum(axis=1), 1), dtype=x.dtype)


def _nearest_mean_of_passages(
    x: Matrix, bank: Matrix, k: int, search: NeighbourSearch, own: Pairs | None, starts: Rows
) -> Matrix:
    """Put the neighbours of a document's passages together, each reference at its largest, and take the ``k`` best.

    This is exact if the search is: a reference outside a passage's k nearest has k others before it.
    """
    most = 0
    if own is not None and len(own):
        _refuse_only_own(len(starts), len(bank), own)
        most = int(np.bincount(own.documents).max())
    found, rows = search(x, bank, min(k + most, len(bank)))
    document = np.repeat(np.arange(len(starts)), lengths(starts, len(x)))[:, None]
    pair, similarity = (document * len(bank) + rows).ravel(), found.ravel()
    order = np.lexsort((-similarity, pair))
    order = order[np.flatnonzero(np.diff(pair[order], prepend=-1))]  # each reference once, at its largest
    if own is not None:
        order = order[~np.isin(pair[order], own.documents * len(bank) + own.queries)]
    order = order[np.lexsort((-similarity[order], pair[order] // len(bank)))]
    document = pair[order] // len(bank)
    place = np.arange(len(order)) - np.searchsorted(document, document)
    document, nearest = document[place < k], similarity[order][place < k]
    total, count = (np.bincount(document, weights, len(starts)) for weights in (nearest, None))
    return np.asarray(total / np.maximum(count, 1), dtype=x.dtype)


def best_by_modality(
    x: Matrix,
    documents: Passages,
    bank: Matrix,
    minus: Matrix,
    own: Pairs | None,
    search: NeighbourSearch | None = None,
) -> Matrix:
    """Return each reference's best ``similarity − minus`` in each document modality, ``(modalities, references)``."""
    if isinstance(search, ExactSearch):
        return _best_by_search(x, documents, bank, minus, own, search)
    best = np.full((len(documents.modalities), len(bank)), -np.inf)
    codes = documents.modality_code
    for block, similarity in similarity_blocks(x, bank, own, documents.starts):
        values = similarity - minus[block, None]
        code = codes[block]
        for modality in np.unique(code):
            np.maximum(best[modality], values[code == modality].max(axis=0), out=best[modality])
    return best


def _best_by_search(
    x: Matrix, documents: Passages, bank: Matrix, minus: Matrix, own: Pairs | None, search: ExactSearch
) -> Matrix:
    """The same by a search: ``similarity − minus`` is the product of ``[x, minus]`` and ``[reference, −1]``."""
    counts = np.ones(len(documents), int) if documents.starts is None else lengths(documents.starts, len(x))
    owner = np.repeat(np.arange(len(documents)), counts)
    most = 0  # rows of one reference's own sources, which do not count
    if own is not None and len(own):
        most = int(np.bincount(own.queries, weights=counts[own.documents]).max())
    best = np.full((len(documents.modalities), len(bank)), -np.inf)
    asked = np.column_stack([bank, np.full(len(bank), -1, dtype=bank.dtype)])
    for code in range(len(documents.modalities)):
        rows = np.flatnonzero(documents.modality_code[owner] == code)
        wide = np.column_stack([x[rows], minus[owner[rows]].astype(x.dtype)])
        values, found = search.search_once(asked, wide, min(1 + most, len(rows)))
        if own is not None and most:
            pair = np.arange(len(bank))[:, None] * len(documents) + owner[rows[found]]
            values = np.where(np.isin(pair, own.queries * len(documents) + own.documents), -np.inf, values)
        best[code] = values.max(axis=1)
    return best


def pair_similarities(bank: Matrix, x: Matrix, pairs: Pairs, starts: Rows | None = None) -> Matrix:
    """Return the similarity of each pair of a reference and a document, ``(pairs,)``."""
    if starts is None:
        return np.asarray(np.einsum("ij,ij->i", bank[pairs.queries], x[pairs.documents]))
    first = starts[pairs.documents]
    counts = lengths(starts, len(x))[pairs.documents]
    begins = np.cumsum(counts) - counts
    rows = np.repeat(first - begins, counts) + np.arange(counts.sum())  # every passage of each pair's document
    similarity = np.einsum("ij,ij->i", bank[np.repeat(pairs.queries, counts)], x[rows])
    return np.asarray(np.maximum.reduceat(similarity, begins) if len(pairs) else similarity)


def _refuse_only_own(documents: int, references: int, own: Pairs) -> None:
    counts = np.bincount(own.documents, minlength=documents)
    if references and len(counts) and counts.max() >= references:
        raise CannotFit(
            f"all {references} reference queries of one modality come from document {int(counts.argmax())}, so "
            "none is left to measure how near that document is to other queries. Give reference queries of that "
            "modality from more documents, or none at all."
        )
