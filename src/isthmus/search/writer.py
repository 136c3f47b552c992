"""Write documents in batches, each in one transaction. What has been acknowledged stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TypeAlias

from isthmus.calibration import Statistics
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import HasSettings
from isthmus.encoders.base import BATCH as ON_PROCESSOR
from isthmus.errors import BadFile, BadInput, BadVectors, CannotWrite
from isthmus.kinds import Part, atoms
from isthmus.search.ingest import Encoding, Prepared, prepared
from isthmus.search.page_texts import PageTexts, without_read_parts
from isthmus.storage.base import Entry, Transaction
from isthmus.storage.conflicts import retry_conflicts
from isthmus.storage.protocols import Store
from isthmus.storage.segments import assembled
from isthmus.types import Vectors, check_part_count

Action: TypeAlias = Callable[[Transaction], object]

BATCH = 256  # texts, or half as many pictures, that are encoded and committed together,
CALLS = 4  # or as many pictures as fill so many batches of the encoder, so that reading and encoding overlap
TRIES = 100  # of an update: each that fails is one of another process that did not
BYTES = 32 << 20  # of texts and pictures in a batch, at most


class ReplacedMeanwhile(CannotWrite):
    """A document that another process changed or deleted while it was being updated."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A document that was not added, and why."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Added:
    """What became of documents: the ids of those added, replaced and left as they were, and those skipped."""

    added: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.added) + len(self.updated)

    @classmethod
    def together(cls, several: Sequence[Added]) -> Added:
        """Put what became of several batches together."""
        names = ("added", "updated", "unchanged", "skipped")
        return cls(*(tuple(chain.from_iterable(getattr(one, name) for one in several)) for name in names))


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A document on its way in: ready to be stored, and the file and the run it came with."""

    one: Prepared
    unit: int | None = None
    run: int | None = None

    @property
    def id(self) -> str:
        """The document's id."""
        return self.one.document.id


