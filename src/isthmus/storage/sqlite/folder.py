"""A collection in a folder: the SQLite store, its lock, and what is done to the store as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from isthmus.encoders import Encoder
from isthmus.storage.base import Compacted, UnfinishedReencode
from isthmus.storage.sqlite import compaction, staging, verify
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.lock import WriterLock
from isthmus.storage.sqlite.staging import SqliteStaging
from isthmus.storage.sqlite.store import SqliteStore


@dataclass(slots=True, eq=False)
class FolderStore(SqliteStore):
    """The store of a collection in a folder."""

    _writer: WriterLock | None = None

    @property
    def folder(self) -> Path:
        """Where an index may be kept beside the store."""
        return self.database.path.parent

    @contextmanager
    def again(self) -> Iterator[FolderStore]:
        """Open the same store once more, on connections of its own, for work on another thread."""
        with closing(Database(self.folder)) as database:
            yield FolderStore(database)

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the lock of the only writer, or say who has it."""
        if self._writer is None:
            self._writer = WriterLock(self.folder)
        return self._writer.held()

    def stage(self, name: str, encoder: Encoder) -> SqliteStaging:
        """Open a place for another encoder's vectors; what was begun for the same one is gone on with."""
        return SqliteStaging.open(self.folder, name, encoder, FolderStore)

    def staged(self) -> UnfinishedReencode | None:
        """Return how far a re-encoding has come; None when there is none."""
        return staging.begun(self.folder, self.database)

    def drop_staged(self) -> None:
        """Forget a re-encoding that was begun."""
        staging.drop(self.folder)

    def shrink(self) -> None:
        """Give room back to the disk, if that pays."""
        compaction.shrink(self.database)

    def compact(self) -> Compacted:
        """Write the store anew without the holes that deleted documents left."""
        return compaction.compact(self.database)

    def problems(self) -> list[str]:
        """Return what is wrong with everything stored, all of which is read."""
        with self.database.reading():
            return [*self.database.problems(), *verify.problems(self)]
