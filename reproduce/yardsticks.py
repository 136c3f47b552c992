"""The mixed corpora that several scripts measure on: photos with captions, scanned pages, real CLIP vectors.

Each has a corpus for comparison: the same number of documents, all of one kind, so there is no gap. `alone` (each kind
searched separately) is easier for another reason: it has a third of the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from clip_f8k import F8k

from isthmus import encoders
from isthmus.documents import Document
from isthmus.evaluate import Corpus, References
from isthmus.evaluate.benchmarks import Benchmark, flickr8k, load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.evaluate.builders import MODALITIES
from isthmus.evaluate.encode import encoded
from isthmus.types import Vectors


@dataclass(frozen=True)
class Mixed:
    """A mixed corpus (or several in which each document is each kind in turn), and all of it as each single kind."""

    name: str
    corpora: Sequence[Corpus]
    one_kind: Mapping[str, Corpus]


def photos(data: Path) -> Mixed:
    """Flickr8k's mixed corpus with `mini`, calibrated on the dev split."""
    mix = load("flickr8k-mix", data)
    test = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "test")
    both = {key: photo for photo in test for key in (str(photo.image), photo.captions[0])}
    whole = [
        Document(each.id, photo.captions[0], photo.image)
        for each in mix.documents
        for photo in [both[str(each.image) if each.image is not None else str(each.text)]]
    ]
    return _with_mini("flickr8k-mix", mix, whole)


def pages(data: Path) -> Mixed:
    """DocVQA's pages with `mini`, a third each as text, picture and both; calibrated on other documents' pages."""
    return _with_mini("docvqa", load("docvqa:mixed,held-out", data), load("docvqa:held-out", data).documents)


def clip(data: Path) -> Mixed:
    """100 Flickr8k photos with CLIP ViT-B/32's vectors, each as text, as photo and as both in turn.

    Caption 0 is a document's text, 1 and 2 are queries, 3 and 4 references, kept apart from their own document.
    """
    held = np.load(data / "emb/clip_pairs.npz")
    images = held["f8k_img"][:100].astype(np.float32)
    captions = held["f8k_txt"].astype(np.float32).reshape(100, 5, -1)
    n = len(images)
    ids = [str(row) for row in range(n)]
    asked = [f"{row}:{caption}" for row in range(n) for caption in (1, 2)]
    known = References(
        queries=Vectors.of(captions[:, 3:].reshape(2 * n, -1), "text"),
        sources=np.repeat(np.arange(n), 2),
        gallery=F8k(data).gallery,
    )

    def corpus(kind: np.ndarray) -> Corpus:
        present = {"text": kind != "image", "image": kind != "text"}
        used = {part: there for part, there in present.items() if there.any()}
        parts = {"text": captions[:, 0], "image": images}
        return Corpus(
            document_ids=ids,
            documents=Vectors({part: parts[part] for part in used}, used),
            query_ids=asked,
            queries=Vectors.of(captions[:, 1:3].reshape(2 * n, -1), "text"),
            qrels={name: {name.partition(":")[0]: 1} for name in asked},
            references=known,
        )

    turns = [np.array([MODALITIES[(row + turn) % 3] for row in range(n)]) for turn in range(3)]
    return Mixed("clip-f8k", [corpus(turn) for turn in turns], {kind: corpus(np.full(n, kind)) for kind in MODALITIES})


CORPORA: dict[str, Callable[[Path], Mixed]] = {"flickr8k-mix": photos, "docvqa": pages, "clip-f8k": clip}


def _with_mini(name: str, mix: Benchmark, whole: Sequence[Document]) -> Mixed:
    mini = encoders.load("mini", batch=64)
    return Mixed(
        name,
        [encoded(mix, mini, gallery=True)],
        {kind: encoded(replace(mix, documents=_as(whole, kind)), mini) for kind in MODALITIES},
    )


def _as(documents: Sequence[Document], kind: str) -> list[Document]:
    """Reduce each document to one kind; a document without that kind is not changed."""
    return [
        Document(each.id, each.text if kind != "image" else None, each.image if kind != "text" else None)
        if each.modality == "image+text"
        else each
        for each in documents
    ]
