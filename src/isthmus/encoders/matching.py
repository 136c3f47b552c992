"""Does this document answer this query? A number for each pair, by a model that reads both at once.

A document's vector is made before anybody asks; the matcher sees the words of the query beside the document's tokens,
text and image, and costs a run of the towers for each document. It is for the first few that a search has found.
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
from isthmus.encoders.heads import DocumentHead, Fused, QueryHead, inputs_of
from isthmus.encoders.images import Pixels, file_bytes, in_order, read
from isthmus.encoders.items import texts_of
from isthmus.encoders.once import VectorInput
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadImage, BadInput
from isthmus.types import Matrix

PAIR = ("document", "masks", "similarity")  # and behind them the sides of the query


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """A passage of a query: the token states and the mask of each side, and its vector."""

    sides: Mapping[str, NDArray[Any]]  # (1, t, d) and (1, t)
    vector: Matrix  # (out,)


@dataclass(frozen=True, slots=True, eq=False)
class Matcher:
    """Logits of P(match) for the words of a query and documents, by ``match.onnx``."""

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
        """Return a logit for each document, ``(n,)``: its best passage counts, together with its picture.

        A picture that cannot be read is as none. NaN: there is nothing to read in the document. The words of a query
        are all that is looked at; of a long one each passage is matched, and the mean counts.
        """
        asked = self.asked(Query.of(query))
        best = np.full(len(documents), np.nan, dtype=np.float32)
        owners: list[int] = []
        batch: list[VectorInput] = []
        for owner, unit in self.units(documents):
            owners.append(owner)
            batch.append(unit)
            if len(batch) == self.settings.batch:
                np.fmax.at(best, owners, self.logits(asked, self.documents.fuse(batch)))
                owners, batch = [], []
        if batch:
            np.fmax.at(best, owners, self.logits(asked, self.documents.fuse(batch)))
        return best

    def asked(self, query: Query) -> list[Asking]:
        """Return what is seen of a query, passage by passage."""
        (passages,) = self.queries.towers.split(texts_of([query]), "query")
        if not passages:
            raise BadInput("A matcher reads words, and the query has none. Ask with words, or align the query first.")
        fed = [self.queries.feed([VectorInput(passage)]) for passage in passages]
        return [Asking(sides, self.queries.model.run(sides)[0]) for sides in fed]

    def units(self, documents: Sequence[Document]) -> Iterator[tuple[int, VectorInput]]:
        """Yield each passage beside its document's picture; threads read pictures ahead."""
        towers, settings, pillow = self.documents.towers, self.settings, Lock()

        def opened(image: ImageLike | None) -> Pixels | None:
            try:
                data = None if image is None else file_bytes(image)
                if image is None or data is not None:
                    return None if data is None else read(data, towers.frame)
                with pillow:  # one Pillow image may stand in two documents; it loads once
                    return read(image, towers.frame)
            except BadImage:
                return None

        passages = towers.split(texts_of(documents), "document")
        pictures = [document.image for document in documents]
        with closing(in_order(opened, pictures, workers=settings.workers, ahead=2 * settings.batch)) as ahead:
            for owner, (several, pixels) in enumerate(zip(passages, ahead, strict=True)):
                beside: Sequence[TextPassage | None] = several or ([] if pixels is None else [None])
                yield from ((owner, VectorInput(passage, pixels)) for passage in beside)

    def logits(self, asked: Sequence[Asking], fused: Fused) -> Matrix:
        """Return a logit for each fused passage, ``(n,)``."""
        n = len(fused.vectors)
        logits = []
        for one in asked:
            similarity = (fused.vectors * one.vector).reshape(n, self.queries.count, -1).sum(axis=2)
            sides = {name: np.repeat(given, n, axis=0) for name, given in one.sides.items()}
            pair = dict(zip(PAIR, (fused.tokens, fused.masks, similarity), strict=True))
            logits.append(self.model.run({**pair, **sides}))
        mean: Matrix = np.mean(logits, axis=0)
        return mean
