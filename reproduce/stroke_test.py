"""A test for pages by strokes and paper, to compare with that of ``isthmus.search.page_test``.

Text is many short strokes on an even ground. Of a small grey copy of a picture, the *paper* is its most frequent
brightness, *ink* is what differs from it, and a *stroke* is a change between the two along a row or a column. A
logistic regression weighs seven numbers of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.types import Mask, Matrix

SIDE = 256  # pixels of the copy's longest side
LEVELS = 32  # of brightness
NEAR = 2 / LEVELS  # from the brightness of the paper: paper too
GRID = 8  # blocks in each direction
FEATURES = ("paper", "even", "fewer", "more", "written", "empty", "sharp")


def features(pixels: NDArray[np.uint8]) -> Matrix:
    """Return the numbers that are weighed, in the order of ``FEATURES``."""
    grey = pixels.astype(np.float64).mean(axis=2) / 255  # (height, width)
    counts = np.histogram(grey, bins=LEVELS, range=(0, 1))[0]
    paper = (int(counts.argmax()) + 0.5) / LEVELS
    ink = np.abs(grey - paper) > NEAR
    across, down = ink[:, 1:] != ink[:, :-1], ink[1:] != ink[:-1]
    strokes = blocks(across[:-1] | down[:, :-1])  # (GRID, GRID)
    steps = np.abs(np.diff(grey, axis=1))
    return np.array(
        [
            1 - ink.mean(),  # paper
            (steps < 0.5 / LEVELS).mean(),  # even: no change at all
            *sorted([float(across.mean()), float(down.mean())]),  # fewer, more: strokes, whichever way the page lies
            (strokes > 0.1).mean(),  # written: blocks full of strokes
            (strokes < 0.005).mean(),  # empty blocks
            np.quantile(steps, 0.98),  # sharp: the height of the steepest changes
        ]
    )


def blocks(mask: NDArray[np.bool_]) -> Matrix:
    """Return the mean of each block of a mask.

    >>> blocks(np.eye(16, dtype=bool)).round(1)[0, :2].tolist()
    [0.5, 0.0]
    """
    rows, columns = (np.linspace(0, size, GRID + 1).astype(int)[:-1] for size in mask.shape)
    sums = np.add.reduceat(np.add.reduceat(mask.astype(np.float64), rows, axis=0), columns, axis=1)
    size = np.outer(np.diff([*rows, mask.shape[0]]), np.diff([*columns, mask.shape[1]]))
    return np.asarray(sums / size)


@dataclass(frozen=True)
class StrokeTest:
    """Weights of the features, and a bias."""

    weights: Matrix
    bias: float

    @classmethod
    def fit(cls, rows: Matrix, pages: Mask, groups: Sequence[str]) -> StrokeTest:
        """Fit on the features ``(n, 7)`` of pictures; every group of pages, and of others, counts the same."""
        regression: Any = need("sklearn.linear_model", extra="plot").LogisticRegression(C=10, max_iter=5000)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        often, kinds = Counter(groups), {group: bool(page) for group, page in zip(groups, pages, strict=True)}
        same = Counter(kinds.values())
        weight = [len(rows) / often[group] / same[kinds[group]] for group in groups]
        regression.fit((rows - mean) / spread, pages, sample_weight=weight)
        weights = regression.coef_[0] / spread
        return cls(weights, float(regression.intercept_[0] - weights @ mean))

    def pages(self, rows: Matrix) -> Mask:
        """Return which pictures look like pages, by their features."""
        return np.asarray(rows @ self.weights + self.bias > 0)
