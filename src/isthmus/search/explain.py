"""Explanations of hits: how a score was computed, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.search.hits import Explanation, Hit
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment, assembled
from isthmus.types import Matrix, Rows, Vectors

if TYPE_CHECKING:
    from isthmus.align import Aligned

CACHED = 4096  # documents whose raw vectors a snapshot keeps for the next explanations
SHORT = 4  # vectors of a document, at most, that are kept
RANKS = 300  # the last rank before calibration that is reported, and how many candidates of each modality are ranked


def ranks_before(store: Store, snapshot: Snapshot, vectors: Vectors) -> list[dict[int, int]]:
    """Return each query's ranks by raw cosine, by the documents' rows, up to ``RANKS``.

    The first ``RANKS`` documents of each modality are ranked by their stored vectors. Calibration moves modalities
    against one another far more than documents within one, so these are nearly always the first by raw cosine; they are
    exactly those if a modality has at most ``RANKS`` documents.
    """
    unit = Raw().queries(vectors, np.float32)
    found = [ranked(snapshot, vectors, RANKS, modalities=[name]) for name in snapshot.modalities]
    return [
        _raw_ranks(store, snapshot, np.concatenate([lists[at].documents for lists in found]), query)
        for at, query in enumerate(unit)
    ]


def _raw_ranks(store: Store, snapshot: Snapshot, documents: Rows, query: Matrix) -> dict[int, int]:
    fused = _raw_vectors(store, snapshot.raw_vectors, np.unique(documents).tolist())
    if not fused:
        return {}
    rows = np.array(list(fused))
    first = np.cumsum([0, *(len(vectors) for vectors in fused.values())])[:-1]
    similarity = np.maximum.reduceat(np.vecdot(np.concatenate(list(fused.values())), query), first)
    order = np.lexsort((rows, -similarity))[:RANKS]
    return {row: rank for rank, row in enumerate(rows[order].tolist(), 1)}


def _raw_vectors(store: Store, cache: dict[int, Matrix], rows: Sequence[int]) -> dict[int, Matrix]:
    """Return the raw fused vectors of the documents that still exist, from the cache where it has them."""
    known = {row: cache.get(row) for row in rows}
    new = fused_vectors(store.segments([row for row, vectors in known.items() if vectors is None]))
    if len(cache) + len(new) > CACHED:
        cache.clear()
    cache.update({row: vectors.copy() for row, vectors in new.items() if len(vectors) <= SHORT})
    found = {row: new.get(row) if vectors is None else vectors for row, vectors in known.items()}
    return {row: vectors for row, vectors in found.items() if vectors is not None}


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """A hit, and what its score was computed from."""

    hit: Hit
    segments: Sequence[Segment]  # that matched together
    inner: float
    rank_before: int | None
    words: float | None = None
    raised: float | None = None


def with_explanations(snapshot: Snapshot, query: Vectors, scored: Sequence[Scored]) -> list[Hit]:
    """Explain the hits of one query: what the parts, the shift, the bias and the map contributed to each score."""
    if not scored:
        return []
    fitted = snapshot.calibrated.fitted
    unit = Raw().queries(query, np.float64)[0]
    rows, _ = assembled([one.segments for one in scored])  # one row per hit
    shifted = fitted.shift.documents(rows, np.float64) @ fitted.shift.queries(query, np.float64)[0]
    asked, found = str(query.modality[0]), {one.hit.modality for one in scored}
    why = _no_probability(snapshot, asked)
    ends = {name: fitted.finish(np.array([[0.0, 1.0]]), asked, name)[0] for name in found}
    return [
        replace(
            one.hit,
            explanation=replace(
                _explained(one, unit, float(inner), *map(float, ends[one.hit.modality])), no_probability=why
            ),
        )
        for one, inner in zip(scored, shifted, strict=True)
    ]


def _no_probability(snapshot: Snapshot, asked: str) -> str | None:
    """Say why hits of queries of a modality have no P(match); None if they have, or a search is raw."""
    match = snapshot.calibrated.match
    if match is None or asked in match.curves:
        return None
    return f"no P(match): there were no {asked} queries with known answers to fit it on"


def _explained(one: Scored, unit: Matrix, shifted: float, at_zero: float, at_one: float) -> Explanation:
    vectors = ((segment.name, segment.vector) for segment in one.segments)
    return Explanation(
        parts={name: float(unit @ (vector / np.linalg.norm(vector))) for name, vector in vectors},
        similarity=one.hit.similarity,
        shift=shifted - one.hit.similarity,
        bias=shifted - one.inner,
        slope=at_one - at_zero,
        offset=at_zero,
        score=at_zero + (at_one - at_zero) * one.inner,
        rank_before=one.rank_before,
        rank=one.hit.rank,
        words=one.words,
        raised=one.raised,
    )


def fused_vectors(segments: Mapping[int, Sequence[Segment]]) -> dict[int, Matrix]:
    """Return the raw fused unit vectors of documents, a row per combination of their segments."""
    if not segments:
        return {}
    vectors, owner = assembled([segments[row] for row in segments])
    fused = Raw().documents(vectors, np.float32)
    first = np.searchsorted(owner, np.arange(1, len(segments)))
    return dict(zip(segments, np.split(fused, first), strict=True))


def with_alignment(found: Sequence[Sequence[Hit]], aligned: Sequence[Aligned]) -> list[list[Hit]]:
    """Add the alignment of the query to each explanation."""
    return [
        [
            hit if hit.explanation is None else replace(hit, explanation=replace(hit.explanation, aligned=one))
            for hit in hits
        ]
        for hits, one in zip(found, aligned, strict=True)
    ]
