"""Real CLIP vectors, a mixed corpus: the bias of raw cosine against images, and the effect of each calibration.

    python reproduce/clip_f8k.py --data DIR        (or ISTHMUS_DATA=DIR; needs emb/clip_pairs.npz)

Data: CLIP ViT-B/32 vectors of Flickr8k photos and captions. The corpus is 100 photos and, for each, one caption; the
queries are another caption of each, so that every query has one right image and one right text. Reference queries are
the other three captions; biases and statistics ignore the pairs with their own photo and caption. The gallery bank of
dbnorm is 990 other photos and 500 texts of another set.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration
from isthmus.calibration.tune import ndcg_at_10
from isthmus.types import Matrix, Vectors

SPECS = (
    *SINGLE,
    "qbnorm(dynamic=true)",
    "dbnorm(beta_gallery=20,beta_query=20)",
    "dbnorm(dynamic=true)",
    "center+standardize",
    "center+nnn(k=16)",
    "center+dbnorm",
    "standardize+nnn(k=16)",
    "nnn(k=16)+standardize",
    "center+standardize+nnn(k=16)",
    "center+nnn(k=16)+standardize",
    "learned",
    "center+learned",
    "auto",
)


class F8k:
    """The corpus, its queries, and which documents are right."""

    def __init__(self, data: Path) -> None:
        vectors = np.load(data / "emb" / "clip_pairs.npz")
        self.captions = vectors["f8k_txt"].astype(np.float32).reshape(100, 5, -1)
        photos = vectors["f8k_img"].astype(np.float32)
        kinds = np.repeat(["image", "text"], 100)
        self.documents = Vectors.of(np.vstack([photos[:100], self.captions[:, 1]]), kinds)
        self.queries = Vectors.of(self.captions[:, 0], "text")
        self.references = Vectors.of(self.captions[:, 2:].reshape(300, -1), "text")
        self.sources = [(q, q // 3 + offset) for q in range(300) for offset in (0, 100)]
        elsewhere = vectors["unsplash500_img"].astype(np.float32), vectors["unsplash500_txt"].astype(np.float32)
        self.elsewhere = Vectors.of(np.vstack(elsewhere), np.repeat(["image", "text"], 500))
        self.elsewhere_queries = Vectors.of(elsewhere[1], "text")
        gallery = np.vstack([photos[100:], elsewhere[1]])
        self.gallery = Vectors.of(gallery, np.repeat(["image", "text"], [len(photos) - 100, 500]))
        self.relevant = np.hstack([np.eye(100, dtype=bool)] * 2)

    def fit(self, spec: str) -> calibration.Fitted:
        """Fit on the reference queries; only methods that need known answers get them."""
        learns = "learned" in spec or spec == "auto"
        return calibration.fit(
            spec,
            self.documents,
            self.references,
            sources=self.sources,
            positives=self.sources if learns else None,
            reference_documents=self.gallery,
        )

    def row(self, name: str, scores: Matrix) -> Row:
        """Measure one matrix of scores."""
        rank = (-scores).argsort(axis=1, kind="stable").argsort(axis=1) + 1
        each = np.arange(100)
        return {
            "calibration": name,
            "images in top 10": float((rank[:, :100] <= 10).sum(axis=1).mean() / 10),
            "median rank of the image": float(np.median(rank[each, each])),
            "median rank of the text": float(np.median(rank[each, each + 100])),
            "nDCG@10": float(ndcg_at_10(scores, self.relevant).mean()),
        }


def main(data: Path) -> list[Row]:
    f8k = F8k(data)
    rows = []
    for spec in SPECS:
        fitted = f8k.fit(spec)
        name = f"auto = {fitted.spec}" if spec == "auto" else spec
        rows.append(f8k.row(name, fitted.scores(f8k.queries, f8k.documents, sources=f8k.sources)))
    other = calibration.fit("center", f8k.elsewhere, f8k.elsewhere_queries)
    rows.append(f8k.row("center, means of another set", other.scores(f8k.queries, f8k.documents)))
    fitted = f8k.fit("dbnorm(dynamic=true)")
    folded = fitted.fold(f8k.documents, sources=f8k.sources)
    asked = fitted.fold_queries(f8k.queries, active=fitted.activation(f8k.queries, folded))
    inner = asked.vectors @ folded.vectors.T
    rows.append(f8k.row("dbnorm(dynamic=true), folded", fitted.finish(inner, asked.modality, folded.modality)))
    return rows


if __name__ == "__main__":
    options = arguments(__doc__)
    raise SystemExit(compared("clip_f8k", main(options.data), options.write))
