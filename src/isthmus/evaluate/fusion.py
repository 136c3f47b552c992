"""The weight of the text in documents that have one and other parts, such as a photo with its caption.

    e = α · e_text + (1 − α) · mean of the other parts

In words: α = 1 is the text alone, α = 0 the picture (the sound, the video …) alone. Documents of one part, and
documents with one vector for all parts, do not change. α = 0.5 ranks like no weights.

Reference: Li et al., *Closing the Modality Gap for Mixed Modality Search* (2025), Sections 2.3 and 4.2. There the other
part is one image; several parts share 1 − α equally, which is ours.

>>> import numpy as np
>>> both = Vectors({"text": np.eye(2), "image": np.ones((2, 2))}, {"image": [True, False]})
>>> {part: weights.tolist() for part, weights in weighed(both, 0.75).weights.items()}
{'text': [0.75, 1.0], 'image': [0.25, 1.0]}
"""

from __future__ import annotations

import numpy as np

from isthmus.errors import BadInput
from isthmus.types import Mask, Vectors

TEXT = "text"


def several_parts(vectors: Vectors) -> Mask:
    """Return which rows have a text and another part, ``(n,)``."""
    if TEXT not in vectors.parts:
        return np.zeros(len(vectors), dtype=bool)
    others = [mask for part, mask in vectors.present.items() if part != TEXT]
    return np.asarray(vectors.present[TEXT] & np.logical_or.reduce([np.zeros(len(vectors), dtype=bool), *others]))


def weighed(vectors: Vectors, alpha: float) -> Vectors:
    """Return the vectors with ``alpha`` as the weight of the text in documents that have other parts, too."""
    if not 0 <= alpha <= 1:
        raise BadInput(f"α is the share of the text and must be from 0 to 1, not {alpha}.")
    whole = several_parts(vectors)
    others = [part for part in vectors.parts if part != TEXT]
    count = np.sum([np.ones(len(vectors)), *(vectors.present[part] & whole for part in others)], axis=0) - 1
    share = (1 - alpha) / np.maximum(count, 1)  # of each other part, (n,)
    weights = {part: np.where(whole, alpha if part == TEXT else share, 1.0) for part in vectors.parts}
    return Vectors(vectors.parts, vectors.present, weights)
