"""The protocols of an engine: five small ones and ``Store``, which combines them.

    Engine        transactions, snapshots, the manifest
    Ledger        files and skipped inputs                   Store.ledger
    Calibrations  fitted calibrations                        Store.calibrations
    Queries       the log                                    Store.queries
    Words         BM25                                       Store.words
    Store         documents and vectors, in and out

Methods that take a ``transaction`` run inside ``with engine.writing() as transaction``; all others read, inside a
snapshot (``reading``) if the caller holds one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.storage.base import (
    Block,
    Compacted,
    Described,
    Entry,
    Found,
    Holder,
    State,
    StoredCalibration,
    Transaction,
    UnfinishedReencode,
    Unit,
)
from isthmus.storage.segments import Segment
from isthmus.storage.where import Condition
from isthmus.types import Rows


class Engine(Protocol):
    """Transactions, snapshots and the manifest of one store."""

    path: Path
    writable: bool
    closed: bool

    def check_place(self) -> None:
        """Raise an error if the store was deleted or replaced while it was open."""
        ...

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return the values of these names in the manifest, if they exist; without names, all values."""
        ...

    def put(self, transaction: Transaction, /, **values: object) -> None:
        """Set values of the manifest."""
        ...

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Read one state: everything this thread reads inside is as of the last transaction committed before."""
        ...

    def held(self) -> AbstractContextManager[Callable[[], AbstractContextManager[None]]]:
        """Hold one state for later reads: each read is inside ``with`` the returned function."""
        ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """Run a transaction: all of it, or nothing."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Ledger(Protocol):
    """The files that documents came from, and inputs that could not be read."""

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        ...

    def unit(self, root: str, key: str) -> Unit | None:
        """Return the record of a file."""
        ...

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty if there is none."""
        ...

    def holds(self, root: str, inside: str) -> bool:
        """Whether a source has units at or below a path."""
        ...

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run did not find."""
        ...

    def count(self, number: int) -> int:
        """Return the number of documents of a unit."""
        ...

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        ...

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None if there is none."""
        ...

    def sources(self) -> dict[str, int]:
        """Return the number of files of each source."""
        ...

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        ...

    def begin(self, transaction: Transaction, /, number: int, root: str, key: str, run: int) -> None:
        """Record that a unit is being read: it has no stamp until it is done, and its skipped entries are cleared."""
        ...

    def met(self, transaction: Transaction, /, numbers: Iterable[int], run: int) -> None:
        """Record that a run found these units unchanged."""
        ...

    def keep(self, transaction: Transaction, /, number: int, names: Sequence[str], run: int) -> None:
        """Record that a run found documents of a unit unchanged."""
        ...

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read completely: (stamp, unit)."""
        ...

    def skip(self, transaction: Transaction, /, root: str, key: str, place: str, why: str) -> None:
        """Record an input that could not be read."""
        ...

    def forget_skipped(self, transaction: Transaction, /, units: Sequence[tuple[str, str]]) -> None:
        """Remove the skipped entries of units, by root and key."""
        ...

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Delete the records of units whose documents were deleted."""
        ...

    def skip_documents(self, transaction: Transaction, /, why: dict[str, str]) -> None:
        """Record documents by id as skipped, so that the next run reads their files again."""
        ...


class Calibrations(Protocol):
    """Fitted calibrations by number; one of them is served."""

    def served(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        ...

    def spec(self) -> str | None:
        """Return the spec that was requested for the collection."""
        ...

    def versions(self) -> list[int]:
        """Return the numbers of all calibrations."""
        ...

    def draft(self, make: Callable[[int], StoredCalibration]) -> int:
        """Write a calibration under a new number, not served yet; return the number."""
        ...

    def forget_drafts(self) -> None:
        """Delete the drafts of processes that were killed before they published them; earlier calibrations stay."""
        ...

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on, if ``over`` and ``encoding`` still match what is served."""
        ...

    def replace_all(self, transaction: Transaction, /, made: StoredCalibration | None, spec: str) -> None:
        """Serve a calibration of other vectors, or none, inside the caller's transaction; delete all earlier ones."""
        ...

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        ...


class Queries(Protocol):
    """The query log, if it is on, and queries given for calibration."""

    @property
    def on(self) -> bool:
        """Whether the log is on."""
        ...

    def switch(self, on: bool) -> None:
        """Switch the log on or off; switching it off deletes its queries."""
        ...

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add queries, (time, text), and keep only the newest; add none if the log was switched off meanwhile."""
        ...

    def count(self) -> int:
        """Return the number of queries in the log."""
        ...

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries, without damaged ones."""
        ...

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Replace the queries given for calibration, (text, id of the answer)."""
        ...

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries given for calibration."""
        ...


class Words(Protocol):
    """BM25 over the documents' texts."""

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` best documents by BM25 that pass a filter."""
        ...

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
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


class Store(Protocol):
    """The store of a collection: documents with their vectors, and the parts above."""

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

    def put(self, transaction: Transaction, /, entries: Sequence[Entry]) -> list[int]:
        """Add documents and replace those with the same ids; return the new rows."""
        ...

    def remove(self, transaction: Transaction, /, ids: Sequence[str]) -> list[str]:
        """Delete documents; return the ids of those that existed."""
        ...

    def touched(self, transaction: Transaction, /, statistics: Statistics) -> None:
        """Record a change of the documents, and their new statistics."""
        ...

    def set_dim(self, transaction: Transaction, /, dim: int | None) -> None:
        """Store the number of dimensions."""
        ...

    def met(self, transaction: Transaction, /, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Record the file and the run in which unchanged documents were found: (file, run, id)."""
        ...

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents; with ``but_run``, only those that this run did not find."""
        ...

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that pass a filter; the results of the last few filters are cached until documents change."""
        ...

    def trim(self, sequence: int) -> None:
        """Delete records that only an index older than a change needs."""
        ...

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which are updated with every change."""
        ...

    def count(self) -> int:
        """Return the number of documents."""
        ...

    def counts(self) -> dict[str, int]:
        """Return the number of documents of each modality."""
        ...

    def modalities(self) -> set[str]:
        """Return the modalities of the documents, without counting them."""
        ...

    def parts(self) -> set[str]:
        """Return the names of the vectors that documents have."""
        ...

    def fields(self) -> list[str]:
        """Return the names of the metadata, with one index lookup for each."""
        ...

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents with exactly the same parts as this one, including itself."""
        ...

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order they were added."""
        ...

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        ...

    def names_like(self, start: str) -> list[str]:
        """Return some ids with a common prefix."""
        ...

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after a row, in order."""
        ...

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        ...

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        ...

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the words of these documents, from all text parts."""
        ...

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents with any other modality."""
        ...

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        ...

    def origin(self, name: str) -> tuple[int | None, int | None]:
        """Return the file and the run that a document came from."""
        ...

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this combined hash, and whose vectors are all the encoder's."""
        ...

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        ...

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None if there is none."""
        ...

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that exists."""
        ...

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        ...

    def document(self, row: int) -> Document:
        """Return the document in a row, which must exist."""
        ...

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the content that is stored here."""
        ...

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        ...

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Recompute the statistics from the vectors of all documents except some; damaged vectors are ignored."""
        ...

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        ...

    def state(self) -> State:
        """Return the current state of the documents."""
        ...

    def passed(self, state: State) -> bool:
        """Whether the documents were ever in a state, and all changes since are recorded."""
        ...

    def blocks(self, after: int = -1, last: int | None = None, size: int = 2048) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, at most a block at a time."""
        ...

    def last(self) -> int:
        """Return the row of the last document added; -1 if there is none."""
        ...

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        ...
