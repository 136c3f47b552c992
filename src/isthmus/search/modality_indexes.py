"""Folded vectors in indexes, one per modality: what searches run on. ``index_folder`` keeps them on the disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from isthmus import index as indexes
from isthmus.calibration import Fitted
from isthmus.index import Index
from isthmus.storage.base import Block
from isthmus.types import Mask, Matrix, Rows


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


@dataclass(frozen=True, slots=True, eq=False)
class FoldedBlock:
    """A block of documents, folded: rows of one modality."""

    modality: str
    vectors: Matrix
    rows: Rows
    active: Mask | None


def folded(fitted: Fitted, block: Block, sources: Mapping[str, list[int]]) -> Iterator[FoldedBlock]:
    """Fold a block of documents; no reference query meets the document it was made from."""
    pairs = [(reference, place) for place, name in enumerate(block.ids) for reference in sources.get(name, ())]
    own = np.array(pairs, dtype=np.intp).reshape(-1, 2) if pairs else None
    made = fitted.fold(block.vectors, sources=own, owner=block.owner)
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
    """Put a folded block on a index of its own, searched exactly: for what came after the last build."""
    return _index_of(piece.modality, [piece], "exact")


def merged(first: ModalityIndex, second: ModalityIndex) -> ModalityIndex:
    """Put two indexes of one modality together, searched exactly."""
    pieces = [FoldedBlock(index.modality, index.vectors, index.rows, index.active) for index in (first, second)]
    whole = _index_of(first.modality, pieces, "exact")
    if first.alive is None and second.alive is None:
        return whole
    masks = [np.ones(len(index), dtype=bool) if index.alive is None else index.alive for index in (first, second)]
    return replace(whole, alive=np.concatenate(masks))
