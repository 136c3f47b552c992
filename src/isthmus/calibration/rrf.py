"""``rrf(k)``: reciprocal rank fusion of the modalities' own rankings. A comparison, not a recommendation.

In words: ignore the similarities; a document's score is 1 / (k + its rank within its modality).

    score = 1 / (k + rank)

The first documents of all modalities tie, even if some are bad matches. It needs one query's whole list, so it
does not fold. Reference: Cormack, Clarke & Büttcher (SIGIR 2009), whose k = 60 is the default.

>>> ReciprocalRankFusion(k=1).rescale(np.array([[0.9, 0.5, 0.7]])).round(3)
array([[0.5  , 0.25 , 0.333]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.perquery import at_least_one
from isthmus.types import Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class ReciprocalRankFusion:
    """Score each document by its rank within its modality."""

    k: int = 60

    def __post_init__(self) -> None:
        at_least_one("rrf", self.k)

    def rescale(self, values: Matrix) -> Matrix:
        """Replace the similarities of one modality's documents, ``(n_queries, n_documents)``, by their ranks'."""
        order = np.argsort(-values, axis=1, kind="stable")
        rank = np.empty_like(order)
        np.put_along_axis(rank, order, np.arange(1, values.shape[1] + 1)[None, :], axis=1)
        return np.asarray(1.0 / (self.k + rank))
