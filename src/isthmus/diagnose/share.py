"""Who gets into the top 10: each modality's share of the places, against what chance and relevance would give.

In words: if a third of the documents are images, then over many questions about anything images should hold about a
third of the places (chance). Where the right answer of each question is known, a modality should come first about
as often as it holds the right answer (relevance); there each modality is asked for equally often, by weight, so
that what is asked for rarely counts too. ``changed_hands`` says in one number how far two divisions are from each
other.

    share_M          = places held by documents of modality M / places              (each with its weight)
    changed hands    = ½ Σ_M |share_M − other_M|            0: the same; 1: nothing in common

Reference: the share of images among the top answers is what MixBench and GR-CLIP (Li et al. 2025) show of ranking
bias; the distance is the total variation distance.

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
class Shares:
    """Shares of the top 10, and of the first places where the right answers are known, for one kind of question."""

    asked: str  # the modality of the questions
    questions: int
    corpus: Mapping[str, float]
    before: Mapping[str, float]
    after: Mapping[str, float]
    known: int  # questions whose right answer is known
    right: Mapping[str, float]
    first_before: Mapping[str, float]
    first_after: Mapping[str, float]

    @property
    def off_chance(self) -> tuple[float, float]:
        """The share of the top 10 that chance would give to others, before and after."""
        return changed_hands(self.before, self.corpus), changed_hands(self.after, self.corpus)

    @property
    def off_relevance(self) -> tuple[float, float]:
        """The share of first places that relevance would give to others, before and after."""
        return changed_hands(self.first_before, self.right), changed_hands(self.first_after, self.right)


def shares(holders: Names, modalities: Sequence[str], weights: Matrix | None = None) -> dict[str, float]:
    """Return the share of each modality among ``holders``, of any shape; an empty name is a place that nobody holds."""
    weight = np.ones(holders.shape) if weights is None else weights
    held = float(weight[holders != ""].sum())
    return {name: float(weight[holders == name].sum()) / held if held else 0.0 for name in modalities}


def balanced(target: Names) -> Matrix:
    """Return a weight for each question, so that each modality is asked for equally often.

    >>> balanced(np.array(["text", "text", "image"])).tolist()
    [0.5, 0.5, 1.0]
    """
    _, code, counts = np.unique(target, return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[code])


def changed_hands(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """Return the part that would have to change hands to turn one division into the other."""
    return float(np.abs([one.get(name, 0.0) - other.get(name, 0.0) for name in {*one, *other}]).sum()) / 2
