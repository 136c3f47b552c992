"""Row arithmetic shared by every calibration: normalise, fuse parts, work in blocks.

Blocks keep the intermediate values in cache, so that a pass over a matrix costs about what reading and
writing it costs. The result never depends on the block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import DTypeLike

from isthmus.errors import BadVectors
from isthmus.types import Matrix, Rows, Vectors

BLOCK_BYTES = 1 << 20  # of a float32 block: it stays in a core's own cache together with its source
NO_DIRECTION = 1e-6  # a row this near to its mean points nowhere: it becomes 0, similar to nothing


def norms(rows: Matrix) -> Matrix:
    """Return the Euclidean length of each row, ``(n,)``."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def unit(rows: Matrix, *, part: str = "", numbers: Rows | None = None) -> Matrix:
    """Scale each row to length 1, whatever its scale; refuse NaN and rows of zeros by their number.

    >>> unit(np.array([[3.0, 4.0], [0.0, 1e-300]]))
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        length = norms(rows)
        tiny = np.sqrt(np.finfo(rows.dtype).tiny) * 1e3  # below it the squares lose digits
        odd = np.flatnonzero(~((length > tiny) & np.isfinite(length)))
        out = rows * (1 / length)[:, None]
    if odd.size:
        out[odd] = _unit_of_odd(rows[odd], part, odd if numbers is None else numbers[odd])
    return np.asarray(out)


def _unit_of_odd(rows: Matrix, part: str, numbers: Rows) -> Matrix:
    """Normalise rows whose squares over- or underflow; refuse those that cannot be normalised."""
    largest = np.abs(rows).max(axis=1)
    where = f" of part {part!r}" if part else ""
    if (bad := ~np.isfinite(largest)).any():
        raise BadVectors(
            f"row {numbers[np.argmax(bad)]}{where} holds NaN or infinity ({bad.sum()} such rows). Encode these "
            "rows again, or mark the part as absent there."
        )
    if (zero := largest == 0).any():
        raise BadVectors(
            f"row {numbers[np.argmax(zero)]}{where} is all zeros ({zero.sum()} such rows): it has no direction. "
            "Encode these rows again, or mark the part as absent there."
        )
    scaled = rows / largest[:, None]
    return np.asarray(scaled / norms(scaled)[:, None])


def direction(rows: Matrix) -> Matrix:
    """Scale each row to length 1; a row (almost) at the origin becomes exactly 0."""
    length = norms(rows)
    nowhere = length < NO_DIRECTION
    inverse = np.where(nowhere, 0, 1 / np.where(nowhere, 1, length))
    return np.asarray(rows * inverse.astype(rows.dtype)[:, None])


def fused(
    vectors: Vectors,
    rows: slice,
    dtype: DTypeLike,
    *,
    means: Mapping[str, Matrix] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Matrix:
    """Return Σ_p w_p (unit(e_p) − mean_p) over the parts each row has, ``(len(rows), d)``, not normalised.

    A row's own weights come first, then ``weights`` by part, then 1.
    """
    total: Matrix | None = None
    numbers = np.arange(rows.start, rows.stop)
    for part, matrix in vectors.parts.items():
        mask = vectors.present[part][rows]
        if not mask.any():
            continue
        where: slice | Rows = slice(None) if mask.all() else np.flatnonzero(mask)
        block = unit(np.asarray(matrix[rows][where], dtype=dtype), part=part, numbers=numbers[where])
        if means is not None:
            block -= means[part].astype(dtype)
        weight = _weight(vectors, part, numbers[where], weights)
        if weight is not None:
            block *= np.asarray(weight, dtype=dtype)
        if total is None and isinstance(where, slice):
            total = block
            continue
        if total is None:
            total = np.zeros((len(numbers), vectors.dim), dtype=dtype)
        total[where] += block
    return np.zeros((len(numbers), vectors.dim), dtype=dtype) if total is None else total


def _weight(vectors: Vectors, part: str, numbers: Rows, weights: Mapping[str, float] | None) -> Matrix | float | None:
    if vectors.weights is not None:
        return np.asarray(vectors.weights[part][numbers, None])
    return None if weights is None else weights.get(part)


def in_blocks(n: int, width: int, task: Callable[[slice], None]) -> None:
    """Run ``task`` on slices that cover ``range(n)``, on every core when there is enough to do."""
    step = max(1, BLOCK_BYTES // (4 * max(width, 1)))
    slices = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    workers = min(os.cpu_count() or 1, len(slices) // 8)
    if workers < 2:
        for rows in slices:
            task(rows)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(task, slices))


def written(vectors: Vectors, dtype: DTypeLike, block: Callable[[slice], Matrix], out: Matrix | None = None) -> Matrix:
    """Fill ``out`` (or a new matrix) block by block with ``block(rows)``."""
    target = np.empty((len(vectors), vectors.dim), dtype=dtype) if out is None else out

    def task(rows: slice) -> None:
        target[rows] = block(rows)

    in_blocks(len(vectors), vectors.dim, task)
    return target


def check_rows(vectors: Vectors) -> None:
    """Refuse NaN, infinity and rows of zeros now, by part and row, where nothing else would look at the rows."""

    def task(rows: slice) -> None:
        fused(vectors, rows, np.float32)

    in_blocks(len(vectors), vectors.dim, task)
