"""The top of each query's list over the whole collection: what P(match) sees beside the score of a hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from isthmus.search.probability import Match, Top, top_of
from isthmus.search.ranking import Ranking
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment
from isthmus.types import Matrix, Vectors


def list_tops(match: Match | None, store: Store, queries: Vectors, found: Sequence[Ranking]) -> list[Top]:
    """Return the top of each list; parts are compared where a curve of the match asks for it."""
    compared = [match is not None and match.compares_parts(str(name)) for name in queries.modality]
    first = {at: int(ranking.documents[0]) for at, ranking in enumerate(found) if compared[at] and len(ranking)}
    segments = store.segments(sorted(set(first.values()))) if first else {}
    return [
        top_of(ranking.scores, likeness(query_parts(queries, at), parts_of(segments.get(first.get(at, -1), ()))))
        for at, ranking in enumerate(found)
    ]


def query_parts(queries: Vectors, row: int) -> dict[str, Matrix]:
    """Return the vectors of one query, by part."""
    return {part: queries.parts[part][row : row + 1] for part in queries.parts if queries.present[part][row]}


def likeness(query: Mapping[str, Matrix], document: Mapping[str, Matrix]) -> float | None:
    """Return the largest cosine of two parts of one name, rows of ``(n, d)`` each; None if no name is in both.

    >>> likeness({"image": np.array([[2.0, 0.0]])}, {"image": np.array([[0.6, 0.8]]), "text": np.array([[1.0, 0.0]])})
    0.6
    """
    cosines = [_unit(query[name]) @ _unit(document[name]).T for name in query if name in document]
    return max((float(each.max()) for each in cosines), default=None)


def parts_of(segments: Sequence[Segment]) -> dict[str, Matrix]:
    """Return the vectors of a document's segments, by name, ``(n, d)`` each."""
    names = dict.fromkeys(segment.name for segment in segments)
    return {name: np.stack([each.vector for each in segments if each.name == name]) for name in names}


def _unit(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12), dtype=np.float64)
