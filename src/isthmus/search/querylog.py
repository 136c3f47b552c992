"""A log of real queries, off until somebody switches it on: what people really ask is the best reference."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from isthmus.documents import Query
from isthmus.errors import CannotWrite
from isthmus.search.database import Database
from isthmus.search.facts import readable

KEPT = 10_000
TOGETHER = 32  # queries that are written at once


class QueryLog:
    """Keeps the words of queries in the collection. Pictures are not kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[str, str]] = []
        self._lock = Lock()

    @property
    def on(self) -> bool:
        """Whether queries are kept."""
        found = self._database.one("SELECT value FROM manifest WHERE name = 'log'")
        return bool(found and found[0])

    def switch(self, on: bool) -> None:
        """Begin or stop to keep queries; stopping forgets those that were kept."""
        with self._lock:
            self._waiting = self._waiting if on else []
        with self._database.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO manifest VALUES ('log', ?)", (int(on),))
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
                oldest = "SELECT max(number) FROM asked"
                connection.execute(f"DELETE FROM asked WHERE number <= ({oldest}) - ?", (KEPT,))
        except CannotWrite:
            return
