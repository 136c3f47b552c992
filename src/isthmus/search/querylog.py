"""What people really ask is the best reference: queries given for calibration, and a log of searches.

The log is off until somebody switches it on. Words alone are kept, no pictures.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from isthmus.documents import Query
from isthmus.errors import CannotWrite
from isthmus.search import schema
from isthmus.search.database import Database
from isthmus.search.facts import readable

KEPT = 10_000
TOGETHER = 32  # queries that are written at once
REFERENCES = 1000  # of the logged queries that a calibration takes


class QueryLog:
    """Keeps the words of queries in the collection. Pictures are not kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[str, str]] = []
        self._lock = Lock()

    @property
    def on(self) -> bool:
        """Whether queries are kept."""
        return bool(self._database.manifest("log").get("log"))

    def switch(self, on: bool) -> None:
        """Begin or stop to keep queries; stopping forgets those that were kept."""
        with self._lock:
            self._waiting = self._waiting if on else []
        with self._database.writing() as connection:
            schema.put(connection, log=int(on))
            if not on:
                connection.execute("DELETE FROM asked")

    def note(self, queries: Sequence[Query]) -> None:
        """Keep queries, if the log is on."""
        if not self._database.writable or not self.on:
            return
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._lock:
            self._waiting += [(now, readable(query.text)) for query in queries if query.text]
            full = len(self._waiting) >= TOGETHER
        if full:
            self.flush()

    def keep(self, own: Sequence[tuple[Query, str | None]]) -> None:
        """Keep queries that were given for calibration, with the ids of their answers, in place of earlier ones."""
        rows = [(query.text, answer) for query, answer in own if of_words(query)]
        with self._database.writing() as connection:
            schema.put(connection, queries=json.dumps(rows))

    def flush(self) -> None:
        """Write what waits. A busy database loses a few queries, never a search."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            with self._database.writing() as connection:
                if not self.on:
                    return  # another process has switched it off meanwhile
                connection.executemany("INSERT INTO asked (time, text) VALUES (?, ?)", waiting)
                schema.seal(connection, "asked", "checksum IS NULL")
                oldest = "SELECT max(number) FROM asked"
                connection.execute(f"DELETE FROM asked WHERE number <= ({oldest}) - ?", (KEPT,))
        except CannotWrite:
            return


def of_words(query: Query) -> bool:
    """Whether a query says words and nothing else."""
    return query.image is None and not query.vectors and bool(query.text)


def kept(database: Database) -> list[tuple[Query, str | None]]:
    """Return the queries that were given, then those logged, newest first."""
    given = database.manifest("queries").get("queries", "[]")
    statement = f"SELECT text, NULL FROM asked WHERE text IS NOT NULL AND checksum IS {schema.sealed('asked')}"
    rows = database.all(f"{statement} ORDER BY number DESC LIMIT ?", REFERENCES)  # a damaged one is left out
    return [(Query(text=text), answer) for text, answer in [*json.loads(given), *rows]]
