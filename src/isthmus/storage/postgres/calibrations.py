"""Fitted calibrations by number; the manifest names the one that is served."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from isthmus import checksums
from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import StoredCalibration
from isthmus.storage.conflicts import retry_conflicts
from isthmus.storage.postgres import schema
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.pool import Connection

KEPT = 3  # calibrations, including the served one
COLUMNS = "version, made, spec, sequence, fitted, extras"
WRITE = (
    f"INSERT INTO calibrations ({COLUMNS}, checksum) VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (version) "
    "DO UPDATE SET made = excluded.made, spec = excluded.spec, sequence = excluded.sequence, "
    "fitted = excluded.fitted, extras = excluded.extras, checksum = excluded.checksum"
)
# Numbers that were written as they are must not be given out again.
SKIP_NUMBERS = (
    "SELECT nextval(pg_get_serial_sequence('calibrations', 'version')) FROM generate_series("
    "1 + coalesce(pg_sequence_last_value(pg_get_serial_sequence('calibrations', 'version')::regclass), 0), %s)"
)
# numbers have gaps: the server skips some when it crashes, or when its replica is promoted
OLDER = (
    "DELETE FROM calibrations WHERE version < (SELECT min(version) FROM (SELECT version FROM calibrations "
    "WHERE version <= %s ORDER BY version DESC LIMIT %s) AS kept)"
)
NUMBER = "SELECT nextval(pg_get_serial_sequence('calibrations', 'version'))"


@dataclass(frozen=True, slots=True, eq=False)
class PostgresCalibrations:
    """The table ``calibrations``."""

    database: PostgresDatabase

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
        return retry_conflicts(lambda: self._draft(make))

    def _draft(self, make: Callable[[int], StoredCalibration]) -> int:
        with self.database.writing() as connection:
            version = int(connection.execute(NUMBER).fetchall()[0][0])
            _write(connection, make(version))
        return version

    def forget_drafts(self, keep: int = 0) -> None:
        """Delete drafts that were not published, because their process was killed; earlier ones and ``keep`` stay."""
        newer = "FROM calibrations WHERE version > %s AND version != %s"
        if self.database.one(f"SELECT count(*) {newer}", self.served(), keep)[0]:
            with suppress(CannotWrite), self.database.writing(wait=False) as connection:  # else the next one deletes it
                connection.execute(f"DELETE {newer}", (self.served(), keep))

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on, if ``over`` and ``encoding`` still match what is served."""
        retry_conflicts(lambda: self._publish(made, spec, over, encoding))

    def _publish(self, made: StoredCalibration, spec: str, over: int | None, encoding: int | None) -> None:
        with self.database.writing() as connection:
            now = self.database.manifest("calibration", "encoding")
            other = over is not None and over != now.get("calibration", 0)
            if other or (encoding is not None and encoding != now.get("encoding", 0)):
                connection.execute("DELETE FROM calibrations WHERE version = %s", (made.version,))
                return
            _write(connection, made)
            schema.put(connection, calibration=made.version, spec=spec)
            connection.execute(OLDER, (made.version, KEPT))

    def replace_all(self, connection: Connection, kept: Sequence[StoredCalibration], spec: str) -> None:
        """Keep these calibrations, oldest first, in place of all others; the last one is served."""
        connection.execute("DELETE FROM calibrations")
        connection.execute("DELETE FROM manifest WHERE name = 'calibration'")
        for made in kept:
            _write(connection, made)
            schema.put(connection, calibration=made.version, spec=spec)
        if kept:
            connection.execute(SKIP_NUMBERS, (kept[-1].version,))

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        row = self.database.one(f"SELECT {COLUMNS}, checksum FROM calibrations WHERE version = %s", version)
        path = self.database.path
        if row is None:
            raise BadFile(f"{path}: calibration {version} is missing. Run `isthmus calibrate` to make another.")
        *values, checksum = row
        if _sealed(found := StoredCalibration(*values)) != checksum:
            raise BadFile(
                f"{path}: calibration {version} does not match its checksum. Run `isthmus calibrate` to make another; "
                "the documents are not affected."
            )
        return found


def _sealed(made: StoredCalibration) -> int:
    return checksums.of_values(made.version, made.made, made.spec, made.sequence, made.fitted, made.extras)


def _write(connection: Connection, made: StoredCalibration) -> None:
    values = (made.version, made.made, made.spec, made.sequence, made.fitted, made.extras, _sealed(made))
    connection.execute(WRITE, values)
