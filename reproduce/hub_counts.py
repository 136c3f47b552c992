"""How many queries match each document first, before and after NNN: the NNN paper's Figures 2 and A2 and its Table 3.

    python reproduce/hub_counts.py --data DIR        (needs emb/clip_pairs.npz; --write also draws)

Real CLIP vectors. *Flickr8k, text → image*: captions 0 and 1 of 100 photos, asked of 1,090 photos; references are
captions 2 to 4, kept apart from their own photo. *Flickr8k, image → text*: 595 photos, asked of 500 captions;
references are 495 other photos. *Unsplash*: 250 texts asked of 500 photos, and the other way round; references are the
other 250, kept apart from their own pair. The gallery bank of dbnorm is the photos, or the texts, of the other set. N
is the number of queries whose first document it is: its excess kurtosis, its mean absolute distance from an even share
(MAE), its maximum; *never*: the share of documents that are never first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tables import Row, arguments, compared

from isthmus import calibration
from isthmus.diagnose.hubs import occurrences
from isthmus.types import Rows, Vectors

SPECS = ("none", "center", "dn", "qbnorm", "dbnorm", "nnn(k=16)", "nnn(k=128)")
DRAWN = {"none": "#c1502e", "nnn(k=16)": "#2a6f97"}
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "hub_counts.png"
Counts = dict[str, Rows]


class Search(NamedTuple):
    """Documents, queries, references, a gallery bank, and which reference belongs to which document."""

    documents: Vectors
    queries: Vectors
    references: Vectors
    gallery: Vectors
    own: Sequence[tuple[int, int]] = ()

    def counted(self) -> Counts:
        """Return how often each document is first, under each calibration."""
        sources = self.own or None
        found: Counts = {}
        for spec in SPECS:
            fitted = calibration.fit(
                spec, self.documents, self.references, sources=sources, reference_documents=self.gallery
            )
            scores = fitted.scores(self.queries, self.documents, sources=sources)
            found[spec] = occurrences(scores.argmax(axis=1)[:, None], len(self.documents))
        return found


def searches(data: Path) -> dict[str, Search]:
    """Return the searches by name."""
    with np.load(data / "emb/clip_pairs.npz") as held:
        photos, said, images, texts = (
            held[name].astype(np.float32) for name in ("f8k_img", "f8k_txt", "unsplash500_img", "unsplash500_txt")
        )
    captions = said.reshape(100, 5, -1)
    pairs = [(row, 2 * row + 1) for row in range(250)]
    return {
        "Flickr8k, text → image": Search(
            Vectors.of(photos, "image"),
            Vectors.of(captions[:, :2].reshape(200, -1), "text"),
            Vectors.of(captions[:, 2:].reshape(300, -1), "text"),
            Vectors.of(images, "image"),
            [(row, row // 3) for row in range(300)],
        ),
        "Flickr8k, image → text": Search(
            Vectors.of(said, "text"),
            Vectors.of(photos[:595], "image"),
            Vectors.of(photos[595:], "image"),
            Vectors.of(texts, "text"),
        ),
        "Unsplash, text → image": Search(
            Vectors.of(images, "image"),
            Vectors.of(texts[::2], "text"),
            Vectors.of(texts[1::2], "text"),
            Vectors.of(photos, "image"),
            pairs,
        ),
        "Unsplash, image → text": Search(
            Vectors.of(texts, "text"),
            Vectors.of(images[::2], "image"),
            Vectors.of(images[1::2], "image"),
            Vectors.of(said, "text"),
            pairs,
        ),
    }


def row(name: str, spec: str, counts: Rows) -> Row:
    """Describe the counts of one search."""
    centred = counts - counts.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return {
        "search": name,
        "calibration": spec,
        "kurtosis": float(np.mean(centred**4)) / spread**4 - 3,
        "MAE": float(np.abs(centred).mean()),
        "most": float(counts.max()),
        "never": float((counts == 0).mean()),
    }


def draw(found: Mapping[str, Counts]) -> None:
    """Draw how many documents are first for N queries, on a logarithmic scale."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(found), figsize=(11, 3), layout="constrained")
    for axis, (name, several) in zip(panels, found.items(), strict=True):
        most = max(int(several[spec].max()) for spec in DRAWN)
        for spec, colour in DRAWN.items():
            axis.hist(several[spec], bins=(np.arange(most + 2) - 0.5).tolist(), alpha=0.5, color=colour, label=spec)
        axis.set_yscale("log")
        axis.set_title(name, loc="left", fontsize=9)
    panels[0].set_ylabel("documents")
    panels[0].legend(frameon=False)
    figure.supxlabel("queries that match the document first", fontsize=9)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    results = {name: search.counted() for name, search in searches(options.data).items()}
    if options.write:
        draw(results)
    rows = [row(name, spec, counts) for name, several in results.items() for spec, counts in several.items()]
    raise SystemExit(compared("hub_counts", rows, options.write))
