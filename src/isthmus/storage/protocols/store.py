"""A whole store, and the staging area of a re-encoding."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.storage.base import Compacted, Entry, Transaction, UnfinishedReencode
from isthmus.storage.protocols.calibrations import Calibrations, Queries
from isthmus.storage.protocols.documents import DocumentTable, Words
from isthmus.storage.protocols.engine import Engine
from isthmus.storage.protocols.ledger import Ledger
from isthmus.storage.protocols.published import PublishedVectors
from isthmus.storage.protocols.vectors import VectorTable


class Store(DocumentTable, VectorTable, Protocol):
    """The store of a collection: documents with their vectors, and the other protocols."""

    @property
    def database(self) -> Engine:
        """Transactions, snapshots, and the manifest."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder for index files; None if there is none."""
        ...

    def again(self) -> AbstractContextManager[Store]:
        """Open the same store again, for another thread."""
        ...

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the writer lock, or raise an error that names its holder."""
        ...

    def writer(self) -> AbstractContextManager[None]:
        """Hold the right to add and delete documents: together with other processes where the engine allows it."""
        ...

    def fitting(self) -> AbstractContextManager[bool]:
        """Hold the right to fit a calibration and publish it; yields whether no other process has it."""
        ...

    def building(self) -> AbstractContextManager[bool]:
        """Hold the right to write indexes, or publish vectors; yields whether no other thread or process has it."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The files that documents came from, and skipped inputs."""
        ...

    @property
    def calibrations(self) -> Calibrations:
        """The fitted calibrations."""
        ...

    @property
    def queries(self) -> Queries:
        """The query log, and queries given for calibration."""
        ...

    @property
    def words(self) -> Words:
        """BM25 over the texts."""
        ...

    def published(self, name: str | None) -> PublishedVectors | None:
        """Return the engine's own server of folded vectors, by its name (None: the usual one); None if it has none."""
        ...

    def stage(self, name: str, encoder: Encoder) -> Staging:
        """Open the staging area for another encoder's vectors; continue if it has some from the same encoder."""
        ...

    def staged(self) -> UnfinishedReencode | None:
        """Return the unfinished re-encoding; None if there is none."""
        ...

    def drop_staged(self) -> None:
        """Delete an unfinished re-encoding."""
        ...

    def shrink(self) -> None:
        """Free unused disk space, if it is worth the cost."""
        ...

    def compact(self) -> Compacted:
        """Rewrite the store without the space of deleted documents."""
        ...

    def problems(self) -> list[str]:
        """Read everything that is stored, and return what is damaged."""
        ...


class Staging(Protocol):
    """Another encoder's vectors, until they are complete."""

    @property
    def store(self) -> Store:
        """The new vectors, by the documents' rows."""
        ...

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Return those of the rows that have no new vectors yet."""
        ...

    def keep(self, made: Sequence[tuple[int, Entry]]) -> None:
        """Store documents' new vectors by row."""
        ...

    def measured(self, statistics: Statistics, sequence: int) -> None:
        """Store the statistics of the new vectors, and a token for the state that their index is built from."""
        ...

    def preview(self) -> AbstractContextManager[Store]:
        """Return the collection as it will be, for reading; calibrations may be drafted there."""
        ...

    def adopting(self, encoding: int) -> AbstractContextManager[tuple[Store, Transaction]]:
        """Run the transaction that replaces the old vectors by the new; documents are deleted inside."""
        ...

    def close(self) -> None:
        """Close it; staged vectors stay until they are dropped."""
        ...
