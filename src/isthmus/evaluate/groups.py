"""The balance of groups of documents among the first k, for queries that name none of the groups.

In words: a search for "a person on a bicycle" that returns nine men and one woman is biased, because the query names
neither. Three measures, over the groups of the first k documents of each query:

    bias@k      = (a − b) / (a + b)                 a, b: how many of the first k are of either group; 0 without any
    skew_g@k    = ln( share of g in the first k / expected share of g )
    max_skew@k  = max over g of skew_g@k            how far the most favoured group exceeds its expected share
    ndkl        = Σ_i KL(first i ‖ expected) / log2(i + 1)  ÷  Σ_i 1 / log2(i + 1),   i = 1 … k

What it means: the sign of the bias shows which group is favoured. Its mean over queries can be 0 although each ranking
is biased one way or the other; the mean of its absolute value, max_skew and ndkl show that. Random rankings are
biased too: compare with those.

Reference: bias@k is from Wang, Liu & Wang, *Are Gender-Neutral Queries Really Gender-Neutral?* (EMNLP 2021), skew and
NDKL are from Geyik, Ambler & Kenthapadi, *Fairness-Aware Ranking* (KDD 2019); the three are VisoGender's retrieval bias
(Hall et al. 2023). A group without a document among the first k has skew −∞; VisoGender's code counts it as if it
had one.

>>> found = np.array([["man", "man", "woman", "man"], ["woman", "man", "man", "woman"]])
>>> retrieval_bias(found, "man", "woman")
array([0.5, 0. ])
>>> max_skew(found, {"man": 0.5, "woman": 0.5}).round(3)
array([0.405, 0.   ])
>>> ndkl(found, {"man": 0.5, "woman": 0.5}).round(3)
array([0.474, 0.282])
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from isthmus.errors import BadInput
from isthmus.types import Matrix, Names


def retrieval_bias(found: Names, first: str, second: str) -> Matrix:
    """Return (a − b) / (a + b) of each query, ``(q,)``: 1 if all are of ``first``, −1 if all are of ``second``.

    ``found`` holds the groups of the first k documents, best first, ``(q, k)``. Other groups do not count.
    """
    found = _checked(found)
    a, b = ((found == group).sum(axis=1) for group in (first, second))
    return np.asarray((a - b) / np.maximum(a + b, 1))


def skews(found: Names, expected: Mapping[str, float]) -> dict[str, Matrix]:
    """Return ln(share / expected share) of each group and query, ``(q,)``; −inf if a group is absent."""
    found = _checked(found)
    shares = _shares(found, expected)
    with np.errstate(divide="ignore"):
        return {group: np.log((found == group).mean(axis=1) / share) for group, share in shares.items()}


def max_skew(found: Names, expected: Mapping[str, float]) -> Matrix:
    """Return the largest skew of each query, ``(q,)``."""
    return np.asarray(np.max(list(skews(found, expected).values()), axis=0))


def ndkl(found: Names, expected: Mapping[str, float]) -> Matrix:
    """Return the divergence of the first 1, 2, … k from the expected shares, discounted by rank, ``(q,)``."""
    found = _checked(found)
    shares = _shares(found, expected)
    rank = np.arange(1, found.shape[1] + 1)
    divergence = np.zeros(found.shape)  # (q, k): of the first i, i = 1 … k
    for group, share in shares.items():
        there = (found == group).cumsum(axis=1) / rank
        divergence += there * np.log(np.where(there > 0, there, 1) / share)  # 0 · ln 0 is 0
    weight = 1 / np.log2(rank + 1)
    return np.asarray(divergence @ weight / weight.sum())


def _checked(found: Names) -> Names:
    found = np.asarray(found)
    if found.ndim != 2 or not found.shape[1]:
        raise BadInput(f"Groups must have shape (queries, k), the first k of each query, not {found.shape}.")
    return found


def _shares(found: Names, expected: Mapping[str, float]) -> dict[str, float]:
    """Return the expected shares; reject those that are not a distribution over the given groups."""
    if unknown := set(np.unique(found).tolist()) - expected.keys():
        raise BadInput(f"There is no expected share for {min(unknown)!r}. Pass one for every group.")
    if not all(share > 0 for share in expected.values()) or abs(sum(expected.values()) - 1) > 1e-6:
        raise BadInput(f"Expected shares must be above 0 and sum to 1, not {dict(expected)}.")
    return dict(expected)
