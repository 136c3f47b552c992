"""Transactions, snapshots and the manifest of a collection on a PostgreSQL server.

A snapshot is one transaction, REPEATABLE READ and READ ONLY: readers never wait for writers. A transaction that writes
locks one row of the manifest first, so the transactions of all processes take turns, each for as long as its statements
take; what comes before, as encoding, goes on at the same time. So rows are numbered in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from threading import Lock, local
from typing import Any

import psycopg

from isthmus.errors import BadFile, BadInput, CannotWrite, Closed
from isthmus.storage.postgres import explain, schema
from isthmus.storage.postgres.address import PostgresAddress
from isthmus.storage.postgres.pool import Connection, Pool, connect

WAIT = 30  # seconds to wait for a short transaction of another process
SMALL = "SELECT name, value FROM manifest WHERE data IS NULL"  # everything but statistics
SNAPSHOT = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {SMALL}"
TURN = "SELECT value FROM manifest WHERE name IN ('birth', 'sequence') ORDER BY name FOR UPDATE"


@dataclass(frozen=True, slots=True, eq=False)
class HeldSnapshot:
    """A snapshot: its connection, and the small values of the manifest in it."""

    connection: Connection
    manifest: dict[str, Any]


class ThreadConnections(local):
    """What one thread is doing with a database."""

    reading: HeldSnapshot | None = None
    writing: Connection | None = None


class PostgresDatabase:
    """Connections to one collection. ``there`` says whether it exists; ``create`` makes it."""

    def __init__(self, address: PostgresAddress, name: str | None = None) -> None:
        self.address = address
        self.schema = name or address.collection
        self.path = str(address)
        self.closed = False
        self.writable = True
        self.there = False
        self._birth: object = None
        self._thread = ThreadConnections()
        self._pool = Pool(self.connect, self.path)
        try:
            self._look()
        except BaseException:
            self.close()
            raise

    def connect(self) -> Connection:
        """Open another connection, which the caller closes."""
        if self.closed:
            raise Closed(f"{self.path} was closed. Open the collection again.")
        return connect(self.address, self.schema)

    def _look(self) -> None:
        """Find out whether there is a collection, whether this role may write there, and migrate older tables."""
        with self.connected() as connection:
            found = schema.found(connection, self.schema, self.path)
            self.there = found is not None
            if found is None:
                return
            self.writable = schema.read_only(connection) is None
        if schema.check(found, self.path):
            if not self.writable:
                raise CannotWrite(
                    f"{self.path} was written by an older isthmus and must be migrated, which this role may not do. "
                    "Open it once as the role that owns its tables."
                )
            with self.connected() as connection:
                schema.migrate(connection, self.address.collection, self.path)
        self._birth = self.manifest("birth").get("birth")

    def read_only(self) -> str | None:
        """Return why this process may not write; None if it may, as after its replica became the primary server."""
        if self.writable:
            return None
        with self.connected() as connection:
            why = schema.read_only(connection)
        self.writable = why is None
        return why

    def create(self) -> None:
        """Make the tables; of several processes at once, one makes them and the others wait."""
        with self.connected() as connection:
            schema.create(connection, self.address.collection, self.path)
        self._look()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn PostgreSQL's errors into ours."""
        try:
            yield
        except psycopg.Error as error:
            if self.closed:
                raise Closed(f"{self.path} was closed. Open the collection again.") from error
            raise explain.explained(error, self.path) from error
        except UnicodeEncodeError as error:
            raise BadInput(
                f"{error.object!r} holds half a character (a lone surrogate): nothing is called so."
            ) from None

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield the connection that this thread reads on: of its transaction, of its snapshot, or a free one."""
        own = self._own()
        with self.explained():
            if own is not None:
                yield own
            else:
                self._check_open()
                with self._pool.started(_ignore) as (connection, _):
                    yield connection

    def _own(self) -> Connection | None:
        state = self._thread
        return state.reading.connection if state.reading is not None else state.writing

    def _check_open(self) -> None:
        if self.closed:
            raise Closed(f"{self.path} was closed. Open the collection again.")

    def all(self, statement: str, *values: Any) -> list[Any]:
        """Return every row of a query."""
        own = self._own()
        with self.explained():
            if own is not None:
                return _rows(own, statement, values)
            self._check_open()
            with self._pool.started(lambda connection: _rows(connection, statement, values)) as (_, rows):
                return rows

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first row of a query, or None."""
        rows = self.all(statement, *values)
        return rows[0] if rows else None

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return the values of these names in the manifest, if they exist; without names, all values."""
        reading = self._thread.reading
        if reading is not None and names and not schema.LARGE.intersection(names):
            return {name: reading.manifest[name] for name in names if name in reading.manifest}
        where = "WHERE name = ANY(%s)" if names else ""
        rows = self.all(f"SELECT name, value, data FROM manifest {where}", *([list(names)] if names else []))
        return {name: value if data is None else bytes(data) for name, value, data in rows}

    def put(self, connection: Connection, /, **values: object) -> None:
        """Set values of the manifest, inside a transaction."""
        schema.put(connection, **values)

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        found = self.manifest("sequence")
        if "sequence" not in found:
            raise BadFile(f"{self.path} is damaged: its manifest has no 'sequence'. Restore it from a backup.")
        return int(found["sequence"])

    def check_place(self) -> None:
        """Raise an error if the tables were deleted or replaced while they were open."""
        self._check_birth(self.manifest("birth").get("birth"))

    def _check_birth(self, found: object) -> None:
        if found != self._birth:
            raise CannotWrite(
                f"{self.path} was deleted or replaced while it was open. What this process would write there is lost, "
                "so it stops. Open the collection again."
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read one state: everything this thread reads inside is as of the last transaction committed before."""
        if self._thread.reading is not None:
            yield
            return
        with self.held() as within, within():
            yield

    @contextmanager
    def held(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Hold one state for later reads: each read is inside ``with within():``, where ``within`` is the result."""
        self._check_open()
        with self.explained(), self._pool.started(_snapshot) as (connection, manifest):
            self._check_birth(manifest.get("birth"))
            yield lambda: self._using(HeldSnapshot(connection, manifest))
            if not connection.closed:
                connection.execute("COMMIT")

    @contextmanager
    def _using(self, reading: HeldSnapshot) -> Iterator[None]:
        before, self._thread.reading = self._thread.reading, reading
        try:
            yield
        finally:
            self._thread.reading = before

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[Connection]:
        """Run a transaction: all of it, or nothing. ``wait=False`` raises at once if another writer is active."""
        self._check_open()
        if (why := self.read_only()) is not None:
            raise CannotWrite(f"{self.path} cannot be written to: {why}.")
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL lock_timeout = '{WAIT}s'; {TURN}"
        turn = begin if wait else f"{begin} NOWAIT"
        with self.explained(), self._pool.started(lambda connection: _last(connection, turn)) as (connection, rows):
            self._check_birth(rows[0][0] if rows else None)
            outside = self._thread.reading, self._thread.writing
            self._thread.reading, self._thread.writing = None, connection  # reads inside see what is written
            try:
                yield connection
            finally:
                self._thread.reading, self._thread.writing = outside
            self._commit(connection)

    @contextmanager
    def apart(self, *, write: bool = True) -> Iterator[Connection]:
        """Run a transaction that takes no turn: for tables that are derived, which writing again does not harm."""
        self._check_open()
        begin = f"BEGIN ISOLATION LEVEL READ COMMITTED {'READ WRITE' if write else 'READ ONLY'}"
        with self.explained(), self._pool.started(lambda connection: connection.execute(begin)) as (connection, _):
            yield connection
            self._commit(connection)

    def _commit(self, connection: Connection) -> None:
        try:
            connection.execute("COMMIT")
        except psycopg.Error as error:
            if connection.closed:
                raise explain.uncertain(error, self.path) from error
            raise

    def close(self) -> None:
        """Close the connections; a snapshot that is still being read is closed when it ends."""
        self.closed = True
        self._pool.close()


class SingleConnection(PostgresDatabase):
    """A collection on one connection, on which temporary views may stand in for tables."""

    def __init__(self, address: PostgresAddress, views: str = "") -> None:
        self._views = views
        super().__init__(address)
        with self.explained():
            self._single = self.connect()
            if views:
                self._single.execute(views)
        self._thread.writing = None

    def _own(self) -> Connection | None:
        single: Connection | None = getattr(self, "_single", None)
        return self._thread.writing or single

    @contextmanager
    def held(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Read on the one connection: nobody else changes what it shows."""
        yield nullcontext

    def close(self) -> None:
        """Close the connection."""
        super().close()
        single = getattr(self, "_single", None)
        if single is not None:
            single.close()


class OwnConnections:
    """Connections to a collection beside those of its store, opened when they are needed, and again after ``close``."""

    def __init__(self, address: PostgresAddress) -> None:
        self._address = address
        self._lock = Lock()
        self._opened: PostgresDatabase | None = None

    @property
    def database(self) -> PostgresDatabase:
        """The database, with connections of its own."""
        with self._lock:
            if self._opened is None:
                self._opened = PostgresDatabase(self._address)
            return self._opened

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None


def _ignore(_: Connection) -> None:
    """Start with nothing."""


def _rows(connection: Connection, statement: str, values: tuple[Any, ...]) -> list[Any]:
    with connection.cursor(binary=True) as cursor:
        return cursor.execute(statement, values or None).fetchall()


def _last(connection: Connection, statements: str) -> list[Any]:
    """Return the rows of the last of several statements, which are sent together."""
    with connection.cursor() as cursor:
        cursor.execute(statements)
        while cursor.nextset():
            pass
        return cursor.fetchall()


def _snapshot(connection: Connection) -> dict[str, Any]:
    return dict(_last(connection, SNAPSHOT))
