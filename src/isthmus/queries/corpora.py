"""Queries and judgements for a whole corpus: any documents become a benchmark like Mr. Right."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.queries.captions import Captions, caption_of
from isthmus.queries.filters import kept
from isthmus.queries.kinds import KINDS, MadeQuery
from isthmus.queries.parse import Parser, best
from isthmus.queries.recipe import made, without


class QueryMaker(Protocol):
    """Whoever makes the queries of a document: ``made``, or ``published``."""

    def __call__(
        self,
        document: Document,
        caption: str | None = None,
        *,
        rng: np.random.Generator,
        kinds: Sequence[str] = KINDS,
        parser: Parser | None = None,
    ) -> list[MadeQuery]:
        """Return the queries of a document."""
        ...


@dataclass(frozen=True, slots=True)
class GeneratedCorpus:
    """Documents to be searched, queries by id, the right document of each, and the kind of each.

    ``qrels`` and ``kinds`` are the input of ``isthmus.evaluate.slices(qrels, types=kinds)``.
    """

    documents: Sequence[Document]
    queries: Mapping[str, MadeQuery]
    qrels: Mapping[str, Mapping[str, int]]
    kinds: Mapping[str, str]

    def __repr__(self) -> str:
        counted = Counter(self.kinds.values())
        counts = ", ".join(f"{counted[kind]} {kind}" for kind in KINDS if counted[kind])
        return f"<Corpus of {len(self.documents)} documents; queries: {counts or 'none'}>"


def corpus(
    documents: Sequence[Document],
    captions: Captions | None = None,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    remove: bool = True,
    parser: Parser | None = None,
    make: QueryMaker = made,
) -> GeneratedCorpus:
    """Make the queries of every document, and remove their text from it.

    ``captions`` maps document ids (to a string, or to several of which one is drawn), or is a function from a document
    with an image to its caption. With ``remove=False`` texts stay whole, and queries that repeat too much are left out.
    What is drawn for a document depends on ``seed`` and its id, not on other documents. ``make=published`` makes them
    as Mr. Right does.

    >>> fox = Document("fox", "The red fox sleeps in deep snow. Winter is long and cold here.")
    >>> corpus([fox, Document("dog", image="dog.jpg")], {"dog": "a dog runs over the grass"})
    <Corpus of 2 documents; queries: 1 text-related, 1 image-related>
    """
    twice = [name for name, count in Counter(document.id for document in documents).items() if count > 1]
    if twice:
        raise BadInput(f"Two documents have the id {twice[0]!r}. Ids must be unique.")
    parser = parser or best()
    shown: list[Document] = []
    queries: dict[str, MadeQuery] = {}
    for document in documents:
        rng = np.random.default_rng([seed, zlib.crc32(document.id.encode())])
        found = make(document, caption_of(document, captions, rng), rng=rng, kinds=kinds, parser=parser)
        repeats = [query for query in found if query.removed is not None]
        if not remove:
            found = [query for query in found if kept(query, document, parser)]
        shown.append(without(document, repeats[0]) if repeats and remove else document)
        queries |= {f"{document.id} {query.kind}": query for query in found}
    qrels = {key: {query.source_id: 1} for key, query in queries.items()}
    return GeneratedCorpus(shown, queries, qrels, {key: query.kind for key, query in queries.items()})
