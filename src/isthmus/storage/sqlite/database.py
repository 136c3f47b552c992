"""One SQLite file: connections, transactions, snapshots, and clear messages for SQLite's errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock, local
from typing import Any

from isthmus import checksums
from isthmus.errors import BadFile, BadInput, CannotWrite, Closed, IsthmusError
from isthmus.storage.sqlite import schema

FILE = "collection.sqlite"
LOCK = "writer.lock"
NOTE = "writer.json"  # who holds the lock
WRITTEN_AFTER = ("index", NOTE)  # files that are written after the tables, never before
PAGE = 16384  # a few vectors of common sizes fit into one page
WAIT = 30.0  # seconds to wait for a short transaction of another process
SOON = 0.05  # seconds to wait for a single read of another thread


class ChangedMeanwhile(BadFile):
    """A file that was opened as immutable has changed: the data read may mix two states."""


@dataclass(frozen=True, slots=True, eq=False)
class Reader:
    """A connection for reading; ``seen`` is the state of the files if they were opened as immutable."""

    connection: sqlite3.Connection
    seen: tuple[int, int, int] | None = None


class ThreadState(local):
    """What one thread is doing with a database."""

    reader: sqlite3.Connection | None = None  # of the snapshot that it reads
    writing: bool = False


class Explained:
    """Turns SQLite's error into one that says what happened and what to do. A class: it surrounds every statement."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error):
            raise self._database.explanation(error) from error
        if isinstance(error, UnicodeEncodeError):
            raise BadInput(
                f"{error.object!r} holds half a character (a lone surrogate): nothing is called so."
            ) from None


