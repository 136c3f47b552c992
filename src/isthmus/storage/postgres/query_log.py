"""The words of real queries, if the log is on, and queries given for calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.storage.postgres import schema
from isthmus.storage.postgres.database import PostgresDatabase

KEPT = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class PostgresQueries:
    """The table ``query_log``, and the given queries in the manifest."""

    database: PostgresDatabase

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
        with self.database.writing() as connection, connection.cursor() as cursor:
            if not self.on:
                return
            clean = [(time, text.replace("\0", " ")) for time, text in rows]
            cursor.executemany("INSERT INTO query_log (time, text) VALUES (%s, %s)", clean)
            newest = "SELECT max(number) FROM query_log"
            cursor.execute(f"DELETE FROM query_log WHERE number <= ({newest}) - %s", (KEPT,))

    def logged(self) -> list[tuple[str, str]]:
        """Return the log, (time, text), oldest first."""
        return self.database.all("SELECT time, text FROM query_log ORDER BY number")

    def count(self) -> int:
        """Return the number of queries in the log."""
        return int(self.database.one("SELECT count(*) FROM query_log")[0])

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries."""
        statement = "SELECT text FROM query_log ORDER BY number DESC LIMIT %s"
        return [text for (text,) in self.database.all(statement, count)]

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Replace the queries given for calibration, (text, id of the answer)."""
        with self.database.writing() as connection:
            schema.put(connection, queries=[list(row) for row in rows])

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries given for calibration."""
        return [(text, answer) for text, answer in self.database.manifest("queries").get("queries", [])]
