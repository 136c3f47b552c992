"""Connections to a server, used again: opened when they are needed, at most so many at once.

A connection that was lost while it was idle is noticed by its first statement, which is then run on a new one. So a
server that was restarted is found again by the next search, and one that is down says why at once.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import BoundedSemaphore, Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np
import psycopg
from psycopg import sql
from psycopg.adapt import Dumper
from psycopg.pq import Format, TransactionStatus

from isthmus.errors import CannotReach
from isthmus.storage.postgres.address import USUAL, PostgresAddress

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

SIZE = 32  # connections of one process to one collection
EXTENSION = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
# The server notices a process that has vanished, and drops its locks, as soon as a process notices the server.
KEEPALIVES = "; ".join(f"SET tcp_{name} TO {value}" for name, value in USUAL.items() if name.startswith("keepalives"))
WAIT = 30.0  # seconds to wait for one that others use

Result = TypeVar("Result")


class VectorDumper(Dumper):
    """An array of NumPy as pgvector reads a ``vector`` in binary: its length, and floats with the highest byte first.

    >>> VectorDumper(np.ndarray).dump(np.array([1.0, 2.0], np.float32)).hex()
    '000200003f80000040000000'
    """

    format = Format.BINARY

    def dump(self, obj: np.ndarray[tuple[int, ...], Any]) -> bytes:
        """Return the bytes of one vector."""
        return struct.pack(">HH", len(obj), 0) + obj.astype(">f4").tobytes()


def connect(address: PostgresAddress, schema: str) -> Connection:
    """Open a connection whose tables are those of a schema."""
    found: Connection = psycopg.connect(
        address.url, autocommit=True, application_name=f"isthmus {os.getpid()} on {socket.gethostname()}"[:63]
    )
    try:
        found.adapters.register_dumper(np.ndarray, VectorDumper)
        place = sql.Identifier(schema)
        vector = found.execute(EXTENSION).fetchone()
        others = [sql.Identifier(vector[0])] if vector else []
        found.execute(sql.SQL(f"{KEEPALIVES}; SET search_path TO {{}}").format(sql.SQL(", ").join([place, *others])))
    except BaseException:
        found.close()
        raise
    return found


class Pool:
    """Idle connections, and how many more may be opened."""

    def __init__(self, open_one: Callable[[], Connection], place: str, size: int = SIZE) -> None:
        self._open, self._place = open_one, place
        self._idle: list[Connection] = []
        self._lock = Lock()  # for ``_idle``; never held during a statement
        self._free = BoundedSemaphore(size)
        self._closed = False

    @contextmanager
    def started(self, start: Callable[[Connection], Result]) -> Iterator[tuple[Connection, Result]]:
        """Yield a connection and the result of its first statements, which are repeated if it had been lost."""
        if not self._free.acquire(timeout=WAIT):
            raise CannotReach(
                f"{self._place}: all connections of this process are in use, and none was given back in {WAIT:.0f} "
                "seconds. Search from fewer threads at once."
            )
        try:
            connection, result = self._begun(start)
            try:
                yield connection, result
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _begun(self, start: Callable[[Connection], Result]) -> tuple[Connection, Result]:
        while (idle := self._take()) is not None:
            try:
                return idle, start(idle)
            except psycopg.OperationalError:
                if not idle.closed:
                    self._give_back(idle)
                    raise  # the server is there, and has refused the statement
            except BaseException:
                self._give_back(idle)
                raise
        fresh = self._open()
        try:
            return fresh, start(fresh)
        except BaseException:
            self._give_back(fresh)
            raise

    def _take(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _give_back(self, connection: Connection) -> None:
        status = connection.info.transaction_status
        if not connection.closed and status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
        with self._lock:
            if not self._closed and not connection.closed and _is_idle(connection):
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections; one in use is closed when it is given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _is_idle(connection: Connection) -> bool:
    return bool(connection.info.transaction_status == TransactionStatus.IDLE)
