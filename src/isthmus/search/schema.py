"""The tables of a collection, their version, and how older ones are brought up to date.

manifest      what the collection is: schema, encoder, dimensions, how often it was re-encoded; one value per name
documents     what is found; a changed document gets a new row, so that row numbers only grow
vectors       raw encoder vectors, one per passage of a text and one per other part, in the order of documents
blobs         pictures that were handed in as bytes or pixels
facts         metadata, one row per value: what ``where`` looks at
words         full-text index of the documents (FTS5)
gone          rows of documents that were deleted or replaced, and when
units         the files a document came from, with their stamps
skipped       what could not be read, and why
calibrations  every fitted calibration; the manifest says which one is served
asked         real queries, when their log is switched on
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from types import MappingProxyType

from isthmus.errors import BadFile

VERSION = 1

TOKENS = "porter unicode61 remove_diacritics 2"  # words of any language; English ones by their stem

TABLES = f"""
CREATE TABLE manifest (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE units (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  root TEXT NOT NULL, key TEXT NOT NULL, stamp TEXT, run INTEGER,
  UNIQUE (root, key)
);
CREATE TABLE documents (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  modality TEXT NOT NULL,
  text TEXT, image TEXT, metadata TEXT NOT NULL,
  text_hash BLOB, image_hash BLOB, own_hash BLOB,
  unit INTEGER REFERENCES units (number), run INTEGER,
  checksum INTEGER NOT NULL
);
CREATE INDEX documents_by_text ON documents (text_hash) WHERE text_hash IS NOT NULL;
CREATE INDEX documents_by_image ON documents (image_hash) WHERE image_hash IS NOT NULL;
CREATE INDEX documents_by_unit ON documents (unit) WHERE unit IS NOT NULL;
CREATE INDEX documents_by_modality ON documents (modality);
CREATE TABLE vectors (
  row INTEGER PRIMARY KEY,
  document INTEGER NOT NULL, part TEXT NOT NULL, passage INTEGER NOT NULL,
  start INTEGER, stop INTEGER, vector BLOB NOT NULL
);
CREATE INDEX vectors_by_document ON vectors (document);
CREATE TABLE blobs (document INTEGER PRIMARY KEY, image BLOB NOT NULL);
CREATE TABLE facts (
  name TEXT NOT NULL, value NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (name, value, document)
) WITHOUT ROWID;
CREATE INDEX facts_by_document ON facts (document);
CREATE TABLE gone (document INTEGER PRIMARY KEY, sequence INTEGER NOT NULL);
CREATE INDEX gone_by_sequence ON gone (sequence);
CREATE TABLE skipped (root TEXT NOT NULL, key TEXT NOT NULL, place TEXT NOT NULL, why TEXT NOT NULL);
CREATE INDEX skipped_by_unit ON skipped (root, key);
CREATE TABLE calibrations (
  version INTEGER PRIMARY KEY AUTOINCREMENT,
  made TEXT NOT NULL, spec TEXT NOT NULL, sequence INTEGER NOT NULL, fitted BLOB NOT NULL, beside TEXT NOT NULL
);
CREATE TABLE asked (number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, text TEXT, image BLOB);
CREATE VIRTUAL TABLE words USING fts5 (text, content = 'documents', content_rowid = 'row', tokenize = '{TOKENS}');
CREATE VIRTUAL TABLE terms USING fts5vocab (words, 'row');
"""

# How a collection of an older version becomes one of the next: version → what to do. Version 1 is the first.
MIGRATIONS: Mapping[int, Callable[[sqlite3.Connection], None]] = MappingProxyType({})


def create(connection: sqlite3.Connection) -> None:
    """Make the tables, inside the caller's transaction."""
    for statement in TABLES.strip().split(";\n"):
        connection.execute(statement.rstrip(";"))
    connection.execute("INSERT INTO manifest VALUES ('schema', ?), ('sequence', 0)", (VERSION,))


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
    connection.execute("UPDATE manifest SET value = ? WHERE name = 'schema'", (VERSION,))
