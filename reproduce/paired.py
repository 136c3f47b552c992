"""GR-CLIP's experiments on any paired set: things that have a text and another part each, and a query.

A set is ``Vectors`` in which every row has a text and one or more other parts: sounds and videos work as pictures do.
``replaced`` and ``mixed`` make corpora of it as the paper does, ``scores`` ranks them, ``measured`` counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus import calibration
from isthmus.calibration.rows import unit
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.evaluate.builders import penalized
from isthmus.types import Mask, Matrix, Rows, Vectors

TEXT = "text"
RAW, OWN, TRAIN = "none", "center, own means", "center, train means"
ONE = "center, one mean of texts"  # I0T without training: queries are texts like others
DOWN, BELOW = "none, push-down", "none, pushed below"
EACH = "each dimension standardised"
OURS = "center+nnn(k=16)+standardize"
TRAINED = 1000  # photos of Flickr8k's train split
MEASURES = ("nDCG@10", "nDCG@100", "R@1")


@dataclass(frozen=True)
class Paired:
    """Documents that have all parts, a query for each, reference queries, and documents of a training split.

    ``sources``: the document that a reference query is about, if it is one of these.
    """

    name: str
    documents: Vectors
    queries: Vectors
    references: Vectors
    train: Vectors
    sources: Rows | None = None

    def __len__(self) -> int:
        return len(self.documents)


def kept(documents: Vectors, text: Mask, other: Mask) -> Vectors:
    """Return the documents with the text of some and the other parts of some; fused equally where both are kept."""
    present = {part: mask & (text if part == TEXT else other) for part, mask in documents.present.items()}
    used = {part: mask for part, mask in present.items() if mask.any()}
    return Vectors({part: documents.parts[part] for part in used}, used)


def replaced(documents: Vectors, share: float, rng: np.random.Generator) -> Vectors:
    """Replace each text by its other part with this probability (Section 3.1)."""
    drawn = rng.random(len(documents)) < share
    return kept(documents, ~drawn, drawn)


def mixed(documents: Vectors, ratio: Sequence[float], rng: np.random.Generator) -> Vectors:
    """Make texts, other parts, and both, in this ratio (Section 5.1 and Appendix B.4)."""
    ends = np.rint(np.cumsum(ratio) / np.sum(ratio) * len(documents)).astype(int)
    kind = np.searchsorted(ends, rng.permutation(len(documents)), side="right")
    return kept(documents, kind != 1, kind != 0)


def scores(of: Paired, documents: Vectors, method: str) -> Matrix:
    """Return the scores of all documents for all queries, by the name of a method of this module or by a spec."""
    if method == EACH:
        return _standardised(of, documents)
    if method in (TRAIN, ONE):
        texts = Vectors.of(of.train.parts[TEXT][of.train.present[TEXT]], TEXT)
        fitted = calibration.fit("center", documents, of.references if method == TRAIN else texts, means=of.train)
    else:
        fitted = calibration.fit(method.partition(",")[0], documents, of.references, sources=of.sources)
    found = fitted.scores(of.queries, documents, sources=of.sources if fitted.spec.bias else None)
    other = documents.modality != TEXT
    if method == DOWN:  # equal scores in random order
        found = penalized(found, other, -2.0) + other * np.random.default_rng(0).random(found.shape)
    return found - 2.0 * other if method == BELOW else found


def measured(found: Matrix) -> dict[str, float]:
    """Return the measures of queries whose right document has their own number."""
    own = np.arange(len(found))
    right = found[own, own][:, None]
    before = np.arange(found.shape[1])[None, :] < own[:, None]
    rank = 1 + (found > right).sum(axis=1) + ((found == right) & before).sum(axis=1)
    gain = 1 / np.log2(1 + rank)
    values = (gain * (rank <= 10), gain * (rank <= 100), rank == 1)
    return {name: float(value.mean()) for name, value in zip(MEASURES, values, strict=True)}


def means(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Average the measures of several draws."""
    return {name: float(np.mean([each[name] for each in several])) for name in several[0]}


def clip(data: Path) -> Paired:
    """CLIP ViT-B/32: 100 Flickr8k photos; caption 0 asks, caption 1 is the text, captions 2 to 4 are references.

    The training split is 990 other photos, and the references as texts: there are no captions of other photos.
    """
    held = np.load(data / "emb/clip_pairs.npz")
    captions = held["f8k_txt"].astype(np.float32).reshape(100, 5, -1)
    photos = held["f8k_img"].astype(np.float32)
    others = captions[:, 2:].reshape(300, -1)
    return Paired(
        "CLIP",
        Vectors({TEXT: captions[:, 1], "image": photos[:100]}),
        Vectors.of(captions[:, 0], TEXT),
        Vectors.of(others, TEXT),
        Vectors.concat([Vectors.of(others, TEXT), Vectors.of(photos[100:], "image")]),
        np.repeat(np.arange(100), 3),
    )


def mini(encoder: Encoder, data: Path) -> Paired:
    """``mini``: Flickr8k's test split in the same way; references and means are of 1,000 photos of the train split."""
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", HOME)
    both: dict[str, tuple[Vectors, Vectors]] = {}
    for name, size in (("test", None), ("train", TRAINED)):
        photos = split(folder, name)[:size]
        shown = encoder.encode_documents([Document(photo.id, photo.captions[1], photo.image) for photo in photos])
        both[name] = shown, encoder.encode_queries([Query(photo.captions[0]) for photo in photos])
    return Paired("mini", *both["test"], both["train"][1], both["train"][0])


def _standardised(of: Paired, documents: Vectors) -> Matrix:
    """Score vectors whose every dimension has mean 0 and deviation 1 over the training split, by part."""

    def fused(vectors: Vectors, origin: Vectors) -> Matrix:
        total = np.zeros((len(vectors), vectors.dim))
        for part in (name for name, there in vectors.present.items() if there.any()):
            there = vectors.present[part]
            seen = unit(origin.parts[part][origin.present[part]].astype(np.float64))
            rows = unit(vectors.parts[part][there].astype(np.float64))
            total[there] += unit((rows - seen.mean(axis=0)) / seen.std(axis=0))
        return unit(total)

    return fused(of.queries, of.references) @ fused(documents, of.train).T
