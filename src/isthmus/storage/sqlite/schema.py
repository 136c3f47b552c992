"""The tables of a collection and their version; ``migrations`` updates older ones.

manifest      what the collection is: schema, encoder, dimensions, how often it was re-encoded; one value per name
documents     what is found; a changed document gets a new row, so that row numbers only grow
parts         the parts of documents in their order: kind, content (a text or a path), hash
blobs         content of parts that was given as bytes or pixels
segments      raw vectors: of a part, of a span of it, or of several parts together
facts         metadata, one row per value, for ``where``
words         full-text index of the documents (FTS5)
gone          rows of documents that were deleted or replaced, and when
states        a random token for each change of the documents; an index stores the token it was built from
units         the files a document came from, with their stamps
skipped       what could not be read, and why
calibrations  every fitted calibration; the manifest names the one that is served
query_log     real queries, if the log is on

Every row has a checksum. Most tables are *sealed*: ``seal(…)``, an SQL function on every connection, of the columns
in ``SEALED``. A document has two: ``content`` of its own columns, which count its parts and segments, and ``origin`` of
the file it came from. Derived tables (facts, words) are compared with documents.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from types import MappingProxyType

from isthmus.errors import BadFile
from isthmus.kinds import TEXT
from isthmus.words import TOKENS

VERSION = 3


# Table → the columns that its checksum covers.
SEALED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "manifest": ("name", "value"),
        "units": ("number", "root", "key", "stamp", "run"),
        "parts": ("document", "number", "kind", "content", "hash"),
        "blobs": ("document", "part", "content"),
        "segments": ("document", "parts", "name", "start", "stop", "own", "vector"),
        "gone": ("document", "sequence"),
        "states": ("sequence", "token"),
        "skipped": ("root", "key", "place", "why"),
        "calibrations": ("version", "made", "spec", "sequence", "fitted", "extras"),
        "query_log": ("number", "time", "text", "image"),
    }
)

CONTENT = "seal(id, modality, metadata, parts, segments, parts_hash, own_hash)"  # of a document: its columns
ORIGIN = "seal(id, unit, run)"  # of a document: where it came from, which changes without the document

STATES = "CREATE TABLE states (sequence INTEGER PRIMARY KEY, token BLOB NOT NULL, checksum INTEGER)"

# The content of ``words``: the words of a document, from all text parts, in the order of the index.
TEXTS = f"""CREATE VIEW texts AS SELECT document AS row, group_concat(content, char(10, 10)) AS text
  FROM parts INDEXED BY parts_by_document WHERE kind = '{TEXT}' GROUP BY document"""
WORDS = f"CREATE VIRTUAL TABLE words USING fts5 (text, content = 'texts', content_rowid = 'row', tokenize = '{TOKENS}')"
TERMS = "CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'row')"

DOCUMENTS = """
CREATE TABLE documents (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  modality TEXT NOT NULL, metadata TEXT NOT NULL,
  parts INTEGER NOT NULL, segments INTEGER NOT NULL,
  parts_hash BLOB, own_hash BLOB,
  unit INTEGER REFERENCES units (number), run INTEGER,
  content INTEGER, origin INTEGER
);
CREATE INDEX documents_by_parts ON documents (parts_hash) WHERE parts_hash IS NOT NULL;
CREATE INDEX documents_by_unit ON documents (unit) WHERE unit IS NOT NULL;
CREATE INDEX documents_by_modality ON documents (modality);
CREATE TABLE parts (
  row INTEGER PRIMARY KEY,
  document INTEGER NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, content, hash BLOB, checksum INTEGER
);
CREATE INDEX parts_by_document ON parts (document, number);
CREATE INDEX parts_by_hash ON parts (hash) WHERE hash IS NOT NULL;
CREATE TABLE blobs (
  row INTEGER PRIMARY KEY, document INTEGER NOT NULL, part INTEGER NOT NULL, content BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX blobs_by_document ON blobs (document);
CREATE TABLE segments (
  row INTEGER PRIMARY KEY,
  document INTEGER NOT NULL, parts TEXT NOT NULL, name TEXT NOT NULL,
  start, stop, own INTEGER NOT NULL, vector BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX segments_by_document ON segments (document)
"""

TABLES = f"""
CREATE TABLE manifest (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE units (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  root TEXT NOT NULL, key TEXT NOT NULL, stamp TEXT, run INTEGER, checksum INTEGER,
  UNIQUE (root, key)
);
{DOCUMENTS.strip()};
CREATE TABLE facts (
  name TEXT NOT NULL, value NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (name, value, document)
) WITHOUT ROWID;
CREATE INDEX facts_by_document ON facts (document);
CREATE TABLE gone (document INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, checksum INTEGER);
CREATE INDEX gone_by_sequence ON gone (sequence);
{STATES};
CREATE TABLE skipped (root TEXT NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL, why TEXT NOT NULL, checksum INTEGER);
CREATE INDEX skipped_by_unit ON skipped (root, key);
CREATE TABLE calibrations (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  made TEXT NOT NULL, spec TEXT NOT NULL, sequence INTEGER NOT NULL, fitted BLOB NOT NULL, extras TEXT NOT NULL,
  checksum INTEGER
);
CREATE TABLE query_log (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, text TEXT, image BLOB, checksum INTEGER
);
{TEXTS};
{WORDS};
{TERMS};
"""


def statements(script: str) -> list[str]:
    """Return the statements of a script."""
    return [statement.rstrip(";") for statement in script.strip().split(";\n")]


def create(connection: sqlite3.Connection) -> None:
    """Create the tables, inside the caller's transaction."""
    for statement in statements(TABLES):
        connection.execute(statement)
    put(connection, schema=VERSION, sequence=0)
    add_state(connection, 0)


def check(found: int, name: str) -> bool:
    """Whether tables of version ``found`` have to be migrated; reject those of a newer isthmus."""
    if found > VERSION:
        raise BadFile(
            f"{name} was written by a newer isthmus (schema {found}; this one reads up to {VERSION}). Upgrade isthmus: "
            "pip install -U isthmus."
        )
    return found < VERSION


def sealed(table: str) -> str:
    """Return the SQL expression of a row's checksum.

    >>> sealed("gone")
    'seal(document, sequence)'
    """
    return f"seal({', '.join(SEALED[table])})"


def seal(connection: sqlite3.Connection, table: str, where: str = "TRUE", *values: object) -> None:
    """Write the checksums of rows that were changed."""
    connection.execute(f"UPDATE {table} SET checksum = {sealed(table)} WHERE {where}", values)


def put(connection: sqlite3.Connection, **values: object) -> None:
    """Set values of the manifest."""
    statement = "INSERT OR REPLACE INTO manifest VALUES (?1, ?2, seal(?1, ?2))"
    connection.executemany(statement, values.items())


def add_state(connection: sqlite3.Connection, sequence: int) -> None:
    """Store a new token for the current state of the documents."""
    connection.execute("INSERT OR REPLACE INTO states VALUES (?1, ?2, seal(?1, ?2))", (sequence, os.urandom(16)))


def changed(connection: sqlite3.Connection) -> int:
    """Count a change of the documents; return its number."""
    next_value = "value = value + 1, checksum = seal(name, value + 1)"
    statement = f"UPDATE manifest SET {next_value} WHERE name = 'sequence' RETURNING value"
    sequence = int(connection.execute(statement).fetchall()[0][0])
    add_state(connection, sequence)
    return sequence
