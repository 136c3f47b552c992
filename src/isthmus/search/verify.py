"""Reading everything back: what a document has must be what was stored, wherever its bits are kept.

SQLite looks after its own pages, not after what stands in them. A checksum per document covers its columns, its
picture and its vectors; what filters and words look at is compared with the document it was made from.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from isthmus.errors import IsthmusError
from isthmus.search.facts import facts
from isthmus.search.store import Store, checksum

AT_ONCE = 500  # documents that are read together

DOCUMENTS = """
SELECT d.row, d.checksum, d.id, d.modality, d.text, d.image, d.metadata, d.text_hash, d.image_hash, d.own_hash, b.image
FROM documents d LEFT JOIN blobs b ON b.document = d.row WHERE d.row BETWEEN ? AND ? ORDER BY d.row
"""
VECTORS = """
SELECT document, part, passage, start, stop, vector FROM vectors WHERE document BETWEEN ? AND ? ORDER BY row
"""
FACTS = "SELECT document, name, value FROM facts WHERE document BETWEEN ? AND ?"
STRAYS = "SELECT count(*) FROM {table} WHERE document NOT IN (SELECT row FROM documents)"


def problems(store: Store) -> list[str]:
    """Return what is wrong with the documents, all of which are read."""
    found: list[str] = []
    spans = range(0, store.last() + 1, AT_ONCE)
    checks: list[Callable[[], list[str]]] = [partial(_of_documents, store, first) for first in spans]
    checks += [partial(check, store) for check in (_strays, _words, _statistics)]
    for check in checks:
        try:
            found += check()
        except IsthmusError as error:
            found.append(str(error))
    return found


def _of_documents(store: Store, first: int) -> list[str]:
    span = (first, first + AT_ONCE - 1)
    pieces: dict[int, list[Any]] = defaultdict(list)
    for row, *piece in store.database.all(VECTORS, *span):
        pieces[row].append(piece)
    said: dict[int, set[Any]] = defaultdict(set)
    for row, name, value in store.database.all(FACTS, *span):
        said[row].add((name, value))
    found: list[str] = []
    for row, written, *values, kept in store.database.all(DOCUMENTS, *span):
        if checksum(values, kept, pieces[row]) != written:
            found.append(f"document {values[0]!r} does not match its checksum. Add it again.")
        elif set(facts(json.loads(values[4]))) != said[row]:
            found.append(f"document {values[0]!r}: what filters look at is not its metadata. Add it again.")
    return found


def _strays(store: Store) -> list[str]:
    counts = {table: store.database.one(STRAYS.format(table=table))[0] for table in ("vectors", "blobs", "facts")}
    return [f"{count} rows of {table} belong to no document." for table, count in counts.items() if count]


def _words(store: Store) -> list[str]:
    if store.database.writable:  # the check is written as an insertion, though it changes nothing
        with store.database.writing() as connection:
            connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 0)")
    return []


def _statistics(store: Store) -> list[str]:
    store.statistics()  # knows its own damage
    return []
