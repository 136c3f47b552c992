"""Fitted calibrations by number; the manifest names the one that is served."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import StoredCalibration
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import Database

KEPT = 3  # calibrations, including the served one


@dataclass(frozen=True, slots=True, eq=False)
class SqliteCalibrations:
    """The table ``calibrations``."""

    database: Database

    def served(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        return int(self.database.manifest("calibration").get("calibration", 0))

    def spec(self) -> str | None:
        """Return the spec that was requested for the collection."""
        found = self.database.manifest("spec").get("spec")
        return None if found is None else str(found)

    def versions(self) -> list[int]:
        """Return the numbers of all calibrations."""
        return [int(version) for (version,) in self.database.all("SELECT version FROM calibrations ORDER BY version")]

    def draft(self, make: Callable[[int], StoredCalibration]) -> int:
        """Write a calibration under a new number, not served yet; return the number."""
        with self.database.writing() as connection:
            statement = "INSERT INTO calibrations (made, spec, sequence, fitted, extras) VALUES ('', '', 0, x'', '')"
            version = int(connection.execute(statement).lastrowid or 0)
            self._write(connection, make(version))
        return version

    def forget_drafts(self, keep: int = 0) -> None:
        """Delete drafts that were not published, because their process was killed; earlier ones and ``keep`` stay."""
        newer = "FROM calibrations WHERE version > ? AND version != ?"
        if self.database.one(f"SELECT count(*) {newer}", self.served(), keep)[0]:
            with suppress(CannotWrite), self.database.writing(wait=False) as connection:  # else the next one deletes it
                connection.execute(f"DELETE {newer}", (self.served(), keep))

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on, if ``over`` and ``encoding`` still match what is served."""
        with self.database.writing() as connection:
            now = self.database.manifest("calibration", "encoding")
            other = over is not None and over != now.get("calibration", 0)
            if other or (encoding is not None and encoding != now.get("encoding", 0)):
                connection.execute("DELETE FROM calibrations WHERE version = ?", (made.version,))
                return
            self._write(connection, made)
            schema.put(connection, calibration=made.version, spec=spec)
            connection.execute("DELETE FROM calibrations WHERE version <= ?", (made.version - KEPT,))

    def replace_all(self, connection: sqlite3.Connection, kept: Sequence[StoredCalibration], spec: str) -> None:
        """Keep these calibrations, oldest first, in place of all others; the last one is served."""
        connection.execute("DELETE FROM calibrations")
        connection.execute("DELETE FROM manifest WHERE name = 'calibration'")
        for made in kept:
            self._write(connection, made)
            schema.put(connection, calibration=made.version, spec=spec)

    def _write(self, connection: sqlite3.Connection, made: StoredCalibration) -> None:
        statement = "INSERT OR REPLACE INTO calibrations VALUES (?1, ?2, ?3, ?4, ?5, ?6, seal(?1, ?2, ?3, ?4, ?5, ?6))"
        values = (made.version, made.made, made.spec, made.sequence, made.fitted, made.extras)
        connection.execute(statement, values)

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        columns = f"version, made, spec, sequence, fitted, extras, checksum IS {schema.sealed('calibrations')}"
        row = self.database.one(f"SELECT {columns} FROM calibrations WHERE version = ?", version)
        path = self.database.path
        if row is None:
            raise BadFile(f"{path}: calibration {version} is missing. Run `isthmus calibrate` to make another.")
        *values, whole = row
        if not whole:
            raise BadFile(
                f"{path}: calibration {version} does not match its checksum. Run `isthmus calibrate` to make another; "
                "the documents are not affected."
            )
        return StoredCalibration(*values)
