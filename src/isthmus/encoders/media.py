"""An encoder of towers that also reads videos, with an image tower, and sounds, with a sound tower.

A video has a vector for every key frame, by the image tower. A sound has a vector for every segment: of 5 seconds
(``isthmus.encoders.sounds``), or as its tower has them (``isthmus.encoders.clap``). The sound track of a video is an
audio part of its own: the same file, given as ``audio`` too.

The ``identity`` of ``mini`` and ``base`` is that of their text and image towers, so collections that were made before
they could hear stay valid; ``identities`` has those of sounds and videos.
"""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from threading import Lock

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders.base import Skip, unit
from isthmus.encoders.images import Frame, read
from isthmus.encoders.items import Items, named_queries, names_of, stop
from isthmus.encoders.sounds import EncodesSounds, MediaVectors, SoundTower
from isthmus.encoders.towers import TowerEncoder, weighted
from isthmus.errors import BadInput, MissingExtra
from isthmus.isolated import recordings
from isthmus.kinds import AUDIO, IMAGE, TEXT, VIDEO, Part, joined
from isthmus.types import Matrix, Rows, Vectors

MEDIA = (AUDIO, VIDEO)
REMEMBERED = 4096  # parts whose spans are kept
Row = dict[str, Matrix]  # part → (d,)


class SpanMemory:
    """The spans of the parts that were encoded last, so that nothing is decoded twice."""

    def __init__(self) -> None:
        self._spans: OrderedDict[tuple[str, object], list[tuple[float, float]]] = OrderedDict()
        self._lock = Lock()

    def put(self, part: Part, spans: list[tuple[float, float]]) -> None:
        """Remember the spans of a part."""
        with self._lock:
            self._spans[_key(part)] = spans
            while len(self._spans) > REMEMBERED:
                self._spans.popitem(last=False)

    def get(self, part: Part) -> list[tuple[float, float]] | None:
        """Return the spans of a part; None where they are not known."""
        with self._lock:
            return self._spans.get(_key(part))


