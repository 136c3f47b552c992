"""Retrievers: different ways to find documents for words, behind one protocol.

    Dense(encoder, ids, documents)      the nearest vectors; calibrated, if a calibration is given
    Bm25(ids, texts)                    words, exactly as a collection counts them
    Hybrid(a, b)                        both lists, by reciprocal ranks
    OfCollection(collection)            a collection's own search
    Cached(retriever)                   the same, with a cache

All are deterministic. Documents with equal scores keep the order in which they were given. A blank query finds nothing.

>>> words = Bm25(["a", "b"], ["a cat on a red sofa", "two dogs and a cat"])
>>> [name for name, _ in words.search(["dog"])[0]]
['b']
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isthmus import calibration as calibrations
from isthmus.align.base import Found, Retriever
from isthmus.calibration import Fitted
from isthmus.calibration.passages import Passages, best_columns
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows
from isthmus.words import TextIndex

BLOCK = 1 << 24  # scores in memory at a time
DEPTH = 100  # documents of each list that are fused
RANK = 60  # the constant of reciprocal rank fusion, as published


class Dense:
    """The documents whose vectors are nearest to the query's; a document counts with its nearest passage.

    ``documents`` are texts, or documents with pictures if the encoder reads them. Without a fitted ``calibration``,
    the score is the cosine.
    """

    def __init__(
        self,
        encoder: Encoder,
        ids: Sequence[str],
        documents: Sequence[str | Document],
        *,
        calibration: Fitted | None = None,
    ) -> None:
        self.encoder = encoder
        self.name = encoder.name if calibration is None else f"{encoder.name}, {calibration.spec}"
        self._ids = _checked(ids, documents)
        if not ids:
            return
        given = [
            Document(name, each) if isinstance(each, str) else each for name, each in zip(ids, documents, strict=True)
        ]
        vectors, owner = encoder.encode_passages(given)
        self._fitted = calibration or calibrations.fit("none", vectors, encoder.encode_queries(["a"]), owner=owner)
        self._passages = Passages.of(vectors, owner)
        self._folded = self._fitted.fold(vectors, owner=owner).vectors.T  # (d + columns, passages)

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""
        _check(texts, k)
        found: list[Found] = [[] for _ in texts]
        nonblank = [row for row, text in enumerate(texts) if text.strip() and self._ids]
        step = max(1, BLOCK // max(1, len(self._ids)))
        for start in range(0, len(nonblank), step):
            rows = nonblank[start : start + step]
            for row, scores in zip(rows, self._scores([texts[row] for row in rows]), strict=True):
                found[row] = [(self._ids[at], float(scores[at])) for at in best(scores, k)]
        return found

    def _scores(self, texts: Sequence[str]) -> Matrix:
        queries = self._fitted.fold_queries(self.encoder.encode_queries(texts))
        inner = best_columns(queries.vectors @ self._folded, self._passages.starts)  # (n_queries, n_documents)
        return self._fitted.finish(inner, queries.modality, self._passages.modality)


class Bm25:
    """The documents that share words with the query, by BM25 as in a collection (``isthmus.words.bm25``).

    A document that shares no word is not found.
    """

    name = "bm25"

    def __init__(self, ids: Sequence[str], texts: Sequence[str]) -> None:
        self._ids = _checked(ids, texts)
        self._texts = TextIndex(texts)

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query, of those that share a word with it."""
        _check(texts, k)
        return [self._found(text, k) for text in texts]

    def _found(self, text: str, k: int) -> Found:
        scores = self._texts.scores(text)
        sharing = np.flatnonzero(scores)
        return [(self._ids[at], float(scores[at])) for at in sharing[best(scores[sharing], k)]]


@dataclass(frozen=True, slots=True)
class Hybrid:
    """Fuses two lists by their ranks, so that scores of different kinds need no common scale.

        score(d) = Σ over the lists that have d among their first ``depth`` of 1 / (60 + rank)

    Of equal scores the document that ranks higher in ``a`` comes first. A collection's own hybrid search
    (``OfCollection(…, hybrid=True)``) adds scores instead, because it knows both scales. Reference:
    Cormack, Clarke & Büttcher, SIGIR 2009.
    """

    a: Retriever
    b: Retriever
    depth: int = DEPTH

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.a.name} + {self.b.name}"

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""
        _check(texts, k)
        depth = max(k, self.depth)
        lists = zip(self.a.search(texts, depth), self.b.search(texts, depth), strict=True)
        return [_fused(several, k) for several in lists]


