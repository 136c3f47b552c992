"""Vectors and words together: candidates of both, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isthmus.kinds import TEXT, atoms
from isthmus.search.allowed import Allowed, among
from isthmus.search.ranking import Ranking, ranked
from isthmus.search.references import ReferenceCorpus
from isthmus.search.snapshot import Snapshot
from isthmus.storage.base import Found
from isthmus.storage.protocols import Store
from isthmus.types import Rows, Vectors
from isthmus.words import HybridScale, moments, query_words, weight_of

DEPTH = 500  # candidates of each kind, at least: pages up to here are pages of one list
WORDS = 1000  # documents of a search by words
NEAR = 5  # neighbours of a reference query whose words are compared
JUDGES = 100  # reference queries that set the scale


def fit(snapshot: Snapshot, store: Store, corpus: ReferenceCorpus) -> HybridScale | None:
    """Learn the scales of scores and words from reference queries; none of them is compared with its source."""
    rows = np.flatnonzero([bool(said) for said in corpus.words])[:JUDGES]
    if len(rows) < 2:
        return None
    where = store.rows_of(corpus.ids[place] for place in corpus.sources[rows] if place >= 0)
    best: list[float] = []
    shares: dict[str, list[float]] = {}
    for row, ranking in zip(rows, ranked(snapshot, corpus.queries.take(rows), NEAR + 1), strict=True):
        place = int(corpus.sources[row])
        others = ranking.documents != (where.get(corpus.ids[place], -1) if place >= 0 else -1)
        best += ranking.scores[others][:1].tolist()
        asked = corpus.words[row]
        share = shares_of(store, ranking, store.words.search(query_words(asked), WORDS), asked)
        for at in np.flatnonzero(others & ~np.isnan(share)):
            shares.setdefault(ranking.modality[at], []).append(float(share[at]))
    scales = {name: moments(values) for name, values in shares.items()}
    counts = store.counts()
    wordless = sum(count for name, count in counts.items() if TEXT not in atoms(name))
    return HybridScale(moments(best)[1], scales, weight_of(wordless / sum(counts.values())))


def candidates(
    snapshot: Snapshot,
    query: Vectors,
    said: Found,
    depth: int,
    allowed: Allowed | None,
    modalities: Sequence[str] | None = None,
) -> Ranking:
    """Return the best by vectors and the best by words, all with the score that their vectors give."""
    near = ranked(snapshot, query, depth, allowed=allowed, modalities=modalities)[0]
    first = np.array(said.documents[:depth], dtype=np.int64)
    others = first[~np.isin(first, near.documents)]
    if not len(others):
        return near
    far = ranked(snapshot, query, len(others), allowed=among(allowed, others), modalities=modalities)[0]
    return near.joined(far)


def shares_of(store: Store, found: Ranking, said: Found, asked: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return each document's lexical share; NaN, missing, where the document has no text."""
    if len(said.documents) >= WORDS:  # there may be more documents with these words
        others = sorted(set(found.documents.tolist()) - set(said.documents))
        said = said.joined(store.words.search_among(query_words(asked), others))
    share = said.of(found.documents.tolist())
    texts = store.has_text(found.documents.tolist())
    return np.where([int(row) in texts for row in found.documents], share, np.nan)


def reordered(
    hybrid: HybridScale, found: Ranking, share: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> tuple[Ranking, Rows]:
    """Return the ranking by hybrid scores, and the earlier position of each document."""
    joined = hybrid.joined(found.scores, share, found.modality)
    order = np.lexsort((found.documents, -joined))
    return replace(found.take(order), scores=joined[order]), order
