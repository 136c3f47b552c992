"""``nnn(k, alpha)``: nearest-neighbour normalisation, which takes away a hub's head start.

In words: a document that is near many queries that do not want it (a *hub*) will be near yours too. Its
hubness is its mean similarity to the k reference queries nearest to it; subtract a share of that.

Formula, for reference queries r of the query's modality:

    b(d)        = (1/k) · Σ of the k largest s(r, d)
    score(q, d) = s(q, d) − α · b(d)

What it means: b is one number per document, so it folds into the vector as one more dimension, with −α on
the query's side: α can change at any time without touching an index. b falls as k grows; k = all is ``dn``'s
correction, k = 1 that of an infinitely sharp inverted softmax.

Reference: Chowdhury et al., *Nearest Neighbor Normalization Improves Multimodal Retrieval* (EMNLP 2024),
§3. Each query modality has references and a bias of its own. The default k is the smaller of 128 and
the number of references; a larger k than there are references is refused, not padded.

>>> similarity = np.array([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])       # two documents, three reference queries
>>> NearestNeighbourNormalization(k=2).bias(similarity)
array([0.7 , 0.25])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.errors import BadSpec, CannotFit
from isthmus.types import Matrix

DEFAULT_K = 128
LARGEST_GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestNeighbourNormalization:
    """Subtract ``alpha`` times each document's mean similarity to its ``k`` nearest reference queries."""

    k: int | None = None
    alpha: float = 0.75

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise BadSpec(f"nnn needs k ≥ 1, not {self.k}.")
        if not np.isfinite(self.alpha):
            raise BadSpec(f"nnn needs a finite alpha, not {self.alpha}.")

    def neighbours(self, references: int) -> int:
        """Return the k to use among this many references, or refuse."""
        return chosen_k(self.k, references, DEFAULT_K)

    def bias(self, similarity: Matrix, slope: Matrix | float = 1.0) -> Matrix:
        """Return the mean of the k largest similarities of each row, ``(n,)``.

        The mean is as affine as the scale that may come before it, so ``slope`` does not matter.
        """
        return mean_of_largest(similarity, self.neighbours(similarity.shape[1]))


def chosen_k(k: int | None, references: int, default: int) -> int:
    """Return k, or the default for this many references; refuse a k that is larger than their number."""
    if k is not None and k > references:
        raise CannotFit(
            f"k = {k} nearest reference queries were asked for but there are only {references}. "
            f"Use k ≤ {references}, leave k out, or give more reference queries."
        )
    return min(default, references) if k is None else k


def mean_of_largest(similarity: Matrix, k: int) -> Matrix:
    """Return the mean of the ``k`` largest entries of each row; −inf entries do not count, ``(n,)``.

    >>> mean_of_largest(np.array([[1.0, -np.inf, 3.0]]), 3)
    array([2.])
    """
    top = largest(similarity, k)
    total = top.sum(axis=1)
    if np.isfinite(total).all():
        return np.asarray(total / k)
    there = np.isfinite(top)
    return np.asarray(np.where(there, top, 0).sum(axis=1) / np.maximum(there.sum(axis=1), 1))


def largest(values: Matrix, k: int) -> Matrix:
    """Return the ``k`` largest entries of each row, in any order, ``(n, k)``.

    Selecting from a long row costs as much as making it, so most of it is ruled out first: cut into groups, the
    k-th largest of the groups' maxima is a floor for the k-th largest entry (k entries are at least as large),
    and maxima and comparisons are cheap. The few entries that reach the floor are selected from.
    """
    rows, columns = values.shape
    size = min(LARGEST_GROUP, columns // (2 * k))
    if size < 4:
        return values if k == columns else np.partition(values, columns - k, axis=1)[:, columns - k :]
    groups = columns // size
    maxima = values[:, : groups * size].reshape(rows, size, groups).max(axis=1)
    floor = np.partition(maxima, groups - k, axis=1)[:, groups - k]
    reached = np.flatnonzero(values >= floor[:, None])
    counts = np.diff(np.searchsorted(reached, np.arange(rows + 1) * columns))
    candidates = np.full((rows, counts.max(initial=k)), -np.inf, dtype=values.dtype)
    candidates[np.arange(candidates.shape[1]) < counts[:, None]] = values.reshape(-1)[reached]
    return np.partition(candidates, candidates.shape[1] - k, axis=1)[:, candidates.shape[1] - k :]
