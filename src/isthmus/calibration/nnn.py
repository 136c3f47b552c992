"""``nnn(k, alpha)``: nearest-neighbour normalisation, which removes a hub's advantage.

In words: a document that is near many unrelated queries (a *hub*) is near your query too. Its
hubness is its mean similarity to the k reference queries nearest to it; subtract a share of that.

Formula, for reference queries r of the query's modality:

    b(d)        = (1/k) · Σ of the k largest s(r, d)
    score(q, d) = s(q, d) − α · b(d)

What it means: b is one number per document, so it folds into the vector as one more dimension, with −α on
the query's side: α can change at any time without touching an index. b falls as k grows; k = all is ``dn``'s
correction, k = 1 that of an infinitely sharp inverted softmax.

Reference: Chowdhury et al., *Nearest Neighbor Normalization Improves Multimodal Retrieval* (EMNLP 2024),
§2, Equations 1 and 2; the defaults are those of CLIP on Flickr30k's photos (Table A1). Each query modality has
references and a bias of its own. The default k is the smaller of 128 and the number of references; a k larger than the
number of references raises an error.

>>> from isthmus.calibration.bank import DenseBank
>>> similarity = np.array([[0.9, 0.5, 0.1], [0.3, 0.2, 0.1]])       # two documents, three reference queries
>>> NearestNeighbourNormalization(k=2).columns(Banks(DenseBank(similarity)))
array([[0.7 ],
       [0.25]])
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.bias import Banks, BiasMethod
from isthmus.errors import BadSpec, CannotFit
from isthmus.types import Mask, Matrix

DEFAULT_K = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class NearestNeighbourNormalization(BiasMethod):
    """Subtract ``alpha`` times each document's mean similarity to its ``k`` nearest reference queries."""

    k: int | None = None
    alpha: float = 0.75

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise BadSpec(f"nnn needs k ≥ 1, not {self.k}.")
        if not np.isfinite(self.alpha):
            raise BadSpec(f"nnn needs a finite alpha, not {self.alpha}.")

    def check(self, references: int) -> None:
        """Reject a k that is larger than the number of references."""
        self.neighbours(references)

    def describe(self, references: int) -> str:
        """Describe how many neighbours are used."""
        return f"neighbours   {self.neighbours(references)} of {references}"

    def neighbours(self, references: int) -> int:
        """Return the k to use with this many references, or raise an error."""
        return chosen_k(self.k, references, DEFAULT_K)

    def columns(self, banks: Banks) -> Matrix:
        """Return each document's mean similarity to its k nearest references, ``(documents, 1)``."""
        return banks.references.mean_of_largest(self.neighbours(len(banks.references)))[:, None]

    def coefficients(self, active: Mask) -> Matrix:
        """Return alpha for every query, ``(n, 1)``."""
        return np.full((len(active), 1), self.alpha)


def chosen_k(k: int | None, references: int, default: int) -> int:
    """Return k, or the default for this many references; reject a k that is larger than their number."""
    if k is not None and k > references:
        raise CannotFit(
            f"k is {k}, but there are only {references} reference queries. "
            f"Use k ≤ {references}, leave k out, or give more reference queries."
        )
    return min(default, references) if k is None else k
