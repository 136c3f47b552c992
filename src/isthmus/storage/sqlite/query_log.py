"""The words of real queries, if the log is on, and queries given for calibration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import Database

KEPT = 10_000
WHOLE = f"text IS NOT NULL AND checksum IS {schema.sealed('query_log')}"


@dataclass(frozen=True, slots=True, eq=False)
class SqliteQueries:
    """The table ``query_log``, and the given queries in the manifest."""

    database: Database

    @property
    def on(self) -> bool:
        """Whether the log is on."""
        return bool(self.database.manifest("log").get("log"))

    def switch(self, on: bool) -> None:
        """Switch the log on or off; switching it off deletes its queries."""
        with self.database.writing() as connection:
            schema.put(connection, log=int(on))
            if not on:
                connection.execute("DELETE FROM query_log")

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add queries, (time, text), and keep only the newest; add none if the log was switched off meanwhile."""
        with self.database.writing() as connection:
            if not self.on:
                return
            connection.executemany("INSERT INTO query_log (time, text) VALUES (?, ?)", rows)
            schema.seal(connection, "query_log", "checksum IS NULL")
            newest = "SELECT max(number) FROM query_log"
            connection.execute(f"DELETE FROM query_log WHERE number <= ({newest}) - ?", (KEPT,))

    def logged(self) -> list[tuple[str, str]]:
        """Return the log, (time, text), oldest first, without damaged queries."""
        return self.database.all(f"SELECT time, text FROM query_log WHERE {WHOLE} ORDER BY number")

    def count(self) -> int:
        """Return the number of queries in the log."""
        return int(self.database.one("SELECT count(*) FROM query_log")[0])

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries, without damaged ones."""
        statement = f"SELECT text FROM query_log WHERE {WHOLE} ORDER BY number DESC LIMIT ?"
        return [text for (text,) in self.database.all(statement, count)]

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Replace the queries given for calibration, (text, id of the answer)."""
        with self.database.writing() as connection:
            schema.put(connection, queries=json.dumps(rows))

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries given for calibration."""
        return [(text, answer) for text, answer in json.loads(self.database.manifest("queries").get("queries", "[]"))]
