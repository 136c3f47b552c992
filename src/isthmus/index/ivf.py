"""``ivf-sq8``: rows in cells around centres, a byte per number; a query reads the cells nearest to it.

    cells = 4·√n;   a row is kept as  round( (x − its cell's centre) / step )  per dimension, in 8 bits

What it means: a quarter of the memory of the vectors and a fast build, so it is the kind for many rows. Recall grows
with the number of cells looked at (``effort``, Faiss's nprobe); the rounding of the bytes is compensated, because
more than ``k`` rows are proposed and their scores computed from the vectors.

Reference: Jégou et al., *Product quantization for nearest neighbor search* (2011), §IV for the cells. Faiss does it.

>>> shelf = Ivf.build(np.eye(100, dtype=np.float32))
>>> shelf.search(np.eye(100)[:1], k=1)[1].tolist()
[[0]]
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.index import approximate, files
from isthmus.index.approximate import roomy, widened
from isthmus.index.base import Progress, checked_vectors
from isthmus.index.threads import limited
from isthmus.types import Mask, Matrix, Rows

CELLS_PER_ROOT = 4
ROWS_PER_CELL = 40  # that the centres are trained on; Faiss warns below 39
ROUNDS = 10  # of k-means
ROWS_FOR_STEPS = 20_000  # that the steps of the bytes are trained on
EFFORT = 128
QUOTA = 40
BLOCK = 16_384
ROWS_PER_CODE = 0.4  # rows gathered and scanned in the time that one code takes
ROWS_PER_LOOK = 4_000  # and in the time that it takes to find the cells


class Ivf:
    """Cells of 8-bit rows; the rows themselves stay with the caller: scores are computed from them."""

    kind = "ivf-sq8"

    def __init__(self, vectors: Matrix, cells: Any, *, threads: int | None = None) -> None:
        self.vectors = vectors
        self.cells = cells
        self.threads = threads
        self.centres = cells.quantizer.reconstruct_n(0, cells.quantizer.ntotal)[:, : vectors.shape[1]].copy()
        self.cell = _cells_of_rows(cells)  # (n,)

    @classmethod
    def build(cls, vectors: Matrix, threads: int | None = None, progress: Progress | None = None, seed: int = 0) -> Ivf:
        """Train the centres on a sample, then add the rows block by block."""
        vectors = checked_vectors(vectors)
        n, width = len(vectors), roomy(vectors.shape[1])
        faiss = need("faiss", extra="ann")
        count = max(1, min(int(CELLS_PER_ROOT * np.sqrt(n)), n // ROWS_PER_CELL))
        cells = faiss.IndexIVFScalarQuantizer(
            faiss.IndexFlatIP(width), width, count, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        sample = np.random.default_rng(seed).permutation(n)[: ROWS_PER_CELL * count]

        def fill() -> None:
            settings = faiss.ClusteringParameters()
            settings.niter = ROUNDS
            faiss.Clustering(width, count, settings).train(_gathered(vectors, np.sort(sample), width), cells.quantizer)
            cells.train(_gathered(vectors, np.sort(sample[:ROWS_FOR_STEPS]), width))  # Faiss would copy all
            for start in range(0, n, BLOCK):
                cells.add(widened(vectors[start : start + BLOCK], width))
                if progress is not None:
                    progress(min(start + BLOCK, n), n)

        if n:
            limited(fill, threads)
        return cls(vectors, cells, threads=threads)

    @classmethod
    def load(cls, vectors: Matrix, folder: Path, name: str, threads: int | None = None) -> Ivf:
        """Read the cells of these vectors."""
        vectors = checked_vectors(vectors)
        return cls(
            vectors, files.read(folder / f"{name}.ivf-sq8", len(vectors), roomy(vectors.shape[1])), threads=threads
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return the largest inner products met in the nearest cells, and their rows, best first."""
        return approximate.search(self, queries, k, allowed)

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the cells."""
        return files.write(self.cells, folder / f"{name}.ivf-sq8")

    def quota(self, k: int, filtered: bool) -> int:  # noqa: ARG002 - the reach handles the filter
        """Return the number of rows to score again: enough that the rounding loses none of the best."""
        return max(QUOTA, 4 * k)

    def effort(self, k: int, share: float) -> int:
        """Return the number of cells' worth of allowed rows to read for ``k`` hits.

        A random mask thins out all cells equally; then the hits are further away, in 1/√share times as many cells.
        """
        return math.ceil(float(EFFORT * (max(1, k / 25) * share) ** 0.5))

    def cost(self, effort: int) -> float:
        """Return how many rows could be scanned instead."""
        return ROWS_PER_LOOK + ROWS_PER_CODE * len(self) * effort / int(self.cells.nlist)

    def propose(self, queries: Matrix, quota: int, effort: int, allowed: Mask | None) -> Rows:
        """Read the nearest cells, and return the best rows by their bytes."""
        if allowed is None:
            return self._look(queries, quota, effort, None)
        chosen = approximate.selector(allowed)
        found = np.empty((len(queries), quota), dtype=np.intp)
        reach = np.sqrt(2) ** np.ceil(
            2 * np.log2(self._reach(queries, effort, allowed))
        )  # queries with a similar reach are searched together
        for cells in np.unique(reach):
            found[reach == cells] = self._look(queries[reach == cells], quota, round(float(cells)), chosen)
        return found

    def _look(self, queries: Matrix, quota: int, cells: int, chosen: Any) -> Rows:
        wide = widened(queries, self.cells.d)
        settings = need("faiss", extra="ann").SearchParametersIVF(sel=chosen, nprobe=min(cells, self.cells.nlist))
        threads = 1 if len(queries) == 1 else self.threads
        return np.asarray(limited(lambda: self.cells.search(wide, quota, params=settings)[1], threads))

    def _reach(self, queries: Matrix, effort: int, allowed: Mask) -> Rows:
        """Return the number of cells to read, nearest first, to get ``effort`` cells' worth of allowed rows."""
        count = int(self.cells.nlist)
        filled = np.bincount(self.cell[allowed], minlength=count) * (count / len(self))
        near = np.array([np.vecdot(self.centres, query) for query in queries])  # (m, cells)
        order = np.argsort(-near, axis=1)
        held = np.cumsum(filled[order], axis=1)
        return np.asarray(np.minimum((held < effort).sum(axis=1) + 1, count))


def _gathered(vectors: Matrix, rows: Rows, width: int) -> Matrix:
    """Return these rows with zeros up to a width, in one copy."""
    wide = np.zeros((len(rows), width), dtype=np.float32)
    for start in range(0, len(rows), BLOCK):
        wide[start : start + BLOCK, : vectors.shape[1]] = vectors[rows[start : start + BLOCK]]
    return wide


def _cells_of_rows(cells: Any) -> Rows:
    """Return the cell each row is in."""
    faiss = need("faiss", extra="ann")
    own = np.empty(cells.ntotal, dtype=np.int32)
    for cell in range(cells.nlist):
        if size := cells.invlists.list_size(cell):
            own[faiss.rev_swig_ptr(cells.invlists.get_ids(cell), size)] = cell
    return own
