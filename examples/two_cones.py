"""The problem and its answer on a made-up corpus: one table, one picture.

    python examples/two_cones.py [--picture out/two_cones.png]

300 texts and 300 images of 12 kinds of scenes, encoded the way real dual encoders do it: each modality sits in a
cone of its own, images match their query less closely than texts do, and vague documents are near everything.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from isthmus import calibration
from isthmus.calibration.tune import ndcg_at_10
from isthmus.types import Matrix, Vectors

TOPICS, DIM = 600, 64
SPECS = ("none", "rrf", "center", "standardize", "nnn(k=16)", "center+nnn(k=16)+standardize", "learned", "auto")
TITLES = ("raw vectors: two cones", "centred: one cloud")


class Corpus:
    """Documents with one right query each; the encoder (``seed`` of the cones) is the same for every corpus."""

    def __init__(self, seed: int) -> None:
        encoder = np.random.default_rng(7)
        self.text_cone, self.image_cone = 1.6 * encoder.normal(size=(2, DIM))
        scenes = 1.3 * encoder.normal(size=(12, DIM))
        rng = np.random.default_rng(seed)
        scene, detail = scenes[rng.integers(0, 12, TOPICS)], rng.normal(size=(TOPICS, DIM))
        image = np.arange(TOPICS) % 2 == 1
        vague = rng.uniform(0.2, 1.2, size=(TOPICS, 1))  # little detail of its own: a hub for all of its scene
        noise = np.where(image, 1.4, 0.9)[:, None] * rng.normal(size=detail.shape)
        cone = np.where(image[:, None], self.image_cone, self.text_cone)
        self.documents = Vectors.of(scene + vague * (detail + noise) + cone, np.where(image, "image", "text"))
        said = 1.0 * rng.normal(size=detail.shape)
        self.queries = Vectors.of(scene + detail + said + self.text_cone, "text")
        self.right = np.arange(TOPICS)


def measured(scores: Matrix, documents: Vectors) -> tuple[float, float, float, float]:
    """Return the share of images in the top 10, and nDCG@10 overall, for texts and for images."""
    values = ndcg_at_10(scores, np.eye(TOPICS, dtype=bool))
    image = documents.modality == "image"
    top = np.argsort(-scores, axis=1)[:, :10]
    return float(image[top].mean()), float(values.mean()), float(values[~image].mean()), float(values[image].mean())


def table(asked: Corpus, references: Corpus) -> dict[str, calibration.Fitted]:
    print(f"{TOPICS // 2} texts + {TOPICS // 2} images, {TOPICS} queries in words, half of them about an image\n")
    print(f"{'':<42}images in              nDCG@10")
    print(f"{'calibration':<42}top 10       all    texts   images")
    fitted = {}
    for spec in SPECS:
        known = references.right if spec in ("learned", "auto") else None
        fitted[spec] = calibration.fit(
            spec, references.documents, references.queries, positives=known, sources=references.right
        )
        share, every, texts, images = measured(fitted[spec].scores(asked.queries, asked.documents), asked.documents)
        name = f"auto → {fitted[spec].spec}" if spec == "auto" else spec
        print(f"{name:<42}{share:>6.0%}{every:>11.3f}{texts:>9.3f}{images:>9.3f}")
    print(
        "\nRaw cosine finds no image at all. Centring brings the cones together; what is left are vague documents that"
        "\nare near everything, which the bias (nnn) takes away, and scales that differ, which standardize evens out."
    )
    return fitted


def draw(asked: Corpus, fitted: dict[str, calibration.Fitted], picture: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    colours = {"text": "#2a6f97", "image": "#e07a5f", "query": "#333333"}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.9), layout="constrained")
    for axis, spec, title in zip(axes[:2], ("none", "center"), TITLES, strict=True):
        x = fitted[spec].shift.documents(asked.documents, np.float64)
        q = fitted[spec].shift.queries(asked.queries, np.float64)
        cones = np.stack([asked.text_cone, asked.image_cone])
        plane, _ = np.linalg.qr(cones.T)
        for modality in ("text", "image"):
            rows = (x @ plane)[asked.documents.modality == modality]
            axis.scatter(*rows.T, s=8, alpha=0.6, label=f"{modality} documents", color=colours[modality])
        axis.scatter(*(q @ plane).T, s=6, alpha=0.35, label="queries", color=colours["query"], marker="x")
        axis.set(title=title, xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal")
    axes[0].legend(frameon=False, loc="lower left", fontsize=8)
    names = [spec for spec in SPECS if spec != "auto"]
    values = np.array([measured(fitted[n].scores(asked.queries, asked.documents), asked.documents)[2:] for n in names])
    place = np.arange(len(names))
    axes[2].barh(place - 0.2, values[:, 0], 0.4, color=colours["text"], label="texts")
    axes[2].barh(place + 0.2, values[:, 1], 0.4, color=colours["image"], label="images")
    axes[2].set_yticks(place, [n.replace("+nnn(k=16)+", "+nnn\n+") for n in names], fontsize=8)
    axes[2].invert_yaxis()
    axes[2].set(title="nDCG@10 by what was asked for", xlim=(0, 1))
    axes[2].legend(frameon=False, fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.06))
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=110)
    print(f"\nThe picture is in {picture}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("out/two_cones.png"))
    options = parser.parse_args()
    corpus = Corpus(seed=1)
    draw(corpus, table(corpus, Corpus(seed=2)), options.picture)
