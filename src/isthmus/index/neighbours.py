"""Nearest neighbours through a Faiss index, for biases over banks too large to look at whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows


@dataclass(slots=True, kw_only=True)
class FaissNeighbours:
    """Find the largest inner products in an inverted-file index of the bank.

    The bank is cut into about ``4·√n`` cells and the ``probes`` cells nearest to a vector are looked at: more
    probes find more of the true neighbours and take longer. The index of the last bank is kept.

    >>> bank = np.eye(4, dtype=np.float32)
    >>> similarity, rows = FaissNeighbours()(bank[:1], bank, 1)
    >>> similarity.tolist(), rows.tolist()
    ([[1.0]], [[0]])
    """

    probes: int = 16
    _bank: Matrix | None = field(default=None, repr=False)
    _index: Any = field(default=None, repr=False)

    def __call__(self, vectors: Matrix, bank: Matrix, k: int) -> tuple[Matrix, Rows]:
        """Return the ``k`` largest inner products of each vector with the bank, and their rows: ``(n, k)`` twice."""
        if not 1 <= k <= len(bank):
            raise BadInput(f"{k} neighbours were asked for among {len(bank)}.")
        if bank is not self._bank:
            self._bank, self._index = bank, self._built(np.ascontiguousarray(bank, dtype=np.float32))
        vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        similarity, rows = self._index.search(vectors, k)
        probes = self.probes
        while (short := np.flatnonzero(rows[:, -1] < 0)).size:  # the probed cells held fewer than k: probe more
            probes *= 4
            wider = need("faiss", extra="ann").SearchParametersIVF(nprobe=probes)
            similarity[short], rows[short] = self._index.search(vectors[short], k, params=wider)
        return similarity, rows

    def _built(self, bank: Matrix) -> Any:
        faiss = need("faiss", extra="ann")
        cells = max(1, min(int(4 * np.sqrt(len(bank))), len(bank) // 39))  # Faiss trains a cell on 39 rows or more
        quantizer = faiss.IndexFlatIP(bank.shape[1])
        index = faiss.IndexIVFFlat(quantizer, bank.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
        index.train(bank)
        index.add(bank)
        index.nprobe = self.probes
        return index
