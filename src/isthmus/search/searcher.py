"""A search in its order: queries are aligned, searched, their hits ordered again and explained, and the words noted.

    queries → align → ask (vectors, rankings, hits) → rerank → what the alignment did

Only asking always happens; the other steps are there for who names an aligner or a reranker. Queries go through
together, a batch at a time, and a batch that meets a change of encoder is asked again from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING

from isthmus.documents import Query
from isthmus.errors import BadInput
from isthmus.search import arguments, execute, explain
from isthmus.search.handle import Handle
from isthmus.search.hits import Hit
from isthmus.search.query_log import QueryLog
from isthmus.search.request import SearchRequest
from isthmus.search.reranking import Rerankers, check_words, reranked
from isthmus.search.snapshot_manager import SnapshotManager
from isthmus.search.writer import BATCH

if TYPE_CHECKING:
    from isthmus.align import Aligned, Aligner


class Searcher:
    """What a collection does for each search, and the aligners and rerankers that searches have named so far."""

    def __init__(self, opened: Handle, manager: SnapshotManager, log: QueryLog) -> None:
        self.aligners = Aligners(opened)
        self.rerankers = Rerankers(opened)
        self._handle, self._snapshots, self._log = opened, manager, log

    def many(self, requests: Sequence[SearchRequest]) -> list[list[Hit]]:
        """Return the hits of each request; those in a row with the same options are answered together."""
        hits: list[list[Hit]] = []
        while len(hits) < len(requests):
            first = requests[len(hits)]
            ahead = requests[len(hits) : len(hits) + BATCH]
            together = [one.asked for one in takewhile(first.same_options, ahead)]
            hits += self._together(together, first)
        self._log.note([one.asked for one in requests])  # as they were asked: what stands in a picture is not logged
        return hits

    def _together(self, asked: Sequence[Query], request: SearchRequest) -> list[list[Hit]]:
        reranker = None if request.rerank is None else self.rerankers.get(request.rerank)
        aligned = self.aligners.aligned(asked, request.align)
        searched = asked if aligned is None else [one.query for one in aligned]
        arguments.check_lengths(searched)
        if reranker is None:
            found = self._found(searched, request)
        else:
            check_words(searched)
            first = self._found(searched, request.from_the_first())
            found = [again[request.offset :] for again in reranked(reranker, searched, first)]
        return found if aligned is None else explain.with_alignment(found, aligned)

    def _found(self, searched: Sequence[Query], request: SearchRequest) -> list[list[Hit]]:
        return self._handle.retry_if_reencoded(
            partial(execute.search_many, self._snapshots, self._handle.load, searched, request)
        )

    def aligned(self, query: str | Query, align: str | Aligner) -> Aligned:
        """Return what a search makes of a query before it asks."""
        aligned = self.aligners.aligned([Query.of(query)], align)
        return aligned[0] if aligned is not None else self.aligners.get("none").align([Query.of(query)])[0]


@dataclass(slots=True, eq=False)
class Aligners:
    """A collection's aligners, each loaded when it is first named. ``isthmus.align`` is not imported before."""

    opened: Handle
    _of: int = 0  # the encoding whose encoder the loaded ones were given
    _loaded: dict[str, Aligner] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def get(self, align: str | Aligner) -> Aligner:
        """Return an aligner by name; one that is given, as it is."""
        from isthmus.align import load

        with self._lock:
            if not isinstance(align, str):
                return load(align)
            opened = self.opened
            if opened.reload_if_reencoded() != self._of:
                self._loaded, self._of = {}, opened.encoding
            if align not in self._loaded:
                self._loaded[align] = load(align, encoder=opened.load(), device=opened.device, threads=opened.threads)
            return self._loaded[align]

    def aligned(self, queries: Sequence[Query], align: str | Aligner | None) -> list[Aligned] | None:
        """Return what becomes of queries; None where nothing was asked for."""
        if align is None or align == "none":
            return None
        aligner = self.get(align)
        found = aligner.align(queries)
        if len(found) != len(queries):
            raise BadInput(
                f"The aligner {aligner.name} gave {len(found)} queries for {len(queries)}. It has to give one for each."
            )
        return found
