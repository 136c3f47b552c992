"""A search in its order: queries are aligned, searched, their hits ordered again and explained, and the words noted.

    queries → align → ask (vectors, rankings, hits) → rerank → what the alignment did

Only asking always happens; the other steps are there for who names an aligner or a reranker. Queries go through
together, a batch at a time, and a batch that meets a change of encoder is asked again from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from isthmus.documents import Query
from isthmus.search import arguments, asking, explaining
from isthmus.search.aligning import Aligners
from isthmus.search.asking import Options
from isthmus.search.hits import Hit
from isthmus.search.keeper import Keeper
from isthmus.search.manifest import Opened
from isthmus.search.querylog import QueryLog
from isthmus.search.reranking import Reranker, Rerankers, check_words, reranked
from isthmus.search.writer import BATCH

if TYPE_CHECKING:
    from isthmus.align import Aligned, Aligner


class Searches:
    """What a collection does for each search, and the aligners and rerankers that searches have named so far."""

    def __init__(self, opened: Opened, keeper: Keeper, log: QueryLog) -> None:
        self.aligners = Aligners(opened)
        self.rerankers = Rerankers(opened)
        self._opened, self._keeper, self._log = opened, keeper, log

    def many(
        self,
        queries: Sequence[str | Query],
        options: Options,
        align: str | Aligner | None,
        rerank: str | Reranker | None,
    ) -> list[list[Hit]]:
        """Return the hits of each query; ``Collection.search`` says what the options mean."""
        reranker = None if rerank is None else self.rerankers.get(rerank)
        asked = [Query.of(query) for query in queries]
        hits: list[list[Hit]] = []
        for start in range(0, len(asked), BATCH):
            hits += self._together(asked[start : start + BATCH], options, align, reranker)
        self._log.note(asked)  # as they were asked: what stands in a picture is not for the log
        return hits

    def _together(
        self, asked: Sequence[Query], options: Options, align: str | Aligner | None, reranker: Reranker | None
    ) -> list[list[Hit]]:
        aligned = self.aligners.aligned(asked, align)
        searched = asked if aligned is None else [one.query for one in aligned]
        arguments.check_lengths(searched)
        if reranker is None:
            found = self._found(searched, options)
        else:
            check_words(searched)
            first = self._found(searched, options.from_the_first())
            found = [again[options.offset :] for again in reranked(reranker, searched, first)]
        return found if aligned is None else explaining.with_alignment(found, aligned)

    def _found(self, searched: Sequence[Query], options: Options) -> list[list[Hit]]:
        return self._opened.steadily(partial(asking.search_many, self._keeper, self._opened.load, searched, options))

    def aligned(self, query: str | Query, align: str | Aligner) -> Aligned:
        """Return what a search makes of a query before it asks."""
        aligned = self.aligners.aligned([Query.of(query)], align)
        return aligned[0] if aligned is not None else self.aligners.get("none").align([Query.of(query)])[0]
