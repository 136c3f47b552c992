"""Documents in and out of the database, with their raw vectors: the truth that everything else is made from."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.search.database import Database
from isthmus.search.facts import as_json, facts
from isthmus.search.filters import Condition
from isthmus.types import Matrix, Rows, Vectors

AT_ONCE = 500  # question marks in one statement
FILTERS = 8  # whose rows are kept
BLOCK = 2048  # documents whose vectors are read at once


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


@dataclass(slots=True, eq=False)
class Store:
    """What a collection holds. Everything that changes it happens inside ``changing``."""

    database: Database
    _filtered: dict[tuple[object, ...], Rows] = field(default_factory=dict)

    def put(self, connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[int]:
        """Add documents, in place of those with the same ids; return the new rows."""
        self.remove(connection, [entry.document.id for entry in entries])
        return [self._insert(connection, entry) for entry in entries]

    def _insert(self, connection: sqlite3.Connection, entry: Entry) -> int:
        document = entry.document
        kept = document.image if isinstance(document.image, bytes) else None
        path = None if document.image is None or kept is not None else _path(str(document.image))
        metadata = as_json(document.metadata, f"Document {document.id!r}")
        hashes = (entry.text_hash, entry.image_hash, entry.own_hash)
        values = (document.id, entry.modality, document.text, path, metadata, *hashes)
        pieces = [stored(piece) for piece in entry.pieces]
        row = connection.execute(
            "INSERT INTO documents (id, modality, text, image, metadata, text_hash, image_hash, own_hash, unit, run, "
            "checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, entry.unit, entry.run, checksum(values, kept, pieces)),
        ).lastrowid
        if row is None:
            raise sqlite3.DatabaseError("no row was given")
        connection.executemany(
            "INSERT INTO vectors (document, part, passage, start, stop, vector) VALUES (?, ?, ?, ?, ?, ?)",
            ((row, *piece) for piece in pieces),
        )
        if kept is not None:
            connection.execute("INSERT INTO blobs VALUES (?, ?)", (row, kept))
        known = ((name, value, row) for name, value in set(facts(document.metadata)))
        connection.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?, ?)", known)
        if document.text:
            connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, document.text))
        return row

    def remove(self, connection: sqlite3.Connection, ids: Sequence[str]) -> list[str]:
        """Take documents out; return the ids of those that were there."""
        found: list[Any] = []
        for some in several(ids):
            marks = ",".join("?" * len(some))
            statement = f"SELECT row, id, text FROM documents WHERE id IN ({marks})"
            found += connection.execute(statement, some).fetchall()
        sequence = self.database.sequence()
        for row, _, text in found:
            if text:
                connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (row, text))
            for table in ("vectors", "blobs", "facts"):
                connection.execute(f"DELETE FROM {table} WHERE document = ?", (row,))
            connection.execute("DELETE FROM documents WHERE row = ?", (row,))
            connection.execute("INSERT INTO gone VALUES (?, ?)", (row, sequence + 1))
        return [str(name) for _, name, _ in found]

    def touched(self, connection: sqlite3.Connection, statistics: Statistics) -> None:
        """Note that documents changed, and the statistics of what is there now."""
        connection.execute("UPDATE manifest SET value = value + 1 WHERE name = 'sequence'")
        connection.execute("INSERT OR REPLACE INTO manifest VALUES ('statistics', ?)", (statistics.to_bytes(),))

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that a filter lets through; those of the last few filters are kept until documents change."""
        key = (self.database.sequence(), condition.sql, condition.values)
        found = self._filtered.get(key)
        if found is None:
            rows = self.database.all(condition.sql, *condition.values)
            found = np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))
            self._filtered = {**dict(list(self._filtered.items())[1 - FILTERS :]), key: found}
        return found

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which follow every change."""
        found = self.database.one("SELECT value FROM manifest WHERE name = 'statistics'")
        return Statistics.from_bytes(found[0]) if found else Statistics({})

    def count(self) -> int:
        """Return how many documents there are."""
        return int(self.database.one("SELECT count(*) FROM documents")[0])

    def counts(self) -> dict[str, int]:
        """Return how many documents each modality has."""
        return dict(self.database.all("SELECT modality, count(*) FROM documents GROUP BY modality ORDER BY modality"))

    def modalities(self) -> set[str]:
        """Return the modalities there are, without counting their documents."""
        found: set[str] = set()
        after = ""
        statement = "SELECT min(modality) FROM documents WHERE modality > ?"
        while (row := self.database.one(statement, after)) and row[0] is not None:
            found.add(after := str(row[0]))
        return found

    def parts(self) -> set[str]:
        """Return the parts that documents have vectors for."""
        return set(self.statistics().parts)

    def fields(self) -> list[str]:
        """Return the names of the metadata, at the cost of one look into the index for each."""
        found: list[str] = []
        statement = "SELECT min(name) FROM facts WHERE name > ?"
        while (row := self.database.one(statement, found[-1] if found else "")) and row[0] is not None:
            found.append(str(row[0]))
        return found

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents that hold the very same parts as this one, itself among them."""
        hashes = "SELECT text_hash, image_hash, own_hash FROM documents WHERE row = ?"
        mine = self.database.one(hashes, row)
        column = next(
            (name for name, value in zip(("text_hash", "image_hash"), mine or (), strict=False) if value), None
        )
        if column is None:
            return {row}
        statement = f"SELECT row, text_hash, image_hash, own_hash FROM documents WHERE {column} = ? LIMIT {AT_ONCE}"
        rows = self.database.all(statement, next(value for value in mine if value))
        return {row, *(other for other, *theirs in rows if tuple(theirs) == tuple(mine))}

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that is there."""
        found: dict[str, int] = {}
        for some in several(list(ids)):
            marks = ",".join("?" * len(some))
            found |= dict(self.database.all(f"SELECT id, row FROM documents WHERE id IN ({marks})", *some))
        return found

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        found: set[int] = set()
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            statement = f"SELECT row FROM documents WHERE text IS NOT NULL AND row IN ({marks})"
            found |= {row for (row,) in self.database.all(statement, *some)}
        return found

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the pictures that are kept here."""
        found: dict[int, Document] = {}
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            statement = (
                "SELECT d.row, d.id, d.text, d.image, b.image, d.metadata, d.own_hash "
                f"FROM documents d LEFT JOIN blobs b ON b.document = d.row WHERE d.row IN ({marks})"
            )
            for row, name, text, path, blob, metadata, own in self.database.all(statement, *some):
                vectors = self.own(row, own) if own else {}
                if own and not vectors:
                    continue  # it has gone since the statement ran
                image = blob if path is None else os.fsdecode(path)
                found[row] = Document.restored(name, text, image, json.loads(metadata), vectors)
        return found

    def own(self, row: int, digest: bytes) -> dict[str, Matrix]:
        """Return the vectors that the document brought itself: those of its parts that have the hash of them."""
        pieces = self.database.all("SELECT part, vector FROM vectors WHERE document = ? ORDER BY part", row)
        counts = Counter(part for part, _ in pieces)
        single = [(part, _vector(blob)) for part, blob in pieces if counts[part] == 1]
        for size in range(len(single), 0, -1):
            for some in combinations(single, size):
                if own_hash(dict(some)) == digest:
                    return dict(some)
        return {}

    def pieces(self, rows: Sequence[int]) -> dict[int, list[Piece]]:
        """Return the stored vectors of these documents."""
        found: dict[int, list[Piece]] = defaultdict(list)
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            columns = "document, part, vector, passage, start, stop"
            statement = f"SELECT {columns} FROM vectors WHERE document IN ({marks}) ORDER BY row"
            for row, part, blob, passage, start, stop in self.database.all(statement, *some):
                found[row].append(Piece(part, _vector(blob), passage, start, stop))
        return found

    def blocks(self, after: int = -1, last: int | None = None, size: int = BLOCK) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, never more than a block at a time."""
        documents = "SELECT row, id FROM documents WHERE row > ?1 AND row <= ?2 ORDER BY row LIMIT ?3"
        last = self.last() if last is None else last
        while rows := self.database.all(documents, after, last, size):
            block = self._block(rows)
            if len(block.rows):
                yield block
            after = rows[-1][0]

    def last(self) -> int:
        """Return the row of the document that was added last; -1 when there is none."""
        return int(self.database.one("SELECT coalesce(max(row), -1) FROM documents")[0])

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        found = {row: name for name, row in self._named(rows)}
        ordered = [(row, found[row]) for row in sorted(found)]
        return self._block(ordered)

    def _named(self, rows: Sequence[int]) -> list[tuple[str, int]]:
        named: list[tuple[str, int]] = []
        for some in several([int(row) for row in rows]):
            marks = ",".join("?" * len(some))
            named += self.database.all(f"SELECT id, row FROM documents WHERE row IN ({marks})", *some)
        return named

    def _block(self, named: Sequence[tuple[int, str]]) -> Block:
        pieces = self.pieces([row for row, _ in named])
        there = [(row, name) for row, name in named if row in pieces]  # another process may have taken one out
        rows = np.array([row for row, _ in there], dtype=np.intp)
        return Block(rows, [name for _, name in there], *assembled([pieces[row] for row, _ in there]))


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


def checksum(values: Sequence[object], kept: bytes | None, pieces: Iterable[Sequence[object]]) -> int:
    """Return a checksum of all that is stored of a document: its columns, its kept picture, its vectors."""
    total = 0
    for value in (*values, kept, *(value for piece in pieces for value in piece)):
        total = zlib.crc32(value if isinstance(value, bytes) else str(value).encode(), zlib.crc32(b"\0", total))
    return total


def stored(piece: Piece) -> tuple[str, int, int | None, int | None, bytes]:
    """Return a vector as the table of vectors keeps it."""
    return (piece.part, piece.passage, piece.start, piece.stop, _blob(piece.vector))


def own_hash(vectors: Mapping[str, Matrix]) -> bytes:
    """Return what tells a document's own vectors from others."""
    return hashlib.sha256(b"".join(part.encode() + _blob(vectors[part]) for part in sorted(vectors))).digest()


def _path(path: str) -> str | bytes:
    """Return a path as the database can keep it: bytes where its name is no text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _blob(vector: Matrix) -> bytes:
    return np.asarray(vector, dtype="<f4").tobytes()


def _vector(blob: bytes) -> Matrix:
    return np.frombuffer(blob, dtype="<f4")


def several(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut values into stretches that one statement takes."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]
