"""Documents with their parts, in and out of the database."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from isthmus.documents import Document
from isthmus.kinds import TEXT, Part
from isthmus.storage.base import Described, Entry
from isthmus.storage.facts import Scalar, as_json, facts
from isthmus.storage.segments import own_vectors
from isthmus.storage.sqlite import schema, vectors
from isthmus.storage.sqlite.vectors import AT_ONCE, SqliteVectors, several


@dataclass(slots=True, eq=False)
class SqliteDocuments(SqliteVectors):
    """The tables ``documents``, ``parts`` and ``blobs``, and the tables derived from them."""

    def put(self, connection: sqlite3.Connection, entries: Sequence[Entry]) -> list[int]:
        """Add documents and replace those with the same ids; return the new rows."""
        self.remove(connection, [entry.document.id for entry in entries])
        return [self._insert(connection, entry) for entry in entries]

    def _insert(self, connection: sqlite3.Connection, entry: Entry) -> int:
        document = entry.document
        metadata = as_json(document.metadata, f"Document {document.id!r}")
        counts = (len(document.parts), len(entry.segments))
        row = connection.execute(
            "INSERT INTO documents (id, modality, metadata, parts, segments, parts_hash, own_hash, unit, run, content, "
            "origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, seal(?1, ?2, ?3, ?4, ?5, ?6, ?7), seal(?1, ?8, ?9))",
            (document.id, entry.modality, metadata, *counts, entry.digest, entry.own_hash, entry.unit, entry.run),
        ).lastrowid
        if row is None:
            raise sqlite3.DatabaseError("no row was given")
        insert_parts(connection, row, entry)
        vectors.insert(connection, row, entry.segments)
        known = ((name, value, row) for name, value in set(facts(document.metadata)))
        connection.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?, ?)", known)
        if document.text:
            connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (row, document.text))
        return row

    def remove(self, connection: sqlite3.Connection, ids: Sequence[str]) -> list[str]:
        """Delete documents; return the ids of those that existed."""
        found: list[tuple[int, str]] = []
        for some in several(ids):
            marks = ",".join("?" * len(some))
            found += connection.execute(f"SELECT row, id FROM documents WHERE id IN ({marks})", some).fetchall()
        if not found:
            return []
        manifest = self.database.required("sequence", "deleted")
        schema.put(connection, deleted=manifest.get("deleted", 0) + len(found))  # unused space, see compaction
        rows = [(row,) for row, _ in found]
        texts = self._texts(connection, [row for row, _ in found])
        connection.executemany("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", texts)
        for table in ("parts", "segments", "blobs", "facts"):
            connection.executemany(f"DELETE FROM {table} WHERE document = ?", rows)
        connection.executemany("DELETE FROM documents WHERE row = ?", rows)
        gone = ((row, manifest["sequence"] + 1) for row, _ in found)
        connection.executemany("INSERT INTO gone VALUES (?1, ?2, seal(?1, ?2))", gone)
        return [name for _, name in found]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the words of these documents, from all text parts."""
        with self.database.connected() as connection:
            return dict(self._texts(connection, rows))

    def _texts(self, connection: sqlite3.Connection, rows: Sequence[int]) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            found += connection.execute(f"SELECT row, text FROM texts WHERE row IN ({marks})", some).fetchall()
        return found

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        found: set[int] = set()
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            statement = f"SELECT document FROM parts WHERE kind = ? AND document IN ({marks})"
            found |= {row for (row,) in self.database.all(statement, TEXT, *some)}
        return found

    def document(self, row: int) -> Document:
        """Return the document in a row, which must exist."""
        found = self.documents([row])
        if row not in found:
            raise self.damaged(self.named(row))
        return found[row]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the content that is stored here."""
        found: dict[int, Document] = {}
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            columns = f"row, id, metadata, parts, own_hash, content IS {schema.CONTENT}"
            documents = self.database.all(f"SELECT {columns} FROM documents WHERE row IN ({marks})", *some)
            parts = self._parts([row for row, *_ in documents])
            brought = [row for row, _, _, _, own, _ in documents if own]
            own = self.segments(brought) if brought else {}
            for row, name, metadata, count, owned, whole in documents:
                if not whole or len(parts.get(row, ())) != count:
                    if not self._names([row]):
                        continue  # deleted since the statement ran
                    raise self.damaged(f"document {name!r}")
                if owned and row not in own:
                    continue
                held = own_vectors(own[row]) if owned else {}
                found[row] = Document.restored(name, parts.get(row, ()), json.loads(metadata), held)
        return found

    def _parts(self, rows: Sequence[int]) -> dict[int, list[Part]]:
        """Return the parts of documents, in their order."""
        marks = ",".join("?" * len(rows))
        found: dict[int, list[Part]] = defaultdict(list)
        columns = f"document, number, kind, content, checksum IS {schema.sealed('parts')}"
        statement = f"SELECT {columns} FROM parts WHERE document IN ({marks}) ORDER BY document, number"
        parts = self.database.all(statement, *rows)
        bare = sorted({row for row, _, _, content, _ in parts if content is None})
        kept = self._blobs(bare) if bare else {}
        for row, number, kind, content, whole in parts:
            value = kept.get((row, number)) if content is None else content
            if not whole or value is None:
                if not self._names([row]):
                    continue
                raise self.damaged(f"the {kind} of {self.named(row)}")
            inline = os.fsdecode(value) if content is not None and isinstance(value, bytes) else value
            found[row].append(Part.restored(kind, inline))
        return found

    def _blobs(self, rows: Sequence[int]) -> dict[tuple[int, int], bytes]:
        """Return the content that is stored here, by document and number of the part."""
        marks = ",".join("?" * len(rows))
        columns = f"document, part, content, checksum IS {schema.sealed('blobs')}"
        found = self.database.all(f"SELECT {columns} FROM blobs WHERE document IN ({marks})", *rows)
        for row, number, _, whole in found:
            if not whole:
                raise self.damaged(f"the content of part {number} of {self.named(row)}")
        return {(row, number): content for row, number, content, _ in found}

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        found: dict[int, Described] = {}
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            hashes: dict[int, list[bytes | None]] = defaultdict(list)
            order = f"WHERE document IN ({marks}) ORDER BY document, number"
            for row, digest in self.database.all(f"SELECT document, hash FROM parts {order}", *some):
                hashes[row].append(digest)
            columns = f"SELECT row, modality, own_hash FROM documents WHERE row IN ({marks})"
            for row, modality, own in self.database.all(columns, *some):
                found[row] = Described(modality, tuple(hashes.get(row, ())), own)
        return found

    def facts(self, rows: Sequence[int]) -> dict[int, list[tuple[str, Scalar]]]:
        """Return the metadata of documents as filters see them: (name, value), by row; without those that have none."""
        found: dict[int, list[tuple[str, Scalar]]] = defaultdict(list)
        for some in several([int(row) for row in rows]):
            marks = ",".join("?" * len(some))
            statement = f"SELECT document, name, value FROM facts WHERE document IN ({marks})"
            for row, name, value in self.database.all(statement, *some):
                found[row].append((name, value))
        return found

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents with exactly the same parts as this one, including itself."""
        mine = self.database.one("SELECT parts_hash, own_hash FROM documents WHERE row = ?", row)
        if not mine or mine[0] is None:
            return {row}
        statement = f"SELECT row FROM documents WHERE parts_hash = ? AND own_hash IS ? LIMIT {AT_ONCE}"
        return {row, *(other for (other,) in self.database.all(statement, *mine))}

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this combined hash, and whose vectors are all the encoder's."""
        statement = f"SELECT row FROM documents WHERE parts_hash = ? AND own_hash IS NULL LIMIT {int(count)}"
        return [row for (row,) in self.database.all(statement, digest)]

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        statement = f"SELECT document, number FROM parts WHERE hash = ? AND kind = ? LIMIT {int(count)}"
        return self.database.all(statement, digest, kind)


