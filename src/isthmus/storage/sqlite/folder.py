"""A collection in a folder: the SQLite store, its lock, and operations on the whole store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from isthmus.encoders import Encoder
from isthmus.storage.base import Compacted, UnfinishedReencode
from isthmus.storage.sqlite import staging
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.lock import WriterLock
from isthmus.storage.sqlite.staging import SqliteStaging
from isthmus.storage.sqlite.store import SqliteStore

INDEX_LOCK = "index.lock"


@dataclass(slots=True, eq=False)
class FolderStore(SqliteStore):
    """The store of a collection in a folder."""

    _writer: WriterLock | None = None

    @property
    def folder(self) -> Path:
        """The folder for index files."""
        return self.database.path.parent

    @contextmanager
    def again(self) -> Iterator[FolderStore]:
        """Open the same store again, on connections of its own, for another thread."""
        with closing(Database(self.folder)) as database:
            yield FolderStore(database)

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the writer lock, or raise an error that names its holder."""
        if self._writer is None:
            self._writer = WriterLock(self.folder)
        return self._writer.held()

    def writer(self) -> AbstractContextManager[None]:
        """Hold the writer lock: one process writes at a time."""
        return self.sole_writer()

    def fitting(self) -> AbstractContextManager[bool]:
        """Let every process fit: the first to publish wins."""
        return nullcontext(True)

    @contextmanager
    def building(self) -> Iterator[bool]:
        """Hold the lock of ``index/``; yields whether no other thread or process has it."""
        from filelock import FileLock, Timeout  # late: readers never need it

        self.database.check_place()  # taking the lock would create a deleted folder again
        lock = FileLock(self.folder / INDEX_LOCK, timeout=0)
        try:
            lock.acquire()
        except (Timeout, OSError):
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def published(self, name: str | None) -> None:
        """Return None: folded vectors are in files or in memory, or on another server."""

    def stage(self, name: str, encoder: Encoder) -> SqliteStaging:
        """Open the staging area for another encoder's vectors; continue if it has some from the same encoder."""
        return SqliteStaging.open(self.folder, name, encoder, FolderStore)

    def staged(self) -> UnfinishedReencode | None:
        """Return the unfinished re-encoding; None if there is none."""
        return staging.begun(self.folder, self.database)

    def drop_staged(self) -> None:
        """Delete an unfinished re-encoding."""
        staging.drop(self.folder)

    def shrink(self) -> None:
        """Free unused disk space, if it is worth the cost."""
        from isthmus.storage.sqlite import compaction  # late: searches never need it

        compaction.shrink(self.database)

    def compact(self) -> Compacted:
        """Rewrite the store without the space of deleted documents."""
        from isthmus.storage.sqlite import compaction  # late: searches never need it

        return compaction.compact(self.database)

    def problems(self) -> list[str]:
        """Read everything that is stored, and return what is damaged."""
        from isthmus.storage.sqlite import verify  # late: searches never need it

        with self.database.reading():
            return [*self.database.problems(), *verify.problems(self)]
