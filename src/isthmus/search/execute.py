"""One search, from queries to hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.errors import CannotFit, UnknownModality
from isthmus.index.threads import Turns, cores
from isthmus.search import hybrid
from isthmus.search.explain import ranks_before
from isthmus.search.hits import Hit
from isthmus.search.probability import FIELD, field_of
from isthmus.search.query_vectors import query_vectors
from isthmus.search.ranking import Allowed, Ranking, ranked, wanted
from isthmus.search.request import SearchRequest
from isthmus.search.results import Answer, Fetched, grouped
from isthmus.search.snapshot import Snapshot
from isthmus.search.snapshot_manager import SearchView, SnapshotManager
from isthmus.storage.protocols import Store
from isthmus.storage.where import parse
from isthmus.types import Mask, Matrix, Rows, Vectors
from isthmus.words import query_words

_turns = Turns(cores() + 1)


def search_many(
    manager: SnapshotManager, load: Callable[[], Encoder | None], asked: Sequence[Query], request: SearchRequest
) -> list[list[Hit]]:
    """Answer queries together by the options of one request, all of them from one state of the collection."""
    with manager.view(raw=request.raw) as view, _turns:  # in this order: whoever waits for a view takes no turn
        return _answered(manager.store, view, load, asked, request)


def _answered(
    store: Store, view: SearchView, load: Callable[[], Encoder | None], asked: Sequence[Query], request: SearchRequest
) -> list[list[Hit]]:
    snapshot = view.raw or view.snapshot
    if not snapshot.all_indexes:
        return [[] for _ in asked]
    vectors = query_vectors(asked, load, snapshot.calibrated.fitted.dim)
    for modality in vectors.modalities:
        if modality not in snapshot.calibrated.fitted.query_modalities:
            raise UnknownModality(
                f"This collection was calibrated without any {modality} query. Give it some: "
                "things.calibrate(queries=[Query(vectors={…}), …])."
            )
    allowed = _allowed(store, request.where)
    answers = _shown(snapshot, store, asked, vectors, request, allowed)
    before = ranks_before(store, snapshot, vectors) if request.explain else None
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
    """Return what is shown of each answer: likely enough, grouped, and of the stretch that was asked for."""
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
        depth *= 4  # so many were nearly the same that too few are left
    return [answer.take(np.arange(request.offset, min(last, len(answer.ranking)))) for answer in whole]


def _allowed(store: Store, where: Mapping[str, Any] | None) -> Allowed | None:
    if where is None or where == {}:
        return None
    rows = store.filtered(parse(where))
    last = int(rows.max(initial=0))
    may = np.zeros(last + 1, dtype=bool)
    may[rows] = True

    def allowed(documents: Rows) -> Mask:
        return np.asarray(may[np.minimum(documents, last)] & (documents <= last))

    return allowed


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
    together = ranked(snapshot, vectors, depth, allowed=allowed, modalities=modalities)
    fields = _fields(snapshot, vectors, together, everywhere=allowed is None and modalities is None)
    answers: list[Answer] = []
    for row, ranking in enumerate(together):
        query = asked[row]
        p = _probability(snapshot, str(vectors.modality[row]), ranking.scores, fields[row])
        if joined is None or not query.text:
            answers.append(Answer(ranking, p))
            continue
        one = vectors.take(np.array([row]))
        condition = parse(request.where) if request.where else None
        said = store.words.search(query_words(query.text), hybrid.WORDS, condition)
        found = hybrid.candidates(snapshot, one, said, max(depth, hybrid.DEPTH), allowed, modalities)
        share = hybrid.shares_of(store, found, said, query.text)
        again, order = hybrid.reordered(joined, found, share)
        p = _probability(snapshot, str(vectors.modality[row]), found.scores[order], fields[row])
        gain = np.where(np.isnan(share), np.nan, joined.joined(found.scores, share, found.modality) - found.scores)
        answers.append(Answer(again, p, gain[order]))
    return answers


def _fields(snapshot: Snapshot, vectors: Vectors, found: Sequence[Ranking], *, everywhere: bool) -> list[float]:
    """Return each query's field over the whole collection: a filter does not change how likely a hit is right."""
    if not everywhere and snapshot.calibrated.match is not None:
        found = ranked(snapshot, vectors, FIELD + 1)
    return [field_of(ranking.scores) for ranking in found]


def _probability(snapshot: Snapshot, modality: str, scores: Matrix, field: float) -> Matrix | None:
    match = snapshot.calibrated.match
    return None if match is None else match.probability(modality, scores, field)


def _check_probability(snapshot: Snapshot, vectors: Vectors, request: SearchRequest) -> None:
    """Refuse a least probability where nobody can say how probable a match is."""
    match = snapshot.calibrated.match
    if request.min_probability is None or (match and all(name in match.curves for name in vectors.modalities)):
        return
    asked = " and ".join(vectors.modalities)
    raise CannotFit(
        f"This collection cannot say how probable a match is for {asked} queries: too few of its documents could be "
        "asked for. Leave min_probability out, or calibrate with queries whose answers you know."
    )
