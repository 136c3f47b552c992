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
from isthmus.storage.segments import Segment, assembled, combination
from isthmus.types import Vectors

if TYPE_CHECKING:
    from isthmus.align import Aligned

RANKS = 1000  # how far down the raw ranking is looked for a hit's rank before calibration


def ranks_before(raw: Snapshot, vectors: Vectors) -> list[dict[int, int]]:
    """Return each query's ranks by raw cosine, over the whole collection."""
    lists = ranked(raw, vectors, RANKS)
    return [{int(row): rank + 1 for rank, row in enumerate(one.documents)} for one in lists]


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
