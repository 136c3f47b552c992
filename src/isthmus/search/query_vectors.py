"""Vectors of queries: their own, and the encoder's for the other parts.

An encoder takes one part of a kind. A query with several is encoded as several queries, and the vectors of a kind
become one: the unit mean of those of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from isthmus.documents import Query, with_text
from isthmus.encoders import Encoder
from isthmus.encoders.items import unread
from isthmus.errors import BadInput, BadVectors
from isthmus.kinds import Part, atoms
from isthmus.types import Matrix, Vectors


def query_vectors(queries: Sequence[Query], load: Callable[[], Encoder | None], dim: int | None) -> Vectors:
    """Return the vectors of queries; parts with a vector of their own are not encoded."""
    rest = [rest_of(query) for query in queries]
    simple = [single_parts(left) if left is not None else [] for left in rest]
    encoded = _encoded([query for some in simple for query in some], load)
    several: list[Vectors] = []
    at = 0
    for query, some in zip(queries, simple, strict=True):
        parts: dict[str, Matrix] = {part: vector[None] for part, vector in query.vectors.items()}
        if some and encoded is not None:
            parts |= _mean(encoded, some, at)
            at += len(some)
        for part, matrix in parts.items():
            if dim is not None and matrix.shape[1] != dim:
                raise BadVectors(
                    f"the query's {part} vector has {matrix.shape[1]} dimensions but the collection has {dim}. Encode "
                    "it with the collection's encoder."
                )
        weights: dict[str, Matrix] | None = None
        if query.weights is not None:
            check_weights(query.weights, parts)
            weights = {part: np.array([query.weights.get(part, 1.0)]) for part in parts}
        several.append(Vectors(parts, weights=weights))
    return Vectors.concat(several)


def check_weights(weights: Mapping[str, float], parts: Mapping[str, Matrix]) -> None:
    """Reject weights the encoder cannot apply: it makes one vector of several kinds."""
    for part in parts:
        if len({weights.get(atom, 1.0) for atom in atoms(part)}) > 1:
            raise BadInput(
                f"The query weighs its parts, and this collection's encoder makes one vector of {part}, which cannot "
                "be weighed any more. Leave the weights out."
            )


def rest_of(query: Query) -> Query | None:
    """Return the parts of a query that have to be encoded; None if it has vectors for all of them."""
    covered = {atom for part in query.vectors for atom in atoms(part)}
    parts = [part for part in query.parts if part.kind not in covered]
    return Query(parts=parts) if parts else None


def single_parts(query: Query) -> list[Query]:
    """Return queries with one part of each kind, which together have every part of a query; its texts are joined.

    >>> from isthmus.documents import Image, Text
    >>> single_parts(Query(parts=[Text("a"), Image("a.png"), Image("b.png")]))
    [Query(text='a', image='a.png'), Query(text='a', image='b.png')]
    """
    parts = query.parts if query.text is None else with_text(query.parts, query.text)
    by_kind: dict[str, list[Part]] = {}
    for part in parts:
        by_kind.setdefault(part.kind, []).append(part)
    most = max(map(len, by_kind.values()))
    if most == 1:
        return [Query(parts=parts)]
    return [Query(parts=[some[min(at, len(some) - 1)] for some in by_kind.values()]) for at in range(most)]


def _mean(encoded: Vectors, queries: Sequence[Query], first: int) -> dict[str, Matrix]:
    """Return the vectors of one query by name: the unit mean of those of its different parts."""
    found: dict[str, Matrix] = {}
    for name, matrix in encoded.parts.items():
        rows: dict[tuple[int, ...], Matrix] = {}
        for at, query in enumerate(queries):
            if encoded.present[name][first + at]:
                mine = tuple(id(part) for part in query.parts if part.kind in atoms(name))
                rows.setdefault(mine, matrix[first + at])
        if len(rows) == 1:
            found[name] = next(iter(rows.values()))[None]
        elif rows:
            units = [row / np.linalg.norm(row) for row in rows.values()]
            total = np.sum(units, axis=0, dtype=np.float64)
            length = float(np.linalg.norm(total))
            mean: Matrix = np.asarray(total / length if length > 0 else units[0], dtype=np.float32)
            found[name] = mean[None]
    return found


def _encoded(queries: Sequence[Query], load: Callable[[], Encoder | None]) -> Vectors | None:
    if not queries:
        return None
    encoder = load()
    if encoder is None:
        raise BadInput(
            "This collection has no encoder: it cannot read words or pictures. Ask with vectors: "
            "Query(vectors={'text': …})."
        )
    for query in queries:
        problem = unread(encoder, query.parts)
        if problem is not None:
            raise BadInput(f"the query: {problem}")
    return encoder.encode_queries(queries)
