"""The hybrid score: the lexical share added to the score of the vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix

WEIGHT = 0.75  # of words, where all documents have some
WEIGHT_MIXED = 0.25  # where some have none: words that a query shares with a text by chance must not bury pictures
MIXED = 0.1  # the share of documents without words from which that weight applies; below, in proportion


@dataclass(frozen=True, slots=True)
class HybridScale:
    """The weight of the lexical share."""

    deviation: float  # of reference queries' best scores
    modality: Mapping[str, tuple[float, float]]  # mean and deviation of the share of near documents
    weight: float = WEIGHT

    def joined(self, scores: Matrix, share: Matrix, modality: Sequence[str]) -> Matrix:
        """Return the hybrid scores of documents; a share of NaN is missing."""
        mean, deviation = np.array([self.modality.get(name, (0.0, 1.0)) for name in modality]).reshape(-1, 2).T
        gain = self.weight * self.deviation * (share - mean) / deviation
        return np.asarray(scores + np.where(np.isnan(share), 0.0, gain))


def weight_of(wordless: float) -> float:
    """Return the weight of words in a collection with this share of documents without words.

    >>> weight_of(0.0), weight_of(0.05), weight_of(0.5)
    (0.75, 0.5, 0.25)
    """
    return WEIGHT + (WEIGHT_MIXED - WEIGHT) * min(1.0, wordless / MIXED)


def moments(values: Sequence[float] | Matrix) -> tuple[float, float]:
    """Return mean and deviation; a deviation of 1 if it cannot be estimated."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2 or array.std() < 1e-6:  # of rounding alone
        return (float(array.mean()) if len(array) else 0.0, 1.0)
    return float(array.mean()), float(array.std())
