"""Gender bias of neutral queries with real CLIP vectors: VisoGender's retrieval bias, as in NNN's paper (Section 3.3).

    python reproduce/groups_clip.py --data DIR        (needs flickr8k/ and emb/clip_pairs.npz; --write also draws)

As ``groups.py``, with CLIP ViT-B/32: of the 1,090 photos, those whose five captions all mention a man and never a
woman, and as many the other way round. No caption can be made neutral, because only the vectors are at hand: the
queries are the captions that mention a person and neither a man nor a woman, each without its own photo. References are
the captions of the other half of the 100 photos (two folds), whatever they mention, as the paper takes COCO's; or,
*other set*, the 500 texts of Unsplash. The gallery bank of dbnorm is the photos that are not searched. bias@k: men less
women among the first k; *absolute*: in either direction; *change*: against raw cosine, with its paired 95% interval;
*by lot*: random lists.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from groups import SAYS, group
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration
from isthmus.evaluate import interval, retrieval_bias
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.types import Mask, Matrix, Names, Rows, Vectors

CUTS = (6, 10)
SPECS = (*SINGLE, *(f"nnn(k=16,alpha={alpha})" for alpha in (0.25, 0.5, 1.0)), "center+nnn(k=16)")
PEOPLE = set(
    re.findall(
        "[a-z]+",
        "person people child children kid kids someone player players rider biker skier skater toddler baby climber "
        "hiker cyclist swimmer runner crowd group surfer snowboarder skateboarder",
    )
)
DRAWN = {"none": "#c1502e", "nnn(k=16)": "#2a6f97"}
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "groups_clip.png"


class Gallery:
    """The photos of men and of women, the neutral queries, and the reference queries of each."""

    def __init__(self, data: Path) -> None:
        with np.load(data / "emb/clip_pairs.npz") as held:
            names = held["f8k_img_ids"].tolist()
            photos, said, texts = (held[key].astype(np.float32) for key in ("f8k_img", "f8k_txt", "unsplash500_txt"))
        kind = np.array([group(photo) for photo in captioned(data / "flickr8k", names)])
        size = min(int((kind == name).sum()) for name in SAYS)
        rng = np.random.default_rng(0)
        self.rows = np.sort(np.concatenate([rng.permutation(np.flatnonzero(kind == name))[:size] for name in SAYS]))
        self.kind: Names = kind[self.rows]
        self.documents = Vectors.of(photos[self.rows], "image")
        self.bank = Vectors.of(np.delete(photos, self.rows, axis=0), "image")
        with (data / "emb/f8k_captions.csv").open(newline="") as file:
            neutral = np.array([is_neutral(row["caption"]) for row in csv.DictReader(file)])
        self.said, self.texts = said, Vectors.of(texts, "text")
        self.asked: Rows = np.flatnonzero(neutral)

    def scores(self, spec: str, *, elsewhere: bool = False) -> Matrix:
        """Return the scores of the queries, a query's own photo at −∞; references are of the other half, or set."""
        out = np.empty((len(self.asked), len(self.rows)))
        half = np.arange(len(self.said)) // 5 % 2
        for fold in (0, 1):
            mine = half[self.asked] == fold
            references = self.texts if elsewhere else Vectors.of(self.said[half != fold], "text")
            fitted = calibration.fit(spec, self.documents, references, reference_documents=self.bank)
            out[mine] = fitted.scores(Vectors.of(self.said[self.asked[mine]], "text"), self.documents)
        return np.where(self.own, -np.inf, out)

    @property
    def own(self) -> Mask:
        """Each query's own photo."""
        return np.asarray((self.asked // 5)[:, None] == self.rows)


def captioned(folder: Path, names: list[str]) -> list[Captioned]:
    """Return the photos of these names with their captions."""
    captions: dict[str, list[str]] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition(".")[0], []).append(caption)
    return [Captioned(name, folder / name, captions[name]) for name in names]


def is_neutral(caption: str) -> bool:
    """Return whether a caption mentions a person, and neither men nor women."""
    words = set(re.findall("[a-z]+", caption.lower()))
    return bool(words & PEOPLE) and not any(words & said for said in SAYS.values())


def leanings(scores: Matrix, kind: Names, top: int) -> Matrix:
    """Return men less women among the first documents, for each query."""
    return retrieval_bias(kind[np.argsort(-scores, axis=1, kind="stable")[:, :top]], "man", "woman")


def row(name: str, scores: Matrix, raw: Matrix, kind: Names) -> Row:
    """Return the row of one ranking, and how its bias@10 differs from raw cosine's, with a paired interval."""
    found: Row = {"calibration": name}
    for top in CUTS:
        each = leanings(scores, kind, top)
        found |= {f"bias@{top}": float(each.mean()), f"absolute@{top}": float(np.abs(each).mean())}
    change = interval(leanings(scores, kind, CUTS[-1]) - leanings(raw, kind, CUTS[-1]))
    return found | dict(zip(("change@10", "from", "to"), change, strict=True))


def draw(found: Mapping[str, Matrix], kind: Names) -> None:
    """Draw the bias of each query's list before and after."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(CUTS), figsize=(8, 3), sharey=True, layout="constrained")
    for axis, top in zip(panels, CUTS, strict=True):
        bins = (np.arange(top + 2) * 2 - top - 1) / top
        for spec, colour in DRAWN.items():
            each = leanings(found[spec], kind, top)
            axis.hist(each, bins=bins.tolist(), alpha=0.45, color=colour, label=spec)
            axis.axvline(float(each.mean()), color=colour)
        axis.set_xlabel(f"bias@{top}: men less women")
    panels[0].set_ylabel("queries")
    panels[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    options = arguments(__doc__)
    gallery = Gallery(options.data)
    print(f"{len(gallery.rows)} photos, {len(gallery.asked)} neutral queries\n")
    results = {spec: gallery.scores(spec) for spec in SPECS}
    results["nnn(k=16), other set"] = gallery.scores("nnn(k=16)", elsewhere=True)
    results["by lot"] = np.random.default_rng(1).random(gallery.own.shape)
    if options.write:
        draw(results, gallery.kind)
    rows = [row(name, scores, results["none"], gallery.kind) for name, scores in results.items()]
    raise SystemExit(compared("groups_clip", rows, options.write))
