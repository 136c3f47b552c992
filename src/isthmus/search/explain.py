"""How a hit's score came about, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.search.hits import Explanation, Hit
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment, assembled, combination
from isthmus.types import Matrix, Rows, Vectors

if TYPE_CHECKING:
    from isthmus.align import Aligned

RANKS = 300  # how far down a hit's rank before calibration is told, and how many candidates of each modality count


def ranks_before(store: Store, snapshot: Snapshot, vectors: Vectors) -> list[dict[int, int]]:
    """Return each query's ranks by raw cosine, by the documents' rows, up to ``RANKS``.

    Ranked are the first ``RANKS`` documents of each modality, by their stored vectors. Calibration moves modalities
    against one another far more than the documents within one, so these are nearly always the ones that raw cosine
    puts first; where a modality has no more than so many documents, they are exactly those.
    """
    unit = Raw().queries(vectors, np.float32)
    found = [ranked(snapshot, vectors, RANKS, modalities=[name]) for name in snapshot.modalities]
    return [
        _raw_ranks(store, np.concatenate([lists[at].documents for lists in found]), query)
        for at, query in enumerate(unit)
    ]


def _raw_ranks(store: Store, documents: Rows, query: Matrix) -> dict[int, int]:
    block = store.sample(np.unique(documents).tolist())  # in the order of the rows
    if not len(block.rows):
        return {}
    by_passage = np.vecdot(Raw().documents(block.vectors, np.float32), query)
    similarity = np.full(len(block.rows), -np.inf, dtype=np.float32)
    np.maximum.at(similarity, block.owner, by_passage)
    order = np.argsort(-similarity, kind="stable")[:RANKS]
    return {int(row): rank for rank, row in enumerate(block.rows[order], 1)}


def explained(
    snapshot: Snapshot,
    query: Vectors,
    hit: Hit,
    segments: Sequence[Segment],
    number: int,
    inner: float,
    before: int | None,
    words: float | None,
) -> Explanation:
    """Take a score apart: what the parts gave, what the shift, the bias and the map made of it."""
    fitted = snapshot.calibrated.fitted
    single, _ = assembled([combination(segments, number)])
    unit = Raw().queries(query, np.float64)[0]
    parts = {part: float(unit @ (matrix[0] / np.linalg.norm(matrix[0]))) for part, matrix in single.parts.items()}
    shifted = float(fitted.shift.documents(single, np.float64)[0] @ fitted.shift.queries(query, np.float64)[0])
    ends = fitted.finish(np.array([[0.0, 1.0]]), str(query.modality[0]), hit.modality)[0]
    return Explanation(
        parts=parts,
        similarity=hit.similarity,
        shift=shifted - hit.similarity,
        bias=shifted - inner,
        slope=float(ends[1] - ends[0]),
        offset=float(ends[0]),
        score=float(ends[0] + (ends[1] - ends[0]) * inner),
        rank_before=before,
        rank=hit.rank,
        words=words,
    )


def with_alignment(found: Sequence[Sequence[Hit]], aligned: Sequence[Aligned]) -> list[list[Hit]]:
    """Say in each explanation what became of the query before it was searched."""
    return [
        [
            hit if hit.explanation is None else replace(hit, explanation=replace(hit.explanation, aligned=one))
            for hit in hits
        ]
        for hits, one in zip(found, aligned, strict=True)
    ]