class ScoredHit(Protocol):
    """The part of a hit that is used here."""

    @property
    def id(self) -> str:
        """The document's name."""

    @property
    def score(self) -> float:
        """The score."""


class SearchableCollection(Protocol):
    """The part of a ``Collection`` that is used here."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    def search_many(
        self,
        queries: Sequence[str],
        k: int = ...,
        *,
        where: Mapping[str, Any] | None = ...,
        modalities: str | Sequence[str] | None = ...,
        hybrid: bool = ...,
        calibration: str | None = ...,
    ) -> Sequence[Sequence[ScoredHit]]:
        """Return the hits of each query."""


@dataclass(frozen=True, slots=True, eq=False)
class OfCollection:
    """A collection as a retriever; the settings are those of ``Collection.search``."""

    collection: SearchableCollection
    hybrid: bool = False
    where: Mapping[str, Any] | None = None
    modalities: str | Sequence[str] | None = None
    calibration: str | None = None

    @property
    def name(self) -> str:
        """The collection's folder, and whether the search is hybrid."""
        return f"{self.collection.path.name}{', hybrid' if self.hybrid else ''}"

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""
        _check(texts, k)
        nonblank = [row for row, text in enumerate(texts) if text.strip()]
        hits = self.collection.search_many(
            [texts[row] for row in nonblank],
            k,
            where=self.where,
            modalities=self.modalities,
            hybrid=self.hybrid,
            calibration=self.calibration,
        )
        found: list[Found] = [[] for _ in texts]
        for row, several in zip(nonblank, hits, strict=True):
            found[row] = [(hit.id, hit.score) for hit in several]
        return found


@dataclass(slots=True, eq=False)
class Cached:
    """A retriever with a cache: a repeated text is searched once.

    The ``limit`` most recent answers are kept. It does not notice changed documents: make a new one after a change.
    """

    retriever: Retriever
    limit: int = 100_000
    requested: int = 0  # texts
    searched: int = 0  # of them, those not in the cache
    _kept: OrderedDict[tuple[str, int], Found] = field(default_factory=OrderedDict, repr=False)

    @property
    def name(self) -> str:
        """The retriever's own."""
        return self.retriever.name

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        """Return the best ``k`` documents of each query."""
        _check(texts, k)
        new = [text for text in dict.fromkeys(texts) if (text, k) not in self._kept]
        answers = dict(zip(new, self.retriever.search(new, k) if new else [], strict=True))
        self.requested, self.searched = self.requested + len(texts), self.searched + len(new)
        found = [answers[text] if text in answers else self._kept[text, k] for text in texts]
        for text, answer in zip(texts, found, strict=True):
            self._kept[text, k] = answer
            self._kept.move_to_end((text, k))
        while len(self._kept) > self.limit:
            self._kept.popitem(last=False)
        return found


def best(scores: Matrix, k: int) -> Rows:
    """Return the positions of the ``k`` largest, best first; of equal ones the first.

    >>> best(np.array([0.5, 0.9, 0.5, 0.1]), 2).tolist()
    [1, 0]
    """
    near: Rows = np.arange(len(scores))
    if k < len(scores):
        near = np.flatnonzero(scores >= np.partition(scores, -k)[-k])  # the k best, and all that equal the last
    return np.asarray(near[np.argsort(-scores[near], kind="stable")][:k])


def _fused(lists: Sequence[Found], k: int) -> Found:
    scores: dict[str, float] = {}
    for found in lists:
        for rank, (name, _) in enumerate(found, 1):
            scores[name] = scores.get(name, 0.0) + 1 / (RANK + rank)
    return sorted(scores.items(), key=lambda item: -item[1])[:k]  # stable: of equal ones, the one that came first


def _checked(ids: Sequence[str], documents: Sequence[object]) -> list[str]:
    if len(ids) != len(documents):
        raise BadInput(f"There are {len(ids)} ids for {len(documents)} documents. Each document needs one id.")
    if len(set(ids)) < len(ids):
        raise BadInput("An id occurs twice. Ids must be unique.")
    return list(ids)


def _check(texts: Sequence[str], k: int) -> None:
    if isinstance(texts, str):
        raise BadInput("search takes a list of queries. Write search([text]).")
    if k < 1:
        raise BadInput(f"k must be at least 1, not {k}.")
