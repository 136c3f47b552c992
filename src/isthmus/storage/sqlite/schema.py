"""The tables of a collection, their version, and how older ones are brought up to date.

manifest      what the collection is: schema, encoder, dimensions, how often it was re-encoded; one value per name
documents     what is found; a changed document gets a new row, so that row numbers only grow
vectors       raw encoder vectors, one per passage of a text and one per other part, in the order of documents
blobs         pictures that were handed in as bytes or pixels
facts         metadata, one row per value: what ``where`` looks at
words         full-text index of the documents (FTS5)
gone          rows of documents that were deleted or replaced, and when
states        a random token for each change of the documents, by which an index knows the one that it was made from
units         the files a document came from, with their stamps
skipped       what could not be read, and why
calibrations  every fitted calibration; the manifest says which one is served
asked         real queries, when their log is switched on

Every row has a checksum. Most tables are *sealed*: ``seal(…)``, a function that every connection has, of the columns
in ``SEALED``. A document has three: ``content`` of its own columns, ``origin`` of the file it came from, ``checksum``
of all that belongs to it, with its picture and its vectors. What is derived (facts, words) is compared with documents.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType

from isthmus.errors import BadFile
from isthmus.words import TOKENS

VERSION = 2


# Table → the columns that its checksum covers.
SEALED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "manifest": ("name", "value"),
        "units": ("number", "root", "key", "stamp", "run"),
        "vectors": ("document", "part", "passage", "start", "stop", "vector"),
        "blobs": ("document", "image"),
        "gone": ("document", "sequence"),
        "states": ("sequence", "token"),
        "skipped": ("root", "key", "place", "why"),
        "calibrations": ("version", "made", "spec", "sequence", "fitted", "beside"),
        "asked": ("number", "time", "text", "image"),
    }
)

CONTENT = "seal(id, modality, text, image, metadata, text_hash, image_hash, own_hash)"  # of a document: its columns
ORIGIN = "seal(id, unit, run)"  # of a document: where it came from, which changes without the document

STATES = "CREATE TABLE states (sequence INTEGER PRIMARY KEY, token BLOB NOT NULL, checksum INTEGER)"

TEXTS = "CREATE VIEW texts AS SELECT row, text FROM documents WHERE text IS NOT NULL"  # what ``words`` is made from
WORDS = f"CREATE VIRTUAL TABLE words USING fts5 (text, content = 'texts', content_rowid = 'row', tokenize = '{TOKENS}')"
TERMS = "CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'row')"

TABLES = f"""
CREATE TABLE manifest (name TEXT PRIMARY KEY, value BLOB NOT NULL, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE units (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  root TEXT NOT NULL, key TEXT NOT NULL, stamp TEXT, run INTEGER, checksum INTEGER,
  UNIQUE (root, key)
);
CREATE TABLE documents (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  modality TEXT NOT NULL,
  text TEXT, image TEXT, metadata TEXT NOT NULL,
  text_hash BLOB, image_hash BLOB, own_hash BLOB,
  unit INTEGER REFERENCES units (number), run INTEGER,
  checksum INTEGER NOT NULL, content INTEGER, origin INTEGER
);
CREATE INDEX documents_by_text ON documents (text_hash) WHERE text_hash IS NOT NULL;
CREATE INDEX documents_by_image ON documents (image_hash) WHERE image_hash IS NOT NULL;
CREATE INDEX documents_by_unit ON documents (unit) WHERE unit IS NOT NULL;
CREATE INDEX documents_by_modality ON documents (modality);
CREATE TABLE vectors (
  row INTEGER PRIMARY KEY,
  document INTEGER NOT NULL, part TEXT NOT NULL, passage INTEGER NOT NULL,
  start INTEGER, stop INTEGER, vector BLOB NOT NULL, checksum INTEGER
);
CREATE INDEX vectors_by_document ON vectors (document);
CREATE TABLE blobs (document INTEGER PRIMARY KEY, image BLOB NOT NULL, checksum INTEGER);
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
  made TEXT NOT NULL, spec TEXT NOT NULL, sequence INTEGER NOT NULL, fitted BLOB NOT NULL, beside TEXT NOT NULL,
  checksum INTEGER
);
CREATE TABLE asked (
  number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, text TEXT, image BLOB, checksum INTEGER
);
{TEXTS};
{WORDS};
{TERMS};
"""


def _seal_everything(connection: sqlite3.Connection) -> None:
    """Version 1 → 2: every row gets a checksum, the present state a token, and words can be compared with texts."""
    for table in SEALED.keys() - {"states"}:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
        seal(connection, table)
    for column, expression in (("content", CONTENT), ("origin", ORIGIN)):
        connection.execute(f"ALTER TABLE documents ADD COLUMN {column} INTEGER")
        connection.execute(f"UPDATE documents SET {column} = {expression}")
    for statement in ("DROP TABLE terms", "DROP TABLE words", TEXTS, WORDS, TERMS):
        connection.execute(statement)
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute(STATES)
    sequence = connection.execute("SELECT value FROM manifest WHERE name = 'sequence'").fetchone()[0]
    add_state(connection, sequence)


# How a collection of an older version becomes one of the next: version → what to do.
MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType({1: _seal_everything})


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, inside the caller's transaction."""
    for statement in TABLES.strip().split(";\n"):
        connection.execute(statement.rstrip(";"))
    put(connection, schema=VERSION, sequence=0)
    add_state(connection, 0)


def check(found: int, name: str) -> bool:
    """Say whether tables of version ``found`` have to be migrated; refuse those of a newer isthmus."""
    if found > VERSION:
        raise BadFile(
            f"{name} was written by a newer isthmus (schema {found}; this one reads up to {VERSION}). Upgrade isthmus: "
            "pip install -U isthmus."
        )
    return found < VERSION


def migrate(connection: sqlite3.Connection, found: int) -> None:
    """Bring older tables up to date step by step, inside the caller's transaction."""
    for version in range(found, VERSION):
        MIGRATIONS[version](connection)
    put(connection, schema=VERSION)


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
    """Give the documents as they are now a token of their own."""
    connection.execute("INSERT OR REPLACE INTO states VALUES (?1, ?2, seal(?1, ?2))", (sequence, os.urandom(16)))


def changed(connection: sqlite3.Connection) -> int:
    """Count a change of the documents; return its number."""
    statement = "UPDATE manifest SET value = value + 1, checksum = seal(name, value + 1) WHERE name = 'sequence'"
    connection.execute(statement)
    sequence = int(connection.execute("SELECT value FROM manifest WHERE name = 'sequence'").fetchone()[0])
    add_state(connection, sequence)
    return sequence
