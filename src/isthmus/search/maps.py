"""Why a hit matched: what each word and each patch of a picture adds to the similarity of a query and a document.

The share of a piece is what the raw similarity loses when the piece is left out (``isthmus.encoders.apart`` has the
formula), everything behind it computed as a search does it: the rest of the tower, then the fusion of the document's
parts, then the cosine with the query,

    share_i = s(q, d) − s(q, d₋ᵢ),        s(q, d) = ⟨unit(Σ_p w_p e_p(q)), unit(Σ_p e_p(d))⟩

and the same on the query's side, against the document. Where the encoder makes one vector of text and image there is
one part p, and its words and patches are left out of it. A calibration moves and scales s; it does not look at pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.documents import Document, Query, contents
from isthmus.encoders import Encoder, apart
from isthmus.encoders.abilities import TakesApart
from isthmus.encoders.apart import Apart, Left
from isthmus.errors import BadImage, BadInput
from isthmus.kinds import IMAGE, TEXT, atoms
from isthmus.search.handle import Handle
from isthmus.search.hits import Hit
from isthmus.search.query_vectors import check_weights, rest_of
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment, combination
from isthmus.types import Matrix, Vectors

SAME = 0.999  # the cosine from which a part made again is the part that was indexed


class WordShare(NamedTuple):
    """A word ``text[start:end]``, and what it adds to the similarity."""

    start: int
    end: int
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """What the words of a text and the patches of a picture add; None where there is no such part to take apart."""

    words: tuple[WordShare, ...] | None
    patches: Matrix | None  # (rows, columns), over the whole picture


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """A hit, and the shares of its pieces and of the query's pieces in ``similarity``."""

    hit: Hit
    similarity: float
    document: Shares
    query: Shares
    notes: tuple[str, ...] = ()  # what could not be taken apart, and why


@dataclass(slots=True, eq=False)
class MapMaker:
    """Makes maps for a collection. What takes documents apart is opened when it is first needed, and kept."""

    handle: Handle
    _opened: tuple[Encoder, TakesApart] | None = None
    _lock: Lock = field(default_factory=Lock)

    @property
    def possible(self) -> bool:
        """Whether the encoder can leave out words and patches."""
        return apart.can_load(self.handle.load())

    def maps(self, query: Query, hits: Sequence[Hit], progress: Callable[[int, int], None]) -> list[Map]:
        """Return a map for each hit that is still there."""
        return mapped(self.handle.store, self._takes(self.handle.load()), query, hits, progress)

    def _takes(self, encoder: Encoder | None) -> TakesApart:
        with self._lock:
            if encoder is None or self._opened is None or self._opened[0] is not encoder:
                takes = apart.load(encoder)  # raises an error without an encoder
                self._opened = None if encoder is None else (encoder, takes)
                return takes
            return self._opened[1]


def mapped(
    store: Store, takes: TakesApart, query: Query, hits: Sequence[Hit], progress: Callable[[int, int], None]
) -> list[Map]:
    """Return a map for each hit that is still there."""
    if len(query.images) > 1:
        raise BadInput("A map takes a query of one picture. Have several put into words first (align='caption').")
    asked = _Side.of_query(takes, query)
    rows = store.rows_of([hit.id for hit in hits])
    segments = store.segments(sorted(rows.values()))
    maps = []
    for done, hit in enumerate(hits, 1):
        mine = segments.get(rows.get(hit.id, -1))
        if mine:
            maps.append(_map(takes, asked, hit, mine))
        progress(done, len(hits))
    return maps


