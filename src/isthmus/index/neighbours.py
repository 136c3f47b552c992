"""Nearest neighbours through a Faiss index, for biases over large banks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows

BANKS_KEPT = 4


@dataclass(slots=True, kw_only=True)
class FaissNeighbours:
    """Find the largest inner products in an inverted-file index of the bank.

    The bank is cut into about ``4·√n`` cells and the ``probes`` cells nearest to a vector are searched: more
    probes find more of the true neighbours and take longer. The indexes of the last few banks (one per query
    modality) are kept, so a bank must not be changed in place.

    >>> bank = np.eye(4, dtype=np.float32)
    >>> similarity, rows = FaissNeighbours()(bank[:1], bank, 1)
    >>> similarity.tolist(), rows.tolist()
    ([[1.0]], [[0]])
    """

    probes: int = 16
    _built: list[tuple[Matrix, Any]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.probes < 1:
            raise BadInput(f"At least one cell has to be probed, not {self.probes}.")

    def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each vector with the bank, and their rows: ``(n, k)`` twice."""
        if not 1 <= k <= len(bank):
            raise BadInput(f"k = {k} neighbours must be between 1 and {len(bank)}, the size of the bank.")
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise BadInput("A vector with NaN or infinity has no neighbours. Encode it again.")
        index = self._index(bank)
        probes = min(self.probes, index.nlist)
        similarity, rows = index.search(vectors, k)
        while (short := np.flatnonzero(rows[:, -1] < 0)).size:  # the probed cells held fewer than k: probe more
            probes = min(4 * probes, index.nlist)
            wider = need("faiss", extra="ann").SearchParametersIVF(nprobe=probes)
            similarity[short], rows[short] = index.search(vectors[short], k, params=wider)
        return similarity, rows

    def _index(self, bank: Matrix) -> Any:
        for known, index in self._built:
            if known is bank:
                return index
        faiss = need("faiss", extra="ann")
        rows = np.ascontiguousarray(bank, dtype=np.float32)
        cells = max(1, min(int(4 * np.sqrt(len(bank))), len(bank) // 39))  # Faiss trains a cell on 39 rows or more
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(bank.shape[1]), bank.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
        index.train(rows)
        index.add(rows)
        index.nprobe = self.probes
        self._built = [*self._built[1 - BANKS_KEPT :], (bank, index)]
        return index
