"""Packed test sets as documents: COCO's photos, drawings by name, scanned pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from isthmus.documents import Document, Query
from isthmus.train.data import coco, drawings, pages
from isthmus.train.data.packs import PackedPictures
from isthmus.types import Matrix, Vectors

DRAWINGS = ("clipart", "stamps", "emoji")


class PicturesAndWords(Protocol):
    """The part of an encoder that is measured here."""

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Encode pictures."""

    def encode_queries(self, queries: Sequence[Query]) -> Vectors:
        """Encode words."""


@dataclass(frozen=True)
class Pool:
    """Pictures, encoded, and the texts of each."""

    images: Matrix
    texts: list[list[str]]


def pool(encoder: PicturesAndWords, folder: Path, keep: Callable[[str], bool]) -> Pool:
    """Encode the pictures of a packed set whose names are kept."""
    chosen = PackedPictures.open(folder).select(keep)
    documents = [Document(id=name, image=each) for name, each in zip(chosen.names, chosen.files(), strict=True)]
    return Pool(encoder.encode_documents(documents).parts["image"], chosen.captions)


def photos(encoder: PicturesAndWords, packs: Path, split: str) -> Pool:
    """Encode COCO's dev or test photos."""
    return pool(encoder, packs / "coco", frozenset(coco.listed(split)).__contains__)


def named(encoder: PicturesAndWords, packs: Path, kind: str) -> Pool:
    """Encode the drawings of a kind whose names training never saw."""
    packed = PackedPictures.open(packs / kind)
    first = {name: texts[0] for name, texts in zip(packed.names, packed.captions, strict=True)}
    return pool(encoder, packs / kind, lambda name: drawings.held_out(first[name]))


def scans(encoder: PicturesAndWords, packs: Path) -> Pool:
    """Encode the pages that training never saw."""
    return pool(encoder, packs / "pages", pages.held_out)


def recall(encoder: PicturesAndWords, found: Pool, texts: int) -> dict[str, float]:
    """Measure the first ``texts`` texts of each picture: R@1 and R@10, and R@1 of pictures to any of them."""
    given = [(row, text) for row, several in enumerate(found.texts) for text in several[:texts]]
    owner = np.array([row for row, _ in given])
    queries = encoder.encode_queries([Query(text=text) for _, text in given]).parts["text"]
    similarity = queries @ found.images.T  # (n_texts, n_pictures)
    rank = (similarity > similarity[np.arange(len(owner)), owner][:, None]).sum(axis=1)
    back = owner[similarity.argmax(axis=0)] == np.arange(len(found.images))
    measured = {"text→image R@1": rank < 1, "text→image R@10": rank < 10, "image→text R@1": back}
    return {name: float(hit.mean()) for name, hit in measured.items()}