def insert_parts(connection: sqlite3.Connection, row: int, entry: Entry, *, content: bool = True) -> None:
    """Store the parts of a document; without ``content``, only their hashes."""
    inline: list[Any] = []
    blobs: list[Any] = []
    hashes: Iterable[bytes | None] = entry.hashes or [None] * len(entry.document.parts)
    for number, (part, digest) in enumerate(zip(entry.document.parts, hashes, strict=True)):
        kept = isinstance(part.content, bytes)
        inline.append((row, number, part.kind, None if kept or not content else _inline(part.content), digest))
        if kept and content:
            blobs.append((row, number, part.content))
    connection.executemany(
        "INSERT INTO parts (document, number, kind, content, hash, checksum) "
        "VALUES (?1, ?2, ?3, ?4, ?5, seal(?1, ?2, ?3, ?4, ?5))",
        inline,
    )
    if blobs:
        connection.executemany(
            "INSERT INTO blobs (document, part, content, checksum) VALUES (?1, ?2, ?3, seal(?1, ?2, ?3))", blobs
        )


def _inline(content: str) -> str | bytes:
    """Return a text or a path as the database can store it: bytes if a path is not valid UTF-8."""
    try:
        content.encode()
    except UnicodeEncodeError:
        return os.fsencode(content)
    return content
