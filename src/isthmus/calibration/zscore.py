"""``zscore(k)``: per query, standardise each modality by its own ``k`` best. A comparison, not a recommendation.

In words: like ``standardize``, but the mean and the spread come from this one query's list, so for a
query without a good image, the best image scores like the best text.

    score = (s − mean) / deviation        over the k best documents of the modality for this query

It needs one query's whole list, so it does not fold.

>>> ZScore().rescale(np.array([[1.0, 3.0]]))
array([[-1.,  1.]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.largest import largest
from isthmus.calibration.perquery import at_least_one
from isthmus.types import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class ZScore:
    """Standardise by the ``k`` best of each modality."""

    k: int = 100

    def __post_init__(self) -> None:
        at_least_one("zscore", self.k)

    def rescale(self, values: Matrix) -> Matrix:
        """Rescale the similarities of one modality's documents, ``(n_queries, n_documents)``."""
        top = largest(values, min(self.k, values.shape[1]))
        deviation = top.std(axis=1, keepdims=True)
        return np.asarray((values - top.mean(axis=1, keepdims=True)) / np.where(deviation > 0, deviation, 1))
