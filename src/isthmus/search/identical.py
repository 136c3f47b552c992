"""Identical pictures come first: a query with a picture finds the documents that have this picture.

In words: calibration compares modalities, so it may rank a text above the very picture that was asked for. Documents
that have a part of the query (of any kind but text) are raised to the top: those with the same file, found by its hash,
and copies, found by their raw vectors among the nearest documents of each modality. The most similar come first; equal
ones keep their order. Nothing is raised for a query whose weights make another part more important.

Rule for copies, with the cosines c₁ ≥ c₂ ≥ … of the query and the parts of the nearest documents, and distances
d = 1 − c: the first j documents have the part, for the largest j with

    d_j ≤ IDENTICAL    or    d_j ≤ NEAR  and  d_j ≤ d_{j+1} / APART

What it means: a copy that was cropped a little or compressed again is far nearer than any other picture. Where all
pictures are alike (scanned pages have cosines of .99), or no other is there to compare with, only an identical one is
raised. A filter does not change what is a copy. The score of a raised document is the best score of the list. With
``none``, which is raw cosine, nothing is raised.

Texts are left out: a query in words that equals a text is no reason to rank that text above a picture of the thing.

>>> count_copies([1.0, 0.91, 0.9]), count_copies([0.985, 0.984, 0.98]), count_copies([0.99, 0.985, 0.7])
(1, 0, 2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from isthmus.documents import Query
from isthmus.errors import BadInput
from isthmus.kinds import TEXT, atoms, stored
from isthmus.search.allowed import Allowed, among
from isthmus.search.list_tops import likeness, parts_of
from isthmus.search.ranking import Ranking, by_index, ranked
from isthmus.search.results import Answer
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment
from isthmus.types import Mask, Matrix, Vectors

IDENTICAL = 1e-4  # the distance of two encodings of one picture, at most
NEAR = 0.02  # the distance of a copy, at most
APART = 3.0  # how many times as far the next picture is
CANDIDATES = 6  # of each modality that are compared
WITHOUT_FILE = 20  # the same, for a query of ready vectors: nothing else finds an identical part
SAME_FILE = 100  # documents with the same file, at most
DIGITS = 5  # of a cosine that are compared
EQUAL = 2.0  # in place of the cosine of the same file: before every copy
CERTAIN = 0.97  # P(match) of a raised document, at least: the share of relevant ones (reproduce/raised.py)


def documents_with_part(
    snapshot: Snapshot,
    store: Store,
    asked: Sequence[Query],
    vectors: Vectors,
    nearest: Sequence[Sequence[Ranking]],
) -> list[dict[int, float]]:
    """Return, for each query, the rows of the documents that have a part of it, and the cosine of that part.

    ``nearest``: the best documents of each index for each query, in the whole collection.
    """
    out: list[dict[int, float]] = [{} for _ in asked]
    if str(snapshot.calibrated.fitted.spec) == "none":
        return out
    for kind in (kind for kind in vectors.parts if kind != TEXT):
        near = _nearest(snapshot, asked, vectors, kind, nearest)
        segments = store.segments(sorted({document for several in near.values() for document in several}))
        for row, documents in near.items():
            query = vectors.parts[kind][row : row + 1]
            out[row] |= _copies(kind, query, {each: segments.get(each, ()) for each in documents})
            out[row] |= dict.fromkeys(_same_file(store, asked[row], kind), EQUAL)
    return out


def count_copies(cosines: Sequence[float] | Matrix) -> int:
    """Return how many of the cosines, best first, belong to copies of the query's part."""
    distance = 1 - np.asarray(cosines, dtype=np.float64)
    after = np.append(distance[1:], distance[-1:])  # after the last, the next is taken to be as near
    near = (distance <= IDENTICAL) | ((distance <= NEAR) & (distance <= after / APART))
    return int(np.flatnonzero(near)[-1]) + 1 if near.any() else 0


