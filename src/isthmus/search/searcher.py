"""A search in its order: queries are aligned and searched, their hits reranked and explained, and their words logged.

    queries → align → vectors → rankings → hits → rerank → what the alignment did

Aligning and reranking happen only if the request names an aligner or a reranker. Queries are searched together, a batch
at a time; a batch that meets a change of encoder is searched again from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, CannotFit, UnknownModality
from isthmus.index.threads import Turns, cores
from isthmus.search import arguments, explain, hybrid, identical
from isthmus.search.allowed import Allowed, PassingRows
from isthmus.search.handle import Handle
from isthmus.search.hits import Hit, Hits
from isthmus.search.list_tops import list_tops
from isthmus.search.probability import FIELD
from isthmus.search.query_log import QueryLog
from isthmus.search.query_vectors import query_vectors
from isthmus.search.ranking import by_index, merged, wanted
from isthmus.search.request import SearchRequest
from isthmus.search.reranking import Rerankers, check_words, reranked
from isthmus.search.results import Answer, Fetched, grouped
from isthmus.search.snapshot import Snapshot
from isthmus.search.snapshot_manager import SearchView, SnapshotManager
from isthmus.search.writer import BATCH
from isthmus.spans import stage
from isthmus.storage.protocols import NotPublished, ShardsDown, Store
from isthmus.storage.sqlite.database import ChangedMeanwhile
from isthmus.storage.where import parse
from isthmus.types import Vectors
from isthmus.words import query_words

if TYPE_CHECKING:
    from isthmus.align import Aligned, Aligner

Found: TypeAlias = tuple[list[list[Hit]], tuple[str, ...]]  # the hits of each query, and the shards that are missing

_turns = Turns(cores() + 1)


class Searcher:
    """Runs the searches of a collection; keeps the aligners and rerankers that searches have named so far."""

    def __init__(self, opened: Handle, manager: SnapshotManager, log: QueryLog) -> None:
        self.aligners = Aligners(opened)
        self.rerankers = Rerankers(opened)
        self._handle, self._snapshots, self._log = opened, manager, log

    def many(self, requests: Sequence[SearchRequest]) -> list[Hits]:
        """Return the hits of each request; consecutive requests with the same options are searched together."""
        hits: list[Hits] = []
        while len(hits) < len(requests):
            first = requests[len(hits)]
            ahead = requests[len(hits) : len(hits) + BATCH]
            together = [one.asked for one in takewhile(first.same_options, ahead)]
            hits += self._together(together, first)
        self._log.note([one.asked for one in requests])  # before alignment: text read from a picture is not logged
        return hits

    def _together(self, asked: Sequence[Query], request: SearchRequest) -> list[Hits]:
        reranker = None if request.rerank is None else self.rerankers.get(request.rerank)
        with stage("align", len(asked)) if request.align is not None else nullcontext():
            aligned = self.aligners.aligned(asked, request.align)
        searched = asked if aligned is None else [one.query for one in aligned]
        arguments.check_lengths(searched)
        if reranker is None:
            found, missing = self._found(searched, request)
        else:
            check_words(searched)
            first, missing = self._found(searched, request.from_the_first())
            with stage("rerank", len(searched)):
                found = [again[request.offset :] for again in reranked(reranker, searched, first)]
        found = found if aligned is None else explain.with_alignment(found, aligned)
        return [Hits(hits, missing) for hits in found]

    def _found(self, searched: Sequence[Query], request: SearchRequest) -> Found:
        return self._handle.retry_if_reencoded(partial(_search, self._snapshots, self._handle.load, searched, request))

    def aligned(self, query: str | Query, align: str | Aligner) -> Aligned:
        """Return a query as a search with ``align`` would search it."""
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
                how = opened.runtime
                self._loaded[align] = load(align, encoder=opened.load(), device=how.device, threads=how.threads)
            return self._loaded[align]

    def aligned(self, queries: Sequence[Query], align: str | Aligner | None) -> list[Aligned] | None:
        """Align queries; None if no aligner is named."""
        if align is None or align == "none":
            return None
        aligner = self.get(align)
        found = aligner.align(queries)
        if len(found) != len(queries):
            raise BadInput(
                f"The aligner {aligner.name} gave {len(found)} queries for {len(queries)}. It has to give one for each."
            )
        return found


def _search(
    manager: SnapshotManager, load: Callable[[], Encoder | None], asked: Sequence[Query], request: SearchRequest
) -> Found:
    """Search for queries together by the options of one request, all in one state of the collection."""
    with (
        manager.view(raw=request.raw) as view,
        _turns,
    ):  # in this order: a search that waits for a view must not take a turn
        if manager.publisher is None or not view.snapshot.is_published:
            return _answered(manager.store, view, load, asked, request), ()
        try:
            found = _published(manager.store, view, load, asked, request)
        except NotPublished as error:
            manager.lost(view.snapshot)
            raise ChangedMeanwhile(str(error)) from None
    if not manager.publisher.serves(view.snapshot):  # read after the answer came, of the newest state
        manager.lost(view.snapshot)
        raise ChangedMeanwhile("The vectors on the server were replaced meanwhile. Search again.")
    return found


def _published(
    store: Store, view: SearchView, load: Callable[[], Encoder | None], asked: Sequence[Query], request: SearchRequest
) -> Found:
    """Search on a server; if a partial answer is enough, without those of its shards that do not answer."""
    missing: tuple[str, ...] = ()
    while True:
        try:
            now = replace(view, snapshot=view.snapshot.without_shards(missing))
            return _answered(store, now, load, asked, request), missing
        except ShardsDown as error:
            more = tuple(name for name in error.shards if name not in missing)
            if not request.partial or not more:
                raise
            missing += more


def _answered(
    store: Store, view: SearchView, load: Callable[[], Encoder | None], asked: Sequence[Query], request: SearchRequest
) -> list[list[Hit]]:
    snapshot = view.raw or view.snapshot
    if not snapshot.all_indexes:
        return [[] for _ in asked]
    with stage("encode", len(asked)):
        vectors = query_vectors(asked, load, snapshot.calibrated.fitted.dim)
    for modality in vectors.modalities:
        if modality not in snapshot.calibrated.fitted.query_modalities:
            raise UnknownModality(
                f"This collection was calibrated without any {modality} query. Give it some: "
                "things.calibrate(queries=[Query(vectors={…}), …])."
            )
    allowed = _allowed(store, request.where)
    with stage("rank", len(asked)):
        answers = _shown(snapshot, store, asked, vectors, request, allowed)
    with stage("fetch", len(asked)):
        before = explain.ranks_before(store, snapshot, vectors) if request.explain else None
        fetched = Fetched.of(store, snapshot, vectors, answers, before)
        return [fetched.hits(at, answer, request.offset) for at, answer in enumerate(answers)]


def _shown(
    snapshot: Snapshot,
    store: Store,
    asked: Sequence[Query],
    vectors: Vectors,
    request: SearchRequest,
    allowed: Allowed | None,
) -> list[Answer]:
    """Return the part of each answer that the request asks for: probable enough, grouped, from offset to k."""
    last = request.offset + request.k
    depth = request.depth
    while True:
        found = _answers(snapshot, store, asked, vectors, request, allowed, depth)
        whole = [answer.probable(request.min_probability) for answer in found]
        if not request.group:
            break
        alone = [grouped(answer, store) for answer in whole]
        pairs = zip(whole, alone, strict=True)
        if not any(len(all_.ranking) >= depth and len(some.ranking) < last for all_, some in pairs):
            whole = alone
            break
        depth *= 4  # too few are left after grouping
    return [answer.take(np.arange(request.offset, min(last, len(answer.ranking)))) for answer in whole]


def _allowed(store: Store, where: Mapping[str, Any] | None) -> Allowed | None:
    if where is None or where == {}:
        return None
    condition = parse(where)
    return Allowed(condition, PassingRows(lambda: store.filtered(condition)))


def _answers(
    snapshot: Snapshot,
    store: Store,
    asked: Sequence[Query],
    vectors: Vectors,
    request: SearchRequest,
    allowed: Allowed | None,
    depth: int,
) -> list[Answer]:
    modalities = wanted(snapshot, request.wanted)
    joined = snapshot.calibrated.hybrid if request.hybrid else None
    if request.hybrid and joined is None:
        raise CannotFit(
            "This collection has too few texts to weigh words against vectors. Search without hybrid, or add documents."
        )
    _check_probability(snapshot, vectors, request)
    match = snapshot.calibrated.match
    lists = by_index(snapshot, vectors, max(depth, FIELD + 1), allowed=allowed, modalities=modalities)
    together = [merged(several, depth) for several in lists]
    if allowed is not None or modalities is not None:  # a filter changes neither P(match) nor what is a copy
        lists = by_index(snapshot, vectors, FIELD + 1)
    seen = list_tops(match, store, vectors, [merged(several, FIELD + 1) for several in lists])
    same = identical.documents_with_part(snapshot, store, asked, vectors, lists)
    answers: list[Answer] = []
    for row, (query, ranking) in enumerate(zip(asked, together, strict=True)):
        modality = str(vectors.modality[row])
        one = vectors.take(np.array([row]))
        if joined is None or not query.text:
            found = identical.with_documents(snapshot, one, ranking, same[row], allowed, modalities)
            p = None if match is None else match.probability(modality, found.scores, seen[row])
            answers.append(identical.put_first(Answer(found, p), same[row]))
            continue
        condition = None if allowed is None else allowed.condition
        said = store.words.search(query_words(query.text), hybrid.WORDS, condition)
        found = hybrid.candidates(snapshot, one, said, max(depth, hybrid.DEPTH), allowed, modalities)
        found = identical.with_documents(snapshot, one, found, same[row], allowed, modalities)
        share = hybrid.shares_of(store, found, said, query.text)
        again, order = hybrid.reordered(joined, found, share)
        p = None if match is None else match.probability(modality, again.scores, seen[row])
        gain = np.where(np.isnan(share), np.nan, joined.joined(found.scores, share, found.modality) - found.scores)
        answers.append(identical.put_first(Answer(again, p, gain[order]), same[row]))
    return answers


def _check_probability(snapshot: Snapshot, vectors: Vectors, request: SearchRequest) -> None:
    """Reject ``min_probability`` if the calibration has no P(match) for these queries."""
    match = snapshot.calibrated.match
    if request.min_probability is None or (match and all(name in match.curves for name in vectors.modalities)):
        return
    asked = " and ".join(vectors.modalities)
    raise CannotFit(
        f"This collection cannot say how probable a match is for {asked} queries: too few of its documents could be "
        "asked for. Leave min_probability (--min-probability) out, or calibrate with queries whose answers you know."
    )
