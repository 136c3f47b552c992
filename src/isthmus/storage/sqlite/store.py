"""Documents in and out of the database, with their raw vectors: the truth that everything else is made from."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isthmus import checksums
from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import Block, Columns, Entry, Piece, State, assembled, blob, own_vectors
from isthmus.storage.facts import as_json, facts
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.calibrations import SqliteCalibrations
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.filters import compiled
from isthmus.storage.sqlite.ledger import SqliteLedger
from isthmus.storage.sqlite.query_log import SqliteQueries
from isthmus.storage.sqlite.words import SqliteWords
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows

AT_ONCE = 500  # question marks in one statement
FILTERS = 8  # whose rows are kept
BLOCK = 2048  # documents whose vectors are read at once

INSERT_VECTOR = (
    "INSERT INTO vectors (document, part, passage, start, stop, vector, checksum) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, seal(?1, ?2, ?3, ?4, ?5, ?6))"
)


@dataclass(slots=True, eq=False)
class SqliteStore:
    """What a collection holds. Everything that changes it happens inside ``changing``."""

    database: Database
    _filtered: dict[tuple[object, ...], Rows] = field(default_factory=dict)

    @property
    def ledger(self) -> SqliteLedger:
        """The files that documents came from, and what was skipped."""
        return SqliteLedger(self.database)

    @property
    def calibrations(self) -> SqliteCalibrations:
        """The fitted calibrations."""
        return SqliteCalibrations(self.database)

    @property
    def queries(self) -> SqliteQueries:
        """The log of queries, and those given for calibration."""
        return SqliteQueries(self.database)

    @property
    def words(self) -> SqliteWords:
        """BM25 over the texts."""
        return SqliteWords(self.database)

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
            "checksum, content, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
            "seal(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8), seal(?1, ?9, ?10))",
            (*values, entry.unit, entry.run, checksum(values, kept, pieces)),
        ).lastrowid
        if row is None:
            raise sqlite3.DatabaseError("no row was given")
        connection.executemany(INSERT_VECTOR, ((row, *piece) for piece in pieces))
        if kept is not None:
            connection.execute("INSERT INTO blobs VALUES (?1, ?2, seal(?1, ?2))", (row, kept))
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
        if found:
            deleted = self.database.manifest("deleted").get("deleted", 0)
            schema.put(connection, deleted=deleted + len(found))  # holes in the file, see compaction
        sequence = self.database.sequence()
        for row, _, text in found:
            if text:
                connection.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (row, text))
            for table in ("vectors", "blobs", "facts"):
                connection.execute(f"DELETE FROM {table} WHERE document = ?", (row,))
            connection.execute("DELETE FROM documents WHERE row = ?", (row,))
            connection.execute("INSERT INTO gone VALUES (?1, ?2, seal(?1, ?2))", (row, sequence + 1))
        return [str(name) for _, name, _ in found]

    def touched(self, connection: sqlite3.Connection, statistics: Statistics) -> None:
        """Note that documents changed, and the statistics of what is there now."""
        schema.changed(connection)
        schema.put(connection, statistics=statistics.to_bytes())

    def set_dim(self, connection: sqlite3.Connection, dim: int | None) -> None:
        """Note how many numbers a vector has."""
        schema.put(connection, dim=dim)

    def met(self, connection: sqlite3.Connection, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Note the file and the run in which unchanged documents were met: (file, run, id)."""
        statement = "UPDATE documents SET unit = ?1, run = ?2, origin = seal(id, ?1, ?2) WHERE id = ?3"
        connection.executemany(statement, seen)

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents, with ``but_run`` of those that this run has not met."""
        statement = f"SELECT id, origin IS {schema.ORIGIN} FROM documents WHERE unit = ?"
        if but_run is not None:
            statement += f" AND (run IS NULL OR run != {int(but_run)})"
        found = self.database.all(statement, number)
        for name, whole in found:
            if not whole:
                raise self._damaged(f"where document {name!r} came from")
        return [name for name, _ in found]

    def _damaged(self, what: str) -> BadFile:
        return BadFile(
            f"{self.database.path} is damaged: {what} does not match its checksum. `isthmus stats --verify` lists all "
            "that is damaged. Delete those documents or add them again, or restore the file from a copy."
        )

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that a filter lets through; those of the last few filters are kept until documents change."""
        query = compiled(condition)
        key = (self.database.sequence(), query.sql, query.values)
        found = self._filtered.get(key)
        if found is None:
            rows = self.database.all(query.sql, *query.values)
            found = np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))
            self._filtered = {**dict(list(self._filtered.items())[1 - FILTERS :]), key: found}
        return found

    def trim(self, sequence: int) -> None:
        """Forget what only an index older than a change needs to know; not now where somebody writes, or no room is."""
        with suppress(CannotWrite), self.database.writing(wait=False) as connection:
            connection.execute("DELETE FROM gone WHERE sequence <= ?", (sequence,))
            connection.execute("DELETE FROM states WHERE sequence < ?", (sequence,))

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which follow every change."""
        found = self.database.manifest("statistics")
        return Statistics.from_bytes(found["statistics"]) if found else Statistics({})

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

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that a filter lets through, in the order they were added."""
        query = compiled(condition)
        statement = f"SELECT id FROM documents WHERE row IN ({query.sql}) ORDER BY row"
        return [name for (name,) in self.database.all(statement, *query.values)]

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        return dict(self.database.all("SELECT row, id FROM documents"))

    def names_like(self, start: str) -> list[str]:
        """Return some ids that begin alike."""
        return [
            name for (name,) in self.database.all("SELECT id FROM documents WHERE id LIKE ? || '%' LIMIT 200", start)
        ]

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after one, in order."""
        return [
            row
            for (row,) in self.database.all(
                "SELECT row FROM documents WHERE row > ? ORDER BY row LIMIT ?", after, count
            )
        ]

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        where = "" if modality is None else " WHERE modality = ?"
        values = () if modality is None else (modality,)
        return [row for (row,) in self.database.all(f"SELECT row FROM documents{where} ORDER BY row", *values)]

    def rows_with(self, part: str, count: int) -> list[int]:
        """Return some documents that have a vector of a part."""
        statement = "SELECT DISTINCT document FROM vectors WHERE part = ? ORDER BY document LIMIT ?"
        return [row for (row,) in self.database.all(statement, part, count)]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the texts of these documents."""
        found: dict[int, str] = {}
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            found |= dict(self.database.all(f"SELECT row, text FROM documents WHERE row IN ({marks})", *some))
        return found

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents whose modality is none of these."""
        marks = ",".join("?" * len(known))
        statement = f"SELECT id, modality FROM documents WHERE modality NOT IN ({marks}) ORDER BY row"
        return self.database.all(statement, *known)

    def columns(self, rows: Sequence[int]) -> dict[int, Columns]:
        """Return what is stored of documents beside their vectors."""
        found: dict[int, Columns] = {}
        for some in several(rows):
            marks = ",".join("?" * len(some))
            names = "row, id, text, image, metadata, modality, image_hash"
            for row, *values in self.database.all(f"SELECT {names} FROM documents WHERE row IN ({marks})", *some):
                found[row] = Columns(*values)
        return found

    def hashes(self, row: int) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the hashes of a document's text, image and own vectors."""
        found = self.database.one("SELECT text_hash, image_hash, own_hash FROM documents WHERE row = ?", row)
        return found[0], found[1], found[2]

    def origin(self, name: str) -> tuple[int | None, int | None]:
        """Return the file and the run that a document came with."""
        unit, run = self.database.one("SELECT unit, run FROM documents WHERE id = ?", name)
        return unit, run

    def same_content(self, hashes: Mapping[str, bytes], count: int) -> list[tuple[int, bytes | None]]:
        """Return some documents, (row, hash of own vectors), whose text or image, by kind, has these hashes."""
        condition = " AND ".join(f"{kind}_hash = ?" for kind in hashes)
        statement = f"SELECT row, own_hash FROM documents WHERE {condition} LIMIT {int(count)}"
        return self.database.all(statement, *hashes.values())

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None when there is none."""
        statement = "SELECT row FROM documents WHERE modality = ? AND own_hash IS NULL LIMIT 1"
        found = self.database.one(statement, modality)
        return int(found[0]) if found else None

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

    def document(self, row: int) -> Document:
        """Return the document in a row that is known to be there."""
        found = self.documents([row])
        if row not in found:
            raise self._damaged(self._name(row))
        return found[row]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the pictures that are kept here."""
        found: dict[int, Document] = {}
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            statement = (
                f"SELECT row, id, text, image, metadata, own_hash, content IS {schema.CONTENT} "
                f"FROM documents WHERE row IN ({marks})"
            )
            pictures = self._blobs(some)
            for row, name, text, path, metadata, own, whole in self.database.all(statement, *some):
                if not whole:
                    raise self._damaged(f"document {name!r}")
                vectors = self.own(row, own) if own else {}
                if own and not vectors:
                    continue  # it has gone since the statement ran
                image = pictures.get(row) if path is None else os.fsdecode(path)
                found[row] = Document.restored(name, text, image, json.loads(metadata), vectors)
        return found

    def _blobs(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Return the pictures that are kept here."""
        marks = ",".join("?" * len(rows))
        whole = f"checksum IS {schema.sealed('blobs')}"
        found = self.database.all(f"SELECT document, image, {whole} FROM blobs WHERE document IN ({marks})", *rows)
        for row, _, is_whole in found:
            if not is_whole:
                raise self._damaged(f"the picture of {self._name(row)}")
        return {row: image for row, image, _ in found}

    def _name(self, row: int) -> str:
        """Say which document is in a row, for an error."""
        found = self.database.one("SELECT id FROM documents WHERE row = ?", row)
        return f"document {found[0]!r}" if found else f"a document that is not there (row {row})"

    def own(self, row: int, digest: bytes) -> dict[str, Matrix]:
        """Return the vectors that the document brought itself: those of its parts that have the hash of them."""
        pieces = self.database.all("SELECT part, vector FROM vectors WHERE document = ? ORDER BY part", row)
        return own_vectors([(part, _vector(blob)) for part, blob in pieces], digest)

    def pieces(self, rows: Sequence[int]) -> dict[int, list[Piece]]:
        """Return the stored vectors of these documents."""
        found: dict[int, list[Piece]] = defaultdict(list)
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            columns = "document, part, passage, start, stop, vector, checksum"
            statement = f"SELECT {columns} FROM vectors WHERE document IN ({marks}) ORDER BY row"
            for row, part, passage, start, stop, data, written in self.database.all(statement, *some):
                if checksums.of_values(row, part, passage, start, stop, data) != written:
                    raise self._damaged(f"the {part!r} vector of {self._name(row)}")
                found[row].append(Piece(part, _vector(data), passage, start, stop))
        lost = set(map(int, rows)) - found.keys()
        if lost and (there := self._named(sorted(lost))):  # else it was deleted meanwhile
            raise self._damaged(f"document {there[0][0]!r} has no vectors; it")
        return found

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Return the statistics taken anew from the vectors of all documents but some; damaged ones do not count."""
        statistics = Statistics({})
        for (row,) in self.database.all("SELECT row FROM documents ORDER BY row"):
            if row not in but:
                with suppress(BadFile):
                    pieces = self.pieces([row])
                    statistics = statistics.add(*assembled([pieces[row]]))
        return statistics

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        rows = self.database.all(
            f"SELECT document, checksum IS {schema.sealed('gone')} FROM gone WHERE sequence > ?", sequence
        )
        if not all(whole for _, whole in rows):
            raise self._damaged("the list of deleted documents")
        return np.array([row for row, _ in rows], dtype=np.int64)

    def state(self) -> State:
        """Return which state the documents are in."""
        sequence = self.database.sequence()
        token = self.token(sequence)
        if token is None:
            raise BadFile(
                f"{self.database.path} is damaged: the token of its last change is missing. Restore it from a copy, or "
                "index again."
            )
        return State(sequence, token)

    def passed(self, state: State) -> bool:
        """Whether the documents have been in a state, and what has changed since is known."""
        return self.token(state.sequence) == state.token

    def token(self, sequence: int) -> str | None:
        """Return the token of the documents' state after a change; None where it is not known, or no longer."""
        found = self.database.one(
            f"SELECT token, checksum IS {schema.sealed('states')} FROM states WHERE sequence = ?", sequence
        )
        return bytes(found[0]).hex() if found and found[1] else None

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


def checksum(values: Sequence[object], kept: bytes | None, pieces: Iterable[Sequence[object]]) -> int:
    """Return a checksum of all that is stored of a document: its columns, its kept picture, its vectors."""
    total = 0
    for value in (*values, kept, *(value for piece in pieces for value in piece)):
        total = zlib.crc32(value if isinstance(value, bytes) else str(value).encode(), zlib.crc32(b"\0", total))
    return total


def stored(piece: Piece) -> tuple[str, int, int | None, int | None, bytes]:
    """Return a vector as the table of vectors keeps it."""
    return (piece.part, piece.passage, piece.start, piece.stop, blob(piece.vector))


def _path(path: str) -> str | bytes:
    """Return a path as the database can keep it: bytes where its name is no text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return os.fsencode(path)
    return path


def _vector(blob: bytes) -> Matrix:
    return np.frombuffer(blob, dtype="<f4")


def several(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut values into stretches that one statement takes."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]
