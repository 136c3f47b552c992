"""One SQLite file: connections, transactions, snapshots, and SQLite's errors in words that help."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from threading import Lock, RLock, local
from typing import Any

from isthmus import checksums
from isthmus.errors import BadFile, BadInput, CannotWrite, IsthmusError
from isthmus.storage.sqlite import schema

FILE = "collection.sqlite"
LOCK = "writer.lock"
NOTE = "writer.json"  # who holds the lock
PAGE = 16384  # a few vectors of usual size fit into one page
WAIT = 30.0  # seconds that a short transaction of another process is waited for


class ChangedMeanwhile(BadFile):
    """A file that was taken not to change did: what was read may be of two states."""


class Database:
    """Connections to a collection's file: one that writes, used by one thread at a time, and a pool that reads.

    Inside ``reading()`` everything a thread reads is of one committed state, whatever others write meanwhile.
    ``pooled=False`` reads on the writing connection alone: for one that has other files attached to it.
    """

    def __init__(self, folder: Path, *, writable: bool = True, pooled: bool = True) -> None:
        self.path = folder / FILE
        self.writable = writable
        self.pooled = pooled
        self.closed = False
        self.immutable = False  # opened as a file that nobody changes
        self.lock = RLock()
        self._idle: list[sqlite3.Connection] = []
        self._pool = Lock()  # of the idle connections; never held while something is read or written
        self._thread = local()
        with self.explained():
            self.connection = self._connect()
            self._place = self._identity()
            try:
                self.connection.execute("PRAGMA foreign_keys = ON")
                self._prepare()
            except BaseException:
                self.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        address = self.path.absolute().as_uri()
        if self.writable:
            connection = _open(f"{address}?mode=rwc")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opened only when first used
            return connection
        self._seen = self._looks()
        connection = _open(f"{address}?mode=ro")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:  # nobody has it open, and in this folder we may not make what WAL needs
            connection.close()
            if self._seen[1]:
                raise CannotWrite(
                    f"{self.path} was not closed by its last writer, and this user may not finish its work. Open it "
                    "once as a user who may write there."
                ) from None
            self.immutable = True
            return _open(f"{address}?mode=ro&immutable=1")
        self.immutable = False
        return connection

    def connect(self, mode: str = "rw") -> sqlite3.Connection:
        """Open another connection to the file, which the caller closes."""
        return _open(f"{self.path.absolute().as_uri()}?mode={mode}")

    def _looks(self) -> tuple[int, int, int]:
        """Return what changes with the files: a file that is opened as immutable is opened again after that."""
        journal = self.path.with_name(f"{FILE}-wal")
        status = self.path.stat()
        return status.st_mtime_ns, journal.stat().st_size if journal.exists() else 0, status.st_size

    def _fresh(self) -> sqlite3.Connection:
        if self.immutable and not self.closed and self._looks() != self._seen:
            self.connection.close()
            self.connection = self._connect()
        return self.connection

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def check_place(self) -> None:
        """Refuse to go on with a file that is no longer the one at this path."""
        if self._identity() != self._place:
            raise CannotWrite(
                f"{self.path} was deleted or replaced while it was open. What this process would write there is lost, "
                "so it stops. Open the collection again."
            )

    def _prepare(self) -> None:
        """Make the tables when there are none, or bring them up to date."""
        used = any((self.path.parent / name).exists() for name in ("index", NOTE))  # both come after tables
        tables = self._has_tables()
        if not tables and self.one("SELECT count(*) FROM sqlite_master")[0]:
            raise BadFile(f"{self.path} is a database, but not of an isthmus collection. Name another folder.")
        if not tables and used:
            raise BadFile(
                f"{self.path} is empty, and it was not always: an index or a lock lies beside it. Restore it from a "
                "copy, or delete the folder and index again."
            )
        if not self.writable:
            if not tables:
                raise BadFile(f"{self.path} holds no collection. Make one with `isthmus index PATH --into DIR`.")
            if schema.check(self._version(), str(self.path)):
                raise CannotWrite(f"{self.path} is of an older isthmus and cannot be brought up to date: read-only.")
            return
        if not tables:
            self._create()
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")  # acknowledged means on the disk
        if schema.check(self._version(), str(self.path)):
            with self.writing():
                found = self._version()
                if schema.check(found, str(self.path)):
                    schema.migrate(self.connection, found)

    def _create(self) -> None:
        """Make the tables; of several processes that come at once, one makes them and the others wait."""
        from filelock import FileLock, Timeout  # late: who opens what is there never needs it

        try:
            with FileLock(self.path.with_name(LOCK), timeout=WAIT):
                if self._has_tables():
                    return
                self.connection.execute(f"PRAGMA page_size = {PAGE}")
                self.connection.execute("PRAGMA journal_mode = WAL")
                with self.writing():
                    schema.create(self.connection)
        except Timeout:
            raise CannotWrite(f"{self.path} is being made by another process. Try again when it is done.") from None
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be made: {error.strerror or error}.") from None

    def _has_tables(self) -> bool:
        return bool(self.one("SELECT count(*) FROM sqlite_master WHERE name = 'manifest'")[0])

    def _version(self) -> int:
        """Return the version of the tables; the manifests of the first one have no checksums."""
        columns = {row[1] for row in self.all("PRAGMA table_info(manifest)")}
        found = self.manifest("schema").get("schema", 0) if "checksum" in columns else 1
        if not isinstance(found, int) or found < 1:
            raise BadFile(f"{self.path} is damaged: its manifest has no 'schema'. Restore it from a copy.")
        return found

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return values of the manifest, those that are there; all of them where none is named."""
        where = f"WHERE name IN ({','.join('?' * len(names))})" if names else ""
        rows = self.all(f"SELECT name, value, checksum IS seal(name, value) FROM manifest {where}", *names)
        wrong = [name for name, _, whole in rows if not whole]
        if wrong:
            raise BadFile(
                f"{self.path} is damaged: {wrong[0]!r} of its manifest does not match its checksum. Restore it from a "
                "copy, or index again."
            )
        return {name: value for name, value, _ in rows}

    def put(self, connection: sqlite3.Connection, /, **values: object) -> None:
        """Set values of the manifest, inside a transaction."""
        schema.put(connection, **values)

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        found = self.manifest("sequence")
        if not found:
            raise BadFile(f"{self.path} is damaged: its manifest has no 'sequence'. Restore it from a copy.")
        return int(found["sequence"])

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first row of a query, or None."""
        with self.connected() as connection:
            return connection.execute(statement, values).fetchone()

    def all(self, statement: str, *values: Any) -> list[Any]:
        """Return every row of a query."""
        with self.connected() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Give the connection that this thread reads on: that of its snapshot, or the shared one."""
        reader = getattr(self._thread, "reader", None)
        with self.explained():
            if reader is not None:
                yield reader
                return
            with self.lock:
                yield self._fresh()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state: what this thread reads inside, it reads as of the last transaction committed before."""
        if getattr(self._thread, "reader", None) is not None:
            yield
            return
        with self.held() as within, within():
            yield

    @contextmanager
    def held(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Hold one state that is read now and then: inside ``with within():``, where ``within`` is what this gives."""
        if not self.pooled:
            yield nullcontext
            return
        if self.closed:
            raise CannotWrite(f"{self.path} was closed. Open the collection again.")
        self.check_place()
        with self._still() if self.immutable else self._snapshot() as connection:
            yield lambda: self._using(connection)

    @contextmanager
    def _using(self, connection: sqlite3.Connection) -> Iterator[None]:
        before, self._thread.reader = getattr(self._thread, "reader", None), connection
        try:
            yield
        finally:
            self._thread.reader = before

    @contextmanager
    def _still(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to a file that is taken not to change, and check afterwards that it did not."""
        with self.lock:
            with self.explained():
                connection = self._fresh()
            yield connection
            if self._looks() != self._seen:
                raise ChangedMeanwhile(f"{self.path} was changed while it was read. Try again.")

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Give a connection of the pool with a transaction that began now."""
        with self.explained():
            with self._pool:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.connect("ro")
            connection.execute("BEGIN")
            connection.execute("SELECT value FROM manifest WHERE name = 'sequence'").fetchone()  # here it begins
        try:
            yield connection
        finally:
            with suppress(sqlite3.Error):
                connection.rollback()
            with self._pool:
                if self.closed or connection.in_transaction:
                    connection.close()
                else:
                    self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: all of it, or nothing."""
        if not self.writable:
            raise CannotWrite(f"{self.path} was opened for reading only: its folder cannot be written to.")
        self.check_place()
        snapshot, self._thread.reader = getattr(self._thread, "reader", None), None  # reads inside see what is written
        try:
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
        finally:
            self._thread.reader = snapshot
        self.check_place()  # what went into a file without a name is not acknowledged

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
        if any(word in said for word in ("malformed", "not a database", "corrupt", "no such table", "no such column")):
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
        """Close the file; a snapshot that somebody still reads is closed when it ends."""
        with self.lock, self._pool:
            self.closed = True
            for connection in (*self._idle, self.connection):
                connection.close()
            self._idle.clear()


def _open(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")  # a search needs no room on a full disk
    connection.create_function("seal", -1, checksums.of_values, deterministic=True)
    return connection
