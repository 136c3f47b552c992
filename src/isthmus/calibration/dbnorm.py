"""``dbnorm(beta_gallery, beta_query, dynamic)``: inverted softmax over two banks, DualIS and DualDIS.

In words: a hub is near many queries and near many documents. Normalise by a bank of each.

Formula, for a gallery bank G (``reference_documents``) and the reference queries Q of the query's modality:

    IS_B(q, d)  = exp(β_B s(q, d)) / Σ_{r in B} exp(β_B s(r, d))            B = G, Q
    DualIS      = IS_G · IS_Q
    b_B(d)      = (1/β_B) · log( (1/n_B) Σ_r exp(β_B s(r, d)) )
    score(q, d) = s − (β_G b_G + β_Q b_Q) / (β_G + β_Q)  =  log DualIS / (β_G + β_Q) + constant

DualDIS corrects by a bank only when the query's best match is in that bank's activation set (the documents
that are the best match of one of its members); otherwise s replaces that factor:

    both active   score as above
    one, say Q    IS_Q · s:   score = s − b_Q + log(max(s, ε)) / β_Q      the fold drops the last term
    neither       s · s:      score = s

A β of 0 leaves its bank out: exp(0 · s) / Σ exp(0 · s) is the same number for every document. Without the gallery
DualIS is ``qbnorm``, and no gallery is needed. Both cannot be 0.

What it means: DualIS folds exactly. DualDIS needs two columns per query modality (the query's coefficients
choose among them) and, with one set active, deviates from its equation by log(s)/β, nearly the same number
for all the documents near the top; ``reproduce/`` measures it.

Reference: Wang, Jian & Xue, *Balance Act: Mitigating Hubness in Cross-Modal Retrieval with Query and Gallery
Banks* (2023), §3; defaults from Chowdhury et al. (``nnn``), Appendix B2, whose best values were at most 15 for the
gallery and from 25 to 200 for the queries, and which tries 0 for both. We follow the equations; the public code
computes something else. The paper leaves open what s · s means for negative s (it would reverse the order; we keep s)
and what IS · s means for s ≤ 0 (it would reward hubs; we rank such documents below the others, by a floor ε on the
factor). As in ``qbnorm``, sums are means, which adds a constant.

>>> method = DualBankNormalization(beta_gallery=1.0, beta_query=3.0)
>>> method.combined(np.array([0.4]), np.array([0.8]))
array([0.7])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.bias import Bank, Banks, BiasMethod
from isthmus.calibration.qbnorm import sharpness, soft_maximum
from isthmus.errors import BadSpec, CannotFit
from isthmus.types import Mask, Matrix

FACTOR_FLOOR = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class DualBankNormalization(BiasMethod):
    """Divide by the softmax sums over a gallery bank and over the reference queries, in the log domain."""

    beta_gallery: float = 1.0
    beta_query: float = 50.0
    dynamic: bool = False

    def __post_init__(self) -> None:
        for name in ("beta_gallery", "beta_query"):
            if getattr(self, name) != 0:  # 0 leaves the bank out
                sharpness("dbnorm", name, getattr(self, name))
        if self.beta_gallery == self.beta_query == 0:
            raise BadSpec("dbnorm needs beta_gallery or beta_query above 0: with both at 0 every score is the same.")

    @property
    def needs_gallery(self) -> bool:
        """Unless its β is 0."""
        return self.beta_gallery > 0

    @property
    def sets(self) -> int:
        """In the dynamic form, the gallery's activation set, if there is a gallery, and the reference queries'."""
        return 1 + self.needs_gallery if self.dynamic else 0

    @property
    def shares(self) -> tuple[float, float]:
        """The weights of the gallery's and the queries' bias if both are active."""
        total = self.beta_gallery + self.beta_query
        return self.beta_gallery / total, self.beta_query / total

    def combined(self, gallery: Matrix, query: Matrix) -> Matrix:
        """Return the bias of DualIS from those of the two banks."""
        gallery_share, query_share = self.shares
        return np.asarray(gallery_share * gallery + query_share * query)

    def columns(self, banks: Banks) -> Matrix:
        """Return the bias of DualIS, ``(documents, 1)``, or the one of each set of DualDIS, ``(documents, sets)``."""
        if not self.needs_gallery:
            return _soft_maxima(banks.references, self.beta_query)[:, None]
        if banks.gallery is None:
            raise CannotFit("dbnorm needs a gallery bank.")
        gallery = _soft_maxima(banks.gallery, self.beta_gallery)
        query = _soft_maxima(banks.references, self.beta_query) if self.beta_query else np.zeros_like(gallery)
        return np.stack([gallery, query], axis=1) if self.dynamic else self.combined(gallery, query)[:, None]

    def coefficients(self, active: Mask) -> Matrix:
        """Return each query's coefficients on (gallery bias, query bias), or 1 on both combined."""
        if not self.dynamic:
            return np.ones((len(active), 1))
        if not self.needs_gallery:
            return np.asarray(active, dtype=np.float64)
        both = active.all(axis=1, keepdims=True)
        used = np.array([True, self.beta_query > 0])
        return np.where(both, np.asarray(self.shares), (active & used).astype(np.float64))

    def corrected(self, values: Matrix, banks: Banks, active: Mask) -> Matrix:
        """Subtract the bias; in the dynamic form, keep the factor that the fold drops."""
        out = values - self.coefficients(active) @ self.columns(banks).T
        two_banks = self.beta_gallery > 0 and self.beta_query > 0
        return np.asarray(out + self.factor(values, active) if self.dynamic and two_banks else out)

    def factor(self, values: Matrix, active: Mask) -> Matrix:
        """Return log(s)/β, the term that DualDIS keeps when one set is active, and 0 otherwise."""
        one = active[:, 0] != active[:, 1]
        beta = np.where(active[:, 0], self.beta_gallery, self.beta_query)
        logarithm = np.log(np.maximum(values, FACTOR_FLOOR)) / beta[:, None]
        return np.where(one[:, None], logarithm, 0.0)


def _soft_maxima(bank: Bank, beta: float) -> Matrix:
    return bank.reduce(lambda s, slope: soft_maximum(s, beta * slope))
