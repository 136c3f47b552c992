"""Means from elsewhere, as GR-CLIP takes them: what centring loses with means of other data, and of fewer of them.

    python reproduce/transfer.py --data DIR        (needs flickr8k/, mix/ and emb/clip_pairs.npz)

*CLIP*: the mixed corpus of ``clip_f8k.py``; means of other Flickr8k photos and captions, or of Unsplash's. *mini*: the
mixed corpus of ``mini_mix.py``; means of Flickr8k's dev and train splits, or of the built-in bank. Means of 30 and of
100 are averages over 10 draws. The other calibrations are there for comparison, fitted as in those two scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import corpora
import numpy as np
from corpora import Mixed
from tables import SINGLE, Row, arguments, compared

from isthmus import calibration, encoders
from isthmus.calibration import Fitted, ndcg_at_10
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.evaluate.benchmarks.files import Folder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.types import Matrix, Vectors

SIZES = (100, 30)
DRAWS = 10
TRAIN = 1000


def described(mixed: Mixed, fitted: Fitted) -> dict[str, float]:
    """Return what is told of one ranking."""
    scores, image = mixed.scores(fitted), mixed.kind == "image"
    order = np.argsort(-scores, axis=1, kind="stable")
    rank = np.argsort(order, axis=1) + 1
    return {
        "nDCG@10": float(ndcg_at_10(scores, mixed.relevant).mean()),
        "images in top 10": float(image[order[:, :10]].mean()),
        "median rank of the image": float(np.median(rank[mixed.relevant & image])),
    }


def row(mixed: Mixed, name: str, fits: Sequence[Fitted]) -> Row:
    """Return the means of what is told of several fits."""
    told = [described(mixed, fitted) for fitted in fits]
    means = {column: float(np.mean([each[column] for each in told])) for column in told[0]}
    return {"corpus": mixed.name, "calibration": name, **means}


def centred(images: Matrix, texts: Matrix, queries: Matrix, size: int | None = None) -> list[Fitted]:
    """Centre with the means of these images, texts and queries, or of several draws of some of them."""
    rng = np.random.default_rng(0)
    fits = []
    for _ in range(DRAWS if size else 1):
        some = [rows[rng.permutation(len(rows))[:size]] for rows in (images, texts, queries)]
        documents = Vectors.concat([Vectors.of(some[0], "image"), Vectors.of(some[1], "text")])
        fits.append(calibration.fit("center", documents, Vectors.of(some[2], "text")))
    return fits


def clip(data: Path) -> Iterator[Row]:
    """Centre CLIP's vectors with means of several origins."""
    mixed = corpora.clip(data)
    for spec in SINGLE:
        yield row(mixed, spec, [mixed.fit(spec)])
    held = np.load(data / "emb/clip_pairs.npz")
    photos = held["f8k_img"][100:], held["unsplash500_img"]
    texts = mixed.asked.parts["text"], held["unsplash500_txt"]
    for name, shown, said in zip(("Flickr8k", "Unsplash"), photos, texts, strict=True):
        for size in (None, *SIZES):
            title = f"center, means of {size or f'{len(shown)} photos, {len(said)} texts'} of {name}"
            yield row(mixed, title, centred(shown.astype(np.float32), said.astype(np.float32), said, size))


def mini(encoder: Encoder, data: Path) -> Iterator[Row]:
    """Centre ``mini``'s vectors with means of several origins."""
    mixed = corpora.mini(encoder, data)
    for spec in SINGLE:
        yield row(mixed, spec, [mixed.fit(spec)])
    yield row(mixed, "center, its own means", [calibration.fit("center", mixed.documents, mixed.asked)])
    photos = split(Folder(data / "flickr8k", "flickr8k", HOME), "train")[:TRAIN]
    shown = encoder.encode_documents([Document(photo.id, image=photo.image) for photo in photos]).parts["image"]
    said, asked = (encoder.encode_queries([Query(photo.captions[n]) for photo in photos]).parts["text"] for n in (0, 1))
    for size in (TRAIN, *SIZES):
        title = f"center, means of {size} of the train split"
        yield row(mixed, title, centred(shown, said, asked, size if size < TRAIN else None))
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES)
    shown, said = (bank.parts[part][bank.modality == part] for part in ("image", "text"))
    for size in (None, *SIZES):
        title = f"center, means of {size or f'{len(shown)} pictures, {len(said)} texts'} of the built-in bank"
        yield row(mixed, title, centred(shown, said, said, size))


if __name__ == "__main__":
    options = arguments(__doc__)
    rows = [*clip(options.data), *mini(encoders.load("mini", batch=64), options.data)]
    raise SystemExit(compared("transfer", rows, options.write))
