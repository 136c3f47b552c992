"""``standardize``: put the scores of every modality on one scale.

In words: for each reference query, look at its best document in each modality. Texts answer a text query
with similarities around .8, images around .3; subtract that mean and divide by that spread, and a score
measures how good a document is *for its modality*.

Formula, for query modality m and document modality M, over reference queries q of modality m:

    t_q    = max over documents d of modality M of s(q, d)      a pseudo-positive
    μ, σ²  = mean and population variance of t_q
    z      = (s − μ) / σ

With labelled pairs, t runs over the similarities of the pairs (q, d) instead.

What it means: σ > 0, so the order inside one modality never changes; only the merge of modalities does.

Reference: Yamashita et al., *Bridging the Modality Gap by Similarity Standardization with Pseudo-Positive
Samples*, §4, Equations 1 to 4: μ and σ from labelled or pseudo pairs, population variance. A reference query that was
generated from a document can be kept apart from it (``sources``): its own source is not a typical best match.

>>> from isthmus.calibration import fit
>>> from isthmus.types import Vectors
>>> documents = Vectors.of(np.array([[1.0, 0.0], [0.6, 0.8]]), ["text", "image"])
>>> queries = Vectors.of(np.array([[1.0, 0.0], [0.8, 0.6]]), "text")
>>> fit("standardize", documents, queries).scores(queries, documents).round(3)
array([[ 1., -1.],
       [-1.,  1.]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isthmus.errors import CannotFit, UnknownModality
from isthmus.types import Matrix

NO_SPREAD = 1e-6  # in similarity; float32 similarities are known to about 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Standardize:
    """Subtract μ and divide by σ, per (query modality, document modality)."""

    def fit(self, best: Mapping[tuple[str, str], Matrix], kind: str = "reference queries") -> Scale:
        """Learn μ and σ from the similarities of (pseudo-)positives of each pair of modalities."""
        statistics: dict[tuple[str, str], tuple[float, float]] = {}
        for (query_modality, document_modality), values in best.items():
            mean, deviation = (float(np.mean(values)), float(np.std(values))) if len(values) else (0.0, 0.0)
            if not deviation > NO_SPREAD:
                raise CannotFit(
                    f"standardize found no spread in the best similarities of {query_modality} queries to "
                    f"{document_modality} documents "
                    f"({len(values)} {kind}, σ = {deviation:.2g}). Pass more, and more varied, {kind}, or use 'center'."
                )
            statistics[query_modality, document_modality] = mean, deviation
        return Scale(statistics)


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """The fitted form of ``standardize``: (μ, σ) by (query modality, document modality)."""

    statistics: Mapping[tuple[str, str], tuple[float, float]]

    def of(self, query_modality: str, document_modality: str) -> tuple[float, float]:
        """Return μ and σ of a pair of modalities."""
        try:
            return self.statistics[query_modality, document_modality]
        except KeyError:
            known = sorted({M for m, M in self.statistics if m == query_modality})
            raise UnknownModality(
                f"standardize was fitted without {document_modality} documents for {query_modality} queries (fitted: "
                f"{', '.join(known) or 'none'}). Fit again with documents of that modality."
            ) from None
