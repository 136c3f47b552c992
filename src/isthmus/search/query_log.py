"""Queries given for calibration, and a log of real searches: the best reference queries.

The log is off by default. Only words are stored, no pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock

from isthmus.documents import Query
from isthmus.errors import CannotWrite
from isthmus.storage.facts import readable
from isthmus.storage.protocols import Queries, Store

TOGETHER = 32  # queries that are written at once
REFERENCES = 1000  # of the logged queries that a calibration takes


class QueryLog:
    """Stores the words of queries in the collection, not pictures."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[tuple[str, str]] = []
        self._lock = Lock()

    @property
    def on(self) -> bool:
        """Whether the log is on."""
        return self._store.queries.on

    def switch(self, on: bool) -> None:
        """Switch the log on or off; switching it off deletes its queries."""
        with self._lock:
            self._waiting = self._waiting if on else []
        self._store.queries.switch(on)

    def note(self, queries: Sequence[Query]) -> None:
        """Add queries to the log, if it is on."""
        if not self._store.database.writable or not self.on:
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
        self._store.queries.give(rows)

    def flush(self) -> None:
        """Write buffered queries. If the database is busy they are dropped; a search never fails for them."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._store.queries.add(waiting)
        except CannotWrite:
            return


def of_words(query: Query) -> bool:
    """Whether a query has words and nothing else."""
    return query.image is None and not query.vectors and bool(query.text)


def kept(queries: Queries) -> list[tuple[Query, str | None]]:
    """Return the queries that were given, then those logged, newest first."""
    logged: list[tuple[str, str | None]] = [(text, None) for text in queries.recent(REFERENCES)]
    return [(Query(text=text), answer) for text, answer in [*queries.given(), *logged]]