def _map(takes: TakesApart, asked: _Side, hit: Hit, segments: Sequence[Segment]) -> Map:
    found = _Side.of_hit(takes, hit, segments)
    query, document = asked.whole(), found.whole()
    notes = (*found.notes, *asked.notes)
    return Map(hit, float(query @ document), found.shares(query), asked.shares(document), notes)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """A query or a document: its vectors by part, how they are fused, and those parts that could be taken apart."""

    vectors: Mapping[str, Matrix]  # (d,) each
    apart: Mapping[str, Apart]
    weights: Mapping[str, float] | None = None
    unopened: tuple[str, ...] = ()  # why others could not be

    @classmethod
    def of_query(cls, takes: TakesApart, query: Query) -> _Side:
        left = rest_of(query)
        found = {} if left is None else takes.take(left.text, left.image, "query")
        vectors = {**query.vectors, **{part: one.vector for part, one in found.items()}}
        check_weights(query.weights or {}, vectors)
        return cls(vectors, found, query.weights)

    @classmethod
    def of_hit(cls, takes: TakesApart, hit: Hit, segments: Sequence[Segment]) -> _Side:
        best = _best(hit, segments)
        found: dict[str, Apart] = {}
        why: list[str] = []
        for segment in best:
            try:
                found |= _again(takes, hit.document, segment, _passages_before(segments, segment))
            except BadInput as error:
                why.append(str(error))
        return cls({segment.name: segment.vector for segment in best}, found, unopened=tuple(why))

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be taken apart, and why."""
        return (*self.unopened, *(note for one in self.apart.values() for note in one.notes))

    def whole(self) -> Matrix:
        """Return the unit fused vector, ``(d,)``."""
        fused: Matrix = self._fused({part: vector[None] for part, vector in self.vectors.items()})[0]
        return fused

    def shares(self, other: Matrix) -> Shares:
        """Return what the similarity to ``other`` loses without each piece."""
        similarity = float(self.whole() @ other)
        words = patches = None
        for part, one in self.apart.items():
            if one.words is not None:
                lost = zip(one.words.pieces, similarity - self._without(part, one.words) @ other, strict=True)
                words = tuple(WordShare(start, end, float(share)) for (start, end), share in lost)
            if one.patches is not None:
                rows, columns = one.patches.pieces[-1]
                patches = (similarity - self._without(part, one.patches) @ other).reshape(rows + 1, columns + 1)
        return Shares(words, patches)

    def _without(self, part: str, left: Left) -> Matrix:
        """Return the fused vectors with each piece of a part left out, ``(n, d)``."""
        beside = {other: np.broadcast_to(vector, left.without.shape) for other, vector in self.vectors.items()}
        return self._fused({**beside, part: left.without})

    def _fused(self, parts: Mapping[str, Matrix]) -> Matrix:
        weights = self.weights
        each = None if weights is None else {p: np.full(len(m), weights.get(p, 1.0)) for p, m in parts.items()}
        return Raw().queries(Vectors(parts, weights=each), np.float64)


def _best(hit: Hit, segments: Sequence[Segment]) -> Sequence[Segment]:
    """Return the segments that matched together: of several pictures, not always the first."""
    if hit.passage is not None:
        return combination(segments, hit.passage.number)
    wanted = {(one.name, one.parts, one.start, one.stop) for one in hit.segments}
    found = [one for one in segments if (one.name, tuple(one.parts), one.start, one.stop) in wanted]
    return found or combination(segments, 0)


def _passages_before(segments: Sequence[Segment], segment: Segment) -> int:
    """Return the number of a passage among those of the same parts."""
    alike = [one for one in segments if (one.name, one.parts) == (segment.name, segment.parts)]
    return next(at for at, one in enumerate(alike) if one is segment)


def _again(takes: TakesApart, document: Document, segment: Segment, passage: int) -> Mapping[str, Apart]:
    """Take a segment apart, if it still is what was indexed; nothing where there was a vector alone."""
    part, stored = segment.name, segment.vector
    parts = [document.parts[number] for number in segment.parts if number < len(document.parts)]
    text, image = next(iter(contents(parts, TEXT)), None), next(iter(contents(parts, IMAGE)), None)
    if (text is not None) + (image is not None) < len(atoms(part)):
        return {}
    named = part.replace("+", " and ")
    if segment.own:
        raise BadInput(f"The vector of its {named} was given, not encoded: it cannot be taken apart.")
    try:
        again = takes.take(text, image, "document", passage)
    except BadImage as error:
        raise BadInput(f"Its {named} cannot be taken apart: {error}") from None
    if float(again[part].vector @ stored) < SAME * float(np.linalg.norm(stored)):
        changed = part.replace("+", " or ")
        raise BadInput(f"Its {changed} is no longer what was indexed: index it again to have a map.")
    return again
