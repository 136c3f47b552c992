"""The files that documents came from, and inputs that could not be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isthmus.storage.base import Holder, LedgerRows, SkippedRow, Unit, UnitRow
from isthmus.storage.conflicts import retry_conflicts
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.pool import Connection

UNIT = "INSERT INTO units (number, root, key, stamp, run) VALUES (%s, %s, %s, %s, %s)"
SKIP = "INSERT INTO skipped (root, key, place, why) VALUES (%s, %s, %s, %s)"


@dataclass(frozen=True, slots=True, eq=False)
class PostgresLedger:
    """The tables ``units`` and ``skipped``, and where documents point to them."""

    database: PostgresDatabase

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        run, number = self.database.one("SELECT coalesce(max(run), 0), coalesce(max(number), 0) FROM units")
        return 1 + run, 1 + number

    def unit(self, root: str, key: str) -> Unit | None:
        """Return the record of a file."""
        found = self.database.one("SELECT number, key, stamp FROM units WHERE root = %s AND key = %s", root, key)
        return Unit(*found) if found else None

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty if there is none."""
        found = self.database.one("SELECT key FROM units WHERE number = %s", number)
        return str(found[0]) if found else ""

    def holds(self, root: str, inside: str) -> bool:
        """Whether a source has units at or below a path."""
        below = "key = %s OR starts_with(key, %s)"
        statement = f"SELECT 1 FROM units WHERE root = %s AND (%s OR {below}) LIMIT 1"
        return bool(self.database.one(statement, root, root == inside, inside, f"{inside}/"))

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run did not find."""
        statement = "SELECT number, key, stamp FROM units WHERE root = %s AND run IS DISTINCT FROM %s ORDER BY number"
        return [Unit(*row) for row in self.database.all(statement, root, run)]

    def count(self, number: int) -> int:
        """Return the number of documents of a unit."""
        return int(self.database.one("SELECT count(*) FROM documents WHERE unit = %s", number)[0])

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        statement = (
            "SELECT 1 FROM documents WHERE unit = %s AND id = ANY(%s) AND (%s::bigint IS NULL OR run != %s) LIMIT 1"
        )
        return bool(self.database.one(statement, number, list(names), before, before))

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None if there is none."""
        tables = "documents d LEFT JOIN units u ON u.number = d.unit"
        found = self.database.one(f"SELECT d.unit, d.run, u.root, u.run FROM {tables} WHERE d.id = %s", name)
        return Holder(*found) if found else None

    def sources(self) -> dict[str, int]:
        """Return the number of files of each source."""
        return dict(self.database.all("SELECT root, count(*) FROM units GROUP BY root ORDER BY root"))

    def rows(self) -> LedgerRows:
        """Return everything that is recorded."""
        units = self.database.all("SELECT number, root, key, stamp, run FROM units ORDER BY number")
        skipped = self.database.all("SELECT root, key, place, why FROM skipped ORDER BY number")
        return LedgerRows(tuple(UnitRow(*row) for row in units), tuple(SkippedRow(*row) for row in skipped))

    def replace_all(self, connection: Connection, rows: LedgerRows) -> None:
        """Record this instead of what is there."""
        connection.execute("DELETE FROM units; DELETE FROM skipped")
        with connection.cursor() as cursor:
            cursor.executemany(UNIT, rows.units)
        for row in rows.skipped:
            self.skip(connection, *row)

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        return self.database.all("SELECT place, why FROM skipped ORDER BY number")

    def begin(self, connection: Connection, number: int, root: str, key: str, run: int) -> None:
        """Record that a unit is being read: it has no stamp until it is done, and its skipped entries are cleared."""
        connection.execute(
            "INSERT INTO units (number, root, key, run) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (number) DO UPDATE SET stamp = NULL, run = excluded.run",
            (number, root, key, run),
        )
        self.forget_skipped(connection, [(root, key)])

    def met(self, connection: Connection, numbers: Iterable[int], run: int) -> None:
        """Record that a run found these units unchanged."""
        connection.execute("UPDATE units SET run = %s WHERE number = ANY(%s)", (run, list(numbers)))

    def keep(self, connection: Connection, number: int, names: Sequence[str], run: int) -> None:
        """Record that a run found documents of a unit unchanged."""
        connection.execute("UPDATE documents SET run = %s WHERE unit = %s AND id = ANY(%s)", (run, number, list(names)))

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read completely: (stamp, unit)."""
        retry_conflicts(lambda: self._stamp(ended))

    def _stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        with self.database.writing() as connection, connection.cursor() as cursor:
            cursor.executemany("UPDATE units SET stamp = %s WHERE number = %s", ended)

    def skip(self, connection: Connection, root: str, key: str, place: str, why: str) -> None:
        """Record an input that could not be read."""
        connection.execute(SKIP, (root, key, place, why.replace("\0", "\u2400")))

    def forget_skipped(self, connection: Connection, units: Sequence[tuple[str, str]]) -> None:
        """Remove the skipped entries of units, by root and key."""
        with connection.cursor() as cursor:
            cursor.executemany("DELETE FROM skipped WHERE root = %s AND key = %s", units)

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Delete the records of units whose documents were deleted."""
        retry_conflicts(lambda: self._forget(root, units))

    def _forget(self, root: str, units: Sequence[Unit]) -> None:
        with self.database.writing() as connection:
            connection.execute("DELETE FROM units WHERE number = ANY(%s)", ([unit.number for unit in units],))
            self.forget_skipped(connection, [(root, unit.key) for unit in units])

    def skip_documents(self, connection: Connection, why: dict[str, str]) -> None:
        """Record documents by id as skipped, so that the next run reads their files again."""
        statement = "SELECT u.number, u.root, u.key FROM documents d JOIN units u ON u.number = d.unit WHERE d.id = %s"
        for name, reason in why.items():
            for number, root, key in connection.execute(statement, (name,)).fetchall():
                self.skip(connection, root, key, name, reason)
                connection.execute("UPDATE units SET stamp = NULL WHERE number = %s", (number,))
