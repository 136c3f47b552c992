"""Settings to choose among with ``tune``: the grids of the papers, and ours where a paper states none.

    tune(NNN_PAPER_GRID, documents, queries, positives=right, measure=recall_at_1)

Reference: Chowdhury et al., *Nearest Neighbor Normalization Improves Multimodal Retrieval* (EMNLP 2024), Appendix B.
They choose by R@1 on a part of the training set that has the size of the test set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np


def grid(name: str, settings: Mapping[str, Iterable[float]]) -> list[str]:
    """Return the specs of every combination of settings.

    >>> grid("nnn", {"k": [1, 2], "alpha": [0.5]})
    ['nnn(k=1,alpha=0.5)', 'nnn(k=2,alpha=0.5)']
    """
    return [
        f"{name}({','.join(f'{key}={value}' for key, value in zip(settings, values, strict=True))})"
        for values in product(*settings.values())
    ]


def _logarithmic(lowest: float, highest: float, steps: int = 20) -> list[float]:
    return [float(f"{value:.4g}") for value in np.geomspace(lowest, highest, steps)]


# The grids that Chowdhury et al. (2024) search: Appendix B1 for nnn; Appendix B2 for dbnorm, first widely and then
# where the best values were, 0 included (qbnorm is dbnorm with beta_gallery=0: Appendix A2).
NNN_PAPER_GRID = tuple(
    grid("nnn", {"k": [2**i for i in range(10)], "alpha": [round(0.25 + 0.125 * i, 3) for i in range(11)]})
)
_WIDE = [0.0, *_logarithmic(0.001, 400)]
_DENSE = {"beta_gallery": [0.0, *_logarithmic(0.001, 15)], "beta_query": [0.0, *_logarithmic(25, 200)]}
DBNORM_WIDE_GRID = tuple(grid("dbnorm", {"beta_gallery": _WIDE, "beta_query": _WIDE})[1:])  # all but 0, 0
DBNORM_PAPER_GRID = tuple(grid("dbnorm", _DENSE)[1:])
# Ours: the paper states none for DN, and sweeps QBNorm inside DBNorm's grid (Appendix A2).
DN_GRID = tuple(grid("dn", {"lam": [round(0.125 * i, 3) for i in range(1, 17)]}))
QBNORM_GRID = tuple(grid("qbnorm", {"beta": [float(b) for b in (1, 2, 5, 10, 20, 40, 80, 160)]}))
