"""Row arithmetic shared by every calibration: normalise, fuse parts, work in blocks.

Blocks keep the intermediate values in cache and are processed in place, so a pass over a matrix costs
about as much as reading and writing it. The result never depends on the block size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import DTypeLike

from isthmus.errors import BadVectors
from isthmus.types import Matrix, Rows, Vectors

BLOCK_BYTES = 1 << 22  # of a float32 block: large enough to keep threads independent, small enough for the cache
NO_DIRECTION = 1e-6  # a row this near to its mean has no direction: it becomes 0, similar to nothing


def norms(rows: Matrix) -> Matrix:
    """Return the Euclidean length of each row, ``(n,)``."""
    return np.asarray(np.sqrt(np.vecdot(rows, rows)))


def unit(rows: Matrix, *, part: str = "", numbers: Rows | None = None) -> Matrix:
    """Scale each row to length 1, whatever its scale; reject NaN and rows of zeros, by row number.

    >>> unit(np.array([[3.0, 4.0], [0.0, 1e-300]]))
    array([[0.6, 0.8],
           [0. , 1. ]])
    """
    out = np.empty(rows.shape, dtype=rows.dtype)
    unit_into(rows, out, part, np.arange(len(rows)) if numbers is None else numbers)
    return out


def unit_into(rows: Matrix, out: Matrix, part: str, numbers: Rows, *, minus: Matrix | None = None) -> None:
    """Write the unit rows, ``minus`` a vector, into ``out``; error messages use ``numbers`` for the rows."""
    with np.errstate(all="ignore"):
        cast = np.asarray(rows, dtype=out.dtype)
        length = norms(cast)
        if np.abs(length - 1).max(initial=0) < 2 * np.finfo(out.dtype).eps:  # most encoders give unit rows
            np.subtract(cast, 0 if minus is None else minus, out=out)
            return
        smallest = np.sqrt(np.finfo(out.dtype).tiny) * 1e3  # below it the squares lose digits
        odd = np.flatnonzero(~((length > smallest) & np.isfinite(length)))
        np.multiply(cast, (1 / length)[:, None], out=out)
    if odd.size:
        out[odd] = _unit_of_odd(np.asarray(rows[odd], dtype=np.float64), part, numbers[odd])
    if minus is not None:
        out -= minus


def _unit_of_odd(rows: Matrix, part: str, numbers: Rows) -> Matrix:
    """Normalise rows whose squares over- or underflow; reject those that cannot be normalised."""
    largest = np.abs(rows).max(axis=1)
    where = f" of part {part!r}" if part else ""
    for wrong, bad in (("holds NaN or infinity", ~np.isfinite(largest)), ("is all zeros", largest == 0)):
        if bad.any():
            raise BadVectors(
                f"row {numbers[np.argmax(bad)]}{where} {wrong}, so it has no direction. Encode it again, leave it out, "
                "or mark the part as absent there."
            )
    scaled = rows / largest[:, None]
    return np.asarray(scaled / norms(scaled)[:, None])


def point(rows: Matrix) -> None:
    """Scale each row to length 1 in place; a row (almost) at the origin becomes exactly 0."""
    length = norms(rows)
    nowhere = length < NO_DIRECTION
    inverse = np.where(nowhere, 0, 1 / np.where(nowhere, 1, length))
    rows *= inverse.astype(rows.dtype)[:, None]


def fuse(
    vectors: Vectors,
    rows: slice,
    out: Matrix,
    *,
    means: Mapping[str, Matrix] | None = None,
    weights: Mapping[str, float] | None = None,
) -> None:
    """Write Σ_p w_p (unit(e_p) − mean_p) over the parts each row has into ``out``, not normalised.

    A row's own weights take precedence, then ``weights`` by part, then 1; only their ratios matter.
    """
    empty = True
    shares = _shares(vectors, rows, weights)
    for part, matrix in vectors.parts.items():
        mask = vectors.present[part][rows]
        count = np.count_nonzero(mask)
        if not count:
            continue
        where: slice | Rows = slice(None) if count == len(mask) else np.flatnonzero(mask)
        source = matrix[rows][where]
        block = out if empty and isinstance(where, slice) else np.empty(source.shape, dtype=out.dtype)
        numbers = np.arange(rows.start, rows.stop)[where]
        unit_into(source, block, part, numbers, minus=None if means is None else means[part])
        if shares is not None:
            block *= shares[part][where, None].astype(out.dtype)
        if block is not out:
            if empty:
                out[:] = 0
            out[where] += block
        empty = False


def _shares(vectors: Vectors, rows: slice, weights: Mapping[str, float] | None) -> dict[str, Matrix] | None:
    """Return the weight of each part in each row, summing to 1; None if all parts have equal weight."""
    if len(vectors.parts) == 1 or (vectors.weights is None and not weights):
        return None
    given = {
        part: mask[rows] * ((weights or {}).get(part, 1.0) if vectors.weights is None else vectors.weights[part][rows])
        for part, mask in vectors.present.items()
    }
    total = np.asarray(sum(given.values()))
    alone = total == 0  # a collection's weights may be 0 for all parts of a document: then they do not apply to it
    if alone.any():
        given = {part: np.where(alone, vectors.present[part][rows], weight) for part, weight in given.items()}
        total = np.asarray(sum(given.values()))
    return {part: weight / total for part, weight in given.items()}


def in_blocks(n: int, width: int, task: Callable[[slice], None]) -> None:
    """Run ``task`` on slices that cover ``range(n)``, on every core if there is enough work."""
    step = max(1, BLOCK_BYTES // (4 * max(width, 1)))
    cores = 1 if n < 8 * step else os.cpu_count() or 1  # asking the system takes longer than a few rows
    if n < 8 * step * cores:
        for start in range(0, n, step):
            task(slice(start, min(start + step, n)))
        return

    def run(first: int) -> None:  # each core takes every n-th block
        for start in range(first * step, n, cores * step):
            task(slice(start, min(start + step, n)))

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(run, range(cores)))


def written(
    vectors: Vectors, dtype: DTypeLike, write: Callable[[slice, Matrix], None], out: Matrix | None = None
) -> Matrix:
    """Fill ``out`` (or a new matrix) block by block: ``write(rows, block)`` fills one."""
    target = np.empty((len(vectors), vectors.dim), dtype=dtype) if out is None else out
    in_blocks(len(vectors), vectors.dim, lambda rows: write(rows, target[rows]))
    return target
