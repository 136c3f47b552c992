"""What is served: one calibration, the indexes folded by it, and what changed since they were built.

It never changes: a search that has begun goes on with what it began with, and the next one takes the next
``Snapshot``, in one step. Documents added since the indexes were built stand on small indexes of their own, searched
exactly; those gone since are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isthmus.calibration import Fitted
from isthmus.search.modality_indexes import ModalityIndex, added, folded, merged
from isthmus.search.probability import Match
from isthmus.storage.base import Block, State
from isthmus.storage.protocols import Store
from isthmus.words import HybridScale

# Rows that may stand beside the built indexes, or be gone from them: at least so many, and a share of those built.
REBUILD = (4096, 0.1)  # past this a running process builds them again
PERSIST = (256, 0.02)  # past this they are built for the next process


@dataclass(frozen=True, slots=True, eq=False)
class Calibrated:
    """A fitted calibration as a collection keeps it: with its number, its sources, and what its scores are worth."""

    version: int
    sequence: int  # the state of the documents it was fitted on
    made: str
    fitted: Fitted
    match: Match | None = None
    sources: Mapping[str, list[int]] = field(default_factory=dict)  # document → the reference queries made from it
    hybrid: HybridScale | None = None
    identity: str = ""  # random: two calibrations may have one number, in two histories of a store


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A calibration and the indexes it folded, up to one change of the documents."""

    calibrated: Calibrated
    state: State
    last: int  # the last row of a document that stands on a index
    built: tuple[ModalityIndex, ...]
    recent: tuple[ModalityIndex, ...] = ()

    @property
    def sequence(self) -> int:
        """How many changes of the documents it has seen."""
        return self.state.sequence

    @property
    def all_indexes(self) -> tuple[ModalityIndex, ...]:
        """Those built, and those that came after."""
        return (*self.built, *self.recent)

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that can be found."""
        return tuple(sorted({index.modality for index in self.all_indexes}))

    @property
    def needs_rebuild(self) -> bool:
        """Whether so much has changed that building the indexes again pays."""
        return self._changed > max(REBUILD[0], REBUILD[1] * sum(len(index) for index in self.built))

    @property
    def needs_persist(self) -> bool:
        """Whether so much has changed that the next process should not have to follow it."""
        return self._changed > max(PERSIST[0], PERSIST[1] * sum(len(index) for index in self.built))

    @property
    def _changed(self) -> int:
        dead = sum(int((~index.alive).sum()) for index in self.all_indexes if index.alive is not None)
        return dead + sum(len(index) for index in self.recent)

    def unknown(self, store: Store) -> set[str]:
        """Return the modalities and the parts in the store that this calibration has never seen."""
        return unknown(self.calibrated.fitted, store)

    def followed(self, store: Store, state: State) -> Snapshot:
        """Return what is served after the changes since: new documents beside, gone ones masked."""
        gone = store.gone_since(self.sequence)
        indexes = tuple(_without(index, gone) for index in self.built)
        recent = [_without(index, gone) for index in self.recent]
        last = self.last
        for block in store.blocks(after=self.last):
            last = int(block.rows[-1])
            for piece in folded(self.calibrated.fitted, _known(block, self.calibrated.fitted), self.calibrated.sources):
                recent = _beside(recent, added(piece))
        return replace(self, state=state, last=last, built=indexes, recent=tuple(recent))


def unknown(fitted: Fitted, store: Store) -> set[str]:
    """Return the modalities and the parts in a store that a calibration has never seen.

    One modality may come in several parts: as text and image, or as one vector for both.
    """
    return (store.modalities() - set(fitted.document_modalities)) | (store.parts() - set(fitted.statistics.parts))


def _beside(recent: list[ModalityIndex], index: ModalityIndex) -> list[ModalityIndex]:
    """Put a index beside others; those of its modality that are not much larger are merged into it.

    So there are few indexes, and each row is copied a few times only, however many documents come one by one.
    """
    while mine := [other for other in recent if other.modality == index.modality and len(other) <= 2 * len(index)]:
        recent = [other for other in recent if other is not mine[-1]]
        index = merged(mine[-1], index)
    return [*recent, index]


def _known(block: Block, fitted: Fitted) -> Block:
    """Leave out documents of a modality or with a part that the calibration has never seen: the next one will."""
    foldable = np.isin(block.vectors.modality, fitted.document_modalities)
    for part, mask in block.vectors.present.items():
        if part not in fitted.statistics.parts:
            foldable &= ~mask
    if foldable.all():
        return block
    kept, owner = np.unique(block.owner[foldable], return_inverse=True)
    return Block(block.rows[kept], [block.ids[at] for at in kept], block.vectors.take(foldable), owner)


def _without(index: ModalityIndex, gone: np.ndarray[tuple[int], np.dtype[np.int64]]) -> ModalityIndex:
    dead = np.isin(index.documents, gone)
    if not dead.any():
        return index
    alive = ~dead if index.alive is None else index.alive & ~dead
    return replace(index, alive=alive)
