"""The equations of the measures, for one query.

    earned    (n,)  the gain of each document of the ranking, best first, 0 for one that is not relevant
    there     (m,)  the gains of all relevant documents, largest first
    k               where the ranking is cut; None for no cut

Each function returns a number from 0 to 1. At least one document must be relevant.

>>> earned, there = np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 1.0])
>>> round(reciprocal_rank(earned, there, None), 3), round(recall(earned, there, 2), 3)
(0.5, 0.333)
>>> round(ndcg(earned, there, 3), 3), round(ndcg_retrieved(earned, there, 3), 3)
(0.531, 0.693)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from isthmus.types import Matrix

Formula: TypeAlias = Callable[[Matrix, Matrix, int | None], float]


def dcg(gains: Matrix) -> float:
    """Return Σ gain_i / log2(i + 1), i from 1."""
    return float(gains @ (1 / np.log2(np.arange(2, len(gains) + 2))))


def ndcg(earned: Matrix, there: Matrix, k: int | None) -> float:
    """DCG@k over that of the best possible ranking of all relevant documents (trec_eval's ``ndcg_cut``)."""
    return dcg(earned[:k]) / dcg(there[:k])


def ndcg_retrieved(earned: Matrix, there: Matrix, k: int | None) -> float:  # noqa: ARG001 - its flaw
    """DCG@k over that of the same k documents in their best order, as in GR-CLIP's code.

    Missing documents cost nothing: one of ten relevant documents, at rank 1, gives 1.
    """
    ideal = dcg(np.sort(earned[:k])[::-1])
    return dcg(earned[:k]) / ideal if ideal else 0.0


def recall(earned: Matrix, there: Matrix, k: int | None) -> float:
    """The share of relevant documents that are among the first k."""
    return float((earned[:k] > 0).sum() / len(there))


def precision(earned: Matrix, there: Matrix, k: int | None) -> float:  # noqa: ARG001 - the siblings take it
    """The share of relevant documents among the first k positions; empty positions count as not relevant."""
    return float((earned[:k] > 0).sum() / (k or max(len(earned), 1)))


def hit(earned: Matrix, there: Matrix, k: int | None) -> float:  # noqa: ARG001
    """Whether any of the first k is relevant."""
    return float((earned[:k] > 0).any())


def reciprocal_rank(earned: Matrix, there: Matrix, k: int | None) -> float:  # noqa: ARG001
    """1 / the rank of the first relevant document; 0 if none is among the first k."""
    found = np.flatnonzero(earned[:k] > 0)
    return 1.0 / (1 + int(found[0])) if len(found) else 0.0


def average_precision(earned: Matrix, there: Matrix, k: int | None) -> float:
    """The mean over all relevant documents of the precision at their ranks; 0 for those not found."""
    found = np.flatnonzero(earned[:k] > 0)
    return float((np.arange(1, len(found) + 1) / (found + 1)).sum() / len(there))
