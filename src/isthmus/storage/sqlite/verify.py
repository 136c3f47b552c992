"""Verification: read everything back and compare it with what was stored.

SQLite checks the structure of its pages, not their content. Every row has a checksum, and a document stores the number
of its parts and vectors; the data of filters and of the word index is compared with the document it was made from.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from isthmus.calibration import storage
from isthmus.errors import IsthmusError
from isthmus.storage.facts import facts
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.store import SqliteStore
from isthmus.storage.sqlite.words import words_match

AT_ONCE = 500  # documents that are read together

DOCUMENTS = f"""
SELECT row, id, metadata, parts, segments, content IS {schema.CONTENT}, origin IS {schema.ORIGIN}
FROM documents WHERE row BETWEEN ? AND ? ORDER BY row
"""
COUNTS = "SELECT document, count(*), sum(checksum IS NOT {seal}) FROM {table} WHERE document BETWEEN ? AND ? GROUP BY 1"
LOST = """
SELECT p.document FROM parts p LEFT JOIN blobs b ON b.document = p.document AND b.part = p.number
WHERE p.content IS NULL AND b.row IS NULL AND p.document BETWEEN ? AND ?
"""
FACTS = "SELECT document, name, value FROM facts WHERE document BETWEEN ? AND ?"
STRAYS = "SELECT count(*) FROM {table} WHERE document NOT IN (SELECT row FROM documents)"


def problems(store: SqliteStore) -> list[str]:
    """Read all documents, and return what is damaged."""
    found: list[str] = []
    spans = range(0, store.last() + 1, AT_ONCE)
    checks: list[Callable[[], list[str]]] = [partial(_of_documents, store, first) for first in spans]
    checks += [partial(_sealed, store, table) for table in schema.SEALED]
    checks += [partial(check, store) for check in (_strays, _words, _statistics, _calibrations)]
    for check in checks:
        try:
            found += check()
        except IsthmusError as error:
            found.append(str(error))
    return found


def _of_documents(store: SqliteStore, first: int) -> list[str]:
    span = (first, first + AT_ONCE - 1)
    counts: dict[str, dict[int, int]] = {}
    wrong = {row for (row,) in store.database.all(LOST, *span)}
    for table in ("parts", "segments", "blobs"):
        rows = store.database.all(COUNTS.format(table=table, seal=schema.sealed(table)), *span)
        counts[table] = {row: count for row, count, _ in rows}
        wrong |= {row for row, _, damaged in rows if damaged}
    said: dict[int, set[Any]] = defaultdict(set)
    for row, name, value in store.database.all(FACTS, *span):
        said[row].add((name, value))
    found: list[str] = []
    for row, name, metadata, parts, segments, content, origin in store.database.all(DOCUMENTS, *span):
        whole = (counts["parts"].get(row, 0), counts["segments"].get(row, 0)) == (parts, segments)
        if not content or not whole or row in wrong:
            found.append(f"document {name!r} does not match its checksum. Add it again.")
        elif not origin:
            found.append(f"document {name!r}: the file it came from does not match its checksum. Add it again.")
        elif set(facts(json.loads(metadata))) != said[row]:
            found.append(f"document {name!r}: what filters look at is not its metadata. Add it again.")
    return found


def _strays(store: SqliteStore) -> list[str]:
    counts = {
        table: store.database.one(STRAYS.format(table=table))[0] for table in ("parts", "segments", "blobs", "facts")
    }
    found = [f"{count} rows of {table} belong to no document." for table, count in counts.items() if count]
    orphans = len(store.database.all("PRAGMA foreign_key_check"))
    return found + ([f"{orphans} documents came from a file that is not listed."] if orphans else [])


def _sealed(store: SqliteStore, table: str) -> list[str]:
    wrong = f"SELECT count(*) FROM {table} WHERE checksum IS NOT {schema.sealed(table)}"
    count = store.database.one(wrong)[0]
    return [f"{count} {'row' if count == 1 else 'rows'} of {table} do not match their checksum."] if count else []


def _words(store: SqliteStore) -> list[str]:
    if store.database.writable and not words_match(store.database):
        return ["the index of words does not match the documents' texts. `isthmus compact` makes it again."]
    return []


def _statistics(store: SqliteStore) -> list[str]:
    store.statistics()  # raises an error if it is damaged
    return []


def _calibrations(store: SqliteStore) -> list[str]:
    for version in store.calibrations.versions():
        storage.from_bytes(store.calibrations.read(version).fitted, f"calibration {version}")
    return []
