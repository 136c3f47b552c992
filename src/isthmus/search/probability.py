"""P(match): how likely a hit is relevant, so a search can return nothing if there is no good match.

In words: a logistic curve turns a hit's score into a probability. A score alone does not tell: some queries are near
everything. So the curve also sees the top of the query's list, which is the same for every hit of the query: the first
score, the *field* (the mean score of the ten answers after the first), and how alike query and first document are in a
part of one kind. The order of hits never changes: P(match) never rises from a hit to the next. A document that has the
picture of the query (identical.py) is nearly certain.

Formula, for a hit of score s in the list of a query with first score s₁ and field f, per query modality:

    P(match) = 1 / (1 + exp(−(a + b·s + c·f + d·s₁ + e(v))))          b ≥ 0
    f        = mean of the ten scores after the first and its equals
    v        = the largest cosine of two parts of one kind, of the query and of the first document
    e(v)     = e₁·v, or e₂ if they have no kind in common

What it means: the weights come from the encoder's *prior* (prior.py), which was learned from questions of people with
judged answers and is put on the scale of the collection. An encoder without a prior has ``fit``: a, b, c from queries
made of the documents, asked with their source present and taken out, so half of what it learns from has no answer.

Reference: Platt, Probabilistic outputs for support vector machines (1999), for targets and the curve; Guo et al. (2017)
for ECE. That the curve sees the list is ours.

>>> right = np.array([True, True, False, False] * 5)
>>> observed = Observed(np.array([3.0, 2.5, 1.0, 0.5] * 5), [Top(0.0, 0.0)] * 20, right, np.arange(20), right)
>>> curve = fit(observed)
>>> [round(float(p), 2) for p in curve(np.array([3.0, 0.5]), Top(0.0, 0.0))]
[0.93, 0.07]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isthmus.types import Mask, Matrix, Rows

FIELD = 10  # answers after the first that make up the field
FEWEST = 8  # right and wrong answers each; with fewer, no curve is fitted
PULL = 1e-2  # of the weights towards 0, in standardised units
BINS = 10
TIE = 1e-6  # two scores that differ by less are equal: copies of a document


@dataclass(frozen=True, slots=True)
class Top:
    """The top of a query's list over the whole collection, by vectors alone.

    ``alike`` is the largest cosine of parts of one kind, of the query and of the first document; None if they have no
    kind in common, or the curve does not ask for it.
    """

    first: float
    field: float | None  # None if all scores are equal, as in a collection of one document
    alike: float | None = None


def top_of(scores: Matrix, alike: float | None = None) -> Top:
    """Return the top of a list from its scores, best first.

    >>> top_of(np.array([5.0, 2.0, 1.0]))
    Top(first=5.0, field=1.5, alike=None)
    """
    first = float(scores[0]) if len(scores) else 0.0
    rest = scores[scores < first - TIE][:FIELD]
    return Top(first, float(rest.mean()) if len(rest) else None, alike)


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """First answers: their scores, the tops of their lists, whether they were right, and which query they answered.

    ``present``: whether the source of the query was there.
    """

    score: Matrix
    tops: Sequence[Top]
    right: Mask
    query: Rows
    present: Mask

    def __len__(self) -> int:
        return len(self.score)

    @property
    def field(self) -> Matrix:
        """The field of each list."""
        return np.array([top.first if top.field is None else top.field for top in self.tops])

    def take(self, rows: Mask) -> Observed:
        """Return some of them."""
        tops = [self.tops[at] for at in np.flatnonzero(rows).tolist()]
        return Observed(self.score[rows], tops, self.right[rows], self.query[rows], self.present[rows])


@dataclass(frozen=True, slots=True)
class Curve:
    """A logistic curve. Curves stored by earlier versions have the first three weights."""

    intercept: float
    slope: float  # of the hit's score, never negative
    field: float
    first: float = 0.0
    alike: float = 0.0
    apart: float = 0.0  # added if query and first document have no kind in common
    usual: float | None = None  # in place of a field, where all documents have the same score

    @property
    def compares_parts(self) -> bool:
        """Whether the curve needs ``Top.alike``."""
        return any((self.alike, self.apart))

    def __call__(self, score: Matrix, top: Top) -> Matrix:
        """Return P(match) of hits."""
        scores = np.asarray(score, dtype=np.float64)
        field = top.field if top.field is not None else top.first if self.usual is None else self.usual
        of_list = self.intercept + self.field * field + self.first * top.first
        of_list += self.apart if top.alike is None else self.alike * top.alike
        return sigmoid(of_list + self.slope * scores)


@dataclass(frozen=True, slots=True)
class Match:
    """A curve per query modality, and how well the curves did on queries they were not fitted on."""

    curves: Mapping[str, Curve]
    held_out: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def probability(self, modality: str, scores: Matrix, top: Top) -> Matrix | None:
        """Return P(match) of the hits of a query, best first; None for a query modality without a curve.

        Scores that words take part in are read by the same curve, and the list by its vectors alone.
        """
        curve = self.curves.get(modality)
        return None if curve is None else np.minimum.accumulate(curve(scores, top))  # however it is rounded

    def compares_parts(self, modality: str) -> bool:
        """Whether P(match) for queries of a modality needs ``Top.alike``."""
        return modality in self.curves and self.curves[modality].compares_parts


def fit(observed: Observed) -> Curve | None:
    """Fit a curve of score and field, or None where there is too little to learn from."""
    right = int(observed.right.sum())
    wrong = len(observed) - right
    if min(right, wrong) < FEWEST:
        return None
    target = np.where(observed.right, (right + 1) / (right + 2), 1 / (wrong + 2))
    intercept, slope, of_field = logistic(np.column_stack([observed.score, observed.field]), target)
    return Curve(intercept, slope, of_field)


def logistic(
    x: Matrix, target: Matrix, weight: Matrix | None = None, pull: float = PULL, *, rising: int = 1
) -> list[float]:
    """Return the intercept and the weights of a logistic regression; those of the first columns are not negative."""
    from scipy.optimize import minimize  # late: `import isthmus` stays light

    share = np.full(len(x), 1 / len(x)) if weight is None else weight / weight.sum()
    mean = share @ x
    deviation = np.maximum(np.sqrt(share @ (x - mean) ** 2), 1e-6)
    z = (x - mean) / deviation

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        logit = weights[0] + z @ weights[1:]
        value = np.logaddexp(0, logit) - target * logit
        slope = share * (sigmoid(logit) - target)
        gradient = np.concatenate([[slope.sum()], z.T @ slope + pull * weights[1:]])
        return float(share @ value + 0.5 * pull * (weights[1:] ** 2).sum()), gradient

    bounds = [(None, None), *[(0, None)] * rising, *[(None, None)] * (x.shape[1] - rising)]
    best = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = best[1:] / deviation
    return [float(best[0] - weights @ mean), *map(float, weights)]


def sigmoid(logit: Matrix) -> Matrix:
    """Return 1 / (1 + exp(−logit)), without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(np.asarray(logit) / 2)))


def judged(observed: Observed) -> dict[str, float]:
    """Return AUROC and ECE of curves fitted on one half of the answers and measured on the other."""
    half = observed.query % 2 == 0  # all answers of a query are in the same half
    p = np.empty(len(observed))
    for held in (half, ~half):
        curve = fit(observed.take(~held))
        if curve is None:
            return {}
        p[held] = _of_all(curve, observed.take(held))
    return {"auroc": auroc(p, observed.right), "ece": ece(p, observed.right), "answers": float(len(observed))}


def judged_prior(observed: Observed, curve: Curve) -> dict[str, float]:
    """Return AUROC and ECE of a curve that was fitted elsewhere.

    A prior knows few queries without an answer, so the ECE is that of the answers with the source present.
    """
    right, present = observed.right, observed.present
    if right.all() or not right.any():
        return {}
    p = _of_all(curve, observed)
    return {"auroc": auroc(p, right), "ece": ece(p[present], right[present]), "answers": float(len(observed))}


def _of_all(curve: Curve, observed: Observed) -> Matrix:
    return np.array([float(curve(score, top)) for score, top in zip(observed.score, observed.tops, strict=True)])


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
