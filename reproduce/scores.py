"""Scores by modality before and after each calibration: how far images are below texts, and where hubs are.

    python reproduce/scores.py --data DIR        (needs flickr8k/, mix/, emb/clip_pairs.npz; --write also draws)

The mixed corpora of ``clip_f8k.py`` and ``mini_mix.py``, fitted as there; right documents are left out. *image − text*
is, for each query, the mean score of all images minus that of all texts, in deviations of all scores: its mean and its
deviation over queries, and the share of queries where it is below 0. *best* is the same for the best image and the
best text. *skew* is the skewness of N_10, the number of top-10 lists with a document, overall and within each modality.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import corpora
import numpy as np
from corpora import Mixed
from tables import SINGLE, Row, arguments, compared

from isthmus import encoders
from isthmus.diagnose.hubs import occurrences, skewness
from isthmus.types import Matrix

TOP = 10
MODALITIES = ("text", "image", "image+text")
SPECS = (*SINGLE, "center+standardize", "center+nnn(k=16)", "center+nnn(k=16)+standardize")
DRAWN = ("none", "zscore", "center", "standardize", "nnn(k=16)", "center+nnn(k=16)+standardize")
COLOURS = {"text": "#2a6f97", "image": "#e07a5f"}
IMAGES = Path(__file__).parent.parent / "docs" / "images"


@dataclass(frozen=True)
class Scored:
    """A corpus and its scores under one calibration."""

    mixed: Mixed
    spec: str
    scores: Matrix

    def of(self, modality: str, *, right: bool) -> Matrix:
        """Return the scores of right documents of a modality, or of the others."""
        wanted = (self.mixed.kind == modality) & (self.mixed.relevant == right)
        return np.asarray(self.scores[wanted])

    def apart(self, over: Any = np.nanmean) -> Matrix:
        """Return the mean score of images (or the best) minus that of texts, in deviations of all scores, ``(q,)``."""
        others = np.where(self.mixed.relevant, np.nan, self.scores)
        image, text = (over(others[:, self.mixed.kind == M], axis=1) for M in ("image", "text"))
        return np.asarray((image - text) / np.nanstd(others))

    def row(self) -> Row:
        """Return the row of the table."""
        apart, best, kind = self.apart(), self.apart(np.nanmax), self.mixed.kind
        order = np.argsort(-np.where(self.mixed.relevant, -np.inf, self.scores), axis=1, kind="stable")
        counts = occurrences(order[:, :TOP], len(kind))
        row: Row = {
            "corpus": self.mixed.name,
            "calibration": self.spec,
            "image − text": float(apart.mean()),
            "deviation": float(apart.std()),
            "below 0": float((apart < 0).mean()),
            "best": float(best.mean()),
            "best below 0": float((best < 0).mean()),
            "skew all": skewness(counts),
        }
        return row | {f"skew {M}": skewness(counts[kind == M]) if (kind == M).any() else "" for M in MODALITIES}


def draw_scores(place: Any, each: Scored) -> None:
    """Draw the scores of right and of other documents, by modality."""
    everything = np.concatenate([each.of(M, right=right) for M in COLOURS for right in (True, False)])
    bins = np.linspace(np.quantile(everything, 0.0005), everything.max(), 60).tolist()
    for M, colour in COLOURS.items():
        style = {"bins": bins, "density": True, "color": colour}
        place.hist(each.of(M, right=False), alpha=0.4, label=f"another {M}", **style)
        place.hist(each.of(M, right=True), histtype="step", linewidth=1.3, label=f"the right {M}", **style)


def draw_apart(place: Any, each: Scored) -> None:
    """Draw images minus texts over queries."""
    for label, filled, over in (("means of all", True, np.nanmean), ("best of each", False, np.nanmax)):
        counts, edges = np.histogram(each.apart(over), bins=np.linspace(-3.2, 3.2, 65))
        place.stairs(counts / counts.max(), edges, fill=filled, color="0.65" if filled else "#3d405b", label=label)
    place.axvline(0, color="0.1", linewidth=1)


def draw(found: list[Scored], file: str, below: str, one: Any) -> None:
    """Draw a panel for each corpus and for some calibrations."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, len(DRAWN), figsize=(11.5, 4.6), layout="constrained")
    for line, corpus in zip(axes, dict.fromkeys(each.mixed.name for each in found), strict=True):
        shown = {each.spec: each for each in found if each.mixed.name == corpus}
        line[0].set_ylabel(corpus)
        for place, spec in zip(line, DRAWN, strict=True):
            one(place, shown[spec])
            place.set_yticks([])
            place.tick_params(labelsize=8)
            place.set_title(spec.replace("+standardize", "\n+standardize"), loc="left", fontsize=9)
    figure.supxlabel(below, fontsize=9)
    handles, names = axes[0, 0].get_legend_handles_labels()
    if names:
        figure.legend(handles, names, frameon=False, loc="outside upper center", ncols=len(names))
    figure.savefig(IMAGES / file, dpi=120)


if __name__ == "__main__":
    options = arguments(__doc__)
    both = corpora.clip(options.data), corpora.mini(encoders.load("mini", batch=64), options.data)
    scored = [Scored(mixed, spec, mixed.scores(mixed.fit(spec))) for mixed in both for spec in SPECS]
    if options.write:
        draw(scored, "scores.png", "score", draw_scores)
        draw(scored, "apart.png", "images less texts, in deviations of all scores, over queries", draw_apart)
    raise SystemExit(compared("scores", [each.row() for each in scored], options.write))
