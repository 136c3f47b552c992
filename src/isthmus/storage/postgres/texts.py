"""The texts of documents: what is stored of a part's content, and the words of all text parts."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence

from isthmus.documents import BETWEEN_TEXTS
from isthmus.kinds import TEXT
from isthmus.storage.postgres.database import PostgresDatabase

STATEMENT = (
    "SELECT document, content, encoded FROM parts WHERE kind = %s AND document = ANY(%s) ORDER BY document, number"
)


def stored(content: str) -> tuple[str | None, bytes | None]:
    r"""Return a text or a path as the database can hold it: as a text, or as bytes if it is none for PostgreSQL.

    >>> stored("a cat"), stored("\0")
    (('a cat', None), (None, b'\x00'))
    """
    if "\0" not in content:
        try:
            content.encode()
        except UnicodeEncodeError:
            return None, os.fsencode(content)
        return content, None
    return None, os.fsencode(content)


def restored(content: str | None, encoded: bytes | None) -> str | None:
    """Return a text or a path from what is stored; None if neither is."""
    return os.fsdecode(encoded) if content is None and encoded is not None else content


def texts_of(database: PostgresDatabase, rows: Sequence[int]) -> dict[int, str]:
    """Return the words of documents, from all text parts."""
    found: dict[int, list[str]] = defaultdict(list)
    for row, content, encoded in database.all(STATEMENT, TEXT, [int(row) for row in rows]) if rows else ():
        found[row].append(restored(content, encoded) or "")
    return {row: BETWEEN_TEXTS.join(texts) for row, texts in found.items()}
