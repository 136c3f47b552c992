"""Which queries may name more than one document: the candidates that a person should look at.

Mr. Right keeps only queries that name one document. Its authors search for every query, by BM25 with those about the
text and by CLIP with those about the image, and people look first at queries whose best documents have close scores.

    close(q) = (s₁ − s₂) ≤ margin · s₁        s₁ ≥ s₂: the two best scores of the query

Reference: Hsieh et al., Mr. Right (2022), Section 3.2 and Appendix B.3. Deviations: the paper states no margin, and a
program only lists candidates; whether two documents really are the same is for a person to say.
"""

from __future__ import annotations

import numpy as np

from isthmus.errors import BadInput
from isthmus.types import Mask, Matrix

MARGIN = 0.05


def ambiguous(scores: Matrix, margin: float = MARGIN) -> Mask:
    """Return which queries have two best documents with close scores; ``scores`` are ``(queries, documents)``.

    A query for which nothing scores above 0 is among them.

    >>> ambiguous(np.array([[0.9, 0.3, 0.1], [0.80, 0.79, 0.1], [0.0, 0.0, 0.0]])).tolist()
    [False, True, True]
    """
    if not 0 <= margin < 1:
        raise BadInput(f"margin must be from 0 to 1, not {margin}: it is the share by which two scores may differ.")
    if scores.shape[1] < 2:
        return np.zeros(len(scores), bool)
    second, first = np.sort(scores, axis=1)[:, -2:].T
    close: Mask = first - second <= margin * np.maximum(first, 0)
    return close
