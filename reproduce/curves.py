"""GR-CLIP's two curves on real CLIP vectors: a mixed corpus is worse than either kind alone, until it is centred.

    python reproduce/curves.py --data DIR        (needs emb/clip_pairs.npz; --write also draws them)

100 Flickr8k photos with five captions each (CLIP ViT-B/32); caption 0 is the query. *Share*: each document is its photo
with probability p, else caption 1 (means of 40 draws). *Fusion*: each document is both, α of its caption and 1 − α of
its photo. References are captions 2 to 4, kept apart from their own document; the gallery bank of dbnorm is that of
``clip_f8k.py``. nDCG@10.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from clip_f8k import F8k
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration
from isthmus.calibration import ndcg_at_10
from isthmus.types import Matrix, Vectors

SHARES = tuple(round(0.1 * step, 1) for step in range(11))
SPECS = (*SINGLE, "center+nnn(k=16)+standardize")
DRAWN = {"rrf": "0.75", "zscore": "0.55", "none": "C0", "center": "C1", "center+nnn(k=16)+standardize": "C2"}
DRAWS = 40
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "curves.png"


def read(data: Path) -> tuple[Matrix, Matrix, Vectors]:
    """Return photos ``(100, d)``, captions ``(100, 5, d)`` and the gallery bank."""
    held = np.load(data / "emb/clip_pairs.npz")
    captions = held["f8k_txt"].astype(np.float32).reshape(100, 5, -1)
    return held["f8k_img"][:100].astype(np.float32), captions, F8k(data).gallery


def value(spec: str, documents: Vectors, captions: Matrix, gallery: Vectors) -> float:
    """Return the mean nDCG@10 of caption 0 as the query."""
    n = len(captions)
    references = Vectors.of(captions[:, 2:].reshape(3 * n, -1), "text")
    sources = np.repeat(np.arange(n), 3)
    fitted = calibration.fit(spec, documents, references, sources=sources, reference_documents=gallery)
    scores = fitted.scores(Vectors.of(captions[:, 0], "text"), documents, sources=sources)
    return float(ndcg_at_10(scores, np.eye(n, dtype=bool)).mean())


def by_share(images: Matrix, captions: Matrix, gallery: Vectors) -> list[Row]:
    """Replace an increasing share of captions by photos."""
    rows: list[Row] = []
    for share in SHARES:
        rng = np.random.default_rng(0)
        found: dict[str, list[float]] = {spec: [] for spec in SPECS}
        for _ in range(DRAWS if 0 < share < 1 else 1):
            pictured = rng.random(len(images)) < share
            chosen = np.where(pictured[:, None], images, captions[:, 1])
            documents = Vectors.of(chosen, np.where(pictured, "image", "text"))
            for spec in SPECS:
                found[spec].append(value(spec, documents, captions, gallery))
        rows.append({"curve": f"share {share}", **{spec: float(np.mean(found[spec])) for spec in SPECS}})
    return rows


def by_fusion(images: Matrix, captions: Matrix, gallery: Vectors) -> list[Row]:
    """Make every document both, with an increasing weight of its caption."""
    rows: list[Row] = []
    for alpha in SHARES:
        weights = {"text": np.full(len(images), alpha), "image": np.full(len(images), 1 - alpha)}
        documents = Vectors({"text": captions[:, 1], "image": images}, weights=weights)
        rows.append({"curve": f"fusion {alpha}", **{spec: value(spec, documents, captions, gallery) for spec in SPECS}})
    return rows


def draw(share: list[Row], fusion: list[Row]) -> None:
    """Draw both curves."""
    panels = {
        ("A mixed corpus", "share of photos among the documents"): share,
        ("Documents that are both", "α: share of caption"): fusion,
    }
    drawn(panels, PICTURE)


def drawn(panels: Mapping[tuple[str, str], list[Row]], picture: Path, measure: str = "nDCG@10") -> None:
    """Draw curves side by side; each panel has a title and a label below it."""
    from matplotlib import pyplot as plt

    size = (max(6.0, 4.2 * len(panels)), 3.9)
    figure, grid = plt.subplots(1, len(panels), figsize=size, sharey=True, layout="constrained", squeeze=False)
    axes = grid[0]
    for place, ((title, below), rows) in zip(axes, panels.items(), strict=True):
        for spec, colour in DRAWN.items():
            values = [float(row[spec]) for row in rows]
            place.plot(SHARES[: len(rows)], values, marker="o", markersize=3, color=colour, label=spec)
        place.set_title(title, loc="left")
        place.set(xlabel=below)
        place.grid(alpha=0.3)
    axes[0].set(ylabel=measure, ylim=(0, 1))
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, loc="outside lower center", ncols=len(DRAWN) if len(panels) > 1 else 3)
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    options = arguments(__doc__)
    made = read(options.data)
    shares, fusions = by_share(*made), by_fusion(*made)
    if options.write:
        draw(shares, fusions)
    raise SystemExit(compared("curves", [*shares, *fusions], options.write))
