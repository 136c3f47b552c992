"""The trade-off between images and texts: calibrations compared at equal loss on text, by varying the balance.

    python reproduce/trade.py --data DIR        (needs flickr8k/, mix/; --write also draws docs/images/trade.png)

`mini` on Flickr8k's mixed corpus, calibrated on the dev split. For each calibration the balances of images and of
documents that are both vary over a grid. At a loss of text documents against raw cosine (the columns, in nDCG@10)
a cell is the best nDCG@10 over all documents that any setting reaches; empty: none. The gallery bank of dbnorm is the
documents of the dev split.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tables import SINGLE, Row, arguments, compared

from isthmus import encoders
from isthmus.calibration import Fitted
from isthmus.evaluate import Corpus
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.compare import fit, scored
from isthmus.evaluate.encode import encoded
from isthmus.types import Matrix

OURS = ("center+nnn(k=16)", "learned", "center+learned")
DRAWN = ("none", "center", "standardize", "nnn(k=16)", *OURS)
LOSSES = (0.0, 0.02, 0.04, 0.06, 0.08, 0.10)
STEPS = np.linspace(-2, 2, 41)  # of the spread of the scores
KINDS = ("text", "image", "image+text")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "trade.png"


def turned(corpus: Corpus, fitted: Fitted) -> Matrix:
    """Return nDCG@10 of each kind at each balance of images and of both, ``(steps, steps, kinds)``.

    Adding balances is what `with_balance` does. A document of kind m is above the right one, of kind r, if
    s_m + balance_m > s_r + balance_r; every query has one right document.
    """
    scores = np.concatenate([block for _, block in scored(corpus, fitted)])
    kind = np.array([KINDS.index(each) for each in corpus.documents.modality])
    place = {name: row for row, name in enumerate(corpus.document_ids)}
    right = np.array([place[next(iter(corpus.qrels[query]))] for query in corpus.query_ids])
    steps = STEPS * scores.std()
    shifts = (steps[1] - steps[0]) * np.arange(1 - len(steps) * 2, len(steps) * 2)  # every difference of two balances
    zero = len(steps) * 2 - 1
    own = scores[np.arange(len(right)), right]
    above = np.stack([_above(np.sort(scores[:, kind == m], axis=1), own, shifts) for m in range(len(KINDS))])
    middle = len(steps) // 2
    out = np.empty((len(steps), len(steps), len(KINDS)))
    for i in range(len(steps)):
        for j in range(len(steps)):
            balance = np.array([middle, i, j])
            shift = zero + balance[kind[right]][None, :] - balance[:, None]  # (kinds, queries)
            rank = np.take_along_axis(above, shift[:, :, None], axis=2)[:, :, 0].sum(axis=0)
            value = np.where(rank < 10, 1 / np.log2(rank + 2), 0.0)
            out[i, j] = [value[kind[right] == m].mean() for m in range(len(KINDS))]
    return out


def _above(ranked: Matrix, own: Matrix, shifts: Matrix) -> Matrix:
    """Return the number of each query's scores above its right document's, moved by each shift."""
    return np.stack(
        [len(row) - np.searchsorted(row, mine + shifts, side="right") for row, mine in zip(ranked, own, strict=True)]
    )


def main(data: Path) -> dict[str, Matrix]:
    """Return the grid of each calibration."""
    corpus = encoded(load("flickr8k-mix", data), encoders.load("mini", batch=64), gallery=True)
    return {spec: turned(corpus, fit(corpus, spec)) for spec in (*SINGLE, *OURS)}


def unturned(grid: Matrix) -> Matrix:
    """Return the values by kind at balance 0."""
    middle = len(STEPS) // 2
    values: Matrix = grid[middle, middle]
    return values


def draw(grids: dict[str, Matrix], raw: float) -> None:
    """Draw the best of all against texts; a dot is the calibration as fitted."""
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.8, 4.4), layout="constrained")
    losses = np.linspace(-0.03, 0.12, 61)
    for spec in DRAWN:
        grid = grids[spec]
        (line,) = axis.plot(raw - losses, [best(grid, raw, loss) for loss in losses], linewidth=1.4, label=spec)
        axis.plot(unturned(grid)[0], unturned(grid).mean(), "o", color=line.get_color())
    axis.set(xlabel="nDCG@10 of text documents, at least", ylabel="nDCG@10 of all documents")
    axis.set_title("What can be had at a loss on text", loc="left")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8, loc="lower left")
    figure.savefig(PICTURE, dpi=110)


def best(grid: Matrix, raw: float, loss: float) -> float:
    """Return the best mean over kinds among settings where texts lose at most that; nan if there is none."""
    allowed = grid[..., 0] >= raw - loss - 1e-9
    return float(grid.mean(axis=2)[allowed].max()) if allowed.any() else float("nan")


def reached(grid: Matrix, raw: float, loss: float) -> str | float:
    """Return the same for a table: empty if no setting loses so little."""
    value = best(grid, raw, loss)
    return "" if np.isnan(value) else value


if __name__ == "__main__":
    options = arguments(__doc__)
    found = main(options.data)
    start = float(unturned(found["none"])[0])
    if options.write:
        draw(found, start)
    rows: list[Row] = [
        {
            "calibration": spec,
            "as fitted": float(unturned(grid).mean()),
            "texts": float(unturned(grid)[0]),
            **{f"at −{loss:.2f}": reached(grid, start, loss) for loss in LOSSES},
        }
        for spec, grid in found.items()
    ]
    raise SystemExit(compared("trade", rows, options.write))
