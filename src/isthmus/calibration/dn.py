"""``dn(lam)``: distribution normalisation, a shift by a share of the mean that is not re-normalised.

In words: subtract ``lam`` times the mean vector from queries and from documents, each by its own mean, and take
inner products of the results.

Formula, with x unit (fused) vectors, M the document's and m the query's modality:

    score(q, d) = ⟨x_q − λ mean_m, x_d − λ mean_M⟩

What it means: inside one modality the terms that depend on d are s − λ⟨mean_m, x_d⟩, and ⟨mean_m, x_d⟩ is
the mean similarity of d to all reference queries: DN(λ) ranks like NNN(k = all, α = λ).

Reference: Zhou et al., *Test-Time Distribution Normalization for Contrastively Learned Vision-language
Models* (2023); λ and its default as in the code of Chowdhury et al. (2024), whose paper does not mention it and speaks
of zero means, λ = 1 (Appendix A3). For fused documents we take the mean of the fused vectors of their modality, so that
the relation above holds for them too.

>>> from isthmus.types import Vectors
>>> two = Vectors.of(np.array([[1.0, 0.0], [0.0, 1.0]]), "text")
>>> shift = DistributionNormalization(lam=1.0).fit(Passages(two), two, {}, Statistics.of(two))
>>> shift.documents(two, np.float64)
array([[ 0.5, -0.5],
       [-0.5,  0.5]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from isthmus.calibration.live import Statistics
from isthmus.calibration.none import Raw, unit_fused
from isthmus.calibration.passages import Passages
from isthmus.calibration.rows import written
from isthmus.calibration.shift import named_by_side, split_by_side
from isthmus.errors import BadSpec, UnknownModality
from isthmus.types import Matrix, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionNormalization:
    """Subtract ``lam`` times the mean of the modality; do not normalise again."""

    lam: float = 0.5

    def __post_init__(self) -> None:
        if not np.isfinite(self.lam):
            raise BadSpec(f"dn needs a finite lam, not {self.lam}.")

    def fit(
        self, documents: Passages, queries: Vectors, weights: Mapping[str, float], seen: Statistics
    ) -> DistributionShift:
        """Learn one mean per document modality and one per query modality."""
        raw = Raw(dict(weights))
        return DistributionShift(
            self.lam,
            _means(documents, raw.documents(documents.vectors, np.float32)),
            _means(Passages(queries), raw.queries(queries, np.float32)),
            raw,
        )

    def restore(self, tensors: Mapping[str, Matrix], weights: Mapping[str, float]) -> DistributionShift:
        """Rebuild the fitted shift from its ``tensors``."""
        return DistributionShift(self.lam, *split_by_side(tensors), Raw(dict(weights)))


@dataclass(frozen=True, slots=True, eq=False)
class DistributionShift:
    """The fitted form of ``dn``."""

    lam: float
    document_means: Mapping[str, Matrix]
    query_means: Mapping[str, Matrix]
    raw: Raw = field(default_factory=Raw)

    @property
    def weights(self) -> Mapping[str, float]:
        """The fusion weights of documents."""
        return self.raw.weights

    def documents(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the shifted vector of each document, ``(n, d)``."""
        return self._shifted(vectors, dtype, self.document_means, "document", out)

    def queries(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the shifted vector of each query, ``(n, d)``."""
        return self._shifted(vectors, dtype, self.query_means, "query", out)

    def tensors(self) -> dict[str, Matrix]:
        """The tensors to save: the means."""
        return named_by_side(self.document_means, self.query_means)

    def _shifted(
        self, vectors: Vectors, dtype: DTypeLike, means: Mapping[str, Matrix], side: str, out: Matrix | None
    ) -> Matrix:
        for modality in vectors.modalities:
            if modality not in means:
                raise UnknownModality(
                    f"dn was fitted without {side}s of modality {modality!r} (fitted: {', '.join(means) or 'none'}). "
                    "Fit again with some, or use 'center', whose means are per part."
                )
        table = np.array([self.lam * means[modality] for modality in vectors.modalities], dtype=dtype)
        weights = self.weights if side == "document" else None

        def write(rows: slice, block: Matrix) -> None:
            unit_fused(vectors, rows, block, weights)
            code = vectors.modality_code[rows]
            block -= table[code[0]] if (code == code[0]).all() else table[code]

        return written(vectors, dtype, write, out)


def _means(documents: Passages, x: Matrix) -> dict[str, Matrix]:
    """Return the mean row of each modality; every document has weight 1."""
    of_modality = {
        name: np.flatnonzero(documents.vectors.modality_code == code) for code, name in enumerate(documents.modalities)
    }
    if documents.starts is None:
        return {name: x[rows].mean(axis=0, dtype=np.float64) for name, rows in of_modality.items()}
    share = documents.share
    return {name: np.average(x[rows], axis=0, weights=share[rows]) for name, rows in of_modality.items()}