class Database:
    """Connections to a collection's file: one that writes, used by one thread at a time, and a pool that reads.

    Readers never wait for writers. A single statement outside ``reading()`` is read on the writing connection while no
    thread writes, so opening a collection opens one connection. Inside ``reading()`` everything a thread reads is from
    one committed state, even if others write meanwhile. ``pooled=False`` reads on the writing connection only: for a
    connection with other files attached to it.
    """

    def __init__(self, folder: Path, *, writable: bool = True, pooled: bool = True) -> None:
        self.path = folder / FILE
        self.writable = writable
        self.pooled = pooled
        self.closed = False
        self.lock = RLock()  # for the connection that writes
        self._wanted = False  # whether a writer waits for the lock
        self._idle: list[Reader] = []
        self._pool = Lock()  # for the idle readers; never held during a read or write
        self._thread = ThreadState()
        self.explained = Explained(self)
        with self.explained:
            self.connection = self._connect()
            try:
                manifest = self._manifest_table()  # SQLite opens the file with the first statement
                self._place = self._identity()
                self.connection.execute("PRAGMA foreign_keys = ON")
                self._prepare(manifest)
            except BaseException:
                self.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        return self.connect("rwc") if self.writable else self._reader().connection

    def _reader(self) -> Reader:
        """Open a connection for reading; as immutable if this user cannot create the files that WAL needs."""
        if self.writable:
            return Reader(self.connect("ro"))
        seen = self._looks()
        connection = self.connect("ro")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            if seen[1]:
                raise CannotWrite(
                    f"{self.path} was not closed by its last writer, and this user may not finish its work. Open it "
                    "once as a user who may write there."
                ) from None
            return Reader(self.connect("ro&immutable=1"), seen)
        return Reader(connection)

    def connect(self, mode: str = "rw") -> sqlite3.Connection:
        """Open another connection to the file, which the caller closes."""
        return _open(f"{self.path.absolute().as_uri()}?mode={mode}")

    def _looks(self) -> tuple[int, int, int]:
        """Return a value that changes with the files: a file opened as immutable is reopened then."""
        journal = self.path.with_name(f"{FILE}-wal")
        status = self.path.stat()
        return status.st_mtime_ns, journal.stat().st_size if journal.exists() else 0, status.st_size

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def read_only(self) -> str | None:
        """Return why this process may not write; None if it may."""
        return None if self.writable else "it is read-only for this user"

    def check_place(self) -> None:
        """Raise an error if the file at this path is no longer the open one."""
        if self._identity() != self._place:
            raise CannotWrite(
                f"{self.path} was deleted or replaced while it was open. What this process would write there is lost, "
                "so it stops. Open the collection again."
            )

    def _prepare(self, manifest: str | None) -> None:
        """Create the tables, or migrate them; ``manifest`` is the SQL of that table, if there is one."""
        manifest = manifest or self._look_again()
        if not self.writable:
            if manifest is None:
                raise BadFile(f"{self.path} holds no collection. Make one with `isthmus index PATH --into DIR`.")
            if schema.check(self._version(manifest), str(self.path)):
                raise CannotWrite(
                    f"{self.path} was written by an older isthmus and must be migrated, which this user may not do. "
                    "Open it once as a user who may write there, or copy the folder and open the copy."
                )
            return
        if manifest is None:
            self._create()
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")  # acknowledged means on disk
        if schema.check(self._version(manifest), str(self.path)):
            with self.writing():
                found = self._version(self._manifest_table())
                if schema.check(found, str(self.path)):
                    from isthmus.storage.sqlite import migrations  # late: few need it

                    migrations.migrate(self.connection, found)

    def _look_again(self) -> str | None:
        """Return the SQL of the table ``manifest`` if it was created a moment ago; raise if the file is none of ours.

        Another process may create the tables at any time, so the files that are written after them are looked for
        first, and the tables are then read in one statement.
        """
        written_after = any((self.path.parent / name).exists() for name in WRITTEN_AFTER)
        tables, manifest = self.one("SELECT count(*), max(sql) FILTER (WHERE name = 'manifest') FROM sqlite_master")
        if manifest is not None:
            return str(manifest)
        if tables:
            raise BadFile(f"{self.path} is a database, but not of an isthmus collection. Name another folder.")
        if written_after:
            raise BadFile(
                f"{self.path} is empty, but its folder has an index or a lock: the file was damaged. Restore it from a "
                "copy, or delete the folder and index again."
            )
        return None

    def _create(self) -> None:
        """Create the tables; of several processes at once, one creates them and the others wait."""
        from filelock import FileLock, Timeout  # late: only needed to create tables

        try:
            with FileLock(self.path.with_name(LOCK), timeout=WAIT):
                if self._manifest_table() is not None:
                    return
                self.connection.execute(f"PRAGMA page_size = {PAGE}")
                self.connection.execute("PRAGMA journal_mode = WAL")
                with self.writing():
                    schema.create(self.connection)
        except Timeout:
            raise CannotWrite(f"{self.path} is being made by another process. Try again when it is done.") from None
        except OSError as error:
            raise CannotWrite(f"{self.path} cannot be made: {error.strerror or error}.") from None

    def _manifest_table(self) -> str | None:
        """Return the SQL of the table ``manifest``; None in a file without tables."""
        found = self.one("SELECT sql FROM sqlite_master WHERE name = 'manifest'")
        return None if found is None else str(found[0])

    def _version(self, manifest: str | None) -> int:
        """Return the version of the tables; the manifests of the first one have no checksums."""
        has_checksums = manifest is None or "checksum" in manifest  # None: created a moment ago
        found = self.manifest("schema").get("schema", 0) if has_checksums else 1
        if not isinstance(found, int) or found < 1:
            raise BadFile(f"{self.path} is damaged: its manifest has no 'schema'. Restore it from a copy.")
        return found

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return the values of these names in the manifest, if they exist; without names, all values."""
        where = f"WHERE name IN ({','.join('?' * len(names))})" if names else ""
        rows = self.all(f"SELECT name, value, checksum IS seal(name, value) FROM manifest {where}", *names)
        wrong = [name for name, _, whole in rows if not whole]
        if wrong:
            raise BadFile(
                f"{self.path} is damaged: {wrong[0]!r} of its manifest does not match its checksum. Restore it from a "
                "copy, or index again."
            )
        return {name: value for name, value, _ in rows}

    def required(self, name: str, *others: str) -> dict[str, Any]:
        """Return values of the manifest as ``manifest`` does; the first name must exist."""
        found = self.manifest(name, *others)
        if name not in found:
            raise BadFile(f"{self.path} is damaged: its manifest has no {name!r}. Restore it from a copy.")
        return found

    def put(self, connection: sqlite3.Connection, /, **values: object) -> None:
        """Set values of the manifest, inside a transaction."""
        schema.put(connection, **values)

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        return int(self.required("sequence")["sequence"])

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first row of a query, or None."""
        with self.connected() as connection:
            return connection.execute(statement, values).fetchone()

    def all(self, statement: str, *values: Any) -> list[Any]:
        """Return every row of a query."""
        reader = self._thread.reader
        if reader is not None:  # as in every search, without the cost of ``connected``
            with self.explained:
                return reader.execute(statement, values).fetchall()
        with self.connected() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection that this thread reads on: of its transaction, of its snapshot, or a free one."""
        with self.explained:
            if self._thread.reader is not None:
                yield self._thread.reader
            elif self._take_writing():
                try:
                    yield self.connection
                finally:
                    self.lock.release()
            else:
                with self._borrowed() as borrowed:
                    yield borrowed.connection

    def _take_writing(self) -> bool:
        """Take the connection that writes, to read on it; False where a reader of the pool must do."""
        if self._thread.writing or not self.pooled:
            return self.lock.acquire()
        return self.writable and not self._wanted and self.lock.acquire(blocking=False)

    @contextmanager
    def _borrowed(self) -> Iterator[Reader]:
        """Yield a reader from the pool, and return it to the pool."""
        if self.closed:
            raise Closed(f"{self.path} was closed. Open the collection again.")
        with self._pool:
            reader = self._idle.pop() if self._idle else None
        if reader is not None and reader.seen is not None and reader.seen != self._looks():
            reader.connection.close()  # its cache of the file is out of date
            reader = None
        reader = reader or self._reader()
        try:
            yield reader
        finally:
            with suppress(sqlite3.Error):
                reader.connection.commit()  # it wrote nothing but temporary tables, which a rollback would drop
            with self._pool:
                if self.closed or reader.connection.in_transaction:
                    reader.connection.close()
                else:
                    self._idle.append(reader)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state: everything this thread reads inside is as of the last transaction committed before."""
        if self._thread.reader is not None or not self.pooled:
            yield
            return
        with self._snapshot() as connection:
            self._thread.reader = connection
            try:
                yield
            finally:
                self._thread.reader = None

    @contextmanager
    def held(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Hold one state for later reads: each read is inside ``with within():``, where ``within`` is the result."""
        if not self.pooled:
            yield nullcontext
            return
        with self._snapshot() as connection:
            yield lambda: self._using(connection)

    @contextmanager
    def _using(self, connection: sqlite3.Connection) -> Iterator[None]:
        before, self._thread.reader = self._thread.reader, connection
        try:
            yield
        finally:
            self._thread.reader = before

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection from the pool with a new transaction."""
        if self.closed:
            raise Closed(f"{self.path} was closed. Open the collection again.")
        self.check_place()
        with self._borrowed() as reader:
            with self.explained:
                reader.connection.execute("BEGIN")
                # the transaction begins with the first read
                reader.connection.execute("SELECT value FROM manifest WHERE name = 'sequence'").fetchone()
            yield reader.connection
            if reader.seen is not None and reader.seen != self._looks():
                raise ChangedMeanwhile(f"{self.path} was changed while it was read. Try again.")

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """Run a transaction: all of it, or nothing. ``wait=False`` raises at once if another writer is active."""
        if not self.writable:
            raise CannotWrite(f"{self.path} was opened for reading only: its folder cannot be written to.")
        self.check_place()
        self._wanted = True
        taken = self.lock.acquire(timeout=-1 if wait else SOON)
        self._wanted = False
        if not taken:
            raise CannotWrite(f"{self.path} is being written to by another thread.")
        outside = self._thread.reader, self._thread.writing
        self._thread.reader, self._thread.writing = None, True  # reads inside see what is written
        try:
            with self.explained:
                self._begin(wait=wait)
                try:
                    yield self.connection
                    self.connection.execute("COMMIT")
                except BaseException:
                    self._undo()
                    raise
        finally:
            self._thread.reader, self._thread.writing = outside
            self.lock.release()
        self.check_place()  # a write to a deleted file is not acknowledged

    def _begin(self, *, wait: bool) -> None:
        if wait:
            self.connection.execute("BEGIN IMMEDIATE")
            return
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {int(WAIT * 1000)}")

    def _undo(self) -> None:
        if self.connection.in_transaction:  # a full disk may have rolled it back already
            self.connection.execute("ROLLBACK")

    def explanation(self, error: sqlite3.Error) -> IsthmusError:
        """Return an error that says what SQLite's error means here, and what to do."""
        said = str(error).lower()
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in said:
            return Closed(f"{self.path} was closed. Open the collection again.")
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
        """Return the problems that SQLite's own check finds; it reads the whole file."""
        found = [str(row[0]) for row in self.all("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Close the file; a snapshot that is still being read is closed when it ends."""
        with self.lock, self._pool:
            self.closed = True
            for connection in (*(reader.connection for reader in self._idle), self.connection):
                connection.close()
            self._idle.clear()


def _open(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA temp_store = MEMORY")  # so a search works on a full disk
    connection.create_function("seal", -1, checksums.of_values, deterministic=True)
    return connection
