"""What an engine implements, in five small protocols and one that holds them together.

    Engine        transactions, snapshots, the manifest
    Ledger        files and what was skipped                 Store.ledger
    Calibrations  fitted calibrations                        Store.calibrations
    Queries       the log                                    Store.queries
    Words         BM25                                       Store.words
    Store         documents and vectors, in and out

Methods that take a ``transaction`` run inside ``with engine.writing() as transaction``; all others read, inside a
snapshot (``reading``) where the caller holds one.
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
        """Refuse to go on with a store that was deleted or replaced while it was open."""
        ...

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return values of the manifest, those that are there; all of them where none is named."""
        ...

    def put(self, transaction: Transaction, /, **values: object) -> None:
        """Set values of the manifest."""
        ...

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Read one state: what this thread reads inside is as of the last transaction committed before."""
        ...

    def held(self) -> AbstractContextManager[Callable[[], AbstractContextManager[None]]]:
        """Hold one state that is read now and then, inside what this gives."""
        ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """Run a transaction: all of it, or nothing."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Ledger(Protocol):
    """The files that documents came from, and what could not be read."""

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        ...

    def unit(self, root: str, key: str) -> Unit | None:
        """Return what is known of a file."""
        ...

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty where there is none."""
        ...

    def holds(self, root: str, inside: str) -> bool:
        """Whether there are units of a source at a path inside it, or below."""
        ...

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run has not met."""
        ...

    def count(self, number: int) -> int:
        """Return how many documents a unit has."""
        ...

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        ...

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None when there is none."""
        ...

    def sources(self) -> dict[str, int]:
        """Return how many files each source has."""
        ...

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        ...

    def begin(self, transaction: Transaction, /, number: int, root: str, key: str, run: int) -> None:
        """Note that a unit is being read: it has no stamp until it is done, and nothing of it is skipped yet."""
        ...

    def met(self, transaction: Transaction, /, numbers: Iterable[int], run: int) -> None:
        """Note that unchanged units were met in a run."""
        ...

    def keep(self, transaction: Transaction, /, number: int, names: Sequence[str], run: int) -> None:
        """Note that documents of a unit stay as they are in a run."""
        ...

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read to their end: (stamp, unit)."""
        ...

    def skip(self, transaction: Transaction, /, root: str, key: str, place: str, why: str) -> None:
        """List something that could not be read."""
        ...

    def forget_skipped(self, transaction: Transaction, /, units: Sequence[tuple[str, str]]) -> None:
        """Take what was skipped of units, by root and key, off the list."""
        ...

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Forget units whose documents are gone."""
        ...

    def skip_documents(self, transaction: Transaction, /, why: dict[str, str]) -> None:
        """List documents by id as skipped under their files, which are read again by the next run."""
        ...


class Calibrations(Protocol):
    """Fitted calibrations, each under a number; one of them is served."""

    def served(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        ...

    def spec(self) -> str | None:
        """Return what the collection was told to calibrate by."""
        ...

    def versions(self) -> list[int]:
        """Return the numbers of all calibrations."""
        ...

    def draft(self, make: Callable[[int], StoredCalibration]) -> int:
        """Write a calibration under a number of its own, by which nobody is served yet; return the number."""
        ...

    def forget_drafts(self) -> None:
        """Delete the drafts of processes that were killed before they published them; earlier calibrations stay."""
        ...

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on; ``over`` and ``encoding`` are what it may take the place of."""
        ...

    def replace_all(self, transaction: Transaction, /, made: StoredCalibration | None, spec: str) -> None:
        """Serve a calibration of other vectors, or none, inside the caller's transaction; all earlier ones go."""
        ...

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        ...


class Queries(Protocol):
    """The log of queries, when it is switched on, and queries given for calibration."""

    @property
    def on(self) -> bool:
        """Whether queries are kept."""
        ...

    def switch(self, on: bool) -> None:
        """Begin or stop to keep queries; stopping forgets those that were kept."""
        ...

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Keep queries, (time, text), the newest ones alone; none where the log was switched off meanwhile."""
        ...

    def count(self) -> int:
        """Return how many queries are kept."""
        ...

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries; a damaged one is left out."""
        ...

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Keep queries that were given for calibration, (text, id of the answer), in place of earlier ones."""
        ...

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries that were given for calibration."""
        ...


class Words(Protocol):
    """BM25 over the documents' texts."""

    def search(self, words: Sequence[str], k: int, where: Condition | None = None) -> Found:
        """Return the ``k`` documents that BM25 puts first, of those that a filter lets through."""
        ...

    def search_among(self, words: Sequence[str], documents: Sequence[int]) -> Found:
        """Return those of these documents that share words with a query."""
        ...


