"""One SQLite file: connections, transactions, and SQLite's errors in words that help."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

from isthmus.errors import BadFile, BadInput, CannotWrite, IsthmusError
from isthmus.search import schema

FILE = "collection.sqlite"
PAGE = 16384  # a few vectors of usual size fit into one page
WAIT = 30.0  # seconds that a short transaction of another process is waited for


class Database:
    """A connection to a collection's file. Threads may share it: one uses it at a time."""

    def __init__(self, folder: Path, *, writable: bool = True) -> None:
        self.path = folder / FILE
        self.writable = writable
        self.closed = False
        self.still = False  # opened as a file that nobody changes
        self.lock = RLock()
        with self.explained():
            self.connection = self._connect()
            try:
                self.connection.execute("PRAGMA foreign_keys = ON")
                self._prepare()
            except BaseException:
                self.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        if self.writable:
            return _open(f"{address}?mode=rwc")
        self.seen = self._looks()
        connection = _open(f"{address}?mode=ro")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:  # nobody has it open, and in this folder we may not make what WAL needs
            connection.close()
            if self.seen[1]:
                raise CannotWrite(
                    f"{self.path} was not closed by its last writer, and this user may not finish its work. Open it "
                    "once as a user who may write there."
                ) from None
            self.still = True
            return _open(f"{address}?mode=ro&immutable=1")
        self.still = False
        return connection

    def _looks(self) -> tuple[int, int, int]:
        """Return what changes with the files: a file that is opened as immutable is opened again after that."""
        journal = self.path.with_name(f"{FILE}-wal")
        status = self.path.stat()
        return status.st_mtime_ns, journal.stat().st_size if journal.exists() else 0, status.st_size

    def _fresh(self) -> sqlite3.Connection:
        if self.still and not self.closed and self._looks() != self.seen:
            self.connection.close()
            self.connection = self._connect()
        return self.connection

    def _prepare(self) -> None:
        """Make the tables when there are none, or bring them up to date."""
        used = any((self.path.parent / name).exists() for name in ("index", "writer.lock"))  # both come after tables
        tables = self.one("SELECT count(*) FROM sqlite_master WHERE name = 'manifest'")[0]
        if not tables and self.one("SELECT count(*) FROM sqlite_master")[0]:
            raise BadFile(f"{self.path} is a database, but not of an isthmus collection. Name another folder.")
        if used and not tables:
            raise BadFile(
                f"{self.path} is empty, and it was not always: an index or a lock lies beside it. Restore it from a "
                "copy, or delete the folder and index again."
            )
        if not self.writable:
            if not tables:
                raise BadFile(f"{self.path} holds no collection. Make one with `isthmus index PATH --into DIR`.")
            if schema.check(self.sequence("schema"), str(self.path)):
                raise CannotWrite(f"{self.path} is of an older isthmus and cannot be brought up to date: read-only.")
            return
        if not tables:
            self.connection.execute(f"PRAGMA page_size = {PAGE}")
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")  # acknowledged means on the disk
        if not tables:
            with self.writing():
                if not self.one("SELECT count(*) FROM sqlite_master WHERE name = 'manifest'")[0]:
                    schema.create(self.connection)
        elif schema.check(self.sequence("schema"), str(self.path)):
            with self.writing():
                schema.migrate(self.connection, self.sequence("schema"))

    def sequence(self, name: str = "sequence") -> int:
        """Return a number of the manifest: ``sequence`` counts the transactions that changed documents."""
        found = self.one("SELECT value FROM manifest WHERE name = ?", name)
        if found is None:
            raise BadFile(f"{self.path} is damaged: its manifest has no {name!r}. Restore it from a copy.")
        return int(found[0])

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first row of a query, or None."""
        with self.lock, self.explained():
            return self._fresh().execute(statement, values).fetchone()

    def all(self, statement: str, *values: Any) -> list[Any]:
        """Return every row of a query."""
        with self.lock, self.explained():
            return self._fresh().execute(statement, values).fetchall()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: all of it, or nothing."""
        if not self.writable:
            raise CannotWrite(f"{self.path} was opened for reading only: its folder cannot be written to.")
        with self.lock, self.explained():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
            except BaseException:
                self._undo()
                raise
            try:
                self.connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        if self.connection.in_transaction:  # a full disk may have undone it already
            self.connection.execute("ROLLBACK")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what SQLite raises into what happened and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnicodeEncodeError as error:
            raise BadInput(
                f"{error.object!r} holds half a character (a lone surrogate): nothing is called so."
            ) from None

    def _explained(self, error: sqlite3.Error) -> IsthmusError:
        said = str(error).lower()
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in said:
            return CannotWrite(f"{self.path} was closed. Open the collection again.")
        if "locked" in said or "busy" in said:
            return CannotWrite(f"{self.path} is locked by another process ({error}). Try again when it has finished.")
        if "full" in said:
            return CannotWrite(
                f"{self.path} cannot grow: the disk is full. Nothing acknowledged is lost. Make room and run it again."
            )
        if "readonly" in said or "unable to open" in said:
            return CannotWrite(f"{self.path} cannot be opened ({error}). Check that the folder is there and is yours.")
        if "disk i/o" in said:
            return CannotWrite(
                f"{self.path}: the disk failed ({error}). Check its space and health, then run it again."
            )
        if "malformed" in said or "not a database" in said or "corrupt" in said or "no such table" in said:
            return BadFile(
                f"{self.path} is damaged ({error}). Nothing was changed. Restore it from a copy, or save what can be "
                f"read with `sqlite3 {self.path} .recover`, or move it away and index again."
            )
        return BadFile(f"{self.path}: {error}.")

    def problems(self) -> list[str]:
        """Return what SQLite's own check finds wrong with the file; it reads all of it."""
        found = [str(row[0]) for row in self.all("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the file."""
        with self.lock:
            self.closed = True
            self.connection.close()


def _open(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")  # a search needs no room on a full disk
    return connection
