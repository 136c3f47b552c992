"""Moves: the rank of the right answer before and after calibration.

In words: for each query whose right document is known, compare its rank by raw cosine and by the calibrated score.
Count the queries that gained the first place and those that lost it, by the modality of the right document, and list
the queries that changed most.

    rank     = 1 + number of other documents with a higher score        (beyond the searched depth: depth + 1)
    change   = 1/rank_after − 1/rank_before                             emphasises the first positions
    gain     = mean over modalities M of (gained_M − lost_M) / n_M      equal weight for each modality
    certain  = gain / its standard error                                within ±2 it may be chance

Reference: the reciprocal rank is Voorhees 1999 (TREC-8 QA); within one modality ``certain`` is the test of McNemar
(1947) with the variance of the differences. The mean over modalities is the one by which ``auto`` chooses.

>>> found = moves(np.array([3, 1, 9, 1]), np.array([1, 1, 2, 4]), np.array(["image", "text", "image", "text"]))
>>> found.gained, found.lost, found.up, found.down
(1, 1, (0, 2), (3,))
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.types import Matrix, Names, Rows

NAMED = 6  # queries listed in each direction


@dataclass(frozen=True, slots=True)
class ModalityMoves:
    """How often the right document of one modality was first, and among the first ten."""

    modality: str
    questions: int
    gained: int  # first places
    lost: int
    first_before: float
    first_after: float
    ten_before: float
    ten_after: float


@dataclass(frozen=True, slots=True)
class Moves:
    """What calibration changed for queries whose right document is known; ``up`` and ``down`` hold their rows."""

    questions: int
    gained: int  # first places
    lost: int
    by_modality: tuple[ModalityMoves, ...]
    up: tuple[int, ...]
    down: tuple[int, ...]

    @property
    def gain(self) -> float:
        """The share of first places that calibration gains, with equal weight for each modality."""
        return sum((one.gained - one.lost) / one.questions for one in self.by_modality) / max(len(self.by_modality), 1)

    @property
    def certain(self) -> float:
        """The gain in standard errors; beyond ±2 it is hardly chance."""
        spread = [
            ((one.gained + one.lost) / one.questions - ((one.gained - one.lost) / one.questions) ** 2) / one.questions
            for one in self.by_modality
        ]
        error = float(np.sqrt(sum(spread))) / max(len(self.by_modality), 1)
        return self.gain / error if error > 0 else float(np.sign(self.gain)) * np.inf if self.gain else 0.0


def rank(own: Matrix, others: Matrix) -> Rows:
    """Return the rank of each score ``(n,)`` among ``others``, ``(n, depth)``; −inf is an empty position.

    >>> rank(np.array([0.5, 0.9]), np.array([[0.8, 0.6], [0.7, -np.inf]])).tolist()
    [3, 1]
    """
    return np.asarray(1 + (others > own[:, None]).sum(axis=1), dtype=np.intp)


def moves(before: Rows, after: Rows, target: Names, named: int = NAMED) -> Moves:
    """Compare the ranks of right documents, ``(n,)`` each; ``target`` is the modality of each."""
    change = 1 / after - 1 / before
    order = np.argsort(-change, kind="stable")
    found = tuple(_found(str(name), before[target == name], after[target == name]) for name in np.unique(target))
    return Moves(
        questions=len(before),
        gained=sum(one.gained for one in found),
        lost=sum(one.lost for one in found),
        by_modality=found,
        up=tuple(int(q) for q in order if change[q] > 0)[:named],
        down=tuple(int(q) for q in order[::-1] if change[q] < 0)[:named],
    )


def _found(modality: str, before: Rows, after: Rows) -> ModalityMoves:
    return ModalityMoves(
        modality,
        len(before),
        gained=int(((after == 1) & (before > 1)).sum()),
        lost=int(((before == 1) & (after > 1)).sum()),
        first_before=float((before <= 1).mean()),
        first_after=float((after <= 1).mean()),
        ten_before=float((before <= 10).mean()),
        ten_after=float((after <= 10).mean()),
    )
