"""The files that documents came from, and inputs that could not be read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isthmus.storage.base import Holder, LedgerRows, SkippedRow, Unit, UnitRow
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import Database

UNIT = "INSERT INTO units VALUES (?1, ?2, ?3, ?4, ?5, seal(?1, ?2, ?3, ?4, ?5))"
SKIP = "INSERT INTO skipped VALUES (?1, ?2, ?3, ?4, seal(?1, ?2, ?3, ?4))"


@dataclass(frozen=True, slots=True, eq=False)
class SqliteLedger:
    """The tables ``units`` and ``skipped``, and where documents point to them."""

    database: Database

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        run, number = self.database.one("SELECT max(run), max(number) FROM units")
        return 1 + (run or 0), 1 + (number or 0)

    def unit(self, root: str, key: str) -> Unit | None:
        """Return the record of a file."""
        found = self.database.one("SELECT number, key, stamp FROM units WHERE root = ? AND key = ?", root, key)
        return Unit(*found) if found else None

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty if there is none."""
        found = self.database.one("SELECT key FROM units WHERE number = ?", number)
        return str(found[0]) if found else ""

    def holds(self, root: str, inside: str) -> bool:
        """Whether a source has units at or below a path."""
        below = "key = ?2 OR key BETWEEN ?2 || '/' AND ?2 || '0'"
        statement = f"SELECT 1 FROM units WHERE root = ?1 AND (?1 = ?2 OR {below}) LIMIT 1"
        return bool(self.database.one(statement, root, inside))

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run did not find."""
        statement = "SELECT number, key, stamp FROM units WHERE root = ? AND (run IS NULL OR run != ?)"
        return [Unit(*row) for row in self.database.all(statement, root, run)]

    def count(self, number: int) -> int:
        """Return the number of documents of a unit."""
        return int(self.database.one("SELECT count(*) FROM documents WHERE unit = ?", number)[0])

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        marks = ",".join("?" * len(names))
        statement = f"SELECT 1 FROM documents WHERE unit = ? AND id IN ({marks})"
        if before is not None:
            return bool(self.database.one(f"{statement} AND run != ?", number, *names, before))
        return bool(self.database.one(statement, number, *names))

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None if there is none."""
        tables = "documents d LEFT JOIN units u ON u.number = d.unit"
        found = self.database.one(f"SELECT d.unit, d.run, u.root, u.run FROM {tables} WHERE d.id = ?", name)
        return Holder(*found) if found else None

    def sources(self) -> dict[str, int]:
        """Return the number of files of each source."""
        return dict(self.database.all("SELECT root, count(*) FROM units GROUP BY root"))

    def rows(self) -> LedgerRows:
        """Return everything that is recorded."""
        units = self.database.all("SELECT number, root, key, stamp, run FROM units ORDER BY number")
        skipped = self.database.all("SELECT root, key, place, why FROM skipped ORDER BY rowid")
        return LedgerRows(tuple(UnitRow(*row) for row in units), tuple(SkippedRow(*row) for row in skipped))

    def replace_all(self, connection: sqlite3.Connection, rows: LedgerRows) -> None:
        """Record this instead of what is there; at the commit, documents may only name files that it has."""
        connection.execute("PRAGMA defer_foreign_keys = ON")  # until this transaction ends
        connection.execute("DELETE FROM units")
        connection.execute("DELETE FROM skipped")
        connection.executemany(UNIT, rows.units)
        connection.executemany(SKIP, rows.skipped)

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        return self.database.all("SELECT place, why FROM skipped ORDER BY rowid")

    def begin(self, connection: sqlite3.Connection, number: int, root: str, key: str, run: int) -> None:
        """Record that a unit is being read: it has no stamp until it is done, and its skipped entries are cleared."""
        connection.execute("INSERT OR IGNORE INTO units (number, root, key) VALUES (?, ?, ?)", (number, root, key))
        connection.execute("UPDATE units SET stamp = NULL, run = ? WHERE number = ?", (run, number))
        schema.seal(connection, "units", "number = ?", number)
        self.forget_skipped(connection, [(root, key)])

    def met(self, connection: sqlite3.Connection, numbers: Iterable[int], run: int) -> None:
        """Record that a run found these units unchanged."""
        statement = "UPDATE units SET run = ?1, checksum = seal(number, root, key, stamp, ?1) WHERE number = ?2"
        connection.executemany(statement, [(run, number) for number in numbers])

    def keep(self, connection: sqlite3.Connection, number: int, names: Sequence[str], run: int) -> None:
        """Record that a run found documents of a unit unchanged."""
        marks = ",".join(f"?{3 + at}" for at in range(len(names)))
        statement = "UPDATE documents SET run = ?1, origin = seal(id, unit, ?1) WHERE unit = ?2"
        connection.execute(f"{statement} AND id IN ({marks})", (run, number, *names))

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read completely: (stamp, unit)."""
        with self.database.writing() as connection:
            statement = "UPDATE units SET stamp = ?1, checksum = seal(number, root, key, ?1, run) WHERE number = ?2"
            connection.executemany(statement, ended)

    def skip(self, connection: sqlite3.Connection, root: str, key: str, place: str, why: str) -> None:
        """Record an input that could not be read."""
        connection.execute(SKIP, (root, key, place, why))

    def forget_skipped(self, connection: sqlite3.Connection, units: Sequence[tuple[str, str]]) -> None:
        """Remove the skipped entries of units, by root and key."""
        connection.executemany("DELETE FROM skipped WHERE root = ? AND key = ?", units)

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Delete the records of units whose documents were deleted."""
        with self.database.writing() as connection:
            connection.executemany("DELETE FROM units WHERE number = ?", [(unit.number,) for unit in units])
            self.forget_skipped(connection, [(root, unit.key) for unit in units])

    def skip_documents(self, connection: sqlite3.Connection, why: dict[str, str]) -> None:
        """Record documents by id as skipped, so that the next run reads their files again."""
        for name, reason in why.items():
            statement = (
                "SELECT u.number, u.root, u.key FROM documents d JOIN units u ON u.number = d.unit WHERE d.id = ?"
            )
            for number, root, key in connection.execute(statement, (name,)).fetchall():
                self.skip(connection, root, key, name, reason)
                connection.execute("UPDATE units SET stamp = NULL WHERE number = ?", (number,))
                schema.seal(connection, "units", "number = ?", number)
