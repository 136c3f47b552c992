"""Who may write: advisory locks, which the server drops when their holder's connection ends.

shared      held while documents are added or deleted: many processes at once
exclusive   held by ``index``, ``reencode`` and ``compact``, which number files or replace every vector
fitting     held by the process that fits and builds a calibration: never two at once
building    held by the thread that publishes folded vectors, or drops those that are not served
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock

import psycopg

from isthmus.errors import CannotReach, CannotWrite
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.pool import Connection

WRITING = "writing"
FITTING = "fitting"
BUILDING = "building"
KEY = "hashtextextended(%s, 0)"
HOLDER = """
SELECT a.application_name, a.client_addr::text, to_char(a.backend_start, 'YYYY-MM-DD HH24:MI:SS')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended(%s, 0)
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND l.pid != pg_backend_pid()
ORDER BY l.mode = 'ExclusiveLock' DESC, a.backend_start LIMIT 1
"""


class AdvisoryLock:
    """Held while a process writes. Threads of one process wait for each other; another process gets an error."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._threads = RLock()
        self._connection: Connection | None = None

    @contextmanager
    def held(self, *, shared: bool) -> Iterator[None]:
        """Hold the lock, or raise an error that names its holder."""
        with self._threads:
            if self._connection is not None:
                yield
                return
            with _locked(self._database, WRITING, shared=shared) as connection:
                if connection is None:
                    raise CannotWrite(f"{self._database.path} is being written by {self._who()}. {_WAIT}")
                self._connection = connection
                try:
                    yield
                finally:
                    self._connection = None

    def check(self) -> None:
        """Raise an error if the lock was lost with its connection: another process may write since."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            raise CannotReach(
                f"{self._database.path}: the connection that held the writer lock was lost, so nothing more is "
                "written. Run it again: what is stored already stays as it is."
            ) from None

    def _who(self) -> str:
        found = self._database.one(HOLDER, _name(self._database, WRITING))
        if not found:
            return "another process"
        name, address, since = found  # the server says the last two of other roles to some roles only
        at = f" at {address}" if address else ""
        return f"{name or 'another program'}{at}" + (f", since {since}" if since else "")


@contextmanager
def only(database: PostgresDatabase, what: str) -> Iterator[bool]:
    """Hold a lock that is never waited for; yields whether this thread has it."""
    with _locked(database, what, shared=False) as connection:
        yield connection is not None


@contextmanager
def _locked(database: PostgresDatabase, what: str, *, shared: bool) -> Iterator[Connection | None]:
    """Yield a connection of its own that holds a lock; None if another has it."""
    with database.explained():
        connection = database.connect()
        try:
            word = "_shared" if shared else ""
            taken = connection.execute(f"SELECT pg_try_advisory_lock{word}({KEY})", (_name(database, what),)).fetchone()
            yield connection if taken and taken[0] else None
        finally:
            with suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")  # a closed connection keeps it for a moment
            connection.close()


def _name(database: PostgresDatabase, what: str) -> str:
    return f"isthmus {what} {database.schema}"


_WAIT = "Many may add and delete documents at once, but not during `index`, `reencode` and `compact`. Try again then."
