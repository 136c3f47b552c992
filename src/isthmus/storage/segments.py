"""Segments: the stored vectors of a document, and how those of different parts are searched together.

A segment is a vector of one part, or of a span of it (a passage of a text, a window of a sound); an encoder that reads
several parts at once makes one vector for them, whose name joins theirs (``image+text``).

A document is searched by *rows*. A row takes one segment of every name that the document has, so all rows of a document
have the document's modality, and the document's score is that of its best row. Segments pair with their nearest
neighbours: each segment makes a row with the nearest segment of every other name, by the order of the parts in the
document; of two that are equally near, the earlier one. So a paragraph is searched with the nearest picture, every
segment is searched at least once, and there are never more rows than segments. Where both have a time, as the frames
and the sound track of a video, a segment pairs with the one of the nearest part that is nearest in time.

>>> def at(part, name):
...     return Segment((part,), name, np.ones(2))
>>> combinations([at(0, "text"), at(0, "text"), at(1, "image")])  # two passages and a picture
[(0, 2), (1, 2)]
>>> combinations([at(0, "text"), at(1, "image"), at(2, "text"), at(3, "image")])
[(0, 1), (2, 1), (2, 3)]
>>> frames = [Segment((0,), "video", np.ones(2), start, start + 5) for start in (0, 5, 10)]
>>> sounds = [Segment((1,), "audio", np.ones(2), start, start + 5) for start in (0, 5, 10)]
>>> combinations([*frames, *sounds])
[(0, 3), (1, 4), (2, 5)]
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus.kinds import SECONDS, TEXT, joined, stored
from isthmus.types import Matrix, Rows, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """One vector of a document: the numbers of its parts, and the span of the first of them."""

    parts: tuple[int, ...]
    name: str  # the kind of the part; of several parts, their kinds joined
    vector: Matrix
    start: float | None = None
    stop: float | None = None
    own: bool = False  # whether it came with the document, not from an encoder


def combinations(segments: Sequence[Segment]) -> list[tuple[int, ...]]:
    """Return the rows of a document: the positions of the segments of each row, in the order of their names."""
    names = [segment.name for segment in segments]
    by_name: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        by_name.setdefault(name, []).append(place)
    groups = list(by_name.values())
    several = [group for group in groups if len(group) > 1]
    if len(several) <= 1:  # the usual case: at most one name has several segments
        rows = several[0] if several else groups[0]
        return [tuple(row if group is rows else group[0] for group in groups) for row in rows]
    return _nearest(segments, groups)


def combination(segments: Sequence[Segment], number: int) -> list[Segment]:
    """Return the segments of one row of a document."""
    rows = combinations(segments)
    return [segments[place] for place in rows[min(number, len(rows) - 1)]]


def _nearest(segments: Sequence[Segment], groups: Sequence[list[int]]) -> list[tuple[int, ...]]:
    ordered = [sorted(group, key=lambda place: (segments[place].parts[0], place)) for group in groups]
    numbers = [[segments[place].parts[0] for place in group] for group in ordered]
    rows: set[tuple[int, ...]] = set()
    for mine, group in enumerate(ordered):
        for place in group:
            number = segments[place].parts[0]
            rows.add(
                tuple(
                    place if at == mine else _in_time(segments, place, other, _nearest_place(numbers[at], number))
                    for at, other in enumerate(ordered)
                )
            )
    return sorted(rows)


def _in_time(segments: Sequence[Segment], place: int, others: Sequence[int], nearest: int) -> int:
    """Return the nearest of other segments, given that of the nearest part: in time, where both have one."""
    mine, part = segments[place], segments[others[nearest]].parts[0]
    if not _is_timed(mine) or not _is_timed(segments[others[nearest]]):
        return others[nearest]
    same = (other for other in others if segments[other].parts[0] == part)
    return min(same, key=lambda other: (abs(_middle(segments[other]) - _middle(mine)), other))


def _is_timed(segment: Segment) -> bool:
    return segment.stop is not None and stored(segment.name).span == SECONDS


def _middle(segment: Segment) -> float:
    return ((segment.start or 0.0) + (segment.stop or 0.0)) / 2


def _nearest_place(numbers: Sequence[int], number: int) -> int:
    """Return the position of the nearest number in a sorted list; of two equally near, the earlier."""
    after = bisect_left(numbers, number)
    if after == 0 or (after < len(numbers) and numbers[after] - number < number - numbers[after - 1]):
        return after
    return after - 1


def assembled(documents: Sequence[Sequence[Segment]]) -> tuple[Vectors, Rows]:
    """Combine documents' segments into rows; return them, and the position of the document of each row."""
    owner: list[int] = []
    places: dict[str, list[int]] = {}
    vectors: dict[str, list[Matrix]] = {}
    for at, segments in enumerate(documents):
        if len(segments) == 1:
            rows: Iterable[tuple[int, ...]] = ((0,),)
        else:
            rows = combinations(segments)
        for row in rows:
            for place in row:
                segment = segments[place]
                places.setdefault(segment.name, []).append(len(owner))
                vectors.setdefault(segment.name, []).append(segment.vector)
            owner.append(at)
    dim = len(documents[0][0].vector) if documents else 1
    parts: dict[str, Matrix] = {}
    present: dict[str, Any] = {}
    for name, some in places.items():
        if len(some) == len(owner):
            parts[name] = np.stack(vectors[name]).astype(np.float32, copy=False)
        else:
            parts[name] = np.zeros((len(owner), dim), dtype=np.float32)
            parts[name][some] = vectors[name]
        present[name] = np.zeros(len(owner), dtype=bool)
        present[name][some] = True
    return Vectors(parts or {TEXT: np.zeros((0, dim), np.float32)}, present), np.array(owner, dtype=np.intp)


def modality(segments: Iterable[Segment]) -> str:
    """Return the kinds that have a vector: a part without one cannot be found."""
    return joined(segment.name for segment in segments)


def own_vectors(segments: Iterable[Segment]) -> dict[str, Matrix]:
    """Return a document's own vectors, by name."""
    return {segment.name: segment.vector for segment in segments if segment.own}


def own_hash(vectors: Mapping[str, Matrix]) -> bytes | None:
    """Return the hash of a document's own vectors; None if it has none."""
    if not vectors:
        return None
    return hashlib.sha256(b"".join(part.encode() + blob(vectors[part]) for part in sorted(vectors))).digest()


def blob(vector: Matrix) -> bytes:
    """Return a vector as bytes: float32, little-endian."""
    return np.asarray(vector, dtype="<f4").tobytes()
