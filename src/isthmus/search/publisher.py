"""Publish a collection's folded vectors on a server, keep them up to date, and say what is served there.

The store stays the truth. Its manifest has two values:

    vectors         where the folded vectors live: the address of a server, without secrets
    publications    the publications that may be on a server, each with its key and its calibration

A publication is recorded before it is begun, so that none is forgotten on the server; it is served when its calibration
is, which is one transaction of the store. What keeps an answer of one committed state:

- An added document is in the snapshot's own small indexes until the server has its row, and a search on the server sees
  no row after the last that its snapshot knows.
- A deleted document is named in the filter of every search until the server has deleted its rows. Before it does, the
  manifest gets the number of the last change (``removed``). A search of an older state may then lack rows of documents
  that it should find, so it is repeated; it finds out by reading the manifest after it has its answer (``serves``).
- A publication is dropped in the same way: first it is marked in the manifest (``dropping``), then it goes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from isthmus.calibration import Fitted, NeighbourSearch
from isthmus.errors import BadSpec, CannotReach, CannotWrite, counted
from isthmus.search.published_index import PublishedIndex
from isthmus.search.snapshot import Calibrated, Snapshot, folded, known
from isthmus.storage.base import Block, State
from isthmus.storage.protocols import About, Engine, FoldedRows, NotPublished, PublishedVectors, Store
from isthmus.storage.servers import FOLDER, opened_server

VECTORS = "vectors"  # names in the manifest
PUBLICATIONS = "publications"


@dataclass(frozen=True, slots=True)
class Publication:
    """A record of the manifest: a publication that may be on the server."""

    key: str
    identity: str  # of its calibration
    address: str  # of the server
    removed: int = 0  # rows of documents that were deleted up to this change may be gone
    dropping: bool = False


@dataclass(slots=True, eq=False)
class Publisher:
    """Keeps the publications of one collection."""

    server: PublishedVectors
    database: Engine  # with the manifest

    def records(self) -> list[Publication]:
        """Return the publications that may be on the server, oldest first."""
        return [record for record in _records(self.database) if record.address == self.server.address]

    def loaded(self, calibrated: Calibrated, store: Store) -> Snapshot | None:
        """Return what the server has of a calibration; None if it has nothing whole, or of another history."""
        for record in self._of(calibrated):
            about = self.server.about(record.key)
            if about is not None and about.complete and self._is_own(about, record, store):
                return self._snapshot(calibrated, record.key, about)
        return None

    def rows(self, calibrated: Calibrated) -> dict[str, int]:
        """Return how many rows of each modality were written for a calibration; deleted ones may be among them."""
        for record in self._of(calibrated):
            about = self.server.about(record.key)
            if about is not None and about.complete:
                return dict(sorted(about.written.items()))
        return {}

    def published(
        self, calibrated: Calibrated, store: Store, upto: tuple[State, int], neighbours: NeighbourSearch | None = None
    ) -> Snapshot:
        """Bring the publication of a calibration up to a state, and return its snapshot; the caller holds the lock.

        ``upto``: the state, and its last row. What was begun is continued. What is lost, or not of this history, is
        published anew under another key.
        """
        if calibrated.fitted.spec.dynamic:
            raise BadSpec(
                f"{calibrated.fitted.spec} switches biases by query, which needs a first search of its own, and "
                f"{self.server.address} does not store what that needs. Use a calibration that is not dynamic, or keep "
                "the vectors in the folder: vectors='folder' (--vectors folder)."
            )
        state, last = upto
        begun = self.begun(calibrated, store)
        if begun is None:
            self.forget(calibrated)  # lost, or of another history
        for block in store.blocks(after=begun[1].last if begun else -1, last=last):
            pieces = self._pieces(calibrated, known(block, calibrated.fitted), store, neighbours)
            if begun is None and pieces:
                begun = self._begin(calibrated, state, pieces[0].vectors.shape[1])
            if begun is not None:
                begun = self._written(*begun, pieces, int(block.rows[-1]))
        if begun is None:
            return Snapshot(calibrated, state, last, ())  # there are no rows
        key, about = begun
        gone = store.gone_since(about.state.sequence)
        if len(gone):
            self._change(key, removed=state.sequence)
            self.server.remove(key, gone)
        about = replace(about, state=state, last=max(about.last, last), complete=True)
        self.server.mark(key, about)
        return self._snapshot(calibrated, key, about)

    def begun(self, calibrated: Calibrated, store: Store) -> tuple[str, About] | None:
        """Return the publication to continue, and how far it is; None if there is none."""
        for record in self._of(calibrated):
            about = self.server.about(record.key)
            if about is not None and self._is_own(about, record, store):
                return record.key, about
        return None

    def _begin(self, calibrated: Calibrated, state: State, width: int) -> tuple[str, About]:
        key = f"{calibrated.version}-{secrets.token_hex(8)}"
        self._record(lambda records: [*records, Publication(key, calibrated.identity, self.server.address)])
        self.server.begin(key, calibrated.fitted.document_modalities, width)
        return key, About(calibrated.identity, state, -1)

    def _pieces(
        self, calibrated: Calibrated, block: Block, store: Store, neighbours: NeighbourSearch | None
    ) -> list[FoldedRows]:
        """Fold a block of documents, with their metadata."""
        rows = block.rows.tolist()
        facts, names = store.facts(rows), dict(zip(rows, block.ids, strict=True))
        return [
            FoldedRows(
                piece.modality,
                np.ascontiguousarray(piece.vectors, np.float32),
                piece.rows,
                [names[row] for row in piece.rows[:, 0].tolist()],
                [facts.get(row, ()) for row in piece.rows[:, 0].tolist()],
            )
            for piece in folded(calibrated.fitted, block, calibrated.sources, neighbours)
        ]

    def _written(self, key: str, about: About, pieces: Sequence[FoldedRows], last: int) -> tuple[str, About]:
        """Write a block, and mark that it is there."""
        for piece in pieces:
            self.server.write(key, piece)
        counts = _added(about.written, {piece.modality: len(piece) for piece in pieces})
        about = replace(about, last=last, written=counts)
        self.server.mark(key, about)
        return key, about

    def _snapshot(self, calibrated: Calibrated, key: str, about: About) -> Snapshot:
        built = tuple(
            PublishedIndex(modality, self.server, key, about.last, rows)
            for modality, rows in sorted(about.written.items())
        )
        return Snapshot(calibrated, about.state, about.last, built)

    def serves(self, snapshot: Snapshot) -> bool:
        """Whether everything that a snapshot sees was on the server until now; if not, its answer may lack some."""
        keys = {index.key for index in snapshot.built if isinstance(index, PublishedIndex)}
        there = {record.key: record for record in self.records() if not record.dropping}
        return all(key in there and there[key].removed <= snapshot.sequence for key in keys)

    def sweep(self, kept: Collection[str]) -> None:
        """Drop every publication but the last of each of these calibrations; the caller holds the lock.

        What cannot be dropped now, because the server does not answer or it is still read, is dropped later.
        """
        records = self.records()
        newest = {one.identity: one.key for one in records if one.identity in kept and not one.dropping}
        for record in records:
            if record.key not in newest.values():
                self._change(record.key, dropping=True)
                try:
                    self.server.drop(record.key)
                except CannotReach:
                    return
                except CannotWrite:
                    continue
                self._forget(record.key)

    def problems(self, calibrated: Calibrated, store: Store) -> list[str]:
        """Count the rows on the server, and return what is wrong with them."""
        found = self.loaded(calibrated, store)
        if found is None:
            return [f"{self.server.address} does not have the vectors of this collection. They are published again."]
        expected, gone = _rows_of(store, calibrated.fitted, found.last), store.gone_since(found.sequence)
        current = [index.without(gone) for index in found.built if isinstance(index, PublishedIndex)]
        try:
            there = {index.modality: index.count() for index in current}
        except NotPublished as error:
            return [str(error)]
        return [
            f"{self.server.address} has {counted(there.get(name, 0), 'row')} of {name}; the collection has {count:,}. "
            "They are published again."
            for name, count in expected.items()
            if there.get(name, 0) != count
        ]

    def forget(self, calibrated: Calibrated) -> None:
        """Never use what the server has of a calibration again: it is published anew."""
        for record in self._of(calibrated):
            self._change(record.key, dropping=True)

    def _of(self, calibrated: Calibrated) -> list[Publication]:
        """Return the publications of a calibration, the newest first."""
        mine = (one for one in self.records() if one.identity == calibrated.identity and not one.dropping)
        return list(mine)[::-1]

    def _is_own(self, about: About, record: Publication, store: Store) -> bool:
        return about.identity == record.identity and store.passed(about.state)

    def _change(self, key: str, *, removed: int = 0, dropping: bool = False) -> None:
        def changed(one: Publication) -> Publication:
            if one.key != key:
                return one
            return replace(one, removed=max(one.removed, removed), dropping=one.dropping or dropping)

        self._record(lambda records: [changed(one) for one in records])

    def _forget(self, key: str) -> None:
        self._record(lambda records: [one for one in records if one.key != key])

    def _record(self, change: Callable[[list[Publication]], list[Publication]]) -> None:
        with self.database.writing() as transaction:
            now = change(_records(self.database))
            self.database.put(transaction, **{PUBLICATIONS: json.dumps([asdict(one) for one in now])})

    def close(self) -> None:
        """Close the connection to the server."""
        self.server.close()


def publisher_of(database: Engine, server: PublishedVectors | str | None) -> Publisher | None:
    """Return the publisher of a collection, and keep where its vectors live from now on.

    ``server`` is a server, ``folder`` for none, or None for what the collection has. Publications on an earlier server
    stay there, because it may no longer answer.
    """
    kept = str(database.manifest(VECTORS).get(VECTORS, FOLDER))
    if server is None:
        return None if kept == FOLDER else Publisher(opened_server(kept), database)
    wanted = server if isinstance(server, str) else server.address
    if wanted != kept:
        with database.writing() as transaction:
            database.put(transaction, **{VECTORS: wanted})
    return None if isinstance(server, str) else Publisher(server, database)


def _records(database: Engine) -> list[Publication]:
    written = database.manifest(PUBLICATIONS).get(PUBLICATIONS, "[]")
    return [Publication(**one) for one in json.loads(written)]


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}


def _rows_of(store: Store, fitted: Fitted, last: int) -> dict[str, int]:
    """Return how many rows of each modality the documents up to a row have."""
    counts: dict[str, int] = {}
    for block in store.blocks(last=last):
        names, each = np.unique(known(block, fitted).vectors.modality, return_counts=True)
        counts = _added(counts, dict(zip(map(str, names), map(int, each), strict=True)))
    return counts