class Staging(Protocol):
    """Another encoder's vectors, until all of them are there."""

    @property
    def store(self) -> Store:
        """The new vectors, by the documents' rows."""
        ...

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Return those of the rows that have no new vectors yet."""
        ...

    def keep(self, made: Sequence[tuple[int, Entry]]) -> None:
        """Keep documents' new vectors, each under its row."""
        ...

    def measured(self, statistics: Statistics, sequence: int) -> None:
        """Keep the statistics of the new vectors, and a token for the state that an index of them is made from."""
        ...

    def preview(self) -> AbstractContextManager[Store]:
        """Give the collection as it will be, to be read; calibrations may be drafted there."""
        ...

    def adopting(self, encoding: int) -> AbstractContextManager[tuple[Store, Transaction]]:
        """Run the transaction that puts the new vectors in the place of the old; documents are deleted inside."""
        ...

    def close(self) -> None:
        """Close it; what is kept stays until it is dropped."""
        ...


class Store(Protocol):
    """What a collection holds: documents with their vectors, and the parts above."""

    @property
    def database(self) -> Engine:
        """Transactions, snapshots, and the manifest."""
        ...

    @property
    def folder(self) -> Path | None:
        """Where an index may be kept beside the store; None where there is no such place."""
        ...

    def again(self) -> AbstractContextManager[Store]:
        """Open the same store once more, for work on another thread."""
        ...

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the lock of the only writer, or say who has it."""
        ...

    def stage(self, name: str, encoder: Encoder) -> Staging:
        """Open a place for another encoder's vectors; what was begun for the same one is gone on with."""
        ...

    def staged(self) -> UnfinishedReencode | None:
        """Return how far a re-encoding has come; None when there is none."""
        ...

    def drop_staged(self) -> None:
        """Forget a re-encoding that was begun."""
        ...

    def shrink(self) -> None:
        """Give room back, if that pays."""
        ...

    def compact(self) -> Compacted:
        """Write the store anew without the holes that deleted documents left."""
        ...

    def problems(self) -> list[str]:
        """Return what is wrong with everything stored, all of which is read."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The files that documents came from, and what was skipped."""
        ...

    @property
    def calibrations(self) -> Calibrations:
        """The fitted calibrations."""
        ...

    @property
    def queries(self) -> Queries:
        """The log of queries, and those given for calibration."""
        ...

    @property
    def words(self) -> Words:
        """BM25 over the texts."""
        ...

    def put(self, transaction: Transaction, /, entries: Sequence[Entry]) -> list[int]:
        """Add documents, in place of those with the same ids; return the new rows."""
        ...

    def remove(self, transaction: Transaction, /, ids: Sequence[str]) -> list[str]:
        """Take documents out; return the ids of those that were there."""
        ...

    def touched(self, transaction: Transaction, /, statistics: Statistics) -> None:
        """Note that documents changed, and the statistics of what is there now."""
        ...

    def set_dim(self, transaction: Transaction, /, dim: int | None) -> None:
        """Note how many numbers a vector has."""
        ...

    def met(self, transaction: Transaction, /, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Note the file and the run in which unchanged documents were met: (file, run, id)."""
        ...

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents, with ``but_run`` of those that this run has not met."""
        ...

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that a filter lets through; those of the last few filters are kept until documents change."""
        ...

    def trim(self, sequence: int) -> None:
        """Forget what only an index older than a change needs to know."""
        ...

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which follow every change."""
        ...

    def count(self) -> int:
        """Return how many documents there are."""
        ...

    def counts(self) -> dict[str, int]:
        """Return how many documents each modality has."""
        ...

    def modalities(self) -> set[str]:
        """Return the modalities there are, without counting their documents."""
        ...

    def parts(self) -> set[str]:
        """Return the names of the vectors that documents have."""
        ...

    def fields(self) -> list[str]:
        """Return the names of the metadata, at the cost of one look into the index for each."""
        ...

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents that hold the very same parts as this one, itself among them."""
        ...

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that a filter lets through, in the order they were added."""
        ...

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        ...

    def names_like(self, start: str) -> list[str]:
        """Return some ids that begin alike."""
        ...

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after one, in order."""
        ...

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        ...

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        ...

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the words of these documents, those of all text parts together."""
        ...

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents whose modality is none of these."""
        ...

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        ...

    def origin(self, name: str) -> tuple[int | None, int | None]:
        """Return the file and the run that a document came with."""
        ...

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this hash together, and whose vectors are all the encoder's."""
        ...

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        ...

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None when there is none."""
        ...

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that is there."""
        ...

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        ...

    def document(self, row: int) -> Document:
        """Return the document in a row that is known to be there."""
        ...

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows, with the content that is kept here."""
        ...

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        ...

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Return the statistics taken anew from the vectors of all documents but some; damaged ones do not count."""
        ...

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        ...

    def state(self) -> State:
        """Return which state the documents are in."""
        ...

    def passed(self, state: State) -> bool:
        """Whether the documents have been in a state, and what has changed since is known."""
        ...

    def blocks(self, after: int = -1, last: int | None = None, size: int = 2048) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, never more than a block at a time."""
        ...

    def last(self) -> int:
        """Return the row of the document that was added last; -1 when there is none."""
        ...

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        ...
