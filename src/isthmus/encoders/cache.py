"""A cache of vectors, so the same content is encoded once: the key is a hash of the encoder and the content."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import closing
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Protocol
from weakref import finalize

import numpy as np

from isthmus.errors import BadFile
from isthmus.types import Matrix

MEMORY_BYTES = 64 * 2**20  # about 40,000 vectors of 384 numbers
KEYS_PER_STATEMENT = 500  # the oldest builds of SQLite accept 999 parameters
FILE = "vectors.sqlite"


def key(identity: str, part: str, content: bytes) -> bytes:
    """Return the key of a vector: a hash of the encoder's identity and the content.

    >>> key("mini", "text", b"a cat") == key("mini", "text", b"a cat")
    True
    >>> key("mini", "text", b"a cat") == key("mini", "image", b"a cat")
    False
    """
    return hashlib.sha256(f"{identity}\0{part}\0".encode() + content).digest()


class Cache(Protocol):
    """Vectors by key. Both methods are safe to call from several threads."""

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        """Return those of the vectors that are there."""

    def put(self, vectors: Mapping[bytes, Matrix]) -> None:
        """Store these vectors, or some of them."""


class MemoryCache:
    """Keep the most recently used vectors, up to ``limit`` bytes; ``limit=0`` keeps none.

    >>> cache = MemoryCache(limit=8)
    >>> cache.put({b"a": np.ones(1, np.float32), b"b": np.ones(1, np.float32), b"c": np.ones(1, np.float32)})
    >>> sorted(cache.get([b"a", b"b", b"c"]))
    [b'b', b'c']
    """

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self.limit = limit
        self._vectors: OrderedDict[bytes, Matrix] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        """Return those of the vectors that are there."""
        with self._lock:
            found = {name: self._vectors[name] for name in keys if name in self._vectors}
            for name in found:
                self._vectors.move_to_end(name)
        return found

    def put(self, vectors: Mapping[bytes, Matrix]) -> None:
        """Store these vectors and drop the least recently used."""
        with self._lock:
            for name, vector in vectors.items():
                if name not in self._vectors:
                    self._vectors[name] = np.array(vector, dtype=np.float32)  # a copy, so the batch can be freed
                    self._bytes += self._vectors[name].nbytes
            while self._bytes > self.limit:
                self._bytes -= self._vectors.popitem(last=False)[1].nbytes


class FolderCache:
    """Keep every vector in one SQLite file in a folder; several processes may share it."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.path = Path(folder).expanduser() / FILE
        self._lock = Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=60, check_same_thread=False)
            finalize(self, self._connection.close)
            with self._connection as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise self._refused(error) from None

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Matrix]:
        """Return those of the vectors that are there."""
        found: dict[bytes, Matrix] = {}
        try:
            with self._lock:
                for start in range(0, len(keys), KEYS_PER_STATEMENT):
                    wanted = keys[start : start + KEYS_PER_STATEMENT]
                    marks = ",".join("?" * len(wanted))
                    statement = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608 - only question marks
                    with closing(self._connection.execute(statement, wanted)) as rows:
                        found |= {name: np.frombuffer(blob, dtype="<f4") for name, blob in rows}
        except (ValueError, sqlite3.Error) as error:
            raise self._refused(error) from None
        return found

    def put(self, vectors: Mapping[bytes, Matrix]) -> None:
        """Store these vectors."""
        rows = [(name, np.asarray(vector, dtype="<f4").tobytes()) for name, vector in vectors.items()]
        try:
            with self._lock, self._connection as connection:
                connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Close the file; the cache cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def _refused(self, error: Exception) -> BadFile:
        return BadFile(
            f"The cache {self.path} cannot be used ({error}). Delete it (its vectors can be computed again), or name "
            "another folder."
        )


def open_cache(cache: str | PathLike[str] | Cache | None) -> Cache:
    """Read the setting ``cache``: None (in memory), a folder, or an existing cache."""
    if cache is None:
        return MemoryCache()
    if isinstance(cache, str | PathLike):
        return FolderCache(cache)
    return cache
