"""Listwise softmax: fit slope, weight and offset of each modality on lists whose first document is the right one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.types import Mask, Matrix, Rows

PRIOR = np.array([1.0, 0.0, 0.0])
FEWEST = 8  # known answers to learn from
SMALLEST_SLOPE = 0.05  # of g: keeps the order inside a modality


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """One mixed list per labelled pair; column 0 is the right document. All arrays are ``(pairs, candidates)``."""

    u: Matrix
    h: Matrix
    modality: Rows
    counted: Mask
    modalities: int

    def of_answers(self) -> Lists:
        """Leave out modalities that are never, or very rarely, the right answer: there is too little data.

        Modalities have equal weight, so a single answer would weigh as much as a thousand of another modality.
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
        """ω: every target modality has equal weight; the sum is the number of pairs, ``(pairs,)``."""
        target = self.modality[:, 0]
        counts = np.bincount(target, minlength=self.modalities)
        return len(target) / (np.count_nonzero(counts) * counts[target])


def minimum(lists: Lists, l2: float) -> Matrix:
    """Return slope, weight and offset of each modality on (u, h), ``(modalities, 3)``."""
    if len(lists.u) == 0:
        return np.tile(PRIOR, (lists.modalities, 1))
    lists = lists.of_answers()
    g = _temperature(lists)
    return _minimise(
        lambda theta: _loss(theta, lists, g * PRIOR, l2 / g**2),
        np.tile(g * PRIOR, (lists.modalities, 1)),
        bounds=[(SMALLEST_SLOPE * g, None), (None, None), (None, None)] * lists.modalities,
    )


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
