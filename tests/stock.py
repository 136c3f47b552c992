"""Helpers for tests of collections: encoders that count, documents of all modalities, checks of the store itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import part_identity
from isthmus.encoders.base import Skip
from isthmus.storage.sqlite.database import Database
from isthmus.types import Matrix, Rows, Vectors
from tiny import WORDS

FILE = "collection.sqlite"


@dataclass(eq=False)
class Counting:
    """An encoder that wraps another and records its inputs."""

    inner: Encoder
    texts: list[str] = field(default_factory=list)
    images: int = 0
    before_queries: Callable[[], object] = lambda: None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def identity(self) -> str:
        return self.inner.identity

    @property
    def identities(self) -> dict[str, str]:
        return {part: part_identity(self.inner, part) for part in ("image", "text")}

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def modalities(self) -> tuple[str, ...]:
        return self.inner.modalities

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        return self.inner.encode_documents(documents)

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        self.texts += [document.text for document in documents if document.text]
        self.images += sum(document.image is not None for document in documents)
        return self.inner.encode_passages(documents, skip=skip)

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        self.before_queries()
        return self.inner.encode_queries(queries)

    def split(self, text: str) -> list[tuple[int, int]]:
        return self.inner.split(text)

    def took(self) -> tuple[int, int]:
        """Return how many texts and images came since the last call."""
        counts = len(self.texts), self.images
        self.texts, self.images = [], 0
        return counts


@dataclass(frozen=True, eq=False)
class Fusing:
    """An encoder that makes ONE vector of a document's text and image, from an encoder that makes two."""

    inner: Encoder
    name: str = "fusing"

    @property
    def identity(self) -> str:
        return f"fusing {self.inner.identity}"

    @property
    def dim(self) -> int:
        return self.inner.dim

    @property
    def modalities(self) -> tuple[str, ...]:
        return self.inner.modalities

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        return _one_for_both(self.inner.encode_documents(documents))

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        vectors, owner = self.inner.encode_passages(documents, skip=skip)
        return _one_for_both(vectors), owner

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        return _one_for_both(self.inner.encode_queries(queries))

    def split(self, text: str) -> list[tuple[int, int]]:
        return self.inner.split(text)


def _one_for_both(vectors: Vectors) -> Vectors:
    text, image = vectors.parts["text"], vectors.parts["image"]
    both = vectors.present["text"] & vectors.present["image"]
    fused = np.where(both[:, None], text + 0.7 * image + text * image, 1.0)  # no mean of the two
    present = {part: mask & ~both for part, mask in vectors.present.items()}
    return Vectors({**vectors.parts, "image+text": unit(fused)}, {**present, "image+text": both})


def pixels(seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)


def words(rng: np.random.Generator, count: int = 6) -> str:
    return " ".join(rng.choice(WORDS[4:14], count))


def mixed(count: int, seed: int = 0, long: bool = True) -> list[Document]:
    """Make documents of the three modalities in turn; every seventh text is several passages long."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(count):
        text = words(rng, 35 if long and i % 7 == 0 else 6) if i % 3 != 1 else None
        image = pixels(10_000 * seed + i) if i % 3 else None
        made.append(Document(f"d{seed}-{i}", text, image, {"number": i, "odd": bool(i % 2)}))
    return made


def own(vectors: Matrix, part: str = "text", metadata: Sequence[Mapping[str, Any]] | None = None) -> list[Document]:
    """Make documents of vectors alone."""
    said = metadata or [{}] * len(vectors)
    return [Document(f"v{i}", metadata=said[i], vectors={part: row}) for i, row in enumerate(vectors)]


def unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def dense(things: Collection, encoder: Encoder, documents: Sequence[Document], query: Query) -> dict[str, float]:
    """Score documents by the equations, using only the documents and the collection's fit."""
    calibrated = things.calibration
    assert calibrated is not None
    vectors, owner = encoder.encode_passages(documents)
    places = {document.id: place for place, document in enumerate(documents)}
    pairs = [(row, places[name]) for name, rows in calibrated.sources.items() if name in places for row in rows]
    known = np.array(pairs, dtype=np.intp).reshape(-1, 2) if pairs else None
    asked = encoder.encode_queries([query])
    scores = calibrated.fitted.scores(asked, vectors, owner=owner, sources=known)[0]
    return {document.id: float(score) for document, score in zip(documents, scores, strict=True)}


def database(things: Collection) -> Database:
    """Return the SQLite database of a collection in a folder."""
    found = things.store.database
    assert isinstance(found, Database)
    return found


def looked_at(folder: Path) -> list[str]:
    """Return inconsistencies of a store, by plain SQL; empty if there are none."""
    with sqlite3.connect(folder / FILE) as connection:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        found += [str(row) for row in connection.execute("PRAGMA foreign_key_check")]
        for said, statement in {
            "documents without vectors": "SELECT id FROM documents WHERE row NOT IN (SELECT document FROM segments)",
            "vectors of nobody": "SELECT row FROM segments WHERE document NOT IN (SELECT row FROM documents)",
            "facts of nobody": "SELECT name FROM facts WHERE document NOT IN (SELECT row FROM documents)",
            "pictures of nobody": "SELECT document FROM blobs WHERE document NOT IN (SELECT row FROM documents)",
            "words of nobody": "SELECT id FROM words_docsize WHERE id NOT IN (SELECT row FROM documents)",
            "parts of nobody": "SELECT row FROM parts WHERE document NOT IN (SELECT row FROM documents)",
            "texts without words": "SELECT row FROM texts WHERE row NOT IN (SELECT id FROM words_docsize)",
            "gone and there": "SELECT document FROM gone WHERE document IN (SELECT row FROM documents)",
            "parts that do not count from 0": "SELECT document FROM parts GROUP BY document "
            "HAVING max(number) + 1 != count(*)",
        }.items():
            found += [f"{said}: {row[0]}" for row in connection.execute(statement)]
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    connection.close()
    return found
