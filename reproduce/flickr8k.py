"""Flickr8k as documents and queries, for ``mini.py`` and ``mini_mix.py``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from packed import PicturesAndWords

from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.types import Matrix, Rows, Vectors


@dataclass(frozen=True)
class Split:
    """Photos and their five captions, encoded: ``(n, d)`` and ``(n, 5, d)``."""

    images: Matrix
    captions: Matrix


def photo(folder: Path, name: str) -> Path:
    """Return the file of a photo, with any extension."""
    return folder / "img224" / f"{Path(name).stem}.webp"


def split(encoder: PicturesAndWords, folder: Path, name: str) -> Split:
    """Encode a split: ``dev`` or ``test``."""
    captions: dict[str, list[str]] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition("#")[0], []).append(caption.strip())
    names = [n for n in (folder / f"Flickr_8k.{name}Images.txt").read_text("utf-8").split() if n in captions]
    images = encoder.encode_documents([Document(id=n, image=photo(folder, n)) for n in names]).parts["image"]
    texts = encoder.encode_queries([Query(text=c) for n in names for c in captions[n]]).parts["text"]
    return Split(images, texts.reshape(len(names), 5, -1))


def recall(encoded: Split) -> dict[str, float]:
    """Return R@1 and R@10 of captions to photos, and R@1 and R@10 of photos to any of their captions."""
    n = len(encoded.images)
    similarity = encoded.captions.reshape(n * 5, -1) @ encoded.images.T  # (5n, n)
    own = np.repeat(np.arange(n), 5)
    rank = (similarity > similarity[np.arange(5 * n), own][:, None]).sum(axis=1)
    best = similarity.T.reshape(n, n, 5)[np.arange(n), np.arange(n)].max(axis=1)
    back = (best[:, None] < similarity.T).sum(axis=1)
    measured = {"text→image R@1": rank < 1, "text→image R@10": rank < 10, "image→text R@1": back < 1}
    return {name: float(hit.mean()) for name, hit in measured.items()}


def mix(encoder: Encoder, data: Path) -> tuple[Vectors, Vectors, Rows]:
    """Encode the mixed corpus of the test split, its queries, and (query, document) pairs."""
    corpus = json.loads((data / "mix" / "flickr8k_mix.json").read_text("utf-8"))
    folder = data / "flickr8k"
    documents = [
        Document(id=d["id"], text=d.get("text"), image=photo(folder, d["image"]) if "image" in d else None)
        for d in corpus["docs"]
    ]
    row = {d.id: i for i, d in enumerate(documents)}
    right = np.array([(q, row[r]) for q, query in enumerate(corpus["queries"]) for r in query["rel"]])
    queries = encoder.encode_queries([Query(text=q["text"]) for q in corpus["queries"]])
    return encoder.encode_documents(documents), queries, right
