"""``qbnorm(beta, dynamic)``: the inverted softmax over a bank of queries, and its dynamic form.

In words: the ordinary softmax compares documents for one query; the inverted softmax compares queries for one
document. A hub is near many queries, so each gets a small value.

Formula, for reference queries r of the query's modality:

    IS(q, d)    = exp(β s(q, d)) / Σ_r exp(β s(r, d))
    b(d)        = (1/β) · log( (1/n) Σ_r exp(β s(r, d)) )
    score(q, d) = s(q, d) − b(d)  =  (1/β) · log IS(q, d) + constant

The dynamic form (DIS) keeps a set A of *active* documents, those that are the best match of at least one
reference query, and corrects a query only when its own best match is in A; otherwise score = s.

What it means: in the log domain it is a bias like any other, so it folds, and no β overflows. b is the soft
maximum of the similarities: it tends to their mean as β → 0 (``nnn`` with k = all) and to their maximum as
β → ∞ (k = 1).

Reference: Bogolin et al., *Cross Modal Retrieval with Querybank Normalisation* (CVPR 2022), §3. We take the
mean over the bank where the paper takes the sum: the constant log(n)/β is the same for every document.
Negative similarities need no special case in the log domain. A is kept as one threshold per reference query
(its best score at the fit), so that a document's membership depends on that document alone.

>>> similarity = np.array([[0.9, 0.5, 0.1]])
>>> soft_maximum(similarity, 1e-6).round(6)
array([0.5])
>>> soft_maximum(similarity, 1e6).round(5)
array([0.9])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.bias import Banks, BiasMethod
from isthmus.errors import BadSpec
from isthmus.types import Mask, Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerybankNormalization(BiasMethod):
    """Divide by the softmax sum over the reference queries, in the log domain."""

    beta: float = 20.0
    dynamic: bool = False

    def __post_init__(self) -> None:
        sharpness("qbnorm", "beta", self.beta)

    @property
    def sets(self) -> int:
        """One activation set, of the reference queries, in the dynamic form."""
        return int(self.dynamic)

    def columns(self, banks: Banks) -> Matrix:
        """Return the soft maximum of each document's similarities, ``(documents, 1)``; β applies after the scale."""
        return banks.references.reduce(lambda s, slope: soft_maximum(s, self.beta * slope))[:, None]

    def coefficients(self, active: Mask) -> Matrix:
        """Return 1 for every query or, in the dynamic form, for those whose best document is active, ``(n, 1)``."""
        return np.asarray(active, dtype=np.float64) if self.dynamic else np.ones((len(active), 1))


def soft_maximum(similarity: Matrix, beta: Matrix | float) -> Matrix:
    """Return log(mean(exp(β s))) / β of each row; −inf entries do not count, ``(n,)``.

    >>> soft_maximum(np.array([[0.2, 0.2, -np.inf]], dtype=np.float32), 400.0)
    array([0.2], dtype=float32)
    """
    beta = np.broadcast_to(np.asarray(beta, dtype=similarity.dtype), similarity.shape[:1])
    top = similarity.max(axis=1)
    top = np.where(np.isfinite(top), top, 0)
    scaled = (similarity - top[:, None]) * beta[:, None]
    there = np.maximum(np.isfinite(scaled).sum(axis=1), 1)
    if beta.size and beta.max() < 1:  # all exponentials are near 1: expm1 and log1p keep every digit
        missing = similarity.shape[1] - there
        logarithm = np.log1p((np.expm1(scaled, out=scaled).sum(axis=1) + missing) / there)
    else:
        logarithm = np.log(np.exp(scaled, out=scaled).sum(axis=1) / there)
    return np.asarray(top + logarithm / beta, dtype=similarity.dtype)


def sharpness(method: str, name: str, value: float) -> None:
    """Reject a β that float32 cannot distinguish from 0 or infinity."""
    if not 1e-6 <= value <= 1e6:
        raise BadSpec(f"{method} needs {name} between 1e-6 and 1e6, not {value}.")
