"""Rerankers, which read query and document together and reorder hits, if a request names one.

The first ``offset + k`` hits change places and nothing else: the same documents, with the same scores. A hit that
cannot be judged (NaN: there is nothing to read in its document any more) stays where the search had put it, and hits
that are judged alike keep their order.

A matcher's numbers do not compare across modalities: words are nearer to words than to patches, whatever they say, and
text would drown the images again. So an encoder's matcher orders texts among texts, pictures among pictures, and those
of both among those of both, in the places that the calibrated search gave to each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Protocol, runtime_checkable

import numpy as np

from isthmus.documents import Document, Query
from isthmus.encoders import REMOVED, Encoder
from isthmus.encoders.abilities import CanMatch, HasUsage, Usage
from isthmus.errors import BadInput, UnknownName
from isthmus.search.handle import Handle
from isthmus.search.hits import Hit
from isthmus.types import Matrix, Rows

NAMES = (
    "Name a model of `isthmus train fusion` (onnx:FOLDER), a cross-encoder (st:NAME), a service (http:cohere:MODEL), "
    "or give an object with scores(query, documents)."
)


class Reranker(Protocol):
    """Says how well documents answer the words of a query."""

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return a number for each document, ``(n,)``, the higher the better; NaN if it cannot score one."""


@runtime_checkable
class GroupedReranker(Protocol):
    """A reranker whose numbers compare within a group of modalities alone: hits change places with their like."""

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return a number for each document, ``(n,)``."""

    def group(self, modality: str) -> str:
        """Return the group of a modality."""


@dataclass(frozen=True, slots=True, eq=False)
class MatcherReranker:
    """An encoder's matcher, which orders each modality separately."""

    reranker: Reranker

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        """Return the scores of the matcher."""
        return self.reranker.scores(query, documents)

    def group(self, modality: str) -> str:
        """Return the modality itself."""
        return modality


@dataclass(slots=True, eq=False)
class Rerankers:
    """A collection's rerankers, each loaded when it is first named."""

    opened: Handle
    _loaded: dict[str, Reranker] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def get(self, rerank: str | Reranker) -> Reranker:
        """Return a reranker by its name, or that of its encoder; one that is given, as it is."""
        if not isinstance(rerank, str):
            return rerank
        with self._lock:
            if rerank not in self._loaded:
                self._loaded[rerank] = self._load(rerank)
            return self._loaded[rerank]

    def usage(self) -> dict[str, Usage]:
        """Return what the services behind rerankers were asked, by the reranker's name."""
        with self._lock:
            return {name: one.usage for name, one in self._loaded.items() if isinstance(one, HasUsage)}

    def _load(self, name: str) -> Reranker:
        try:
            return self.opened.runtime.reranker(name) or _matcher(name, self.opened.named(name))
        except UnknownName as error:
            if "Did you mean" in str(error) or name in REMOVED:
                raise
            raise UnknownName(f"No reranker is called {name!r}. {NAMES}") from None


def check_words(queries: Sequence[Query]) -> None:
    """Refuse to rerank for a query without words."""
    for row, query in enumerate(queries):
        if not query.text or query.text.isspace():
            which = "the query" if len(queries) == 1 else f"query {row}"
            raise BadInput(
                f"rerank reads the words of a query, and {which} has none. Ask with words, have the picture put "
                "into words (align='caption'), or leave rerank out."
            )


def reranked(reranker: Reranker, queries: Sequence[Query], found: Sequence[Sequence[Hit]]) -> list[list[Hit]]:
    """Return each query's hits in the reranker's order."""
    return [reordered(reranker, query, hits) for query, hits in zip(queries, found, strict=True)]


def reordered(reranker: Reranker, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits in the reranker's order, each with its score and its new rank."""
    if not hits:
        return []
    matched = np.asarray(reranker.scores(query, [hit.document for hit in hits]), dtype=np.float64)
    if matched.shape != (len(hits),):
        raise BadInput(
            f"The reranker gave an array of shape {matched.shape} for {len(hits)} documents. It has to give a number "
            "for each."
        )
    ranks = [hit.rank for hit in hits]
    kinds = [reranker.group(hit.modality) if isinstance(reranker, GroupedReranker) else "any" for hit in hits]
    return [_moved(hits[place], ranks[at], float(matched[place])) for at, place in enumerate(order(matched, kinds))]


def order(matched: Matrix, kinds: Sequence[str]) -> Rows:
    """Return the places of hits, best first within each kind; those that are NaN stay, and equals keep their order.

    >>> order(np.array([1.0, np.nan, 3.0, 3.0]), ["any"] * 4).tolist()
    [2, 1, 3, 0]
    >>> order(np.array([1.0, 9.0, 3.0, 5.0]), ["image", "text", "image", "text"]).tolist()
    [2, 1, 0, 3]
    """
    places = np.arange(len(matched))
    for kind in set(kinds):
        judged = np.flatnonzero(~np.isnan(matched) & (np.array(kinds) == kind))
        places[judged] = judged[np.argsort(-matched[judged], kind="stable")]
    return places


def _moved(hit: Hit, rank: int, matched: float) -> Hit:
    said = None if np.isnan(matched) else matched
    explanation = hit.explanation
    if explanation is not None:
        explanation = replace(explanation, rank=rank, rank_by_score=hit.rank, matched=said)
    return replace(hit, rank=rank, matched=said, explanation=explanation)


def _matcher(name: str, encoder: Encoder) -> Reranker:
    if not isinstance(encoder, CanMatch):
        raise BadInput(f"{name} has no matcher, so it cannot rerank. {NAMES}")
    return MatcherReranker(encoder.matcher())
