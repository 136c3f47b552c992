"""An encoder of texts that keeps vectors: of documents in a folder, so that a script can be run again in minutes.

Queries may have a picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows, Vectors


class Kept:
    """The encoder, with vectors of passages read from ``folder`` if they were computed before; None: never."""

    def __init__(self, encoder: Encoder, folder: Path | None) -> None:
        self.encoder, self.folder = encoder, folder
        self.name, self.dim, self.modalities = encoder.name, encoder.dim, encoder.modalities
        self.identity = encoder.identity
        self.known: dict[str, Matrix] = {}  # the vectors of queries
        self.pictures: dict[Any, Matrix] = {}  # those of their pictures
        self.read: dict[str, tuple[Vectors, Rows]] = {}  # those of passages, without a folder

    def encode_queries(self, queries: Sequence[str | Query]) -> Vectors:
        """Encode queries of words, and of words and a picture, each text and picture once."""
        texts = [Query.of(query).text or "" for query in queries]
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known |= dict(zip(new, self.encoder.encode_queries(new).parts["text"], strict=True))
        words = np.array([self.known[text] for text in texts])
        images = [Query.of(query).image for query in queries]
        if not any(images):
            return Vectors.of(words, "text")
        new = [image for image in dict.fromkeys(images) if image is not None and image not in self.pictures]
        if new:
            vectors = self.encoder.encode_queries([Query(image=image) for image in new]).parts["image"]
            self.pictures |= dict(zip(new, vectors, strict=True))
        there = np.array([image is not None for image in images])
        seen = np.array([words[row] if image is None else self.pictures[image] for row, image in enumerate(images)])
        return Vectors({"text": words, "image": seen}, present={"image": there})

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Encode documents as the encoder does."""
        return self.encoder.encode_documents(documents)

    def split(self, text: str) -> list[tuple[int, int]]:
        """Split a text as the encoder does."""
        return self.encoder.split(text)

    def encode_passages(
        self, documents: Sequence[Document], *, skip: Callable[[int, BadInput], None] | None = None
    ) -> tuple[Vectors, Rows]:
        """Return the vectors of texts by passage, and the document of each."""
        said = "\x00".join([str(self.identity), *(document.text or "" for document in documents)])
        key = hashlib.sha256(said.encode()).hexdigest()[:24]
        if self.folder is None:
            if key not in self.read:
                self.read = {key: self.encoder.encode_passages(documents, skip=skip)}
            return self.read[key]
        path = self.folder / f"{key}.npz"
        if not path.exists():
            vectors, owner = self.encoder.encode_passages(documents, skip=skip)
            self.folder.mkdir(parents=True, exist_ok=True)
            np.savez(path, vectors=vectors.parts["text"], owner=owner)
        with np.load(path) as read:
            return Vectors.of(read["vectors"], "text"), read["owner"]
