"""The main result: a mixed corpus with ``mini``, raw cosine against every calibration, by modality.

    python reproduce/mini_mix.py --data DIR        (needs flickr8k/ and mix/; --write also draws the gap)

The corpus is Flickr8k's test split as 333 texts, 333 photos and 333 of both, the queries other captions of each.
Calibrations are fitted on the dev split only: its photos mixed 1:1:1 in the same way, its captions as reference
queries whose source is known. The documents of that split are the gallery bank of dbnorm.
"""

from __future__ import annotations

from pathlib import Path

import flickr8k
import numpy as np
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.calibration import ndcg_at_10
from isthmus.types import Rows, Vectors

SPECS = (
    *SINGLE,
    "qbnorm(dynamic=true)",
    "center+standardize",
    "center+nnn(k=16)",
    "standardize+nnn(k=16)",
    "nnn(k=16)+standardize",
    "center+nnn(k=16)+standardize",
    "learned",
    "center+learned",
    "auto",
)
MODALITIES = ("text", "image", "image+text")
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "mini_gap.png"


def references(dev: flickr8k.Split) -> tuple[Vectors, Vectors, Rows]:
    """Mix the dev split 1:1:1: its first captions as texts, the other four as reference queries."""
    n = len(dev.images)
    kind = np.arange(n) % 3
    documents = Vectors({"text": dev.captions[:, 0], "image": dev.images}, {"text": kind != 1, "image": kind != 0})
    return documents, Vectors.of(dev.captions[:, 1:].reshape(4 * n, -1), "text"), np.repeat(np.arange(n), 4)


def main(data: Path, write: bool) -> list[Row]:
    encoder = encoders.load("mini", batch=64)
    documents, queries, right = flickr8k.mix(encoder, data)
    dev = flickr8k.split(encoder, data / "flickr8k", "dev")
    seen, asked, sources = references(dev)
    relevant = np.zeros((len(queries), len(documents)), dtype=bool)
    relevant[right[:, 0], right[:, 1]] = True
    kind = documents.modality[right[:, 1]]
    rows: list[Row] = []
    for spec in SPECS:
        fitted = calibration.fit(spec, seen, asked, sources=sources, reference_documents=seen)
        values = ndcg_at_10(fitted.scores(queries, documents), relevant)
        name = f"auto = {fitted.spec}" if spec == "auto" else spec
        by_kind = {M: float(values[kind == M].mean()) for M in MODALITIES}
        rows.append({"calibration": name, "all": float(values.mean()), **by_kind})
    alone = calibration.fit("none", seen, asked).scores(queries, documents)
    alone[documents.modality[None, :] != kind[:, None]] = -np.inf
    values = ndcg_at_10(alone, relevant)
    by_kind = {M: float(values[kind == M].mean()) for M in MODALITIES}
    rows.append({"calibration": "each modality alone", "all": float(values.mean()), **by_kind})
    gap(dev, write)
    return rows


def gap(dev: flickr8k.Split, write: bool) -> None:
    """Print the distance of the two clouds, and draw the similarities of captions."""
    images, texts = dev.images, dev.captions[:, 0]
    a, b = images.mean(axis=0), texts.mean(axis=0)
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    print(f"gap: distance of means {np.linalg.norm(a - b):.3f}, cosine of means {cosine:+.3f}, ", end="")
    print(f"lengths {np.linalg.norm(a):.3f} (image) and {np.linalg.norm(b):.3f} (text)\n")
    if not write:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    queries, others = dev.captions[:, 1], ~np.eye(len(images), dtype=bool)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    _, _, axes = np.linalg.svd(np.vstack([images, texts]) - (a + b) / 2, full_matrices=False)
    for name, rows, colour in (("text", texts, "#2a6f97"), ("image", images, "#e07a5f")):
        left.scatter(*((rows - (a + b) / 2) @ axes[:2].T).T, s=6, alpha=0.5, color=colour, label=name)
        similarity = queries @ rows.T
        right.hist(similarity[others], bins=80, density=True, alpha=0.35, color=colour, label=f"another {name}")
        right.hist(np.diag(similarity), bins=40, density=True, histtype="step", color=colour, label=f"the right {name}")
    left.set(title="two first directions of the vectors")
    right.set(title="cosine of a caption to …", xlim=(-0.3, 1))
    left.legend(frameon=False)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("mini_mix", main(options.data, options.write), options.write))
