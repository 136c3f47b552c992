"""Migrate a collection of an older version, in one transaction: all of it, or nothing.

    1 → 2    every row gets a checksum, the present state a token, and words can be compared with texts
    2 → 3    a text and an image per document become parts in their order, a vector per passage becomes a segment

The SQL of a step is frozen: it names tables as they were then, not as ``schema`` has them now. Damage before a step
can still be detected after it: rows whose checksum does not match get none.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any

from isthmus.kinds import IMAGE, TEXT
from isthmus.storage.base import parts_digest
from isthmus.storage.sqlite import schema

AT_ONCE = 500  # documents that are read together

SEALED_2 = {
    "manifest": "name, value",
    "units": "number, root, key, stamp, run",
    "vectors": "document, part, passage, start, stop, vector",
    "blobs": "document, image",
    "gone": "document, sequence",
    "skipped": "root, key, place, why",
    "calibrations": "version, made, spec, sequence, fitted, beside",
    "asked": "number, time, text, image",
}
CONTENT_2 = "seal(id, modality, text, image, metadata, text_hash, image_hash, own_hash)"
COLUMNS_2 = "id, modality, text, image, metadata, text_hash, image_hash, own_hash"


def migrate(connection: sqlite3.Connection, found: int) -> None:
    """Migrate older tables step by step, inside the caller's transaction."""
    for version in range(found, schema.VERSION):
        MIGRATIONS[version](connection)
    schema.put(connection, schema=schema.VERSION)


def _seal_everything(connection: sqlite3.Connection) -> None:
    for table, columns in SEALED_2.items():
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
        connection.execute(f"UPDATE {table} SET checksum = seal({columns})")
    for column, expression in (("content", CONTENT_2), ("origin", schema.ORIGIN)):
        connection.execute(f"ALTER TABLE documents ADD COLUMN {column} INTEGER")
        connection.execute(f"UPDATE documents SET {column} = {expression}")
    connection.execute(schema.STATES)
    sequence = connection.execute("SELECT value FROM manifest WHERE name = 'sequence'").fetchone()[0]
    schema.add_state(connection, sequence)


def _parts_and_segments(connection: sqlite3.Connection) -> None:
    run = connection.execute
    for table in ("terms", "words"):
        run(f"DROP TABLE {table}")
    run("DROP VIEW IF EXISTS texts")
    for index in ("text", "image", "unit", "modality"):
        run(f"DROP INDEX documents_by_{index}")
    run("DROP INDEX vectors_by_document")
    for table in ("documents", "blobs"):
        run(f"ALTER TABLE {table} RENAME TO old_{table}")
    run("ALTER TABLE asked RENAME TO query_log")
    run("ALTER TABLE calibrations RENAME COLUMN beside TO extras")
    for statement in schema.statements(schema.DOCUMENTS):
        run(statement)
    run("CREATE INDEX old_vectors ON vectors (document)")
    last = run("SELECT coalesce(max(row), 0) FROM old_documents").fetchone()[0]
    for first in range(0, last + 1, AT_ONCE):
        _move(connection, first, first + AT_ONCE - 1)
    _number_on(connection)
    for table in ("old_documents", "old_blobs", "vectors"):
        run(f"DROP TABLE {table}")
    for statement in (schema.TEXTS, schema.WORDS, schema.TERMS):
        run(statement)
    run("INSERT INTO words (words) VALUES ('rebuild')")


def _number_on(connection: sqlite3.Connection) -> None:
    """Make new documents get row numbers above all that were ever used."""
    used = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name IN ('documents', 'old_documents')")
    sequence = used.fetchone()[0]
    if sequence is not None:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'documents'")
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('documents', ?)", (sequence,))


