"""Documents on trial: which of them are asked for, by what, and which have their text or their image hidden meanwhile.

To judge how images are found, some image+text documents have their text hidden and are asked for by it; others have
their image hidden and are asked for by it. Only modalities that the collection really holds are made this way. A part
with a vector of its own is hidden by leaving that out. Where ONE vector stands for both, the part that stays is encoded
alone, which costs time: fewer documents are hidden then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.storage.base import Block
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Names, Rows, Vectors

GENERATED = 400  # queries made for each kind of target
HIDDEN = 0.5  # of the image+text documents, at most, lose a part on trial
ALONE = 128  # documents of one vector, at most, that are encoded again without their text, and as many without image
BOTH = "image+text"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Which sampled documents are asked for, and which of them without their text or their image."""

    by_words: Rows  # asked for by words of their text
    by_image: Rows  # asked for by their image
    no_text: Mask
    no_image: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Alone:
    """The text and the image of documents that have one vector for both, each encoded alone; by place in the sample."""

    text: Mapping[int, Matrix] = field(default_factory=dict)  # (passages, d)
    image: Mapping[int, Matrix] = field(default_factory=dict)  # (1, d)


def planned(block: Block, store: Store, encoder: Encoder | None, rng: np.random.Generator) -> tuple[Plan, Alone]:
    """Choose, and encode alone what must be; a document that cannot be, as its picture is gone, is not hidden."""
    first = np.searchsorted(block.owner, np.arange(len(block.ids)))
    modality = block.vectors.modality[first]
    joint = block.vectors.present[BOTH][first] if BOTH in block.vectors.present else np.zeros(len(first), dtype=bool)
    plan = _plan(modality, joint, rng, readable=encoder is not None and BOTH in encoder.modalities)
    places = np.flatnonzero(joint & (plan.no_text | plan.no_image))
    if encoder is None or not len(places):
        return plan, Alone()
    alone = _encoded(block, store, encoder, places)
    bare = joint & ~np.isin(np.arange(len(joint)), [place for place in alone.text if place in alone.image])
    return replace(plan, no_text=plan.no_text & ~bare, no_image=plan.no_image & ~bare), alone


def _plan(modality: Names, joint: Mask, rng: np.random.Generator, *, readable: bool) -> Plan:
    no_text, no_image = np.zeros(len(modality), dtype=bool), np.zeros(len(modality), dtype=bool)
    both = rng.permutation(np.flatnonzero((modality == BOTH) & (~joint | readable)))
    lose = [mask for mask, name in ((no_text, "image"), (no_image, "text")) if (modality == name).any()]
    most = ALONE if joint.any() else GENERATED
    each = int(min(most, HIDDEN * len(both) / max(1, len(lose))))
    for place, mask in enumerate(lose):
        mask[both[place * each : (place + 1) * each]] = True
    texts = rng.permutation(np.flatnonzero(modality == "text"))[:GENERATED]
    fused = rng.permutation(np.flatnonzero((modality == BOTH) & ~no_text & ~no_image))[:GENERATED]
    words = np.concatenate([texts, fused, np.flatnonzero(no_text)])
    pictured = rng.permutation(np.flatnonzero((modality == "image") | ((modality == BOTH) & ~no_image)))
    by_image = np.concatenate([np.flatnonzero(no_image), pictured])[: 2 * GENERATED]
    return Plan(np.sort(words), np.sort(by_image), no_text, no_image)


def _encoded(block: Block, store: Store, encoder: Encoder, places: Rows) -> Alone:
    there = store.documents([int(row) for row in block.rows[places]])
    whole = {int(at): there[int(row)] for at, row in zip(places, block.rows[places], strict=True) if int(row) in there}
    text = {at: Document(document.id, text=document.text) for at, document in whole.items() if document.text}
    image = {at: Document(document.id, image=document.image) for at, document in whole.items() if document.image}
    return Alone(_rows(encoder, text, "text"), _rows(encoder, image, "image"))


def _rows(encoder: Encoder, documents: Mapping[int, Document], part: str) -> dict[int, Matrix]:
    if not documents:
        return {}
    vectors, owner = encoder.encode_passages(list(documents.values()), skip=lambda _, __: None)
    found = ((at, vectors.parts[part][owner == row]) for row, at in enumerate(documents))
    return {at: rows for at, rows in found if len(rows)}


def on_trial(block: Block, plan: Plan, alone: Alone) -> tuple[Vectors, Rows]:
    """Return the sampled documents with those parts hidden, and the document of each row."""
    present = dict(block.vectors.present)
    for part, gone in (("text", plan.no_text), ("image", plan.no_image)):
        if part in present:
            present[part] = present[part] & ~gone[block.owner]
    vectors = Vectors(block.vectors.parts, present, block.vectors.weights)
    left = {
        at: Vectors.of(alone.image[at], "image") for at in np.flatnonzero(plan.no_text).tolist() if at in alone.image
    }
    left |= {
        at: Vectors.of(alone.text[at], "text") for at in np.flatnonzero(plan.no_image).tolist() if at in alone.text
    }
    if not left:
        return vectors, block.owner
    kept = ~np.isin(block.owner, list(left))
    owner = np.concatenate([block.owner[kept], *(np.full(len(rows), at) for at, rows in left.items())])
    order = np.argsort(owner, kind="stable")
    return Vectors.concat([vectors.take(kept), *left.values()]).take(order), owner[order]