@dataclass(slots=True, eq=False)
class Writer:
    """Adds and removes documents, one transaction per batch; statistics follow in the same transaction."""

    store: Store
    encoder: Callable[[], Encoder] | None
    dim: int | None = None
    before: list[Action] = field(default_factory=list)  # run in the next transaction, before its documents
    after: list[Action] = field(default_factory=list)  # and after them
    room: int = field(
        default_factory=lambda: BATCH
    )  # of a batch; known when the encoder is loaded, which happens when it is needed

    def add(self, arrivals: Sequence[Arrival], *, on_skip: Callable[[Skipped], None] | None = None) -> Added:
        """Encode and commit a batch; ``on_skip`` is called for each skipped document before the commit.

        Without it, vectors that do not fit raise an error.
        """
        known = self._known(arrivals)
        same = [arrival.id in known and known[arrival.id] == _signature(arrival) for arrival in arrivals]
        todo = [arrival for arrival, unchanged in zip(arrivals, same, strict=True) if not unchanged]
        skipped: list[Skipped] = []

        def skip(row: int, problem: BadInput) -> None:
            if on_skip is None and isinstance(problem, BadVectors):
                raise problem
            skipped.append(Skipped(todo[row].id, plain(todo[row].id, problem)))
            if on_skip is not None:
                on_skip(skipped[-1])

        encoding = Encoding(self.store, self.encoder and partial(self._loaded, self.encoder), self.dim)
        made = encoding.entries([arrival.one for arrival in todo], skip)
        entries = [
            replace(entry, unit=arrival.unit, run=arrival.run)
            for arrival, entry in zip(todo, made, strict=True)
            if entry is not None
        ]
        met = [arrival for arrival, keep in zip(arrivals, same, strict=True) if keep and arrival.unit is not None]
        seen = [(arrival.unit, arrival.run, arrival.id) for arrival in met]
        self.commit(entries, seen)
        names = [entry.document.id for entry in entries]
        return Added(
            tuple(name for name in names if name not in known),
            tuple(name for name in names if name in known),
            tuple(arrival.id for arrival, keep in zip(arrivals, same, strict=True) if keep),
            tuple(skipped),
        )

    def replace(self, changed: Callable[[], tuple[Arrival, int]]) -> Added:
        """Store a document in place of that in a row; both are read again if another process has changed it."""
        for _ in range(TRIES - 1):
            with suppress(ReplacedMeanwhile):
                return self._replace(*changed())
        return self._replace(*changed())

    def _replace(self, arrival: Arrival, row: int) -> Added:
        def check(_: Transaction) -> None:
            if self.store.rows_of([arrival.id]).get(arrival.id) != row:
                raise ReplacedMeanwhile(f"{arrival.id!r} was changed by others, again and again. Update it again.")

        self.before.append(check)
        try:
            return self.add([arrival])
        finally:
            self.before.clear()

    def _loaded(self, load: Callable[[], Encoder]) -> Encoder:
        encoder = load()
        self.room = room_for(encoder)
        return encoder

    def _known(self, arrivals: Sequence[Arrival]) -> dict[str, tuple[object, ...]]:
        """Return what the store has under these ids, in the form of ``_signature``."""
        rows = self.store.rows_of(arrival.id for arrival in arrivals)
        try:
            documents = self.store.documents(list(rows.values()))
        except BadFile:
            return dict.fromkeys(rows, ())  # one of them is damaged: all are written again
        described = self.store.described(list(documents))
        return {
            name: _told(documents[row], described[row].hashes, described[row].own_hash) if row in described else ()
            for name, row in rows.items()
        }

    def commit(self, entries: Sequence[Entry], seen: Sequence[tuple[int | None, int | None, str]] = ()) -> None:
        """Store entries, in place of those with the same ids, in one transaction."""
        retry_conflicts(lambda: self._commit(entries, seen))
        self.before.clear()
        self.after.clear()

    def _commit(self, entries: Sequence[Entry], seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        with self.store.database.writing() as connection:
            for action in self.before:
                action(connection)
            if entries:
                # inside the transaction: another process may have changed them since the last one
                statistics = self._without(self.store.rows_of(entry.document.id for entry in entries))
                vectors, owner = assembled([entry.segments for entry in entries])
                self._fix_dim(vectors)
                self.store.put(connection, entries)
                self.store.touched(connection, statistics.add(vectors, owner))
                self.store.set_dim(connection, self.dim)
            self.store.met(connection, seen)
            for action in self.after:
                action(connection)

    def _fix_dim(self, vectors: Vectors) -> None:
        if self.dim is None:
            self.dim = vectors.dim

    def _without(self, documents: Mapping[str, int]) -> Statistics:
        """Return the statistics without some documents; if those are damaged, compute them again from the others."""
        rows = list(documents.values())
        try:
            segments = self.store.segments(rows)
            gone = assembled([segments[row] for row in rows]) if rows else None
            return self.store.statistics() if gone is None else self.store.statistics().remove(*gone)
        except (BadFile, BadInput):
            return self.store.recounted(but=rows)

    def remove(self, ids: Sequence[str]) -> list[str]:
        """Delete documents in one transaction; return the ids of those that existed."""
        return retry_conflicts(lambda: self._remove(ids)) if self.store.rows_of(ids) else []

    def _remove(self, ids: Sequence[str]) -> list[str]:
        with self.store.database.writing() as connection:
            statistics = self._without(self.store.rows_of(ids))
            removed = self.store.remove(connection, ids)
            self.store.touched(connection, statistics)
        return removed


def arrivals(
    documents: Iterable[Document], texts: PageTexts, skip: Callable[[Skipped], None]
) -> Generator[Arrival, None, None]:
    """Make documents ready; those that cannot be stored go to ``skip``, and pictures whose text cannot be read."""
    for document, problems in texts.in_order(texts.added, _checked(documents)):
        for why in problems:
            skip(Skipped(document.id, why))
        try:
            yield Arrival(prepared(document))
        except BadInput as problem:
            skip(Skipped(document.id, str(problem)))


def _checked(documents: Iterable[Document]) -> Iterator[Document]:
    for row, document in enumerate(documents):
        if not isinstance(document, Document):
            kind = type(document).__name__
            raise BadInput(f"row {row} is a {kind}, not a Document. Write Document(id='a', text='…'), or image=.")
        yield document


def room_for(encoder: Encoder) -> int:
    """Return the room of a batch, where a text takes 1 and a picture 2: a GPU's larger batches are filled, too."""
    size = encoder.settings.batch_size if isinstance(encoder, HasSettings) else 0
    return max(BATCH, 2 * CALLS * size) if size > ON_PROCESSOR else BATCH


def batches(arriving: Iterable[Arrival], room: Callable[[], int]) -> Iterable[list[Arrival]]:
    """Cut what arrives into batches of at most ``room()``; an id occurs once in each."""
    batch: dict[str, Arrival] = {}
    held = cost = 0
    for arrival in arriving:
        if arrival.id in batch or cost >= room() or held > BYTES:
            yield list(batch.values())
            batch, held, cost = {}, 0, 0
        batch[arrival.id] = arrival
        held += arrival.one.size
        cost += arrival.one.cost
    if batch:
        yield list(batch.values())


def merged(before: Document, given: Document) -> Document:
    """Return a document with the parts that are given in place of its own; the others stay.

    A text that was read from a picture stays only if no part is given.
    """
    before = without_read_parts(before) if given.parts else before
    fresh = {part.kind for part in given.parts}
    parts = given.parts if fresh >= {part.kind for part in before.parts} else _replaced(before.parts, given.parts)
    changed = fresh | {atom for part in given.vectors for atom in atoms(part)}
    own = {part: vector for part, vector in before.vectors.items() if not changed.intersection(atoms(part))}
    metadata = {**before.metadata, **given.metadata}
    if given.vectors:
        check_part_count({**own, **given.vectors})
    return Document.restored(given.id, parts, metadata, {**own, **given.vectors})


def _replaced(before: Sequence[Part], given: Sequence[Part]) -> list[Part]:
    """Return parts with those of the given kinds replaced, each kind where its first part was."""
    kinds = dict.fromkeys(part.kind for part in (*before, *given))
    fresh = {part.kind for part in given}
    return [part for kind in kinds for part in (given if kind in fresh else before) if part.kind == kind]


def _signature(arrival: Arrival) -> tuple[object, ...]:
    one = arrival.one
    hashes = [object() if digest is None else digest for digest in one.hashes]  # what cannot be read may have changed
    return _told(one.document, hashes, one.own_hash)


def _told(document: Document, hashes: Sequence[object], own: bytes | None) -> tuple[object, ...]:
    """Return what identifies an unchanged document."""
    parts = tuple((part.kind, digest, part.path) for part, digest in zip(document.parts, hashes, strict=True))
    return (parts, own, _json(document.metadata))


def _json(metadata: object) -> object:
    """Return metadata as it comes back from the store: tuples as lists, keys as strings."""
    return json.loads(json.dumps(metadata))


def plain(name: str, problem: BadInput) -> str:
    """Return the reason without the name, which is shown next to it."""
    return str(problem).removeprefix(f"document {name!r}: ")
