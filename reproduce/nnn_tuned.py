"""NNN after fine-tuning, real CLIP vectors: the rows "ft." of the NNN paper's Tables 1 and 2, smaller.

    python reproduce/nnn_tuned.py --data DIR        (needs emb/clip_pairs.npz, torch: extra ``train``)

Only CLIP's vectors are here, so a linear map for photos and one for texts is trained on frozen vectors, as in
``gr_mixture.py``, at a rate of 5e-5 and at ten times that. *Flickr8k*: 50 photos with five captions each are trained on
and are the references; the other 50 are searched among 540 photos by caption 0, or find their five captions among 250
(with 490 more photos as references); then the other way round. *Unsplash*: one half of its 500 pairs is trained on and
provides the references, the other is searched; then the other way round. R@1 is the share of queries whose first
document is right, with 95% intervals by bootstrap; *gain* is the paired difference from ``none`` of the same vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gr_mixture import Heads, tune
from tables import Row, arguments, compared

from isthmus import calibration
from isthmus.evaluate import interval
from isthmus.types import Mask, Matrix, Rows, Vectors

SPECS = ("none", "dn", "qbnorm", "dbnorm", "nnn(k=16)", "nnn(k=128)")
RATES = (None, 5e-5, 5e-4)


class Half(NamedTuple):
    """Rows to search, by part, with the owner of each text; rows that were trained on; more photos, without texts."""

    images: Matrix
    texts: Matrix
    owner: Rows
    seen_images: Matrix
    seen_texts: Matrix
    seen_owner: Rows
    more: Matrix

    def trained(self, rate: float) -> Heads:
        """Train the maps on the rows that are not searched."""
        return tune(self.seen_images, self.seen_texts, self.seen_owner, rate)

    def moved(self, heads: Heads) -> Half:
        """Map all vectors."""
        return self._replace(
            images=self.images @ heads["image"],
            texts=self.texts @ heads["text"],
            seen_images=self.seen_images @ heads["image"],
            seen_texts=self.seen_texts @ heads["text"],
            more=self.more @ heads["image"],
        )

    def right(self, direction: str, spec: str) -> Matrix:
        """Return whether the first document of each query is right."""
        first = np.unique(self.owner, return_index=True)[1]  # caption 0 of each photo
        photos = Vectors.of(np.vstack([self.images, self.more]), "image")
        if direction == "text → image":
            documents, queries = photos, Vectors.of(self.texts[first], "text")
            relevant: Mask = np.eye(len(first), len(photos), dtype=bool)
            references, gallery = Vectors.of(self.seen_texts, "text"), Vectors.of(self.seen_images, "image")
        else:
            documents, queries = Vectors.of(self.texts, "text"), Vectors.of(self.images, "image")
            relevant = np.arange(len(first))[:, None] == self.owner
            seen = np.vstack([self.seen_images, self.more])
            references, gallery = Vectors.of(seen, "image"), Vectors.of(self.seen_texts, "text")
        fitted = calibration.fit(spec, documents, references, reference_documents=gallery)
        return calibration.recall_at_1(fitted.scores(queries, documents), relevant)


def halves(data: Path) -> dict[str, list[Half]]:
    """Return both halves of each set."""
    held = np.load(data / "emb/clip_pairs.npz")
    photos, captions, images, texts = (
        held[name].astype(np.float32) for name in ("f8k_img", "f8k_txt", "unsplash500_img", "unsplash500_txt")
    )
    captions = captions.reshape(100, 5, -1)
    five, one = np.repeat(np.arange(50), 5), np.arange(250)
    nothing = images[:0]
    flickr, unsplash = ((slice(0, n), slice(n, 2 * n)) for n in (50, 250))
    return {
        "Flickr8k": [
            Half(
                *(photos[here], captions[here].reshape(250, -1), five),
                *(photos[there], captions[there].reshape(250, -1), five),
                photos[100:590],
            )
            for here, there in (flickr, flickr[::-1])
        ],
        "Unsplash": [
            Half(images[here], texts[here], one, images[there], texts[there], one, nothing)
            for here, there in (unsplash, unsplash[::-1])
        ],
    }


def table(name: str, several: list[Half]) -> Iterator[Row]:
    """Yield a row per rate, direction and calibration."""
    for rate in RATES:
        moved = several if rate is None else [each.moved(each.trained(rate)) for each in several]
        for direction in ("text → image", "image → text"):
            found = {spec: np.concatenate([each.right(direction, spec) for each in moved]) for spec in SPECS}
            for spec, right in found.items():
                value, low, high = interval(right)
                gain = interval(right - found["none"])
                start: Row = {"set": name, "direction": direction, "tuned": f"{rate:.0e}" if rate else "no"}
                gains = {"gain": gain.value, "gain from": gain.low, "gain to": gain.high}
                yield {**start, "calibration": spec, "R@1": value, "from": low, "to": high, **gains}


if __name__ == "__main__":
    options = arguments(__doc__)
    rows = [row for name, several in halves(options.data).items() for row in table(name, several)]
    raise SystemExit(compared("nnn_tuned", rows, options.write))
