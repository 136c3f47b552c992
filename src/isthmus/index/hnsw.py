"""``hnsw``: a graph of near neighbours, walked from node to node towards the query.

Folded vectors are not of unit length, and a graph of inner products has nodes that nothing leads to. One more
dimension gives every row the same length R, so that the nearest row is the one with the largest inner product:

    x' = [x, √(R² − ‖x‖²)],   q' = [q, 0]:        ‖q' − x'‖² = ‖q‖² + R² − 2⟨q, x⟩          R = max ‖x‖

What it means: one walk meets ``effort`` near rows (efSearch), whatever the number of rows; recall grows with it. Rows
that a filter hides are walked through but not met, so a filter that allows a share s needs 1/s of the effort.

Reference: Malkov & Yashunin, *Efficient and robust approximate nearest neighbor search using HNSW graphs* (2018);
the dimension more: Bachrach et al., *Speeding up the Xbox recommender system* (2014), §3. Faiss does the walking.

>>> shelf = Hnsw.build(np.eye(100, dtype=np.float32))
>>> shelf.search(np.eye(100)[:1], k=1)[1].tolist()
[[0]]
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.index import approximate, files
from isthmus.index.approximate import roomy, widened
from isthmus.index.base import Progress, checked_vectors
from isthmus.index.exact import SPARE
from isthmus.index.threads import limited
from isthmus.types import Mask, Matrix, Rows

LINKS = 32
BUILD_EFFORT = 200
EFFORT = 512
BLOCK = 16_384
ROWS_PER_EFFORT = 12  # rows gathered and scanned in the time that one more step of effort takes


class Hnsw:
    """An HNSW graph over the rows, which stay with the caller: scores are computed from them."""

    kind = "hnsw"

    def __init__(self, vectors: Matrix, graph: Any, *, threads: int | None = None) -> None:
        self.vectors = vectors
        self.graph = graph
        self.threads = threads

    @classmethod
    def build(cls, vectors: Matrix, threads: int | None = None, progress: Progress | None = None) -> Hnsw:
        """Add the rows to a new graph, block by block."""
        vectors = checked_vectors(vectors)
        graph = need("faiss", extra="ann").IndexHNSWFlat(roomy(vectors.shape[1] + 1), LINKS)
        graph.hnsw.efConstruction = BUILD_EFFORT
        longest = max((float(_squares(vectors[i : i + BLOCK]).max()) for i in range(0, len(vectors), BLOCK)), default=0)

        def add() -> None:
            for start in range(0, len(vectors), BLOCK):
                block = vectors[start : start + BLOCK]
                wide = widened(block, graph.d)
                wide[:, block.shape[1]] = np.sqrt(np.maximum(longest - _squares(block), 0))
                graph.add(wide)
                if progress is not None:
                    progress(start + len(block), len(vectors))

        limited(add, threads)
        return cls(vectors, graph, threads=threads)

    @classmethod
    def load(cls, vectors: Matrix, folder: Path, name: str, threads: int | None = None) -> Hnsw:
        """Read the graph of these vectors."""
        vectors = checked_vectors(vectors)
        return cls(
            vectors, files.read(folder / f"{name}.hnsw", len(vectors), roomy(vectors.shape[1] + 1)), threads=threads
        )

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Matrix, k: int, allowed: Mask | None = None) -> tuple[Matrix, Rows]:
        """Return the largest inner products met on a walk, and their rows, best first."""
        return approximate.search(self, queries, k, allowed)

    def save(self, folder: Path, name: str) -> list[Path]:
        """Write the graph."""
        return files.write(self.graph, folder / f"{name}.hnsw")

    def quota(self, k: int, filtered: bool) -> int:
        """Return how many rows must be met: through a filter, half of what a walk would meet without it."""
        return max(EFFORT // 2, 4 * k) if filtered else k + SPARE

    def effort(self, k: int, share: float) -> int:
        """Return efSearch for ``k`` hits when this share of the rows is allowed."""
        return int(max(EFFORT, 8 * k) / max(share, 1e-9))

    def cost(self, effort: int) -> float:
        """Return how many rows could be scanned instead."""
        return ROWS_PER_EFFORT * effort

    def propose(self, queries: Matrix, quota: int, effort: int, allowed: Mask | None) -> Rows:
        """Walk, and return the rows met."""
        settings = need("faiss", extra="ann").SearchParametersHNSW(sel=approximate.selector(allowed), efSearch=effort)
        wide = widened(queries, self.graph.d)
        threads = 1 if len(queries) == 1 else self.threads
        return np.asarray(limited(lambda: self.graph.search(wide, quota, params=settings)[1], threads))


def _squares(rows: Matrix) -> Matrix:
    return np.asarray(np.vecdot(rows, rows))
