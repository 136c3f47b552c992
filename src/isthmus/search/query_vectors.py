"""Queries become vectors: those that they bring, and the encoder's for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, BadVectors
from isthmus.types import Matrix, Vectors


def query_vectors(queries: Sequence[Query], load: Callable[[], Encoder | None], dim: int | None) -> Vectors:
    """Encode queries, each but for the vectors that it brings."""
    rest = [rest_of(query) for query in queries]
    several: list[Vectors] = []
    encoded = _encoded([query for query in rest if query is not None], load)
    at = 0
    for query, left in zip(queries, rest, strict=True):
        parts: dict[str, Matrix] = {part: vector[None] for part, vector in query.vectors.items()}
        if left is not None and encoded is not None:
            parts |= {part: matrix[at : at + 1] for part, matrix in encoded.parts.items() if encoded.present[part][at]}
            at += 1
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
    """Refuse weights that nobody can heed: an encoder that makes one vector of words and picture has weighed them."""
    for part in parts:
        if len({weights.get(atom, 1.0) for atom in part.split("+")}) > 1:
            raise BadInput(
                f"The query weighs its parts, and this collection's encoder makes one vector of {part}, which cannot "
                "be weighed any more. Leave the weights out."
            )


def rest_of(query: Query) -> Query | None:
    """Return what of a query has to be encoded; None where it brings a vector for all of it."""
    covered = {atom for part in query.vectors for atom in part.split("+")}
    text = None if "text" in covered or not query.text or query.text.isspace() else query.text
    image, more = (None, ()) if "image" in covered else (query.image, query.more_images)
    return None if text is None and image is None else Query(text=text, image=image, more_images=more)


def _encoded(queries: Sequence[Query], load: Callable[[], Encoder | None]) -> Vectors | None:
    if not queries:
        return None
    encoder = load()
    if encoder is None:
        raise BadInput(
            "This collection has no encoder: it cannot read words or pictures. Ask with vectors: "
            "Query(vectors={'text': …})."
        )
    return encoder.encode_queries(queries)
