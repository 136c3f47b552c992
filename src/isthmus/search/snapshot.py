"""What is served: one calibration, the indexes folded by it, and what changed since they were built.

A snapshot never changes: a search that has begun goes on with the one it began with, and the next search takes the next
``Snapshot``, in one step. Documents added since the indexes were built are in small indexes of their own, searched
exactly; documents deleted since are masked. ``index_folder`` stores the indexes on disk; those on a server are
``PublishedIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isthmus import index as indexes
from isthmus.calibration import Fitted, NeighbourSearch
from isthmus.index import Index
from isthmus.search.probability import Match
from isthmus.search.published_index import PublishedIndex
from isthmus.storage.base import Block, State
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Rows
from isthmus.words import HybridScale

# Rows added since the indexes were built or deleted from them: at least so many, and a share of the rows built.
REBUILD = (4096, 0.1)  # past this a running process builds them again
PERSIST = (256, 0.02)  # past this they are built for the next process


@dataclass(frozen=True, slots=True, eq=False)
class ModalityIndex:
    """The folded vectors of one modality, and what finds the nearest among them."""

    modality: str
    vectors: Matrix  # (n, width)
    rows: Rows  # (n, 2): document, passage
    engine: Index  # finds the nearest vectors
    active: Mask | None = None  # (n, query modalities, sets), of dynamic calibrations
    alive: Mask | None = None  # (n,): None while every document is still there

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def documents(self) -> Rows:
        """The document of each row."""
        return self.rows[:, 0]

    def without(self, gone: Rows) -> ModalityIndex:
        """Return the index without some documents."""
        dead = np.isin(self.documents, gone)
        if not dead.any():
            return self
        return replace(self, alive=~dead if self.alive is None else self.alive & ~dead)


@dataclass(frozen=True, slots=True, eq=False)
class FoldedBlock:
    """A block of documents, folded: rows of one modality."""

    modality: str
    vectors: Matrix
    rows: Rows
    active: Mask | None


def folded(
    fitted: Fitted, block: Block, sources: Mapping[str, list[int]], neighbours: NeighbourSearch | None = None
) -> Iterator[FoldedBlock]:
    """Fold a block of documents; no reference query is compared with the document it was made from."""
    pairs = [(reference, place) for place, name in enumerate(block.ids) for reference in sources.get(name, ())]
    own = np.array(pairs, dtype=np.intp).reshape(-1, 2) if pairs else None
    made = fitted.fold(block.vectors, sources=own, owner=block.owner, neighbours=neighbours)
    first = np.searchsorted(block.owner, np.arange(len(block.rows)))
    rows = np.column_stack([block.rows[block.owner], np.arange(len(block.owner)) - first[block.owner]])
    for modality in block.vectors.modalities:
        of_modality = block.vectors.modality == modality
        active = None if made.active is None else made.active[of_modality]
        yield FoldedBlock(modality, made.vectors[of_modality], rows[of_modality].astype(np.int64), active)


def in_memory(pieces: Iterator[FoldedBlock], kind: str = indexes.AUTO) -> tuple[ModalityIndex, ...]:
    """Put folded blocks in indexes without a file."""
    by_modality: dict[str, list[FoldedBlock]] = {}
    for piece in pieces:
        by_modality.setdefault(piece.modality, []).append(piece)
    return tuple(_index_of(name, several, kind) for name, several in sorted(by_modality.items()))


def _index_of(modality: str, pieces: list[FoldedBlock], kind: str) -> ModalityIndex:
    vectors = np.concatenate([piece.vectors for piece in pieces])
    rows = np.concatenate([piece.rows for piece in pieces])
    active = [piece.active for piece in pieces if piece.active is not None]
    return ModalityIndex(
        modality, vectors, rows, indexes.build(vectors, kind), np.concatenate(active) if active else None
    )


def added(piece: FoldedBlock) -> ModalityIndex:
    """Put a folded block in an index of its own, searched exactly: for documents added after the last build."""
    return _index_of(piece.modality, [piece], "exact")


def merged(first: ModalityIndex, second: ModalityIndex) -> ModalityIndex:
    """Put two indexes of one modality together, searched exactly."""
    pieces = [FoldedBlock(index.modality, index.vectors, index.rows, index.active) for index in (first, second)]
    whole = _index_of(first.modality, pieces, "exact")
    if first.alive is None and second.alive is None:
        return whole
    masks = [np.ones(len(index), dtype=bool) if index.alive is None else index.alive for index in (first, second)]
    return replace(whole, alive=np.concatenate(masks))


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """A fitted calibration as a collection stores it: with its number, its sources, P(match) and the hybrid scale."""

    version: int
    sequence: int  # the state of the documents it was fitted on
    made: str
    fitted: Fitted
    match: Match | None = None
    sources: Mapping[str, list[int]] = field(default_factory=dict)  # document → the reference queries made from it
    hybrid: HybridScale | None = None
    identity: str = ""  # random: two calibrations may have one number, in two histories of a store
    request: str = ""  # of what it was asked for; empty if that cannot be asked for again


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A calibration and the indexes it folded, up to one change of the documents."""

    calibrated: Calibrated
    state: State
    last: int  # the last row of a document that is in an index
    built: tuple[ModalityIndex | PublishedIndex, ...]
    recent: tuple[ModalityIndex, ...] = ()
    raw_vectors: dict[int, Matrix] = field(default_factory=dict)  # a cache, by row; a row never changes

    @property
    def sequence(self) -> int:
        """How many changes of the documents it has seen."""
        return self.state.sequence

    @property
    def all_indexes(self) -> tuple[ModalityIndex | PublishedIndex, ...]:
        """Those built, and those that came after."""
        return (*self.built, *self.recent)

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that can be found."""
        return tuple(sorted({index.modality for index in self.all_indexes}))

    @property
    def needs_rebuild(self) -> bool:
        """Whether enough has changed that building the indexes again is worth it; a server only gets what changed."""
        share = 0.0 if self.is_published else REBUILD[1]
        return self._changed > max(REBUILD[0], share * sum(len(index) for index in self.built))

    @property
    def needs_persist(self) -> bool:
        """Whether enough has changed that the indexes should be written for the next process."""
        share = 0.0 if self.is_published else PERSIST[1]
        return self._changed > max(PERSIST[0], share * sum(len(index) for index in self.built))

    @property
    def is_published(self) -> bool:
        """Whether its indexes are on a server."""
        return any(isinstance(index, PublishedIndex) for index in self.built)

    def without_shards(self, missing: tuple[str, ...]) -> Snapshot:
        """Return the snapshot without the rows of some shards of the server."""
        built = (replace(one, missing=missing) if isinstance(one, PublishedIndex) else one for one in self.built)
        return replace(self, built=tuple(built))

    @property
    def has_changed(self) -> bool:
        """Whether documents were added or deleted since the indexes were built."""
        return self._changed > 0

    @property
    def _changed(self) -> int:
        local = [index for index in self.all_indexes if isinstance(index, ModalityIndex)]
        dead = sum(int((~index.alive).sum()) for index in local if index.alive is not None)
        gone = max((len(index.gone) for index in self.built if isinstance(index, PublishedIndex)), default=0)
        return dead + gone + sum(len(index) for index in self.recent)

    def unknown(self, store: Store) -> set[str]:
        """Return the modalities and the parts in the store that this calibration has never seen."""
        return unknown(self.calibrated.fitted, store)

    def followed(self, store: Store, state: State) -> Snapshot:
        """Return the snapshot after the changes since: new documents in indexes of their own, deleted ones masked."""
        gone = store.gone_since(self.sequence)
        built = tuple(index.without(gone) for index in self.built)
        recent = [index.without(gone) for index in self.recent]
        last = self.last
        for block in store.blocks(after=self.last):
            last = int(block.rows[-1])
            for piece in folded(self.calibrated.fitted, known(block, self.calibrated.fitted), self.calibrated.sources):
                recent = _with(recent, added(piece))
        return replace(self, state=state, last=last, built=built, recent=tuple(recent))


def unknown(fitted: Fitted, store: Store) -> set[str]:
    """Return the modalities and the parts in a store that a calibration has never seen.

    One modality may come in several parts: as text and image, or as one vector for both.
    """
    return (store.modalities() - set(fitted.document_modalities)) | (store.parts() - set(fitted.statistics.parts))


def _with(recent: list[ModalityIndex], index: ModalityIndex) -> list[ModalityIndex]:
    """Add an index to others; those of its modality that are not much larger are merged into it.

    So there are few indexes, and each row is copied only a few times even if documents are added one by one.
    """
    while mine := [other for other in recent if other.modality == index.modality and len(other) <= 2 * len(index)]:
        recent = [other for other in recent if other is not mine[-1]]
        index = merged(mine[-1], index)
    return [*recent, index]


def known(block: Block, fitted: Fitted) -> Block:
    """Leave out documents of a modality or with a part that the calibration has never seen, until the next one."""
    foldable = np.isin(block.vectors.modality, fitted.document_modalities)
    for part, mask in block.vectors.present.items():
        if part not in fitted.statistics.parts:
            foldable &= ~mask
    if foldable.all():
        return block
    kept, owner = np.unique(block.owner[foldable], return_inverse=True)
    return Block(block.rows[kept], [block.ids[at] for at in kept], block.vectors.take(foldable), owner)
