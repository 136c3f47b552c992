"""``none``: raw cosine, the baseline of every comparison.

In words: normalise each part, fuse the parts of a row, normalise the fusion. The score is the cosine.

    x_d = unit(Σ_p w_p e_p)        score(q, d) = ⟨x_q, x_d⟩

>>> import numpy as np
>>> from isthmus.types import Vectors
>>> documents = Vectors.of(np.array([[2.0, 0.0], [3.0, 4.0]]), "text")
>>> Raw().documents(documents, np.float64)
array([[1. , 0. ],
       [0.6, 0.8]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy.typing import DTypeLike

from isthmus.calibration.live import Statistics
from isthmus.calibration.passages import Passages
from isthmus.calibration.rows import fuse, point, written
from isthmus.types import Matrix, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class NoShift:
    """Leave the encoder's vectors as they are."""

    def fit(self, documents: Passages, queries: Vectors, weights: Mapping[str, float], seen: Statistics) -> Raw:
        """Keep the fusion weights; there is nothing else to learn."""
        return Raw(weights=dict(weights))

    def restore(self, tensors: Mapping[str, Matrix], weights: Mapping[str, float]) -> Raw:
        """Rebuild the fitted shift from its ``tensors``."""
        return Raw(weights=dict(weights))


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """The fitted form of ``none``."""

    weights: Mapping[str, float] = field(default_factory=dict)

    def documents(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the unit fused vector of each document, ``(n, d)``."""
        return written(vectors, dtype, lambda rows, block: unit_fused(vectors, rows, block, self.weights), out)

    def queries(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the unit fused vector of each query, ``(n, d)``."""
        return written(vectors, dtype, lambda rows, block: unit_fused(vectors, rows, block), out)

    def tensors(self) -> dict[str, Matrix]:
        """The tensors to save: none."""
        return {}


def unit_fused(vectors: Vectors, rows: slice, out: Matrix, weights: Mapping[str, float] | None = None) -> None:
    """Write unit(Σ_p w_p e_p) of these rows into ``out``."""
    fuse(vectors, rows, out, weights=weights)
    if len(vectors.parts) > 1:  # one part alone is a unit vector already
        point(out)
