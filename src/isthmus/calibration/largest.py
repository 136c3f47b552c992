"""The largest entries of each row, without sorting: for ``nnn``, ``learned`` and the baselines."""

from __future__ import annotations

import numpy as np

from isthmus.types import Matrix

LARGEST_GROUP = 32


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

    Selecting from a long row costs as much as computing it, so most entries are excluded first: the row is cut into
    groups, and the k-th largest of the groups' maxima is a lower bound of the k-th largest entry. Maxima and
    comparisons are cheap; only the few entries that reach the bound are selected from.
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
