"""``minmax(k)``: per query, stretch each modality's similarities to 0…1. A comparison, not a recommendation.

In words: the usual way to merge result lists. Within the ``k`` best documents of each modality the best gets 1
and the last 0, even if none of them is a good match: that is its flaw.

    score = (s − s_(k)) / (s_(1) − s_(k))        s_(i) the i-th best of the modality for this query

It needs one query's whole list, so it does not fold.

>>> MinMax().rescale(np.array([[0.9, 0.5, 0.7]]))
array([[1. , 0. , 0.5]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.largest import largest
from isthmus.calibration.perquery import at_least_one
from isthmus.types import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMax:
    """Stretch the ``k`` best of each modality to 0…1."""

    k: int = 100

    def __post_init__(self) -> None:
        at_least_one("minmax", self.k)

    def rescale(self, values: Matrix) -> Matrix:
        """Rescale the similarities of one modality's documents, ``(n_queries, n_documents)``."""
        top = largest(values, min(self.k, values.shape[1]))
        low, high = top.min(axis=1, keepdims=True), top.max(axis=1, keepdims=True)
        spread = high > low
        return np.asarray(np.where(spread, (values - low) / np.where(spread, high - low, 1), 1.0))
