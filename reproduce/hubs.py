"""Hubs in real CLIP vectors, before and after each calibration, as in NNN's paper.

    python reproduce/hubs.py --data DIR        (needs emb/clip_pairs.npz)

1,090 Flickr8k photos (CLIP ViT-B/32) are searched with the captions of 100 of them. References are captions 1 to 4 of
each, kept apart from their own photo, or those of another set (Unsplash); caption 0 is the query. The gallery bank of
dbnorm is the photos of that other set. N is the number of
the 100 top-10 lists that contain a photo: its skewness, excess kurtosis, maximum, and mean absolute distance from an
even share; the share of photos in no list; R@1 and R@10 of the right photo.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration
from isthmus.diagnose.hubs import occurrences, skewness
from isthmus.types import Matrix, Rows, Vectors

TOP = 10
SPECS = (
    *SINGLE,
    "dbnorm(beta_gallery=20,beta_query=20)",
    *(f"nnn(k={k})" for k in (1, 4, 64, 256)),
    *(f"nnn(k=16,alpha={alpha})" for alpha in (0.25, 0.5, 1.0, 1.5)),
    "center+nnn(k=16)",
)


def described(name: str, scores: Matrix, right: Rows) -> Row:
    """Return the row of one ranking."""
    order = np.argsort(-scores, axis=1, kind="stable")
    counts = occurrences(order[:, :TOP], scores.shape[1])
    centred = counts - counts.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    rank = np.argmax(order == right[:, None], axis=1)
    return {
        "calibration": name,
        "skewness": skewness(counts),
        "kurtosis": float(np.mean(centred**4)) / spread**4 - 3,
        "most": float(counts.max()),
        "off an even share": float(np.abs(centred).mean()),
        "never": float((counts == 0).mean()),
        "R@1": float((rank < 1).mean()),
        "R@10": float((rank < TOP).mean()),
    }


def main(data: Path) -> list[Row]:
    """Return a row per calibration, on references like the queries and on those of another set."""
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim == 2
    }
    captions = held["f8k_txt"].reshape(100, 5, -1)
    documents, queries = Vectors.of(held["f8k_img"], "image"), Vectors.of(captions[:, 0], "text")
    own = Vectors.of(captions[:, 1:].reshape(400, -1), "text")
    sources = np.repeat(np.arange(100), 4)
    gallery = Vectors.of(held["unsplash500_img"], "image")
    rows: list[Row] = []
    for spec in SPECS:
        fitted = calibration.fit(spec, documents, own, sources=sources, reference_documents=gallery)
        rows.append(described(spec, fitted.scores(queries, documents, sources=sources), np.arange(100)))
    other = Vectors.of(held["unsplash500_txt"], "text")
    for spec in ("nnn(k=16)", "center+nnn(k=16)"):
        scores = calibration.fit(spec, documents, other).scores(queries, documents)
        rows.append(described(f"{spec}, references of another set", scores, np.arange(100)))
    for size in (25, 50, 100, 200):
        some = np.random.default_rng(0).permutation(400)[:size]
        fitted = calibration.fit("nnn(k=16)", documents, own.take(some), sources=sources[some])
        scores = fitted.scores(queries, documents, sources=sources[some])
        rows.append(described(f"nnn(k=16), {size} references", scores, np.arange(100)))
    return rows


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("hubs", main(options.data), options.write))
