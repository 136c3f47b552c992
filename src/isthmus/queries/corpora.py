"""Queries and judgements for a whole corpus: any documents become a benchmark like Mr. Right."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.queries.captions import Captions, caption_of
from isthmus.queries.filters import kept
from isthmus.queries.kinds import KINDS, MadeQuery
from isthmus.queries.parse import Parser, best
from isthmus.queries.recipe import made, without


@dataclass(frozen=True, slots=True)
class GeneratedCorpus:
    """Documents as they are to be searched, queries by id, which document answers each, and the kind of each.

    ``qrels`` and ``kinds`` are what ``isthmus.evaluate.slices(qrels, types=kinds)`` takes.
    """

    documents: Sequence[Document]
    queries: Mapping[str, MadeQuery]
    qrels: Mapping[str, Mapping[str, int]]
    kinds: Mapping[str, str]

    def __repr__(self) -> str:
        counted = Counter(self.kinds.values())
        asked = ", ".join(f"{counted[kind]} {kind}" for kind in KINDS if counted[kind])
        return f"<Corpus of {len(self.documents)} documents; queries: {asked or 'none'}>"


def corpus(
    documents: Sequence[Document],
    captions: Captions | None = None,
    *,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    remove: bool = True,
    parser: Parser | None = None,
) -> GeneratedCorpus:
    """Make the queries of every document, and take what they repeat out of its text.

    ``captions`` are by document id (a string, or several of which one is drawn), or a captioner that is handed each
    document with an image. With ``remove=False`` texts stay whole, and queries that then repeat too much are left out.
    What is drawn for a document depends on ``seed`` and its id alone: other documents may come and go.

    >>> fox = Document("fox", "The red fox sleeps in deep snow. Winter is long and cold here.")
    >>> corpus([fox, Document("dog", image="dog.jpg")], {"dog": "a dog runs over the grass"})
    <Corpus of 2 documents; queries: 1 text-related, 1 image-related>
    """
    twice = [name for name, count in Counter(document.id for document in documents).items() if count > 1]
    if twice:
        raise BadInput(f"Two documents have the id {twice[0]!r}: it could not be told which of them answers a query.")
    parser = parser or best()
    shown: list[Document] = []
    queries: dict[str, MadeQuery] = {}
    for document in documents:
        rng = np.random.default_rng([seed, zlib.crc32(document.id.encode())])
        asked = made(document, caption_of(document, captions, rng), rng=rng, kinds=kinds, parser=parser)
        repeats = [query for query in asked if query.removed is not None]
        if not remove:
            asked = [query for query in asked if kept(query, document, parser)]
        shown.append(without(document, repeats[0]) if repeats and remove else document)
        queries |= {f"{document.id} {query.kind}": query for query in asked}
    qrels = {key: {query.source_id: 1} for key, query in queries.items()}
    return GeneratedCorpus(shown, queries, qrels, {key: query.kind for key, query in queries.items()})
