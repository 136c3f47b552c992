"""The protocol of an index, and the checks that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from isthmus.errors import BadInput, BadVectors
from isthmus.types import Mask, Matrix, Rows

Progress: TypeAlias = Callable[[int, int], object]  # rows done, rows in total


class Index(Protocol):
    """The largest inner products among the rows of one matrix, which the caller keeps.

    Several threads may search one index at once.
    """

    kind: str

    def __len__(self) -> int: ...

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return ``(m, k)`` inner products, best first, and their row numbers.

        Only rows where ``allowed`` is true are found. If there are fewer than ``k``, −inf and −1 fill the rest.
        """
        ...

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the index without the vectors, and return the files written."""
        ...


def checked_vectors(vectors: Matrix) -> Matrix:
    """Return the rows to search as plain float32; a matrix that is this already (or a map of one) is not copied."""
    plain = np.asarray(vectors)
    if plain.ndim != 2 or plain.shape[1] == 0:
        raise BadVectors(f"vectors to index have shape {plain.shape}; they must be (rows, dimensions).")
    if plain.dtype.kind not in "fiu":
        raise BadVectors(f"vectors to index hold {plain.dtype}; they must hold real numbers.")
    return np.ascontiguousarray(plain, dtype=np.float32)


def checked_queries(queries: Matrix, width: int) -> Matrix:
    """Return queries as plain float32, or raise an error."""
    plain = np.asarray(queries)
    if plain.ndim != 2:
        raise BadVectors(f"queries have shape {plain.shape}; they must be (queries, dimensions).")
    if plain.dtype.kind not in "fiu":
        raise BadVectors(f"queries hold {plain.dtype}; they must hold real numbers.")
    if plain.shape[1] != width:
        raise BadVectors(
            f"queries have {plain.shape[1]} dimensions but the index has {width}. Fold the queries with the "
            "calibration the documents were folded with."
        )
    plain = np.ascontiguousarray(plain, dtype=np.float32)
    finite = np.isfinite(plain).all(axis=1)
    if not finite.all():
        raise BadVectors(f"query {int(np.argmin(finite))} holds NaN or infinity. Encode it again.")
    return plain


def checked_k(k: int) -> int:
    """Return the number of hits, or raise an error."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise BadInput(f"k = {k!r} is not a number of hits. Use 1 or more.")
    return int(k)


def checked_mask(allowed: Mask | None, n: int) -> Mask | None:
    """Return the mask, or None if it allows every row."""
    if allowed is None:
        return None
    mask = np.asarray(allowed)
    if mask.dtype != bool or mask.shape != (n,):
        raise BadInput(f"`allowed` must be {n} booleans, one per row, not {mask.dtype} of shape {mask.shape}.")
    return None if mask.all() else mask


def filled(scores: Matrix, rows: Rows, k: int) -> tuple[Matrix, Rows]:
    """Return exactly ``k`` columns, with −inf and −1 where nothing was found."""
    lacking = k - scores.shape[1]
    if lacking > 0:
        scores = np.pad(scores, ((0, 0), (0, lacking)), constant_values=-np.inf)
        rows = np.pad(rows, ((0, 0), (0, lacking)), constant_values=-1)
    rows[np.isneginf(scores)] = -1
    return scores, rows
