"""Documents with their parts, in and out of the database."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from isthmus import checksums
from isthmus.documents import Document
from isthmus.kinds import TEXT, Part
from isthmus.storage.base import Described, Entry
from isthmus.storage.facts import as_json
from isthmus.storage.postgres import texts, vectors, words
from isthmus.storage.postgres.filters import facts_json
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.vectors import PostgresVectors
from isthmus.storage.segments import own_vectors
from isthmus.words.tokens import Tokenizer

COPIES = 500  # documents with the same parts, at most
DOCUMENTS = (
    "COPY documents (row, id, modality, metadata, facts, parts, segments, parts_hash, own_hash, unit, run, tokens, "
    "checksum) FROM STDIN"
)
PARTS = "COPY parts (document, number, kind, content, encoded, data, hash, checksum) FROM STDIN"
SELECT = "SELECT row, id, modality, metadata::text, parts, segments, parts_hash, own_hash, checksum FROM documents"
ROWS = "SELECT nextval(pg_get_serial_sequence('documents', 'row')) FROM generate_series(1, %s)"


@dataclass(slots=True, eq=False)
class PostgresDocuments(PostgresVectors):
    """The tables ``documents`` and ``parts``, and those that are made from them."""

    tokenizer: Tokenizer = field(default_factory=Tokenizer)

    def put(self, connection: Connection, entries: Sequence[Entry]) -> list[int]:
        """Add documents and replace those with the same ids; return the new rows."""
        metadata = [as_json(entry.document.metadata, f"Document {entry.document.id!r}") for entry in entries]
        self.remove(connection, [entry.document.id for entry in entries])
        rows = [row for (row,) in connection.execute(ROWS, (len(entries),)).fetchall()]
        written = {row: entry.document.text for row, entry in zip(rows, entries, strict=True) if entry.document.text}
        tokens = dict(zip(written, self.tokenizer.tokens(list(written.values())), strict=True))
        with connection.cursor() as cursor, cursor.copy(DOCUMENTS) as copy:
            for row, entry, about in zip(rows, entries, metadata, strict=True):
                copy.write_row(_described(row, entry, about, len(tokens[row]) if row in tokens else None))
        insert_parts(connection, zip(rows, entries, strict=True))
        vectors.insert(connection, ((row, entry.segments) for row, entry in zip(rows, entries, strict=True)))
        words.insert(connection, tokens)
        return rows

    def remove(self, connection: Connection, ids: Sequence[str]) -> list[str]:
        """Delete documents; return the ids of those that existed."""
        names = [name for name in ids if "\0" not in name]
        found = connection.execute("SELECT row, id FROM documents WHERE id = ANY(%s) ORDER BY row", (names,)).fetchall()
        if not found:
            return []
        rows = [row for row, _ in found]
        words.remove(connection, rows)
        for table, column in (("parts", "document"), ("segments", "document"), ("documents", "row")):
            connection.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s)", (rows,))
        gone = "INSERT INTO gone SELECT row, (SELECT value::bigint + 1 FROM manifest WHERE name = 'sequence') "
        connection.execute(f"{gone} FROM unnest(%s::bigint[]) AS row", (rows,))
        return [name for _, name in found]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the words of these documents, from all text parts."""
        return texts.texts_of(self.database, rows)

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        statement = "SELECT DISTINCT document FROM parts WHERE kind = %s AND document = ANY(%s)"
        return {row for (row,) in self.database.all(statement, TEXT, [int(row) for row in rows])}

    def document(self, row: int) -> Document:
        """Return the document in a row, which must exist."""
        found = self.documents([row])
        if row not in found:
            raise self.damaged(self.named(row))
        return found[row]

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the content that is stored here."""
        wanted = [int(row) for row in rows]
        if not wanted:
            return {}
        found = self.database.all(f"{SELECT} WHERE row = ANY(%s)", wanted)
        parts = self._parts([row for row, *_ in found])
        brought = [row for row, *_, own, _ in found if own]
        own = self.segments(brought) if brought else {}
        restored: dict[int, Document] = {}
        for row, name, modality, metadata, count, segments, digest, owned, written in found:
            checksum = checksums.of_values(name, modality, metadata, count, segments, digest, owned)
            if checksum != written or len(parts.get(row, ())) != count:
                if not self._names([row]):
                    continue  # deleted since the statement ran
                raise self.damaged(f"document {name!r}")
            if owned and row not in own:
                continue
            held = own_vectors(own[row]) if owned else {}
            restored[row] = Document.restored(name, parts.get(row, ()), json.loads(metadata), held)
        return restored

    def _parts(self, rows: Sequence[int]) -> dict[int, list[Part]]:
        """Return the parts of documents, in their order."""
        columns = "document, number, kind, content, encoded, data, hash, checksum"
        statement = f"SELECT {columns} FROM parts WHERE document = ANY(%s) ORDER BY document, number"
        found: dict[int, list[Part]] = defaultdict(list)
        for row, number, kind, content, encoded, data, digest, written in self.database.all(statement, list(rows)):
            values = (content, encoded, data, digest)
            value = data if data is not None else texts.restored(content, encoded)
            if value is None or checksums.of_values(row, number, kind, *values) != written:
                raise self.damaged(f"the {kind} of {self.named(row)}")
            found[row].append(Part.restored(kind, value))
        return found

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        wanted = [int(row) for row in rows]
        hashes: dict[int, list[bytes | None]] = defaultdict(list)
        parts = "SELECT document, hash FROM parts WHERE document = ANY(%s) ORDER BY document, number"
        for row, digest in self.database.all(parts, wanted):
            hashes[row].append(digest)
        columns = "SELECT row, modality, own_hash FROM documents WHERE row = ANY(%s)"
        found = self.database.all(columns, wanted)
        return {row: Described(modality, tuple(hashes.get(row, ())), own) for row, modality, own in found}

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents with exactly the same parts as this one, including itself."""
        mine = self.database.one("SELECT parts_hash, own_hash FROM documents WHERE row = %s", row)
        if not mine or mine[0] is None:
            return {row}
        same = "parts_hash = %s AND own_hash IS NOT DISTINCT FROM %s"
        others = self.database.all(f"SELECT row FROM documents WHERE {same} LIMIT {COPIES}", *mine)
        return {row, *(other for (other,) in others)}

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this combined hash, and whose vectors are all the encoder's."""
        statement = "SELECT row FROM documents WHERE parts_hash = %s AND own_hash IS NULL ORDER BY row LIMIT %s"
        return [row for (row,) in self.database.all(statement, digest, count)]

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        order = "ORDER BY document, number LIMIT %s"
        statement = f"SELECT document, number FROM parts WHERE hash = %s AND kind = %s {order}"
        return self.database.all(statement, digest, kind, count)