def _move(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Write some documents in the form of version 3."""
    span = "document BETWEEN ? AND ?"
    blobs = {
        row: (image, whole)
        for row, image, whole in connection.execute(
            f"SELECT document, image, checksum IS seal({SEALED_2['blobs']}) FROM old_blobs WHERE {span}", (first, last)
        )
    }
    vectors: dict[int, list[Any]] = defaultdict(list)
    columns = f"document, part, passage, start, stop, vector, checksum IS seal({SEALED_2['vectors']})"
    for row, *vector in connection.execute(f"SELECT {columns} FROM vectors WHERE {span} ORDER BY row", (first, last)):
        vectors[row].append(vector)
    documents = connection.execute(
        f"SELECT row, unit, run, origin, checksum, content IS {CONTENT_2}, {COLUMNS_2} FROM old_documents "
        "WHERE row BETWEEN ? AND ? ORDER BY row",
        (first, last),
    ).fetchall()
    for row, unit, run, origin, checksum, whole, *values in documents:
        kept = blobs.get(row, (None, True))
        pieces = [piece[:-1] for piece in vectors[row]]
        right = whole and kept[1] and _checksum(values, kept[0], pieces) == checksum
        _write(connection, row, values, kept, vectors[row], (unit, run, origin), bool(right))


def _write(
    connection: sqlite3.Connection,
    row: int,
    values: Sequence[Any],
    kept: tuple[bytes | None, bool],
    vectors: Sequence[Sequence[Any]],
    origin: tuple[Any, Any, Any],
    right: bool,
) -> None:
    name, modality, text, image, metadata, text_hash, image_hash, own_hash = values
    parts = [(TEXT, text, text_hash)] if text is not None else []
    if image is not None or kept[0] is not None:
        parts.append((IMAGE, image, image_hash))
    numbers = {kind: number for number, (kind, _, _) in enumerate(parts)}
    digest = parts_digest([kind for kind, _, _ in parts], [hashed for _, _, hashed in parts])
    described = (name, modality, metadata, len(parts), len(vectors), digest, own_hash)
    connection.execute(
        "INSERT INTO documents (row, id, modality, metadata, parts, segments, parts_hash, own_hash, unit, run, origin, "
        "content) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
        "CASE WHEN ?12 THEN seal(?2, ?3, ?4, ?5, ?6, ?7, ?8) END)",
        (row, *described, *origin, right),
    )
    connection.executemany(
        "INSERT INTO parts (document, number, kind, content, hash, checksum) VALUES (?1, ?2, ?3, ?4, ?5, "
        "CASE WHEN ?6 THEN seal(?1, ?2, ?3, ?4, ?5) END)",
        [(row, number, *part, right) for number, part in enumerate(parts)],
    )
    if kept[0] is not None:
        connection.execute(
            "INSERT INTO blobs (document, part, content, checksum) VALUES (?1, ?2, ?3, "
            "CASE WHEN ?4 THEN seal(?1, ?2, ?3) END)",
            (row, numbers[IMAGE], *kept),
        )
    own = _own([(part, vector) for part, _, _, _, vector, _ in vectors], own_hash)
    connection.executemany(
        "INSERT INTO segments (document, parts, name, start, stop, own, vector, checksum) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, CASE WHEN ?8 THEN seal(?1, ?2, ?3, ?4, ?5, ?6, ?7) END)",
        [
            (row, _numbers(part, numbers, len(parts)), part, start, stop, int(part in own), vector, whole)
            for part, _, start, stop, vector, whole in vectors
        ],
    )


def _numbers(part: str, numbers: Mapping[str, int], after: int) -> str:
    """Return the numbers of the parts that a vector is of; a vector without content comes after all parts."""
    found = [numbers[kind] for kind in reversed(part.split("+")) if kind in numbers]  # text first
    return ",".join(map(str, found or [after]))


def _checksum(values: Sequence[object], kept: bytes | None, pieces: Iterable[Sequence[object]]) -> int:
    """Return the checksum that versions 1 and 2 stored for a whole document."""
    total = 0
    for value in (*values, kept, *(value for piece in pieces for value in piece)):
        total = zlib.crc32(value if isinstance(value, bytes) else str(value).encode(), zlib.crc32(b"\0", total))
    return total


def _own(vectors: Sequence[tuple[str, bytes]], digest: bytes | None) -> set[str]:
    """Return the names of a document's own vectors: those that have this combined hash."""
    if digest is None:
        return set()
    counts = Counter(part for part, _ in vectors)
    single = sorted((part, vector) for part, vector in vectors if counts[part] == 1)
    for size in range(len(single), 0, -1):
        for some in combinations(single, size):
            if hashlib.sha256(b"".join(part.encode() + vector for part, vector in some)).digest() == digest:
                return {part for part, _ in some}
    return set()


MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType(
    {1: _seal_everything, 2: _parts_and_segments}
)
