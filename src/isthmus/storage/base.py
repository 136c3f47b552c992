"""What every engine stores, as plain values: documents with their vectors, units, calibrations, states."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from isthmus.documents import Document
from isthmus.errors import counted
from isthmus.types import Matrix, Rows, Vectors

# A running transaction, handed from ``writing()`` to methods of the same engine; nobody else looks inside.
Transaction: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class State:
    """Which state of the documents something was made from: how many changes, and the token of the last of them."""

    sequence: int
    token: str


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One vector of a document: of a part, or of one passage of its text."""

    part: str
    vector: Matrix
    passage: int = 0
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A document, its vectors, and what they were made from."""

    document: Document
    pieces: Sequence[Piece]
    text_hash: bytes | None = None
    image_hash: bytes | None = None
    own_hash: bytes | None = None
    unit: int | None = None
    run: int | None = None

    @property
    def modality(self) -> str:
        """The parts that have a vector: a part that nobody encoded cannot be found."""
        return "+".join(sorted({atom for piece in self.pieces for atom in piece.part.split("+")}))


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some documents' vectors: ``vectors`` has a row per passage, ``owner`` says whose, by place in ``rows``."""

    rows: Rows  # the documents' row numbers in the store
    ids: list[str]
    vectors: Vectors
    owner: Rows


@dataclass(frozen=True, slots=True)
class Columns:
    """What is stored of a document beside its vectors, as far as a re-encoding needs it."""

    id: str
    text: str | None
    image: str | bytes | None
    metadata: str
    modality: str
    image_hash: bytes | None


@dataclass(frozen=True, slots=True)
class Unit:
    """A file (or a picture with its sidecars, a shard) that documents came from."""

    number: int
    key: str
    stamp: str | None


@dataclass(frozen=True, slots=True)
class Holder:
    """Which file and which run a document came with, and when that file was last met."""

    unit: int | None
    run: int | None
    root: str | None
    unit_run: int | None


@dataclass(frozen=True, slots=True, eq=False)
class StoredCalibration:
    """A fitted calibration as it is stored: ``fitted`` in the format of ``calibration.storage``, ``extras`` as JSON."""

    version: int
    made: str
    spec: str
    sequence: int
    fitted: bytes
    extras: str


@dataclass(frozen=True, slots=True)
class Begun:
    """A re-encoding that was begun and not finished."""

    encoder: str
    done: int
    documents: int

    def __str__(self) -> str:
        return f"{self.done:,} of {counted(self.documents, 'document')} re-encoded with {self.encoder}"


@dataclass(frozen=True, slots=True)
class Compacted:
    """The size of the store in bytes, before and after, and whether the index of words was damaged and made again."""

    before: int
    after: int
    words_rebuilt: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that share words with a query, best first, and their share of what could be had."""

    documents: list[int]
    share: Matrix

    def joined(self, other: Found) -> Found:
        """Return the documents of both."""
        return Found([*self.documents, *other.documents], np.concatenate([self.share, other.share]))

    def of(self, documents: Sequence[int]) -> Matrix:
        """Return the share of each of these documents; 0 where no word is shared."""
        table = dict(zip(self.documents, self.share.tolist(), strict=True))
        return np.array([table.get(int(row), 0.0) for row in documents])


def assembled(documents: Sequence[Sequence[Piece]]) -> tuple[Vectors, Rows]:
    """Lay documents' pieces out as rows: one per passage, each with the document's other parts beside it."""
    passages = [max(piece.passage for piece in pieces) + 1 for pieces in documents]
    owner = np.repeat(np.arange(len(documents)), passages)
    first = np.concatenate([[0], np.cumsum(passages)])[:-1].astype(np.intp)
    dim = len(documents[0][0].vector) if documents else 1
    parts: dict[str, Matrix] = {}
    present: dict[str, Any] = {}
    for place, pieces in enumerate(documents):
        split = {piece.part for piece in pieces if piece.passage}  # the part that has several passages
        for piece in pieces:
            if piece.part not in parts:
                parts[piece.part] = np.zeros((len(owner), dim), dtype=np.float32)
                present[piece.part] = np.zeros(len(owner), dtype=bool)
            start = int(first[place])
            rows = slice(start, start + passages[place])
            if piece.part in split:
                rows = slice(start + piece.passage, start + piece.passage + 1)
            parts[piece.part][rows] = piece.vector
            present[piece.part][rows] = True
    return Vectors(parts or {"text": np.zeros((0, dim), np.float32)}, present), owner


def own_hash(vectors: Mapping[str, Matrix]) -> bytes:
    """Return what tells a document's own vectors from others."""
    return hashlib.sha256(b"".join(part.encode() + blob(vectors[part]) for part in sorted(vectors))).digest()


def own_vectors(pieces: Sequence[tuple[str, Matrix]], digest: bytes) -> dict[str, Matrix]:
    """Return those of a document's vectors, (part, vector), that it brought itself: the ones that have this hash."""
    counts = Counter(part for part, _ in pieces)
    single = [(part, vector) for part, vector in pieces if counts[part] == 1]
    for size in range(len(single), 0, -1):
        for some in combinations(single, size):
            if own_hash(dict(some)) == digest:
                return dict(some)
    return {}


def blob(vector: Matrix) -> bytes:
    """Return a vector as bytes: float32, little-endian."""
    return np.asarray(vector, dtype="<f4").tobytes()
