"""What is served: one calibration, the shelves folded by it, and what changed since they were built.

It never changes: a search that has begun goes on with what it began with, and the next one takes the next
``Served``, in one step. Documents added since the shelves were built stand on small shelves of their own, searched
exactly; those gone since are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isthmus.calibration import Fitted
from isthmus.search.probability import Match
from isthmus.search.shelves import Shelf, added, folded, merged
from isthmus.storage.base import Block, State
from isthmus.storage.protocols import Store
from isthmus.words import HybridScale

# Rows that may stand beside the built shelves, or be gone from them: at least so many, and a share of those built.
WORN = (4096, 0.1)  # past this a running process builds them again
STALE = (256, 0.02)  # past this they are built for the next process


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
class Served:
    """A calibration and the shelves it folded, up to one change of the documents."""

    calibrated: Calibrated
    state: State
    last: int  # the last row of a document that stands on a shelf
    shelves: tuple[Shelf, ...]
    recent: tuple[Shelf, ...] = ()

    @property
    def sequence(self) -> int:
        """How many changes of the documents it has seen."""
        return self.state.sequence

    @property
    def all_shelves(self) -> tuple[Shelf, ...]:
        """Those built, and those that came after."""
        return (*self.shelves, *self.recent)

    @property
    def modalities(self) -> tuple[str, ...]:
        """The modalities that can be found."""
        return tuple(sorted({shelf.modality for shelf in self.all_shelves}))

    @property
    def worn(self) -> bool:
        """Whether so much has changed that building the shelves again pays."""
        return self._changed > max(WORN[0], WORN[1] * sum(len(shelf) for shelf in self.shelves))

    @property
    def stale(self) -> bool:
        """Whether so much has changed that the next process should not have to follow it."""
        return self._changed > max(STALE[0], STALE[1] * sum(len(shelf) for shelf in self.shelves))

    @property
    def _changed(self) -> int:
        dead = sum(int((~shelf.alive).sum()) for shelf in self.all_shelves if shelf.alive is not None)
        return dead + sum(len(shelf) for shelf in self.recent)

    def unknown(self, store: Store) -> set[str]:
        """Return the modalities and the parts in the store that this calibration has never seen."""
        return unknown(self.calibrated.fitted, store)

    def followed(self, store: Store, state: State) -> Served:
        """Return what is served after the changes since: new documents beside, gone ones masked."""
        gone = store.gone_since(self.sequence)
        shelves = tuple(_without(shelf, gone) for shelf in self.shelves)
        recent = [_without(shelf, gone) for shelf in self.recent]
        last = self.last
        for block in store.blocks(after=self.last):
            last = int(block.rows[-1])
            for piece in folded(self.calibrated.fitted, _known(block, self.calibrated.fitted), self.calibrated.sources):
                recent = _beside(recent, added(piece))
        return replace(self, state=state, last=last, shelves=shelves, recent=tuple(recent))


def unknown(fitted: Fitted, store: Store) -> set[str]:
    """Return the modalities and the parts in a store that a calibration has never seen.

    One modality may come in several parts: as text and image, or as one vector for both.
    """
    return (store.modalities() - set(fitted.document_modalities)) | (store.parts() - set(fitted.statistics.parts))


def _beside(recent: list[Shelf], shelf: Shelf) -> list[Shelf]:
    """Put a shelf beside others; those of its modality that are not much larger are merged into it.

    So there are few shelves, and each row is copied a few times only, however many documents come one by one.
    """
    while mine := [other for other in recent if other.modality == shelf.modality and len(other) <= 2 * len(shelf)]:
        recent = [other for other in recent if other is not mine[-1]]
        shelf = merged(mine[-1], shelf)
    return [*recent, shelf]


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


def _without(shelf: Shelf, gone: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Shelf:
    dead = np.isin(shelf.documents, gone)
    if not dead.any():
        return shelf
    alive = ~dead if shelf.alive is None else shelf.alive & ~dead
    return replace(shelf, alive=alive)
