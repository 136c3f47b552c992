"""Verification: read everything back and compare it with what was stored.

The server checks its pages (data checksums, on by default since PostgreSQL 18). Documents, parts, vectors and
calibrations have checksums of their own; facts and words are compared with the documents they were made from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from isthmus.calibration import storage
from isthmus.errors import IsthmusError
from isthmus.storage.postgres.filters import facts_json

if TYPE_CHECKING:
    from isthmus.storage.postgres.store import PostgresStore

AT_ONCE = 500  # documents that are read together
STRAYS = "SELECT count(*) FROM {table} t WHERE NOT EXISTS (SELECT FROM documents d WHERE d.row = t.document)"
FACTS = "SELECT id, metadata::text, facts FROM documents WHERE row = ANY(%s) ORDER BY row"
TOTALS = "SELECT count(tokens), coalesce(sum(tokens), 0)::bigint FROM documents"
WORDS = "SELECT document, sum(count)::bigint FROM words WHERE document = ANY(%s) GROUP BY document"


def problems(store: PostgresStore) -> list[str]:
    """Read all documents, and return what is damaged."""
    found: list[str] = []
    rows = store.rows()
    spans = [rows[start : start + AT_ONCE] for start in range(0, len(rows), AT_ONCE)]
    checks: list[Callable[[], list[str]]] = [partial(_of_documents, store, span) for span in spans]
    checks += [partial(check, store) for check in (_strays, _totals, _statistics, _calibrations)]
    for check in checks:
        try:
            found += check()
        except IsthmusError as error:
            found.append(str(error))
    return found


def _of_documents(store: PostgresStore, rows: Sequence[int]) -> list[str]:
    found: list[str] = []
    names = store.names()
    for row in rows:
        try:
            store.documents([row])
            if (
                len(store.segments([row])[row])
                != store.database.one("SELECT segments FROM documents WHERE row = %s", row)[0]
            ):
                found.append(f"document {names[row]!r} does not match its checksum. Add it again.")
        except IsthmusError:
            found.append(f"document {names[row]!r} does not match its checksum. Add it again.")
    for name, metadata, facts in store.database.all(FACTS, list(rows)):
        if json.loads(facts_json(json.loads(metadata))) != facts:
            found.append(f"document {name!r}: what filters look at is not its metadata. Add it again.")
    counted = dict(store.database.all(WORDS, list(rows)))
    texts = store.texts(rows)
    split = dict(zip(texts, store.tokenizer.tokens(list(texts.values())), strict=True))
    for row, tokens in split.items():
        if len(tokens) != counted.get(row, 0):
            found.append(f"document {names[row]!r}: the index of words does not match its text. Add it again.")
    return found


def _strays(store: PostgresStore) -> list[str]:
    counts = {table: store.database.one(STRAYS.format(table=table))[0] for table in ("parts", "segments", "words")}
    return [f"{count} rows of {table} belong to no document." for table, count in counts.items() if count]


def _totals(store: PostgresStore) -> list[str]:
    manifest = store.database.manifest("texts", "tokens")
    right = tuple(store.database.one(TOTALS)) == (manifest.get("texts"), manifest.get("tokens"))
    return [] if right else ["the number of words in the manifest is not that of the documents."]


def _statistics(store: PostgresStore) -> list[str]:
    store.statistics()  # raises an error if it is damaged
    return []


def _calibrations(store: PostgresStore) -> list[str]:
    for version in store.calibrations.versions():
        storage.from_bytes(store.calibrations.read(version).fitted, f"calibration {version}")
    return []