def _described(row: int, entry: Entry, metadata: str, tokens: int | None) -> tuple[Any, ...]:
    """Return the row of a document."""
    document, modality = entry.document, entry.modality
    sizes = (len(document.parts), len(entry.segments))
    checksum = checksums.of_values(document.id, modality, metadata, *sizes, entry.digest, entry.own_hash)
    facts = facts_json(json.loads(metadata))
    about = (document.id, modality, metadata, facts, *sizes, entry.digest, entry.own_hash)
    return (row, *about, entry.unit, entry.run, tokens, checksum)


def insert_parts(connection: Connection, documents: Iterable[tuple[int, Entry]], *, content: bool = True) -> None:
    """Store the parts of documents, by row; without ``content``, only their hashes."""
    with connection.cursor() as cursor, cursor.copy(PARTS) as copy:
        for row, entry in documents:
            hashes: Iterable[bytes | None] = entry.hashes or [None] * len(entry.document.parts)
            for number, (part, digest) in enumerate(zip(entry.document.parts, hashes, strict=True)):
                values = (*_content(part if content else None), digest)
                checksum = checksums.of_values(row, number, part.kind, *values)
                copy.write_row((row, number, part.kind, *values, checksum))


def _content(part: Part | None) -> tuple[str | None, bytes | None, bytes | None]:
    """Return a part's content as columns: a text, a text that PostgreSQL takes for none, bytes."""
    if part is None:
        return None, None, None
    if isinstance(part.content, bytes):
        return None, None, part.content
    return (*texts.stored(part.content), None)