def _key(part: Part) -> tuple[str, object]:
    return part.kind, part.path or hashlib.sha256(part.content).digest()


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class MediaEncoder(TowerEncoder):
    """An ``Encoder`` that reads videos if it has an image tower, and sounds if it has a sound tower."""

    sound: EncodesSounds | None = None
    memory: SpanMemory = field(default_factory=SpanMemory)

    @classmethod
    def of(cls, towers: TowerEncoder, sound: SoundTower | None = None) -> MediaEncoder:
        """Let an encoder read videos by its image tower, and sounds by a tower that is anchored in its texts."""
        held = {each.name: getattr(towers, each.name) for each in fields(towers)}
        heard = {} if sound is None else {AUDIO: sound.identity}
        if towers.identities:  # without them all parts share the identity of the encoder
            frames = hashlib.sha256(f"{towers.identities['image']}\0key frames 1".encode()).hexdigest()
            held["identities"] = {**towers.identities, **heard, VIDEO: frames}
        return cls(**held, sound=sound)

    @property
    def modalities(self) -> tuple[str, ...]:
        """Every combination of the kinds that it reads."""
        towers = {TEXT: self.text, IMAGE: self.image, VIDEO: self.image, AUDIO: self.sound}
        kinds = sorted(kind for kind, tower in towers.items() if tower is not None)
        return tuple(sorted("+".join(some) for count in range(1, 5) for some in combinations(kinds, count)))

    def __repr__(self) -> str:
        return f"<Encoder {self.name}, {self.dim} dimensions: any of {joined(self.modalities).replace('+', ', ')}>"

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return one row per document; a long text, a sound and a video are the unit means of their segments."""
        names = names_of(documents)
        if not _any_media(documents):
            return TowerEncoder.encode_documents(self, documents)

        def encode(rest: list[int]) -> Vectors:
            return TowerEncoder.encode_documents(self, [_plain(documents[at]) for at in rest])

        return self._one_each(documents, names, encode)

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return one row per query; a sound or a video is the unit mean of its segments."""
        given, names = named_queries(queries)
        if not _any_media(given):
            return TowerEncoder.encode_queries(self, given)

        def encode(rest: list[int]) -> Vectors:
            return TowerEncoder.encode_queries(self, [Query(parts=_rest(given[at])) for at in rest])

        return weighted(self._one_each(given, names, encode), given)

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return one row per passage of a text, or else per segment of a sound or a video, and its document.

        A document with several of them has a row for each passage (without words: for each segment of its sound), and
        in every row the unit mean of the others.
        """
        names = names_of(documents)
        if not _any_media(documents):
            return TowerEncoder.encode_passages(self, documents, skip=skip)
        bad: set[int] = set()

        def leave_out(row: int, problem: BadInput) -> None:
            if row not in bad:
                bad.add(row)
                (skip or stop)(row, problem)

        media = self._media(documents, names, leave_out)
        rest = [at for at, one in enumerate(documents) if _rest(one) and at not in bad]
        vectors, owner = TowerEncoder.encode_passages(
            self,
            [_plain(documents[at]) for at in rest],
            skip=lambda row, problem: leave_out(rest[row], problem),
        )
        rows: list[Row] = []
        owners: list[int] = []
        own = _by_owner(vectors, owner, rest)
        for at in range(len(documents)):
            mine = [] if at in bad else _combined(own.get(at, []), media[at])
            rows += mine
            owners += [at] * len(mine)
        return self._stacked(rows), np.array(owners, dtype=np.intp)

    def split_part(self, part: Part) -> list[tuple[float, float]]:
        """Return the spans of a part: passages of a text in characters, segments of a sound or video in seconds."""
        if part.kind == TEXT:
            spans: list[tuple[float, float]] = [*self.split(part.content)]
            return spans if len(spans) > 1 else []
        if part.kind not in MEDIA:
            return []
        known = self.memory.get(part)
        return known if known is not None else self._spans(part)

    def _one_each(self, items: Items, names: Sequence[str], encode: Callable[[list[int]], Vectors]) -> Vectors:
        media = self._media(items, names, stop)
        rest = [at for at, item in enumerate(items) if _rest(item)]
        encoded = encode(rest) if rest else None
        own = {} if encoded is None else _by_owner(encoded, np.arange(len(rest)), rest)
        rows = [
            {**own.get(at, [{}])[0], **{kind: _mean(found.vectors) for kind, found in media[at].items()}}
            for at in range(len(items))
        ]
        return self._stacked(rows)

    def _media(self, items: Items, names: Sequence[str], leave_out: Skip) -> list[dict[str, MediaVectors]]:
        """Return the vectors of each item's sound and video; an item that cannot be read goes to ``leave_out``."""
        found: list[dict[str, MediaVectors]] = []
        for row, item in enumerate(items):
            mine: dict[str, MediaVectors] = {}
            several = [kind for kind, count in Counter(part.kind for part in item.parts).items() if count > 1]
            try:
                if set(several) & {*MEDIA}:
                    raise BadInput("has several of them, and an encoder takes one. A collection takes them")
                for part in item.parts:
                    if part.kind in MEDIA:
                        mine[part.kind] = self._encoded(part)
            except (BadInput, MissingExtra, OSError) as problem:
                which = next(part for part in item.parts if part.kind in MEDIA and part.kind not in mine)
                leave_out(row, BadInput(f"{names[row]}: its {which.kind} {which.shown} {_why(problem)}."))
                mine = {}
            found.append(mine)
        return found

    def _encoded(self, part: Part) -> MediaVectors:
        made = self._hearing().encode(part.content) if part.kind == AUDIO else self._frames(part)
        self.memory.put(part, made.spans)
        return made

    def _spans(self, part: Part) -> list[tuple[float, float]]:
        """Read the spans of a part without encoding it."""
        if part.kind == VIDEO:
            return [(key.start, key.stop) for key in recordings.frames(part.content)]
        return self._hearing().spans(part.content)

    def _hearing(self) -> EncodesSounds:
        if self.sound is None:
            raise BadInput(f"cannot be encoded: the encoder {self.name} reads no sounds")
        return self.sound

    def _frames(self, part: Part) -> MediaVectors:
        """Encode the key frames of a video, a batch at a time."""
        tower = self.image
        if tower is None:
            raise BadInput(f"cannot be encoded: the encoder {self.name} reads no pictures")
        spans: list[tuple[float, float]] = []
        rows: list[Matrix] = []
        batch: list[np.ndarray[tuple[int, ...], np.dtype[np.uint8]]] = []
        frame: Frame = tower.frame
        for key in recordings.frames(part.content):
            spans.append((key.start, key.stop))
            batch.append(read(key.pixels, frame))
            if len(batch) == self.settings.batch_size:
                rows.append(tower.encode(batch))
                batch = []
        rows += [tower.encode(batch)] if batch else []
        return MediaVectors(spans, unit(np.concatenate(rows), self.name))

    def _stacked(self, rows: Sequence[Row]) -> Vectors:
        names = sorted({name for row in rows for name in row}) or [TEXT]
        empty = np.zeros(self.dim, dtype=np.float32)
        parts = {name: np.stack([row.get(name, empty) for row in rows] or [empty])[: len(rows)] for name in names}
        return Vectors(parts, {name: np.array([name in row for row in rows], dtype=bool) for name in names})


def _why(problem: Exception) -> str:
    """Say why a part cannot be read, as the end of a sentence."""
    said = str(problem).rstrip(".")
    return said if isinstance(problem, BadInput) else f"cannot be read: {said}"


def _any_media(items: Items) -> bool:
    return any(part.kind in MEDIA for item in items for part in item.parts)


def _rest(item: Document | Query) -> list[Part]:
    return [part for part in item.parts if part.kind not in MEDIA]


def _plain(document: Document) -> Document:
    return Document.restored(document.id, _rest(document), {}, {})


def _by_owner(vectors: Vectors, owner: Rows, numbers: Sequence[int]) -> dict[int, list[Row]]:
    """Return the rows of each item by its number: those parts that are present."""
    found: dict[int, list[Row]] = {}
    for row, at in enumerate(owner.tolist()):
        present = {name: matrix[row] for name, matrix in vectors.parts.items() if vectors.present[name][row]}
        found.setdefault(numbers[at], []).append(present)
    return found


def _combined(own: list[Row], media: dict[str, MediaVectors]) -> list[Row]:
    """Return the rows of a document: of its passages, or else of the segments of its first medium."""
    if own:
        means = {kind: _mean(found.vectors) for kind, found in media.items()}
        return [{**row, **means} for row in own]
    lead = min(media)
    means = {kind: _mean(found.vectors) for kind, found in media.items() if kind != lead}
    return [{lead: row, **means} for row in media[lead].vectors]


def _mean(rows: Matrix) -> Matrix:
    """Return the unit mean, ``(d,)``."""
    mean: Matrix = unit(rows.mean(axis=0, keepdims=True), "media")[0]
    return mean
