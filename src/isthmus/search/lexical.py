"""Words: BM25 over the documents' texts (SQLite's FTS5), and how it joins the vectors' score.

A document without text has no lexical signal: it is *missing*, and the document keeps the score that its vectors give.
A document with text that shares no word with the query has the signal, and it is 0.

    l(q, d)      = BM25(q, d) / Σ over the query's words of idf · (k₁ + 1)      in 0 … 1: the share of what could be had
    hybrid(q, d) = score(q, d) + w · σ · (l(q, d) − μ_M) / σ_M                   where d, of modality M, has text
    hybrid(q, d) = score(q, d)                                                   where it has none

μ_M and σ_M are the mean and deviation of l over the documents of modality M that come nearest to reference queries
without being their source: a text as wordy as such neighbours usually are gains nothing over a picture, a text that
shares more words rises, one that shares fewer sinks. σ is the deviation of reference queries' best scores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix

WORD = re.compile(r"\w+")
MOST = 256  # words of a query that are looked up: a long message with its captions
K1 = 1.2  # FTS5's own
WEIGHT = 0.75


def words(text: str) -> list[str]:
    """Return the different words of a query, in their order.

    >>> words("A cat, a CAT & a dog!")
    ['a', 'cat', 'dog']
    """
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))[:MOST]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """How much words count beside scores."""

    deviation: float  # of reference queries' best scores
    modality: Mapping[str, tuple[float, float]]  # mean and deviation of the share of near documents
    weight: float = WEIGHT

    def joined(self, scores: Matrix, share: Matrix, modality: Sequence[str]) -> Matrix:
        """Return the hybrid scores of documents; a share of NaN is missing."""
        mean, deviation = np.array([self.modality.get(name, (0.0, 1.0)) for name in modality]).reshape(-1, 2).T
        gain = self.weight * self.deviation * (share - mean) / deviation
        return np.asarray(scores + np.where(np.isnan(share), 0.0, gain))


def moments(values: Sequence[float] | Matrix) -> tuple[float, float]:
    """Return mean and deviation; a deviation of 1 where it cannot be told."""
    array = np.asarray(values, dtype=np.float64)
    if len(array) < 2 or array.std() < 1e-9:
        return (float(array.mean()) if len(array) else 0.0, 1.0)
    return float(array.mean()), float(array.std())
