"""From documents to entries: what is new is encoded, what the store has seen before is taken from it.

An encoder takes documents with at most one part of a kind. A document with several is encoded as several such
documents: its parts pair with their nearest neighbours of the other kinds, as its segments do in a search
(``storage.segments``). An encoder that makes a vector of each part encodes a part that is in two of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus import kinds
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.encoders.abilities import SplitsParts
from isthmus.encoders.items import unread
from isthmus.errors import BadInput, BadVectors
from isthmus.kinds import TEXT, Part, atoms, joined
from isthmus.storage.base import Entry, parts_digest
from isthmus.storage.facts import as_json
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment, combinations, own_hash
from isthmus.types import Rows, Vectors

ALIKE = 4  # documents of the same content whose vectors are considered


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A document as it will be stored, and the hashes by which a change is recognised."""

    document: Document
    hashes: tuple[bytes | None, ...]  # of each part
    own_hash: bytes | None
    kept: tuple[Segment, ...] = ()  # vectors from before that are stored as they are

    @property
    def cost(self) -> int:
        """How much of a batch it takes up, in texts."""
        costs = [kinds.stored(part.kind).cost for part in self.document.parts]
        return max(1, len(costs) // 2, sum(cost for cost in costs if cost > 1))

    @property
    def size(self) -> int:
        """How many bytes it holds in memory, about."""
        inline = (part.content for part in self.document.parts if part.path is None)
        return sum(len(content) for content in inline if isinstance(content, str | bytes))

    @property
    def digest(self) -> bytes | None:
        """The hash of all parts together."""
        return parts_digest([part.kind for part in self.document.parts], self.hashes)


def prepared(document: Document) -> Prepared:
    """Bring the parts into the form in which they are stored, and hash them."""
    as_json(document.metadata, f"Document {document.id!r}")
    try:
        document.id.encode()
    except UnicodeEncodeError:
        raise BadInput(
            f"The id {document.id!r} holds half a character (a lone surrogate). Name it otherwise."
        ) from None
    parts = [part for part in document.parts if not part.is_empty]
    parts = [Part.restored(part.kind, kinds.stored(part.kind).keep(part.content)) for part in parts]
    return Prepared(
        Document.restored(document.id, parts, document.metadata, document.vectors),
        tuple(kinds.stored(part.kind).digest(part.content) for part in parts),
        own_hash(document.vectors),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Encoding:
    """Makes entries: with the encoder, or from vectors that the store has for the same content."""

    store: Store
    encoder: Callable[[], Encoder] | None  # called when something has to be encoded
    dim: int | None

    def entries(self, batch: Sequence[Prepared], skip: Callable[[int, BadInput], None]) -> list[Entry | None]:
        """Return an entry per document; None for those that went to ``skip``."""
        known = [self._known(one) for one in batch]
        bad: set[int] = set()

        def leave_out(row: int, problem: BadInput) -> None:
            if row not in bad:
                bad.add(row)
                skip(row, problem)

        made = self._encoded(batch, known, leave_out)
        out: list[Entry | None] = []
        dim = self.dim
        names = Known.of(self.store) if batch else None
        for row, (one, segments) in enumerate(zip(batch, known, strict=True)):
            whole = sorted([*segments, *made.get(row, [])], key=lambda segment: segment.parts[0])
            dim = len(whole[0].vector) if dim is None and whole else dim  # the first vector of a collection decides
            problem = None if row in bad else self._problem(one.document, whole, dim)
            if names is not None and problem is None and row not in bad:
                problem = names.problem(one.document.id, whole)
            if problem is not None:
                leave_out(row, problem)
            out.append(None if row in bad else Entry(one.document, whole, one.hashes, one.own_hash))
        return out

    def _known(self, one: Prepared) -> list[Segment]:
        """Return the vectors that the document brings or that the store has of the same content."""
        own = [*own_segments(one.document), *one.kept]
        if self.encoder is None:
            return own
        todo = _uncovered(one.document, own)
        if len({one.document.parts[number].kind for number in todo}) > 1 and not self._apart():
            return own or self._same_document(one)
        for number in todo:
            digest = one.hashes[number]
            if digest is not None:
                own += self._same_part(one.document.parts[number].kind, number, digest)
        return own

    def _same_document(self, one: Prepared) -> list[Segment]:
        """Return the vectors that an earlier document with the same parts got from the encoder."""
        rows: list[int] = self.store.same_parts(one.digest, 1) if one.digest is not None else []
        return self.store.segments(rows)[rows[0]] if rows else []

    def _same_part(self, kind: str, number: int, digest: bytes) -> list[Segment]:
        """Return the vectors that an earlier part of the same content got from the encoder."""
        for row, other in self.store.same_part(kind, digest, ALIKE):
            found = [segment for segment in self.store.segments([row])[row] if other in segment.parts]
            if found and all(segment.name == kind and not segment.own for segment in found):
                return [Segment((number,), kind, one.vector, one.start, one.stop) for one in found]
        return []

    def _apart(self) -> bool:
        """Whether the encoder gives every part a vector, as far as the documents tell that have several kinds.

        Where it gives ONE for several, that of one part alone must not be stored with that of another.
        """
        for modality in sorted(self.store.modalities()):
            row = self.store.encoded_row(modality) if "+" in modality else None
            if row is not None:
                return all("+" not in segment.name for segment in self.store.segments([row])[row])
        return False

    def _encoded(
        self,
        batch: Sequence[Prepared],
        known: Sequence[Sequence[Segment]],
        leave_out: Callable[[int, BadInput], None],
    ) -> dict[int, list[Segment]]:
        if self.encoder is None:
            return {}
        todo = [(row, _uncovered(one.document, known[row])) for row, one in enumerate(batch)]
        todo = [(row, numbers) for row, numbers in todo if numbers]
        if not todo:
            return {}
        encoder = self.encoder()
        alone = isinstance(encoder, SplitsParts)
        inputs = []
        for row, numbers in todo:
            parts = batch[row].document.parts
            problem = unread(encoder, [parts[number] for number in numbers])
            if problem is not None:
                leave_out(row, BadInput(f"document {batch[row].document.id!r}: {problem}"))
                continue
            inputs += [EncoderInput.of(batch[row].document, row, some) for some in pairs(parts, numbers, alone=alone)]
        if not inputs:
            return {}
        vectors, owner = encoder.encode_passages(
            [given.document for given in inputs], skip=lambda at, problem: leave_out(inputs[at].row, problem)
        )
        first = np.searchsorted(owner, np.arange(len(inputs) + 1))
        made: dict[int, dict[Any, Segment]] = {}
        for at, given in enumerate(inputs):
            mine = made.setdefault(given.row, {})
            for segment in given.segments(encoder, vectors, np.arange(first[at], first[at + 1])):
                mine.setdefault((segment.parts, segment.name, segment.start), segment)
        return {row: list(segments.values()) for row, segments in made.items()}

    def _problem(self, document: Document, segments: Sequence[Segment], dim: int | None) -> BadInput | None:
        if not segments and self.encoder is not None:
            return BadInput(
                f"document {document.id!r}: the encoder {self.encoder().name} made no vector of it. Leave it out, "
                "or use another encoder."
            )
        if not segments:
            return BadInput(
                f"document {document.id!r} has no vector, and this collection has no encoder to make one. Give it "
                "vectors={'text': …}, or make the collection with an encoder."
            )
        for segment in segments:
            if dim is not None and len(segment.vector) != dim:
                return BadVectors(
                    f"document {document.id!r}: its {segment.name} vector has {len(segment.vector)} dimensions but the "
                    f"collection has {dim}. Encode it with the collection's encoder."
                )
        return None


@dataclass(frozen=True, slots=True, eq=False)
class EncoderInput:
    """Some parts of a document, at most one of each kind, as an encoder takes them."""

    document: Document
    row: int  # of the document in its batch
    numbers: tuple[int, ...]  # of the parts

    @classmethod
    def of(cls, document: Document, row: int, numbers: tuple[int, ...]) -> EncoderInput:
        """Take some parts of a document."""
        return cls(Document.restored(document.id, [document.parts[at] for at in numbers], {}, {}), row, numbers)

    def segments(self, encoder: Encoder, vectors: Vectors, rows: Rows) -> Iterator[Segment]:
        """Yield what the encoder made of these parts: rows of ``vectors``."""
        by_kind = {part.kind: (number, part) for number, part in zip(self.numbers, self.document.parts, strict=True)}
        for name, matrix in vectors.parts.items():
            mine = [int(row) for row in rows if vectors.present[name][row]]
            if not mine:
                continue
            # the text, whose passages a joint vector is of, comes first
            held = [by_kind[kind] for kind in sorted(atoms(name), key=lambda kind: kind != TEXT) if kind in by_kind]
            numbers = tuple(number for number, _ in held)
            spans = _spans(encoder, held[0][1]) if len(rows) > 1 or isinstance(encoder, SplitsParts) else []
            if spans and len(spans) != len(mine):
                raise BadVectors(
                    f"The encoder {encoder.name} says that the {name} of {self.document.id!r} has {len(spans)} "
                    f"segments, and made {len(mine)} vectors. It has to make one for each."
                )
            if spans:
                for row, (start, stop) in zip(mine, spans, strict=True):
                    yield Segment(numbers, name, matrix[row], start, stop)
            else:
                yield Segment(numbers, name, matrix[mine[0]])


def _spans(encoder: Encoder, part: Part) -> Sequence[tuple[float, float]]:
    if isinstance(encoder, SplitsParts):
        return encoder.split_part(part)
    return encoder.split(part.content) if part.kind == TEXT else []


def inputs_of(one: Prepared, encoder: Encoder) -> list[Document]:
    """Return what an encoder will be given of a document, if nothing of it is stored already."""
    numbers = _uncovered(one.document, [*own_segments(one.document), *one.kept])
    alone = isinstance(encoder, SplitsParts)
    several = pairs(one.document.parts, numbers, alone=alone) if numbers else []
    return [EncoderInput.of(one.document, 0, some).document for some in several]


def own_segments(document: Document) -> list[Segment]:
    """Return a document's own vectors as segments; a vector without content comes after all parts."""
    made: list[Segment] = []
    for name, vector in document.vectors.items():
        numbers = tuple(at for at, part in enumerate(document.parts) if part.kind in atoms(name))
        made.append(Segment(numbers or (len(document.parts),), name, vector, own=True))
    return made


def _uncovered(document: Document, segments: Sequence[Segment]) -> list[int]:
    """Return the numbers of the parts that have no vector yet."""
    brought = {kind for segment in segments if segment.own for kind in atoms(segment.name)}
    found = {number for segment in segments for number in segment.parts}
    parts = enumerate(document.parts)
    return [number for number, part in parts if number not in found and part.kind not in brought]


def pairs(parts: Sequence[Part], numbers: Sequence[int], *, alone: bool = False) -> list[tuple[int, ...]]:
    """Return the parts that are encoded together: each with its nearest neighbours of the other kinds, or ``alone``.

    >>> from isthmus.documents import Image, Text
    >>> pairs([Text("a"), Image("a.jpg"), Text("b"), Image("b.jpg")], range(4))
    [(0, 1), (2, 1), (2, 3)]
    """
    if alone:
        return [(number,) for number in numbers]
    places = [Segment((number,), parts[number].kind, np.empty(0)) for number in numbers]
    return [tuple(numbers[place] for place in row) for row in combinations(places)]


# Every part needs a mean, every modality an index of its own and a place in every calibration. A calibration takes
# ``isthmus.types.MAX_PARTS`` parts at once, those of its reference queries among them.
PARTS = 12  # different names of vectors: 'text', 'audio', 'image+text' …; leaves room for those of queries
MODALITIES = 64  # different sets of parts; a search visits an index for each


@dataclass(slots=True)
class Known:
    """The names that a collection holds, and those that a batch on its way in adds to them."""

    parts: set[str]
    modalities: set[str]

    @classmethod
    def of(cls, store: Store) -> Known:
        """Read what a collection holds."""
        return cls(store.parts(), store.modalities())

    def problem(self, name: str, segments: Sequence[Segment]) -> BadInput | None:
        """Return why a document with these vectors cannot be added; otherwise count its names in."""
        parts = {segment.name for segment in segments}
        modality = joined(parts)
        if not parts <= self.parts and len(parts | self.parts) > PARTS:
            new = ", ".join(sorted(parts - self.parts))
            return BadInput(
                f"document {name!r}: it brings new parts ({new}), and a collection holds vectors of at most {PARTS} "
                f"different parts. This one has {', '.join(sorted(self.parts))}. Use one of them, or another "
                "collection."
            )
        if modality not in self.modalities and len(self.modalities) >= MODALITIES:
            return BadInput(
                f"document {name!r}: it is the first with the parts {modality}, and a collection holds at most "
                f"{MODALITIES} different combinations of parts. Use one that is there, or another collection."
            )
        self.parts |= parts
        self.modalities.add(modality)
        return None
