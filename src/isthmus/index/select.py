"""The k best of each row of scores; of equal scores, always the first.

A score and its place become one integer that sorts like the pair:

    key(score, place) = order(score) · 2³² + (2³² − 1 − place)          larger is better; no two are equal

where ``order`` reads the bits of a float32 as an integer that grows with it. Selecting among integers is fast, the
result does not depend on how the scores were cut into blocks, and place and score can be read back from the key.

>>> best = top(np.array([[0.5, 0.75, 0.5, 0.25]], dtype=np.float32), 2)
>>> scores, places = ordered(best)
>>> scores.tolist(), places.tolist()
([[0.75, 0.5]], [[1, 0]])
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.types import Matrix, Rows

Keys: TypeAlias = NDArray[np.int64]

LARGEST_GROUP = 64
LOW = np.int64(0xFFFFFFFF)
FLIP = np.int32(0x7FFFFFFF)  # negative floats grow as their other bits fall


def keys(scores: Matrix, places: NDArray[Any]) -> Keys:
    """Return one integer for each score and its place; adding 0 makes −0 and 0 the same."""
    bits = np.add(scores, np.float32(0), dtype=np.float32).view(np.int32)
    order = (bits ^ ((bits >> 31) & FLIP)).astype(np.int64)
    return (order << 32) | (LOW - places)


def ordered(best: Keys) -> tuple[Matrix, Rows]:
    """Return the scores and places of keys, best first."""
    best = np.sort(best, axis=1)[:, ::-1]
    order = (best >> 32).astype(np.int32)
    scores = (order ^ ((order >> 31) & FLIP)).view(np.float32)
    return scores, (LOW - (best & LOW)).astype(np.intp)


def top(scores: Matrix, k: int, first: int = 0) -> Keys:
    """Return the keys of the ``k`` best of each row, in any order; ``first`` is the place of the first column.

    Selecting from a long row costs as much as computing it, so most entries are excluded first. Cut the row into
    groups: its k best are in the k groups with the best maxima (of equal maxima the first), because any other entry has
    k entries before it. Maxima are cheap, and selecting among them is the same task on a shorter row.
    """
    rows, columns = scores.shape
    size = min(LARGEST_GROUP, int(np.sqrt(columns / k)))
    if size < 3:
        return largest(keys(scores, np.arange(first, first + columns)), k)
    groups = columns // size
    maxima = scores[:, : groups * size].reshape(rows, groups, size).max(axis=2)
    chosen = ordered(top(maxima, k))[1]  # (rows, k)
    places = (chosen[:, :, None] * size + np.arange(size)).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(groups * size, columns), (rows, columns - groups * size))
    places = np.concatenate([places, rest], axis=1)
    return largest(keys(np.take_along_axis(scores, places, axis=1), places + first), k)


def largest(of: Keys, k: int) -> Keys:
    """Return the ``k`` largest keys of each row (all where there are fewer), in any order."""
    columns = of.shape[1]
    return of if columns <= k else np.partition(of, columns - k, axis=1)[:, columns - k :]
