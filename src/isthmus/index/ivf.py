"""``ivf-sq8`` and ``ivf-rabitq``: rows in cells around centres, rounded; a query reads the cells nearest to it.

    cells = 4·√n;   r = x − its cell's centre
    ivf-sq8       a row is kept as  round( r / step )  per dimension, in 8 bits
    ivf-rabitq    a row is kept as  sign( R r ), one bit per dimension, and its length; R is a random rotation

What it means: a quarter of the memory of the vectors, or a sixteenth, and a fast build, so these are the kinds for many
rows. Recall grows with the number of cells looked at (``effort``, Faiss's nprobe). The rounding is compensated, because
more than ``k`` rows are proposed and their scores computed from the vectors: with one bit, 512 or more.

Reference: Jégou et al., *Product quantization for nearest neighbor search* (2011), §IV for the cells; Gao and Long,
*RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound* (SIGMOD 2024), §3 for the bits. Faiss does
both. Our rotation is that of a random matrix's QR decomposition.

>>> shelf = Ivf.build(np.eye(100, dtype=np.float32))
>>> shelf.search(np.eye(100)[:1], k=1)[1].tolist()
[[0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
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
QUERY_BITS = 8  # of the numbers of a query that are compared with bits
BLOCK = 16_384
ROWS_PER_CODE = 0.4  # rows gathered and scanned in the time that one code takes
ROWS_PER_LOOK = 4_000  # and in the time that it takes to find the cells


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCodes:
    """How rows are rounded in their cells."""

    kind: str
    cells: Callable[[Any, Any, int, int], Any]  # (faiss, quantizer, width, number of cells) → Faiss's index
    settings: Callable[[Any, Any, int], Any]  # (faiss, selector, cells to read) → Faiss's parameters of a search
    quota: int  # rows to score again, at least
    per_hit: int  # and for each of the hits
    rotates: bool = False  # bits say most of rows whose variance is the same in all directions

    def turned(self, rows: Matrix, width: int) -> Matrix:
        """Return rows as Faiss gets them: up to a width, rotated if need be."""
        wide = widened(rows, width)
        return wide @ rotation(width) if self.rotates else wide


SQ8 = CellCodes(
    kind="ivf-sq8",
    cells=lambda faiss, quantizer, width, count: faiss.IndexIVFScalarQuantizer(
        quantizer, width, count, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    ),
    settings=lambda faiss, chosen, cells: faiss.SearchParametersIVF(sel=chosen, nprobe=cells),
    quota=40,
    per_hit=4,
)
RABITQ = CellCodes(
    kind="ivf-rabitq",
    cells=lambda faiss, quantizer, width, count: faiss.IndexIVFRaBitQ(
        quantizer, width, count, faiss.METRIC_INNER_PRODUCT
    ),
    settings=lambda faiss, chosen, cells: faiss.IVFRaBitQSearchParameters(sel=chosen, nprobe=cells, qb=QUERY_BITS),
    quota=512,
    per_hit=32,
    rotates=True,
)


class Ivf:
    """Cells of rounded rows; the rows themselves stay with the caller: scores are computed from them."""

    def __init__(self, vectors: Matrix, cells: Any, codes: CellCodes = SQ8, *, threads: int | None = None) -> None:
        self.vectors = vectors
        self.cells = cells
        self.codes = codes
        self.kind = codes.kind
        self.threads = threads
        self.centres = cells.quantizer.reconstruct_n(0, cells.quantizer.ntotal)
        self.cell = _cells_of_rows(cells)  # (n,)

    @classmethod
    def build(
        cls,
        vectors: Matrix,
        threads: int | None = None,
        progress: Progress | None = None,
        codes: CellCodes = SQ8,
        seed: int = 0,
    ) -> Ivf:
        """Train the centres on a sample, then add the rows block by block."""
        vectors = checked_vectors(vectors)
        n, width = len(vectors), roomy(vectors.shape[1])
        faiss = need("faiss", extra="ann")
        count = max(1, min(int(CELLS_PER_ROOT * np.sqrt(n)), n // ROWS_PER_CELL))
        cells = codes.cells(faiss, faiss.IndexFlatIP(width), width, count)
        sample = np.random.default_rng(seed).permutation(n)[: ROWS_PER_CELL * count]

        def fill() -> None:
            settings = faiss.ClusteringParameters()
            settings.niter = ROUNDS
            trained = _gathered(vectors, np.sort(sample), width, codes)
            faiss.Clustering(width, count, settings).train(trained, cells.quantizer)
            del trained
            cells.train(_gathered(vectors, np.sort(sample[:ROWS_FOR_STEPS]), width, codes))  # Faiss would copy all
            for start in range(0, n, BLOCK):
                cells.add(codes.turned(vectors[start : start + BLOCK], width))
                if progress is not None:
                    progress(min(start + BLOCK, n), n)

        if n:
            limited(fill, threads)
        return cls(vectors, cells, codes, threads=threads)

    @classmethod
    def load(cls, vectors: Matrix, folder: Path, name: str, threads: int | None = None, codes: CellCodes = SQ8) -> Ivf:
        """Read the cells of these vectors."""
        vectors = checked_vectors(vectors)
        cells = files.read(folder / f"{name}.{codes.kind}", len(vectors), roomy(vectors.shape[1]))
        return cls(vectors, cells, codes, threads=threads)

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return the largest inner products met in the nearest cells, and their rows, best first."""
        return approximate.search(self, queries, k, allowed)

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the cells."""
        return files.write(self.cells, folder / f"{name}.{self.kind}")

    def quota(self, k: int, filtered: bool) -> int:  # noqa: ARG002 - the reach handles the filter
        """Return the number of rows to score again: enough that the rounding loses none of the best."""
        return max(self.codes.quota, self.codes.per_hit * k)

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
        queries = self.codes.turned(queries, self.cells.d)
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
        settings = self.codes.settings(need("faiss", extra="ann"), chosen, min(cells, self.cells.nlist))
        threads = 1 if len(queries) == 1 else self.threads
        return np.asarray(limited(lambda: self.cells.search(queries, quota, params=settings)[1], threads))

    def _reach(self, queries: Matrix, effort: int, allowed: Mask) -> Rows:
        """Return the number of cells to read, nearest first, to get ``effort`` cells' worth of allowed rows."""
        count = int(self.cells.nlist)
        filled = np.bincount(self.cell[allowed], minlength=count) * (count / len(self))
        near = np.array([np.vecdot(self.centres, query) for query in queries])  # (m, cells)
        order = np.argsort(-near, axis=1)
        held = np.cumsum(filled[order], axis=1)
        return np.asarray(np.minimum((held < effort).sum(axis=1) + 1, count))


