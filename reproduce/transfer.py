"""Means of other data, as in GR-CLIP: what centring loses with means of other data, and of fewer vectors.

    python reproduce/transfer.py --data DIR        (needs flickr8k/, mix/ and emb/clip_pairs.npz)

*CLIP*: the mixed corpus of ``clip_f8k.py``; means of other Flickr8k photos and captions, or of Unsplash's. *mini*: the
mixed corpus of ``mini_mix.py``; means of 1,000 photos of Flickr8k's train split with two captions each, or of the
built-in bank. Means of 100 and of 30 are averages over 10 draws. The calibrations above are fitted as in those scripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.benchmarks.flickr8k import HOME, split
from isthmus.types import Matrix, Vectors

SIZES = (100, 30)
DRAWS = 10
TRAIN = 1000


@dataclass(frozen=True)
class Origin:
    """Vectors that means are taken from."""

    name: str
    images: Matrix
    texts: Matrix
    queries: Matrix


def described(mixed: Mixed, fitted: Fitted) -> dict[str, float]:
    """Return the row of one ranking."""
    scores, image = mixed.scores(fitted), mixed.kind == "image"
    order = np.argsort(-scores, axis=1, kind="stable")
    rank = np.argsort(order, axis=1) + 1
    return {
        "nDCG@10": float(ndcg_at_10(scores, mixed.relevant).mean()),
        "images in top 10": float(image[order[:, :10]].mean()),
        "median rank of the image": float(np.median(rank[mixed.relevant & image])),
    }


def row(mixed: Mixed, name: str, fits: Sequence[Fitted]) -> Row:
    """Return the mean row of several fits."""
    told = [described(mixed, fitted) for fitted in fits]
    means = {column: float(np.mean([each[column] for each in told])) for column in told[0]}
    return {"corpus": mixed.name, "calibration": name, **means}


def centred(documents: Origin, queries: Origin, size: int | None = None) -> list[Fitted]:
    """Centre with the means of these documents and queries, or of several draws of some of them."""
    rng = np.random.default_rng(0)
    fits = []
    for _ in range(DRAWS if size else 1):
        several = documents.images, documents.texts, queries.queries
        images, texts, asked = (rows[rng.permutation(len(rows))[:size]] for rows in several)
        seen = Vectors.concat([Vectors.of(images, "image"), Vectors.of(texts, "text")])
        fits.append(calibration.fit("center", seen, Vectors.of(asked, "text")))
    return fits


def table(mixed: Mixed, alike: Origin, other: Origin) -> Iterator[Row]:
    """Yield every calibration, then centring with means of similar data, of other data, and of both."""
    for spec in SINGLE:
        yield row(mixed, spec, [mixed.fit(spec)])
    for origin in (alike, other):
        for size in (None, *SIZES):
            counts = f"{len(origin.images)} pictures, {len(origin.texts)} texts"
            yield row(mixed, f"center, means of {size or counts} of {origin.name}", centred(origin, origin, size))
    for seen, asked in ((other, alike), (alike, other)):
        yield row(mixed, f"center, documents of {seen.name}, queries of {asked.name}", centred(seen, asked))


def clip(data: Path) -> Iterator[Row]:
    """Centre CLIP's vectors with means of Flickr8k and of Unsplash."""
    mixed = corpora.clip(data)
    held = {
        name: rows.astype(np.float32) for name, rows in np.load(data / "emb/clip_pairs.npz").items() if rows.ndim > 1
    }
    said = mixed.asked.parts["text"]
    alike = Origin("Flickr8k", held["f8k_img"][100:], said, said)
    yield from table(mixed, alike, Origin("Unsplash", held["unsplash500_img"], *[held["unsplash500_txt"]] * 2))


def mini(encoder: Encoder, data: Path) -> Iterator[Row]:
    """Centre ``mini``'s vectors with means of Flickr8k's train split and of the built-in bank."""
    photos = split(BenchmarkFolder(data / "flickr8k", "flickr8k", HOME), "train")[:TRAIN]
    shown = encoder.encode_documents([Document(photo.id, image=photo.image) for photo in photos]).parts["image"]
    said, asked = (encoder.encode_queries([Query(photo.captions[n]) for photo in photos]).parts["text"] for n in (0, 1))
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES)
    images, texts = (bank.parts[part][bank.modality == part] for part in ("image", "text"))
    yield from table(
        corpora.mini(encoder, data), Origin("Flickr8k", shown, said, asked), Origin("the bank", images, texts, texts)
    )


if __name__ == "__main__":
    options = arguments(__doc__)
    rows = [*clip(options.data), *mini(encoders.load("mini", batch=64), options.data)]
    raise SystemExit(compared("transfer", rows, options.write))
