"""The gap: how far apart an encoder puts kinds of documents, independent of their content.

In words: an encoder should put a text and a photo of the same thing close together. Most put all texts into one
region and all photos into another. Then a text query is near every text and far from every photo.

    distance of A and B = ‖mean_A − mean_B‖                      0: the clouds share a centre
    cosine of A and B   = ⟨mean_A, mean_B⟩ / (‖mean_A‖ ‖mean_B‖)
    share               = Σ_M n_M ‖mean_M − mean‖² / Σ_d ‖x_d − mean‖²

The share summarises it: the part of the variance between documents that their modality explains. Random groups have
about (groups − 1) / (documents − 1), which is ``chance``. Documents of different kinds may also be *about* different
things, which vectors alone cannot distinguish from a gap: check the shares of the top 10 as well.

Reference: the distance of means is the modality gap of Liang et al. 2022, *Mind the Gap*, §2; the share is the R²
of a one-way analysis of variance on vectors (Anderson 2001). ``flat`` draws the two main directions, as their
figure 1 does.

>>> two = gap(np.array([[1.0, 0.1], [1.0, -0.1], [0.0, 1.0], [0.2, 1.0]]), np.array(["text", "text", "image", "image"]))
>>> [(pair.one, pair.other, round(pair.distance, 2)) for pair in two.pairs], round(two.share, 2)
([('image', 'text', 1.35)], 0.98)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isthmus.types import Matrix, Names


@dataclass(frozen=True, slots=True)
class Pair:
    """How far apart the clouds of two modalities are."""

    one: str
    other: str
    distance: float
    cosine: float


@dataclass(frozen=True, slots=True)
class Gap:
    """How much of the variance between documents their modality explains."""

    pairs: tuple[Pair, ...]
    share: float
    chance: float


def gap(vectors: Matrix, modality: Names) -> Gap:
    """Measure the gap between the modalities of ``vectors``, ``(n, d)``, one row per document."""
    x = np.asarray(vectors, dtype=np.float64)
    names, code, counts = np.unique(modality, return_inverse=True, return_counts=True)
    means = np.stack([x[code == place].mean(axis=0) for place in range(len(names))])  # (modalities, d)
    centre = x.mean(axis=0)
    total = float(np.square(x - centre).sum())
    between = float(counts @ np.square(means - centre).sum(axis=1))
    pairs = tuple(
        _pair(str(names[i]), str(names[j]), means[i], means[j]) for i, j in combinations(range(len(names)), 2)
    )
    return Gap(pairs, between / total if total > 0 else 0.0, (len(names) - 1) / max(len(x) - 1, 1))


def _pair(one: str, other: str, a: Matrix, b: Matrix) -> Pair:
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return Pair(one, other, float(np.linalg.norm(a - b)), float(a @ b) / lengths if lengths > 0 else 0.0)


def flat(vectors: Matrix) -> Matrix:
    """Return the two main directions of ``vectors`` as coordinates, ``(n, 2)``; the larger half points right and up.

    >>> flat(np.array([[3.0, 0.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])).round(1).tolist()[2:]
    [[0.0, 1.0], [0.0, -1.0]]
    """
    x = np.asarray(vectors, dtype=np.float64)
    x = x - x.mean(axis=0)
    _, _, axes = np.linalg.svd(x.T @ x) if len(x) > x.shape[1] else np.linalg.svd(x, full_matrices=False)
    axes = axes[:2]
    axes = axes * np.where(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
    out = np.zeros((len(x), 2))
    out[:, : len(axes)] = x @ axes.T
    return out