@lru_cache(maxsize=4)
def rotation(width: int) -> Matrix:
    """Return a random rotation, ``(width, width)``, always the same: the cells of a file were made with it.

    >>> np.allclose(rotation(16) @ rotation(16).T, np.eye(16), atol=1e-6)
    True
    """
    normal = np.random.default_rng(width).standard_normal((width, width))
    orthogonal, upper = np.linalg.qr(normal)
    turned: Matrix = (orthogonal * np.sign(np.diag(upper))).astype(np.float32)  # libraries choose the signs themselves
    turned.flags.writeable = False
    return turned


def _gathered(vectors: Matrix, rows: Rows, width: int, codes: CellCodes) -> Matrix:
    """Return these rows as Faiss gets them, in one copy."""
    wide = np.empty((len(rows), width), dtype=np.float32)
    for start in range(0, len(rows), BLOCK):
        wide[start : start + BLOCK] = codes.turned(vectors[rows[start : start + BLOCK]], width)
    return wide


def _cells_of_rows(cells: Any) -> Rows:
    """Return the cell each row is in."""
    faiss = need("faiss", extra="ann")
    own = np.empty(cells.ntotal, dtype=np.int32)
    for cell in range(cells.nlist):
        if size := cells.invlists.list_size(cell):
            own[faiss.rev_swig_ptr(cells.invlists.get_ids(cell), size)] = cell
    return own