def with_documents(
    snapshot: Snapshot,
    query: Vectors,
    ranking: Ranking,
    documents: Mapping[int, float],
    allowed: Allowed | None,
    modalities: Sequence[str] | None,
) -> Ranking:
    """Return a ranking of one query with those of these documents in it that may be found."""
    missing = np.setdiff1d(np.array(list(documents), dtype=np.int64), ranking.documents)
    if not len(missing):
        return ranking
    may = among(allowed, missing)
    return ranking.joined(ranked(snapshot, query, len(missing), allowed=may, modalities=modalities)[0])


def put_first(answer: Answer, documents: Mapping[int, float]) -> Answer:
    """Put these documents of an answer first, by their cosines, with the best score and a high P(match)."""
    cosine = np.array([documents.get(int(row), -np.inf) for row in answer.ranking.documents])
    if not (cosine > -np.inf).any():
        return answer
    order = np.argsort(-cosine, kind="stable")
    found, has = answer.take(order), cosine[order] > -np.inf
    scores = np.where(has, found.ranking.scores.max(), found.ranking.scores)
    p = found.probability
    return replace(
        found,
        ranking=replace(found.ranking, scores=scores),
        probability=None if p is None else np.where(has, max(CERTAIN, p.max()), p),
        raised=np.where(has, scores - found.ranking.scores, np.nan),
    )


def _is_heaviest(vectors: Vectors, kind: str) -> Mask:
    """Return which queries have a part of this kind, and give it no smaller weight than another part."""
    if vectors.weights is None:
        return vectors.present[kind]
    most = np.max([np.where(vectors.present[part], w, 0) for part, w in vectors.weights.items()], axis=0)
    return np.asarray(vectors.present[kind] & (vectors.weights[kind] >= most))


def _nearest(
    snapshot: Snapshot, asked: Sequence[Query], vectors: Vectors, kind: str, lists: Sequence[Sequence[Ranking]]
) -> dict[int, list[int]]:
    """Return the nearest documents that have the kind, for each query that has it.

    A query of several parts is searched again by this part alone, and so is one of ready vectors, without biases.
    """
    rows = np.flatnonzero(_is_heaviest(vectors, kind)).tolist()
    out = {row: _first(lists[row], kind, CANDIDATES) for row in rows}
    ready = [row for row in rows if kind not in {part.kind for part in asked[row].parts}]
    again = sorted({*ready, *(row for row in rows if vectors.modality[row] != kind)})
    if again and kind in snapshot.calibrated.fitted.query_modalities:
        alone = Vectors({kind: vectors.parts[kind][again]}, {kind: np.ones(len(again), dtype=bool)})
        found = by_index(snapshot, alone, WITHOUT_FILE if ready else CANDIDATES, biased=False)
        out |= {row: _first(several, kind, WITHOUT_FILE) for row, several in zip(again, found, strict=True)}
    return out


def _first(lists: Sequence[Ranking], kind: str, count: int) -> list[int]:
    several = [one.documents[:count] for one in lists if len(one) and kind in atoms(one.modality[0])]
    return [int(row) for rows in several for row in rows]


def _copies(kind: str, query: Matrix, near: Mapping[int, Sequence[Segment]]) -> dict[int, float]:
    """Return the cosines of the documents that have a copy of the part."""
    cosines: dict[int, float] = {}
    for document, segments in near.items():
        alike = likeness({kind: query}, parts_of(segments))
        if alike is not None:
            cosines[document] = round(alike, DIGITS)
    several = sorted(cosines.values(), reverse=True)
    count = count_copies(several)
    return {row: cosine for row, cosine in cosines.items() if count and cosine >= several[count - 1]}


def _same_file(store: Store, query: Query, kind: str) -> set[int]:
    """Return the documents that have a part of the query, byte for byte."""
    found: set[int] = set()
    for part in query.parts:
        if part.kind == kind and not part.is_empty:
            try:
                digest = stored(kind).digest(stored(kind).keep(part.content))
            except BadInput:  # the encoder says why it cannot be read
                continue
            if digest is not None:
                found |= {row for row, _ in store.same_part(kind, digest, SAME_FILE)}
    return found
