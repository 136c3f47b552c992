"""An encoder of texts that keeps vectors: of documents in a folder, so that a script can be run again in minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

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

    def encode_queries(self, queries: Sequence[str | Query]) -> Vectors:
        """Encode queries of words, each once."""
        texts = [Query.of(query).text or "" for query in queries]
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            self.known |= dict(zip(new, self.encoder.encode_queries(new).parts["text"], strict=True))
        return Vectors.of(np.array([self.known[text] for text in texts]), "text")

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
        if self.folder is None:
            return self.encoder.encode_passages(documents, skip=skip)
        said = "\x00".join([str(self.identity), *(document.text or "" for document in documents)])
        path = self.folder / f"{hashlib.sha256(said.encode()).hexdigest()[:24]}.npz"
        if not path.exists():
            vectors, owner = self.encoder.encode_passages(documents, skip=skip)
            self.folder.mkdir(parents=True, exist_ok=True)
            np.savez(path, vectors=vectors.parts["text"], owner=owner)
        with np.load(path) as read:
            return Vectors.of(read["vectors"], "text"), read["owner"]
