"""Documents with their vectors, in memory."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.errors import BadFile
from isthmus.storage.base import (
    Block,
    Compacted,
    Described,
    Entry,
    State,
    UnfinishedReencode,
)
from isthmus.storage.facts import Scalar, as_json, facts
from isthmus.storage.memory.engine import Contents, MemoryEngine, StoredDocument
from isthmus.storage.memory.filters import allowed
from isthmus.storage.memory.parts import MemoryCalibrations, MemoryLedger, MemoryQueries, MemoryWords
from isthmus.storage.memory.values import values
from isthmus.storage.segments import Segment, assembled
from isthmus.storage.values import FieldValues
from isthmus.storage.where import Condition
from isthmus.types import Rows


class MemoryStore:
    """The store of a collection in memory."""

    def __init__(self, database: MemoryEngine | None = None) -> None:
        self.database = database or MemoryEngine()
        self.ledger = MemoryLedger(self.database)
        self.calibrations = MemoryCalibrations(self.database)
        self.queries = MemoryQueries(self.database)
        self.words = MemoryWords(self.database)
        self._staging: MemoryStaging | None = None

    @property
    def folder(self) -> None:
        """None: the index stays in memory."""

    @property
    def _held(self) -> dict[int, StoredDocument]:
        return self.database.now.documents

    @contextmanager
    def again(self) -> Iterator[MemoryStore]:
        """Return the same store, for another thread."""
        yield self

    @contextmanager
    def sole_writer(self) -> Iterator[None]:
        """Hold the writer lock: threads wait for each other."""
        with self.database.lock:
            yield

    def writer(self) -> AbstractContextManager[None]:
        """Hold the writer lock, as ``sole_writer``."""
        return self.sole_writer()

    def fitting(self) -> AbstractContextManager[bool]:
        """Do nothing: there is one process."""
        return nullcontext(True)

    @contextmanager
    def building(self) -> Iterator[bool]:
        """Hold the lock of publications; yields whether no other thread has it."""
        mine = self.database.building.acquire(blocking=False)
        try:
            yield mine
        finally:
            if mine:
                self.database.building.release()

    def published(self, name: str | None) -> None:
        """Return None: folded vectors are in files or in memory, or on another server."""

    def stage(self, name: str, encoder: Encoder) -> MemoryStaging:
        """Open the staging area for another encoder's vectors; continue if it has some from the same encoder."""
        if self._staging is None or self._staging.identity != encoder.identity:
            self._staging = MemoryStaging(self, name, encoder.identity, encoder.dim)
        return self._staging

    def staged(self) -> UnfinishedReencode | None:
        """Return the unfinished re-encoding; None if there is none."""
        begun = self._staging
        if begun is None or self.database.manifest("identity").get("identity") == begun.identity:
            return None
        return UnfinishedReencode(
            begun.name, len(self._held.keys() & begun.store.database.now.documents.keys()), len(self._held)
        )

    def drop_staged(self) -> None:
        """Delete an unfinished re-encoding."""
        self._staging = None

    def shrink(self) -> None:
        """Do nothing: the memory of deleted documents is already free."""

    def compact(self) -> Compacted:
        """Do nothing: there is no unused space."""
        return Compacted(0, 0)

    def problems(self) -> list[str]:
        """Return nothing: data in memory has no checksums."""
        return []

    def put(self, transaction: Contents, /, entries: Sequence[Entry]) -> list[int]:
        """Add documents and replace those with the same ids; return the new rows."""
        self.remove(transaction, [entry.document.id for entry in entries])
        added: list[int] = []
        for entry in entries:
            row, transaction.next_row = transaction.next_row, transaction.next_row + 1
            transaction.documents[row] = _stored(entry)
            transaction.rows[entry.document.id] = row
            added.append(row)
        return added

    def remove(self, transaction: Contents, /, ids: Sequence[str]) -> list[str]:
        """Delete documents; return the ids of those that existed."""
        there = [name for name in ids if name in transaction.rows]
        for name in there:
            row = transaction.rows.pop(name)
            del transaction.documents[row]
            transaction.gone[row] = transaction.manifest["sequence"] + 1
        return there

    def touched(self, transaction: Contents, /, statistics: Statistics) -> None:
        """Record a change of the documents, and their new statistics."""
        transaction.changed()
        transaction.manifest["statistics"] = statistics

    def set_dim(self, transaction: Contents, /, dim: int | None) -> None:
        """Store the number of dimensions."""
        transaction.manifest["dim"] = dim

    def met(self, transaction: Contents, /, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Record the file and the run in which unchanged documents were found: (file, run, id)."""
        for unit, run, name in seen:
            row = transaction.rows[name]
            held = transaction.documents[row]
            transaction.documents[row] = replace(held, entry=replace(held.entry, unit=unit, run=run))

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents; with ``but_run``, only those that this run did not find."""
        entries = [held.entry for held in self._held.values() if held.entry.unit == number]
        return [entry.document.id for entry in entries if but_run is None or entry.run != but_run]

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that pass a filter."""
        return np.array(allowed(self.database.now, condition), dtype=np.int64)

    def trim(self, sequence: int) -> None:
        """Delete records that only an index older than a change needs."""
        with self.database.writing() as transaction:
            transaction.gone = {row: at for row, at in transaction.gone.items() if at > sequence}
            transaction.states = {at: token for at, token in transaction.states.items() if at >= sequence}

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which are updated with every change."""
        found: Statistics = self.database.manifest("statistics").get("statistics", Statistics({}))
        return found

    def count(self) -> int:
        """Return the number of documents."""
        return len(self._held)

    def counts(self) -> dict[str, int]:
        """Return the number of documents of each modality."""
        return dict(sorted(Counter(held.entry.modality for held in self._held.values()).items()))

    def modalities(self) -> set[str]:
        """Return the modalities of the documents."""
        return set(self.counts())

    def parts(self) -> set[str]:
        """Return the parts that documents have vectors for."""
        return set(self.statistics().parts)

    def fields(self) -> list[str]:
        """Return the names of the metadata."""
        return sorted({name for held in self._held.values() for name, _ in held.facts})

    def values(self, name: str) -> FieldValues:
        """Return the values of a field with how many documents have each."""
        return values(self.database.now, name)

    def facts(self, rows: Sequence[int]) -> dict[int, list[tuple[str, Scalar]]]:
        """Return the metadata of documents as filters see them: (name, value), by row; without those that have none."""
        return {row: list(held.facts) for row in rows if (held := self._held.get(row)) and held.facts}

    def copies(self, row: int) -> set[int]:
        """Return the rows of the documents with exactly the same parts as this one, including itself."""
        mine = self._held[row].entry if row in self._held else None
        if mine is None or mine.digest is None:
            return {row}
        entries = ((other, held.entry) for other, held in self._held.items())
        return {row, *(other for other, e in entries if (e.digest, e.own_hash) == (mine.digest, mine.own_hash))}

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order they were added."""
        return [self._held[row].document.id for row in allowed(self.database.now, condition)]

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        return {row: held.document.id for row, held in self._held.items()}

    def names_like(self, start: str) -> list[str]:
        """Return some ids with a common prefix."""
        return [name for name in self.database.now.rows if name.lower().startswith(start.lower())][:200]

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after a row, in order."""
        return [row for row in self._held if row > after][:count]

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        return [row for row, held in self._held.items() if modality is None or held.entry.modality == modality]

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        return [r for r, held in self._held.items() if any(s.name == name for s in held.entry.segments)][:count]

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the texts of these documents."""
        found = {row: self._held[row].document.text for row in rows if row in self._held}
        return {row: text for row, text in found.items() if text}

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents with any other modality."""
        entries = [held.entry for held in self._held.values()]
        return [(entry.document.id, entry.modality) for entry in entries if entry.modality not in known]

    def described(self, rows: Sequence[int]) -> dict[int, Described]:
        """Return the modality and the hashes of documents."""
        entries = {row: self._held[row].entry for row in rows if row in self._held}
        return {row: Described(entry.modality, entry.hashes, entry.own_hash) for row, entry in entries.items()}

    def origins(self, rows: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the file and the run that documents came from."""
        entries = {row: self._held[row].entry for row in rows if row in self._held}
        return {row: (entry.unit, entry.run) for row, entry in entries.items()}

    def same_parts(self, digest: bytes, count: int) -> list[int]:
        """Return some documents whose parts have this combined hash, and whose vectors are all the encoder's."""
        entries = ((row, held.entry) for row, held in self._held.items())
        return [row for row, entry in entries if entry.digest == digest and entry.own_hash is None][:count]

    def same_part(self, kind: str, digest: bytes, count: int) -> list[tuple[int, int]]:
        """Return some parts, (document, number), of a kind that have this hash."""
        return [
            (row, number)
            for row, held in self._held.items()
            if digest in held.entry.hashes
            for number, (part, hashed) in enumerate(zip(held.document.parts, held.entry.hashes, strict=True))
            if part.kind == kind and hashed == digest
        ][:count]

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None if there is none."""
        entries = ((row, held.entry) for row, held in self._held.items())
        return next((row for row, e in entries if e.modality == modality and e.own_hash is None), None)

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that exists."""
        rows = self.database.now.rows
        return {name: rows[name] for name in ids if name in rows}

    def has_text(self, rows: Sequence[int]) -> set[int]:
        """Return those of the rows whose documents have a text."""
        return set(self.texts([int(row) for row in rows]))

    def document(self, row: int) -> Document:
        """Return the document in a row, which must exist."""
        if row not in self._held:
            raise BadFile(f"There is no document in row {row}.")
        return _restored(self._held[row])

    def documents(self, rows: Sequence[int]) -> dict[int, Document]:
        """Return the documents in these rows."""
        return {int(row): _restored(self._held[int(row)]) for row in rows if int(row) in self._held}

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        return {int(row): list(self._held[int(row)].entry.segments) for row in rows if int(row) in self._held}

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Recompute the statistics from the vectors of all documents except some."""
        statistics = Statistics({})
        for row, held in self._held.items():
            if row not in but:
                statistics = statistics.add(*assembled([held.entry.segments]))
        return statistics

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        return np.array([row for row, at in self.database.now.gone.items() if at > sequence], dtype=np.int64)

    def state(self) -> State:
        """Return the current state of the documents."""
        sequence = self.database.sequence()
        return State(sequence, self.database.now.states[sequence])

    def passed(self, state: State) -> bool:
        """Whether the documents were ever in a state, and all changes since are recorded."""
        return self.database.now.states.get(state.sequence) == state.token

    def blocks(self, after: int = -1, last: int | None = None, size: int = 2048) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, at most a block at a time."""
        wanted = [row for row in self._held if row > after and (last is None or row <= last)]
        for start in range(0, len(wanted), size):
            yield self.sample(wanted[start : start + size])

    def last(self) -> int:
        """Return the row of the last document added; -1 if there is none."""
        return max(self._held, default=-1)

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        there = sorted(int(row) for row in rows if int(row) in self._held)
        segments = [self._held[row].entry.segments for row in there]
        return Block(
            np.array(there, dtype=np.intp), [self._held[row].document.id for row in there], *assembled(segments)
        )


@dataclass(slots=True, eq=False)
class MemoryStaging:
    """Another encoder's vectors, until they are complete."""

    main: MemoryStore
    name: str
    identity: str
    dim: int
    store: MemoryStore

    def __init__(self, main: MemoryStore, name: str, identity: str, dim: int) -> None:
        self.main, self.name, self.identity, self.dim = main, name, identity, dim
        self.store = MemoryStore()

    def missing(self, rows: Sequence[int]) -> list[int]:
        """Return those of the rows that have no new vectors yet."""
        return [row for row in rows if row not in self.store.database.now.documents]

    def keep(self, made: Sequence[tuple[int, Entry]]) -> None:
        """Store documents' new vectors by row."""
        with self.store.database.writing() as transaction:
            for row, entry in made:
                transaction.documents[row] = _stored(entry)
                transaction.rows[entry.document.id] = row

    def measured(self, statistics: Statistics, sequence: int) -> None:
        """Store the statistics of the new vectors, and a token for the state that their index is built from."""
        with self.store.database.writing() as transaction:
            transaction.manifest["statistics"] = statistics
            transaction.states[sequence] = secrets.token_hex(16)

    def _future(self, now: Contents) -> Contents:
        """Return contents with the new vectors instead of the old, for documents that have them."""
        staged, future = self.store.database.now, now.copy()
        future.documents = {row: _with_vectors(now.documents[row], staged.documents[row].entry)
                            for row in now.documents if row in staged.documents}  # fmt: skip
        future.rows = {held.document.id: row for row, held in future.documents.items()}
        future.manifest["statistics"] = staged.manifest.get("statistics", Statistics({}))
        future.states = {at: token for at, token in staged.states.items() if at == now.manifest["sequence"]}
        return future

    @contextmanager
    def preview(self) -> Iterator[MemoryStore]:
        """Return the collection as it will be, for reading; calibrations may be drafted there."""
        future = self._future(self.main.database.now)
        future.states = future.states or {future.manifest["sequence"]: secrets.token_hex(16)}
        preview = MemoryStore(_Preview(future, self))
        yield preview

    @contextmanager
    def adopting(self, encoding: int) -> Iterator[tuple[MemoryStore, Contents]]:
        """Run the transaction that replaces the old vectors by the new; documents are deleted inside."""
        with self.main.database.writing() as transaction:
            yield self.main, transaction
            sequence = transaction.manifest["sequence"]
            if transaction.documents.keys() - self.store.database.now.documents.keys():
                raise BadFile("The collection was written to while it was re-encoded. Run it again.")
            future = self._future(transaction)
            transaction.documents, transaction.states = future.documents, future.states
            transaction.gone = {row: at for row, at in transaction.gone.items() if at > sequence}
            own = {"encoder": self.name, "identity": self.identity, "dim": self.dim, "encoding": encoding}
            transaction.manifest |= own | {"statistics": future.manifest["statistics"]}
            transaction.changed()

    def close(self) -> None:
        """Do nothing: staged vectors stay until they are dropped."""


class _Preview(MemoryEngine):
    """The collection as it will be; its statistics and its state are set with the last of the new vectors."""

    def __init__(self, contents: Contents, staging: MemoryStaging) -> None:
        super().__init__(contents)
        self.building = staging.main.database.building
        self._staging = staging

    @property
    def now(self) -> Contents:
        """The future contents, with the statistics so far."""
        now = super().now
        staged = self._staging.store.database.now
        sequence = now.manifest["sequence"]
        if "statistics" in staged.manifest and sequence in staged.states:
            now.manifest["statistics"] = staged.manifest["statistics"]
            now.states[sequence] = staged.states[sequence]
        return now


def _stored(entry: Entry) -> StoredDocument:
    document = entry.document
    metadata = as_json(document.metadata, f"Document {document.id!r}")
    return StoredDocument(entry, metadata, frozenset(facts(document.metadata)))


def _restored(held: StoredDocument) -> Document:
    """Return a copy of a document, so that callers cannot change the stored one."""
    d = held.document
    return Document.restored(d.id, d.parts, json.loads(held.metadata), dict(d.vectors))


def _with_vectors(held: StoredDocument, new: Entry) -> StoredDocument:
    document = replace(held.document, vectors={}) if held.document.vectors else held.document
    entry = replace(new, document=document, unit=held.entry.unit, run=held.entry.run)
    return replace(held, entry=entry)
