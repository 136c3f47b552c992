"""The trial corpus: which documents are searched for, by what, and which of them have a part hidden.

To judge how images are found, some image+text documents have their text hidden and are searched for by it; others have
their image hidden and are searched for by it; likewise for any two kinds. Only modalities that the collection really
holds are made this way. A part with a vector of its own is hidden by leaving that out. Where ONE vector represents
several parts, those that stay are encoded alone, which costs time: fewer documents are hidden then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.kinds import TEXT, atoms, joined
from isthmus.storage.base import Block
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Names, Rows, Vectors

GENERATED = 400  # queries made for each kind of target
HIDDEN = 0.5  # of the documents with several kinds, at most, have one hidden in the trial corpus
ALONE = 128  # documents of one vector, at most, that are encoded again without one of their parts


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which sampled documents are searched for by a part of a kind, and which of them have that part hidden."""

    by: Mapping[str, Rows]
    hidden: Mapping[str, Mask]

    @property
    def any_hidden(self) -> Mask:
        """Which documents have something hidden."""
        found: Mask = np.logical_or.reduce(list(self.hidden.values()))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """The parts of documents that have one vector for several, each kind encoded alone; by place in the sample."""

    of: Mapping[str, Mapping[int, Matrix]] = field(default_factory=dict)  # kind → place → (segments, d)

    def kind(self, kind: str) -> Mapping[int, Matrix]:
        """Return the vectors of one kind."""
        return self.of.get(kind, {})


def planned(block: Block, store: Store, encoder: Encoder | None, rng: np.random.Generator) -> tuple[Plan, Alone]:
    """Choose, and encode alone what must be; a document that cannot be, as its picture is gone, is not hidden."""
    first = np.searchsorted(block.owner, np.arange(len(block.ids)))
    modality = block.vectors.modality[first]
    joint = np.zeros(len(first), dtype=bool)
    for name, mask in block.vectors.present.items():
        if len(atoms(name)) > 1:
            joint |= mask[first]
    plan = _plan(modality, joint, rng, readable=() if encoder is None else encoder.modalities)
    places = np.flatnonzero(joint & plan.any_hidden)
    if encoder is None or not len(places):
        return plan, Alone()
    alone = _encoded(block, store, encoder, modality, places)
    whole = [at for at in places.tolist() if all(at in alone.kind(kind) for kind in atoms(str(modality[at])))]
    bare = joint & ~np.isin(np.arange(len(joint)), whole)
    return replace(plan, hidden={kind: mask & ~bare for kind, mask in plan.hidden.items()}), alone


def _plan(modality: Names, joint: Mask, rng: np.random.Generator, *, readable: Sequence[str]) -> Plan:
    names = sorted(set(modality.tolist()))
    kinds = sorted({kind for name in names for kind in atoms(name)} | {TEXT}, reverse=True)
    hidden = {kind: np.zeros(len(modality), dtype=bool) for kind in kinds}
    for name in names:
        if len(atoms(name)) > 1:
            _hide(name, modality, joint, rng, hidden, readable)
    bare = np.logical_or.reduce(list(hidden.values()))
    texts = rng.permutation(np.flatnonzero(modality == TEXT))[:GENERATED]
    worded = np.array([name != TEXT and TEXT in atoms(str(name)) for name in modality], dtype=bool)
    fused = rng.permutation(np.flatnonzero(worded & ~bare))[:GENERATED]
    by = {TEXT: np.sort(np.concatenate([texts, fused, np.flatnonzero(hidden[TEXT])]))}
    for kind in kinds:
        if kind != TEXT:
            having = np.array([kind in atoms(str(name)) for name in modality], dtype=bool)
            shown = rng.permutation(np.flatnonzero(having & ~hidden[kind]))
            by[kind] = np.sort(np.concatenate([np.flatnonzero(hidden[kind]), shown])[: 2 * GENERATED])
    return Plan(by, hidden)


def _hide(
    name: str,
    modality: Names,
    joint: Mask,
    rng: np.random.Generator,
    hidden: Mapping[str, Mask],
    readable: Sequence[str],
) -> None:
    """Choose documents of a modality that lose a kind, for each kind without which they are of another one here."""
    whole = rng.permutation(np.flatnonzero((modality == name) & (~joint | (name in readable))))
    held = set(modality.tolist())
    lose = [kind for kind in sorted(atoms(name), reverse=True) if joined(set(atoms(name)) - {kind}) in held]
    most = ALONE if joint.any() else GENERATED
    each = int(min(most, HIDDEN * len(whole) / max(1, len(lose))))
    for place, kind in enumerate(lose):
        hidden[kind][whole[place * each : (place + 1) * each]] = True


def _encoded(block: Block, store: Store, encoder: Encoder, modality: Names, places: Rows) -> Alone:
    there = store.documents([int(row) for row in block.rows[places]])
    whole = {int(at): there[int(row)] for at, row in zip(places, block.rows[places], strict=True) if int(row) in there}
    kinds = sorted({kind for at in places for kind in atoms(str(modality[at]))}, reverse=True)
    return Alone({kind: _rows(encoder, whole, kind) for kind in kinds})


def _rows(encoder: Encoder, documents: Mapping[int, Document], kind: str) -> dict[int, Matrix]:
    """Encode the parts of one kind alone: the first of each document."""
    first = {at: next((part for part in one.parts if part.kind == kind), None) for at, one in documents.items()}
    single = {at: Document(documents[at].id, parts=[part]) for at, part in first.items() if part is not None}
    if not single:
        return {}
    vectors, owner = encoder.encode_passages(list(single.values()), skip=lambda _, __: None)
    found = ((at, vectors.parts[kind][owner == row]) for row, at in enumerate(single))
    return {at: rows for at, rows in found if len(rows)}


def on_trial(block: Block, plan: Plan, alone: Alone) -> tuple[Vectors, Rows]:
    """Return the sampled documents with those parts hidden, and the document of each row."""
    present = dict(block.vectors.present)
    for kind, gone in plan.hidden.items():
        if kind in present:
            present[kind] = present[kind] & ~gone[block.owner]
    vectors = Vectors(block.vectors.parts, present, block.vectors.weights)
    left: dict[int, Vectors] = {}
    for kind, gone in plan.hidden.items():
        for at in np.flatnonzero(gone).tolist():
            rest = {other: rows[at] for other, rows in alone.of.items() if other != kind and at in rows}
            if rest:
                left[at] = _beside(rest)
    if not left:
        return vectors, block.owner
    kept = ~np.isin(block.owner, list(left))
    owner = np.concatenate([block.owner[kept], *(np.full(len(rows), at) for at, rows in left.items())])
    order = np.argsort(owner, kind="stable")
    return Vectors.concat([vectors.take(kept), *left.values()]).take(order), owner[order]


def _beside(rest: Mapping[str, Matrix]) -> Vectors:
    """Return the rows of the parts that are left: as many as the longest has, the others' first row with each."""
    count = max(map(len, rest.values()))
    return Vectors({kind: rows if len(rows) == count else np.repeat(rows[:1], count, 0) for kind, rows in rest.items()})
