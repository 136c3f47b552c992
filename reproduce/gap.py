"""The gap in pictures and numbers: vectors of two modalities before and after centring.

    python reproduce/gap.py --data DIR        (needs flickr8k/ and emb/clip_pairs.npz; --write also draws)

Paired vectors of CLIP ViT-B/32 (Flickr8k, Unsplash), of VideoCLIP (MSR-VTT) and of ``mini`` (Flickr8k's test split).
*distance*: between the means of the modalities; *first direction*: the share of all variance along the first singular
direction; *own kind*: the share of vectors whose ten nearest are all of their own modality; *pair* and *others*: the
mean cosine of pairs, and of other combinations; *R@1*: text to picture, one modality only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import flickr8k
import numpy as np
from tables import Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.encoders.base import Encoder
from isthmus.types import Matrix, Vectors

NEAREST = 10
SPECS = ("none", "center")
COLOURS = {"pictures": "#e07a5f", "texts": "#2a6f97"}
LINES = 60  # pairs that are joined in the picture
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "gap.png"


@dataclass(frozen=True)
class Pairs:
    """Pictures and texts, row by row, unit vectors after a calibration."""

    name: str
    spec: str
    pictures: Matrix
    texts: Matrix

    @classmethod
    def made(cls, name: str, spec: str, pictures: Matrix, texts: Matrix) -> Pairs:
        """Shift both, each by its own mean."""
        documents = Vectors.concat([Vectors.of(pictures, "image"), Vectors.of(texts, "text")])
        x = calibration.fit(spec, documents, Vectors.of(texts, "text")).shift.documents(documents, np.float64)
        return cls(name, spec, x[: len(pictures)], x[len(pictures) :])

    def directions(self) -> tuple[Matrix, Matrix]:
        """Return all vectors along their singular directions, largest first, and the variance of each."""
        both = np.vstack([self.pictures, self.texts])
        left, values, _ = np.linalg.svd(both - both.mean(axis=0), full_matrices=False)
        return left * values, values**2

    def row(self) -> Row:
        """Return the row of the table."""
        n = len(self.pictures)
        both = np.vstack([self.pictures, self.texts])
        similarity = both @ both.T - 3 * np.eye(2 * n)  # nothing is its own neighbour
        nearest = np.argpartition(-similarity, NEAREST, axis=1)[:, :NEAREST]
        own = ((nearest < n) == (np.arange(2 * n) < n)[:, None]).all(axis=1)
        across = self.texts @ self.pictures.T
        variance = self.directions()[1]
        return {
            "vectors": self.name,
            "calibration": self.spec,
            "distance": float(np.linalg.norm(self.pictures.mean(axis=0) - self.texts.mean(axis=0))),
            "first direction": float(variance[0] / variance.sum()),
            "own kind": float(own.mean()),
            "pair": float(np.diag(across).mean()),
            "others": float(across[~np.eye(n, dtype=bool)].mean()),
            "R@1": float((across.argmax(axis=1) == np.arange(n)).mean()),
        }


def read(encoder: Encoder, data: Path) -> Iterator[tuple[str, Matrix, Matrix]]:
    """Yield names, pictures and texts."""
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim == 2
    }
    yield "CLIP, Flickr8k", held["f8k_img"][:100], held["f8k_txt"][::5]
    yield "CLIP, Unsplash", held["unsplash500_img"], held["unsplash500_txt"]
    yield "VideoCLIP, MSR-VTT", held["videoclip100_a"], held["videoclip100_b"]
    test = flickr8k.split(encoder, data / "flickr8k", "test")
    yield "mini, Flickr8k", test.images, test.captions[:, 0]


def draw(found: list[Pairs]) -> None:
    """Draw the two first directions of each, before and after."""
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(each.name for each in found))
    figure, axes = plt.subplots(len(SPECS), len(names), figsize=(11, 5.6), layout="constrained")
    for each in found:
        place = axes[SPECS.index(each.spec), names.index(each.name)]
        flat = each.directions()[0][:, :2]
        pictures, texts = np.split(flat, 2)
        for one, other in zip(pictures[:LINES], texts[:LINES], strict=True):
            place.plot(*np.stack([one, other]).T, color="0.6", linewidth=0.4, zorder=0)
        for kind, points in (("pictures", pictures), ("texts", texts)):
            place.scatter(*points.T, s=7, alpha=0.6, linewidths=0, color=COLOURS[kind], label=kind)
        place.set(xticks=[], yticks=[])
    for place, name in zip(axes[0], names, strict=True):
        place.set_title(name, loc="left", fontsize=10)
    for line, spec in zip(axes, SPECS, strict=True):
        line[0].set_ylabel(spec)
    handles, kinds = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, kinds, frameon=False, loc="outside lower center", ncols=2)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    pairs = read(encoders.load("mini", batch=64), options.data)
    several = [Pairs.made(name, spec, *both) for name, *both in pairs for spec in SPECS]
    if options.write:
        draw(several)
    raise SystemExit(compared("gap", [each.row() for each in several], options.write))
