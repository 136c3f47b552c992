"""Each modality's share of the top 10, compared with chance and relevance.

In words: if a third of the documents are images, then over many queries about anything images should have about a
third of the positions (chance). If the right answer of each query is known, a modality should come first about as
often as it has the right answer (relevance). There, queries are weighted so that each modality has the same total,
and rarely wanted ones count too. ``changed_hands`` measures how far two divisions are from each other.

    share_M          = positions of documents of modality M / positions            (each with its weight)
    changed hands    = ½ Σ_M |share_M − other_M|            0: the same; 1: nothing in common

Reference: MixBench and GR-CLIP (Li et al. 2025) show ranking bias by the share of images among the top answers; the
distance is the total variation distance.

>>> held = shares(np.array([["text", "text"], ["text", "image"]]), ["image", "text"])
>>> held, changed_hands(held, {"image": 0.5, "text": 0.5})
({'image': 0.25, 'text': 0.75}, 0.25)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix, Names


@dataclass(frozen=True, slots=True)
class ModalityShares:
    """Shares of the top 10, and of the first places if right answers are known, for one kind of query."""

    query_modality: str
    questions: int
    corpus: Mapping[str, float]
    before: Mapping[str, float]
    after: Mapping[str, float]
    known: int  # queries whose right answer is known
    right: Mapping[str, float]
    first_before: Mapping[str, float]
    first_after: Mapping[str, float]

    @property
    def off_chance(self) -> tuple[float, float]:
        """The share of the top 10 that would go to other modalities by chance, before and after."""
        return changed_hands(self.before, self.corpus), changed_hands(self.after, self.corpus)

    @property
    def off_relevance(self) -> tuple[float, float]:
        """The share of first places that would go to other modalities by relevance, before and after."""
        return changed_hands(self.first_before, self.right), changed_hands(self.first_after, self.right)


def shares(holders: Names, modalities: Sequence[str], weights: Matrix | None = None) -> dict[str, float]:
    """Return the share of each modality among ``holders``, of any shape; an empty name is an empty position."""
    weight = np.ones(holders.shape) if weights is None else weights
    held = float(weight[holders != ""].sum())
    return {name: float(weight[holders == name].sum()) / held if held else 0.0 for name in modalities}


def balanced(target: Names) -> Matrix:
    """Return a weight for each query, so that each modality of right answers has the same total.

    >>> balanced(np.array(["text", "text", "image"])).tolist()
    [0.5, 0.5, 1.0]
    """
    _, code, counts = np.unique(target, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[code])


def changed_hands(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the share that would have to change hands to turn one division into the other."""
    return float(np.abs([one.get(name, 0.0) - other.get(name, 0.0) for name in {*one, *other}]).sum()) / 2
