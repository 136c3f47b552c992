"""How well a document answers a query: a score for each pair, by a model that reads both together.

A document's vector is computed before any query. The matcher reads the words of the query together with the document's
tokens, text and image, and runs the towers for each document. Use it for the first few hits of a search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus.documents import Document, ImageLike, Query
from isthmus.encoders.base import Settings
from isthmus.encoders.folder import Description
from isthmus.encoders.heads import DocumentHead, Fused, QueryFeed, QueryHead, inputs_of
from isthmus.encoders.images import Pixels, file_bytes, in_order, read
from isthmus.encoders.items import texts_of
from isthmus.encoders.once import VectorInput
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadImage, BadInput
from isthmus.types import Matrix

PAIR = ("document", "masks", "similarity")  # followed by the sides of the query


@dataclass(frozen=True, slots=True, eq=False)
class QueryInput:
    """A passage of a query: the token states and the mask of each side, its vector, and the weight of its logits.

    Words that echo (``QueryHead``) are two inputs, once on each side.
    """

    sides: Mapping[str, NDArray[Any]]  # (1, t, d) and (1, t)
    vector: Matrix  # (out,)
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """Logits of P(match) for the words of a query and each document, by ``match.onnx``."""

    documents: DocumentHead
    queries: QueryHead
    model: Model
    settings: Settings

    @classmethod
    def open(cls, described: Description, documents: DocumentHead, queries: QueryHead, settings: Settings) -> Matcher:
        """Load the model."""
        inputs = [*PAIR, *inputs_of(queries.count)]
        model = Model.described(described, "match.onnx", inputs, "logits", settings)
        return cls(documents, queries, model, settings)

    def scores(self, query: Query | str, documents: Sequence[Document]) -> Matrix:
        """Return a logit for each document, ``(n,)``: that of its best passage, together with its picture.

        A picture that cannot be read is ignored. NaN: the document has nothing to read. Only the words of a query
        count; each passage of a long query is matched, and the logits are averaged.
        """
        passages = self.query_inputs(Query.of(query))
        best = np.full(len(documents), np.nan, dtype=np.float32)
        owners: list[int] = []
        batch: list[VectorInput] = []
        for owner, item in self.inputs(documents):
            owners.append(owner)
            batch.append(item)
            if len(batch) == self.settings.batch_size:
                np.fmax.at(best, owners, self.logits(passages, self.documents.fuse(batch)))
                owners, batch = [], []
        if batch:
            np.fmax.at(best, owners, self.logits(passages, self.documents.fuse(batch)))
        return best

    def query_inputs(self, query: Query) -> list[QueryInput]:
        """Return the model's inputs for a query, passage by passage."""
        (passages,) = self.queries.towers.split(texts_of([query]), "query")
        if not passages:
            raise BadInput("A matcher reads words, and the query has none. Add words to it, or align it first.")
        fed = [self.queries.feed([VectorInput(passage)], match=True) for passage in passages]
        return [self._input(sides, weight / len(fed)) for one in fed for sides, weight in _apart(one)]

    def _input(self, sides: Mapping[str, NDArray[Any]], weight: float) -> QueryInput:
        return QueryInput(sides, self.queries.model.run(sides)[0], weight)

    def inputs(self, documents: Sequence[Document]) -> Iterator[tuple[int, VectorInput]]:
        """Yield each passage with its document's picture; threads read pictures ahead."""
        towers, settings, pillow = self.documents.towers, self.settings, Lock()

        def opened(image: ImageLike | None) -> Pixels | None:
            try:
                data = None if image is None else file_bytes(image)
                if image is None or data is not None:
                    return None if data is None else read(data, towers.frame)
                with pillow:  # two documents may share one Pillow image; it loads once
                    return read(image, towers.frame)
            except BadImage:
                return None

        passages = towers.split(texts_of(documents), "document")
        pictures = [document.image for document in documents]
        with closing(in_order(opened, pictures, workers=settings.workers, ahead=2 * settings.batch_size)) as ahead:
            for owner, (several, pixels) in enumerate(zip(passages, ahead, strict=True)):
                passages_of: Sequence[TextPassage | None] = several or ([] if pixels is None else [None])
                yield from ((owner, VectorInput(passage, pixels)) for passage in passages_of)

    def logits(self, passages: Sequence[QueryInput], fused: Fused) -> Matrix:
        """Return a logit for each fused passage, ``(n,)``."""
        n = len(fused.vectors)
        logits = []
        for one in passages:
            similarity = (fused.vectors * one.vector).reshape(n, self.queries.count, -1).sum(axis=2)
            sides = {name: np.repeat(given, n, axis=0) for name, given in one.sides.items()}
            pair = dict(zip(PAIR, (fused.tokens, fused.masks, similarity), strict=True))
            logits.append(one.weight * self.model.run({**pair, **sides}))
        total: Matrix = np.sum(logits, axis=0)
        return total


def _apart(fed: QueryFeed) -> list[tuple[Mapping[str, NDArray[Any]], float]]:
    """Return the inputs of one query and their weights: each side on its own where one echoes the other."""
    (weights,) = fed.weights
    if not fed.echoed[0]:
        return [(fed.sides, 1.0)]
    return [(fed.alone(side), float(weight)) for side, weight in enumerate(weights)]
