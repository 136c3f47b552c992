"""P(match): how likely a hit is a right answer, so a search can return nothing if there is no good match.

In words: reference queries whose right document is known are asked twice, with that document in the collection and
with it taken out. The first answer of each is right or wrong, and a logistic curve learns which scores belong to right
ones. A score alone does not tell: some queries are near everything. So the curve also sees the *field*, the mean score
of the ten answers after the first, which is the same for every hit of a query: the order of hits never changes.

Formula, for a hit of score s in the list of a query with field f, per query modality:

    P(match) = 1 / (1 + exp(−(a + b·s + c·f)))          b ≥ 0
    f        = mean of the scores at ranks 2 … 11

a, b, c maximise the likelihood of the observed answers, with Platt's smoothed targets and a weak pull towards 0.

What it means: half of the questions it learned from had no answer in the collection. Where most have one, the true
probabilities are higher; the order of confidence is the same.

Reference: Platt, Probabilistic outputs for support vector machines (1999); Guo et al. (2017) for ECE.

>>> right = np.array([True, True, False, False] * 5)
>>> observed = Observed(np.array([3.0, 2.5, 1.0, 0.5] * 5), np.zeros(20), right, query=np.arange(20))
>>> curve = fit(observed)
>>> [round(float(p), 2) for p in curve(np.array([3.0, 0.5]), np.zeros(2))]
[0.93, 0.07]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from isthmus.types import Mask, Matrix, Rows

FIELD = 10  # answers after the first that make up the field
FEWEST = 8  # right and wrong answers each; with fewer, no curve is fitted
PULL = 1e-2  # of the weights towards 0, in standardised units
BINS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """First answers: their scores, their fields, whether they were right, and which query they answered."""

    score: Matrix
    field: Matrix
    right: Mask
    query: Rows

    def __len__(self) -> int:
        return len(self.score)

    def take(self, rows: Mask) -> Observed:
        """Return some of them."""
        return Observed(self.score[rows], self.field[rows], self.right[rows], self.query[rows])


@dataclass(frozen=True, slots=True)
class Curve:
    """A fitted logistic curve."""

    intercept: float
    slope: float
    field: float

    def __call__(self, score: Matrix, field: Matrix | float) -> Matrix:
        """Return P(match)."""
        logit = self.intercept + self.slope * np.asarray(score) + self.field * np.asarray(field)
        return np.asarray(0.5 * (1 + np.tanh(logit / 2)))  # never overflows


@dataclass(frozen=True, slots=True)
class Match:
    """A curve per query modality, and how well the curves did on queries they were not fitted on."""

    curves: Mapping[str, Curve]
    held_out: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def probability(self, modality: str, score: Matrix, field: float) -> Matrix | None:
        """Return P(match) of hits of a query; None for a query modality without a curve."""
        curve = self.curves.get(modality)
        return None if curve is None else curve(score, field)


def field_of(scores: Matrix) -> float:
    """Return the field of a query from its scores, best first: the mean of those after the first."""
    rest = scores[1 : FIELD + 1]
    return float(rest.mean()) if len(rest) else float(scores[0]) if len(scores) else 0.0


def fit(observed: Observed) -> Curve | None:
    """Fit a curve, or None where there is too little to learn from."""
    right = int(observed.right.sum())
    wrong = len(observed) - right
    if min(right, wrong) < FEWEST:
        return None
    from scipy.optimize import minimize  # late: `import isthmus` stays light

    x = np.column_stack([observed.score, observed.field])
    mean, deviation = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6)
    z = (x - mean) / deviation
    target = np.where(observed.right, (right + 1) / (right + 2), 1 / (wrong + 2))

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        logit = weights[0] + z @ weights[1:]
        value = np.logaddexp(0, logit) - target * logit
        slope = 0.5 * (1 + np.tanh(logit / 2)) - target
        gradient = np.concatenate([[slope.mean()], z.T @ slope / len(z) + PULL * weights[1:]])
        return float(value.mean() + 0.5 * PULL * (weights[1:] ** 2).sum()), gradient

    start = np.zeros(3)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(None, None), (0, None), (None, None)]).x
    weights = best[1:] / deviation
    return Curve(float(best[0] - weights @ mean), float(weights[0]), float(weights[1]))


def judged(observed: Observed) -> dict[str, float]:
    """Return AUROC and ECE of curves fitted on one half of the answers and measured on the other."""
    half = observed.query % 2 == 0  # both answers of a query are in the same half
    p, right = [], []
    for held in (half, ~half):
        curve = fit(observed.take(~held))
        if curve is None:
            return {}
        p.append(curve(observed.score[held], observed.field[held]))
        right.append(observed.right[held])
    predicted, truth = np.concatenate(p), np.concatenate(right)
    return {"auroc": auroc(predicted, truth), "ece": ece(predicted, truth), "answers": float(len(observed))}


def auroc(confidence: Matrix, right: Mask) -> float:
    """Return how often a right answer is more confident than a wrong one; ties count half.

    >>> auroc(np.array([0.9, 0.8, 0.2]), np.array([True, False, False]))
    1.0
    """
    from scipy.stats import rankdata

    positives = int(right.sum())
    negatives = len(right) - positives
    if not positives or not negatives:
        return float("nan")
    above = float(rankdata(confidence)[right].sum()) - positives * (positives + 1) / 2
    return above / (positives * negatives)


def ece(probability: Matrix, right: Mask, bins: int = BINS) -> float:
    """Return the expected calibration error: how far, on average, said and true frequencies lie apart.

    >>> ece(np.array([0.0, 1.0, 1.0]), np.array([False, True, True]))
    0.0
    """
    bucket = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = [abs(float(probability[bucket == b].sum() - right[bucket == b].sum())) for b in range(bins)]
    return sum(gaps) / max(1, len(probability))
