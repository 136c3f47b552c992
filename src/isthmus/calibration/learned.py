"""``learned(k, l2)``: slope, bias weight and offset per pair of modalities, fitted on queries with known answers.

In words: ``standardize`` says how far apart the modalities lie and ``nnn`` how much of a hub each document is,
but how much to trust either is a guess. When the right document of some reference queries is known (they were
generated from it, or someone clicked on it), those few numbers can be fitted.

Formula, for query modality m, document modality M, nnn bias b and t = s − α₀b:

    u           = (t − μ)/σ              μ, σ of the best t of each reference query among documents of M
    h           = (b − mean)/deviation   over documents of M
    score(q, d) = slope_mM · u − weight_mM · h + offset_mM
    minimise    Σ_q ω_q · −log softmax_d(score(q, ·))[d_q]  +  λ ‖(slope, weight, offset)/g − (1, 0, 0)‖²

with ω so that every target modality counts alike, softmax over the mixed list, and g the one inverse
temperature per query modality fitted first. The source of a query is kept out of its own bias.

What it means: with few references it is ``nnn(alpha=α₀)+standardize``, with many it goes where the data say. A
modality without known answers, or with next to none, keeps the prior. Slopes stay positive, so it folds like a
scale and a bias.

Reference: ours. L-BFGS-B (Byrd et al. 1995) from SciPy; the problem is convex once g is fixed. Further
columns that would fold as well (biases of other k, the document's nearness to other documents, the spread of
its similarities, its length before normalising) were tried and did not help: docs/calibration.md.

>>> Learned(k=0)
Traceback (most recent call last):
isthmus.errors.BadSpec: learned needs k ≥ 1, not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.calibration.nnn import chosen_k
from isthmus.errors import BadSpec, UnknownModality
from isthmus.types import Mask, Matrix, Rows

DEFAULT_K = 16
PRIOR_ALPHA = 0.75  # α₀: the share of the bias that nnn's paper subtracts
PRIOR = np.array([1.0, 0.0, 0.0])
FEWEST = 8  # known answers to learn from
SMALLEST_SLOPE = 0.05  # of g: keeps the order inside a modality


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """Fit slope, bias weight and offset per (query modality, document modality)."""

    k: int | None = None
    l2: float = 100.0
    candidates: int = 256

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise BadSpec(f"learned needs k ≥ 1, not {self.k}.")
        if not (np.isfinite(self.l2) and self.l2 > 0):
            raise BadSpec(f"learned needs a positive, finite l2, not {self.l2}.")
        if self.candidates < 1:
            raise BadSpec(f"learned needs candidates ≥ 1, not {self.candidates}.")

    def neighbours(self, references: int) -> int:
        """Return the k to use among this many references, or refuse."""
        return chosen_k(self.k, references, DEFAULT_K)

    def fit(self, lists: Lists) -> Matrix:
        """Return slope, weight and offset of each modality on (u, h), ``(modalities, 3)``."""
        if len(lists.u) == 0:
            return np.tile(PRIOR, (lists.modalities, 1))
        lists = lists.of_answers()
        g = _temperature(lists)
        return _minimise(
            lambda theta: _loss(theta, lists, g * PRIOR, self.l2 / g**2),
            np.tile(g * PRIOR, (lists.modalities, 1)),
            bounds=[(SMALLEST_SLOPE * g, None), (None, None), (None, None)] * lists.modalities,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """One mixed list per labelled pair; column 0 is the right document. All arrays are ``(pairs, candidates)``."""

    u: Matrix
    h: Matrix
    modality: Rows
    counted: Mask
    modalities: int

    def of_answers(self) -> Lists:
        """Leave out modalities that are never, or hardly ever, the right answer: too little is known about them.

        Modalities count alike, so one answer among a thousand of another modality would weigh a thousand of those.
        """
        counts = np.bincount(self.modality[:, 0], minlength=self.modalities)
        answered = counts >= max(1, min(FEWEST, counts.max() / 4))
        kept = answered[self.modality[:, 0]]
        modality = self.modality[kept]
        return Lists(self.u[kept], self.h[kept], modality, self.counted[kept] & answered[modality], self.modalities)

    def scores(self, theta: Matrix) -> Matrix:
        """Return slope · u − weight · h + offset, −inf where a candidate does not count."""
        slope, weight, offset = theta.T[:, self.modality]
        return np.where(self.counted, slope * self.u - weight * self.h + offset, -np.inf)

    @property
    def importance(self) -> Matrix:
        """ω: every target modality counts alike; the sum is the number of pairs, ``(pairs,)``."""
        target = self.modality[:, 0]
        counts = np.bincount(target, minlength=self.modalities)
        return len(target) / (np.count_nonzero(counts) * counts[target])


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """The fitted form of ``learned``: score = slope · s − weight · b + offset, by pair of modalities."""

    table: Mapping[tuple[str, str], tuple[float, float, float]]

    def of(self, asked: str, found: str) -> tuple[float, float, float]:
        """Return slope, weight and offset for queries of ``asked`` and documents of ``found``."""
        try:
            return self.table[asked, found]
        except KeyError:
            raise UnknownModality(
                f"learned was fitted without {found} documents for {asked} queries. Fit again with some of each."
            ) from None


def _temperature(lists: Lists) -> float:
    """Fit g alone: the inverse temperature at which the prior's scores explain the right documents best."""
    unit_scores = lists.scores(np.tile(PRIOR, (lists.modalities, 1)))
    finite = np.where(lists.counted, unit_scores, 0.0)

    def loss(log_g: Matrix) -> tuple[float, Matrix]:
        g = float(np.exp(log_g[0]))
        value, residual = _cross_entropy(g * unit_scores, lists.importance)
        return value, np.array([g * (residual * finite).sum()])

    log_g = _minimise(loss, np.zeros(1), bounds=[(-3.0, 3.0)])
    return float(np.exp(log_g[0]))


def _loss(theta: Matrix, lists: Lists, prior: Matrix, strength: float) -> tuple[float, Matrix]:
    theta = theta.reshape(-1, 3)
    value, residual = _cross_entropy(lists.scores(theta), lists.importance)
    code = lists.modality.ravel()
    sums = [
        np.bincount(code, weights=(residual * feature).ravel(), minlength=lists.modalities)
        for feature in (lists.u, -lists.h, np.ones_like(lists.u))
    ]
    away = theta - prior
    gradient = np.stack(sums, axis=1) + 2 * strength * away
    return value + strength * float(np.square(away).sum()), gradient.ravel()


def _cross_entropy(scores: Matrix, importance: Matrix) -> tuple[float, Matrix]:
    """Return Σ ω · −log softmax(scores)[0] and its gradient by the scores."""
    top = scores.max(axis=1, keepdims=True)
    exponentials = np.exp(scores - top)
    total = exponentials.sum(axis=1, keepdims=True)
    value = float((importance * (top[:, 0] + np.log(total[:, 0]) - scores[:, 0])).sum())
    residual = exponentials / total
    residual[:, 0] -= 1
    return value, residual * importance[:, None]


def _minimise(loss: Any, start: Matrix, bounds: list[tuple[float | None, float | None]]) -> Matrix:
    from scipy.optimize import minimize  # late: `import isthmus` stays light

    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500})
    return np.asarray(found.x.reshape(start.shape))
