"""First answers to queries whose source is known, with the source present and taken out: what P(match) is judged on.

Documents that are nearly the same as the source are right answers, too. They are taken out with it, and when it is
present it stands for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from isthmus.search.explain import fused_vectors
from isthmus.search.list_tops import likeness, parts_of, query_parts
from isthmus.search.probability import FIELD, Observed, Top, top_of
from isthmus.search.ranking import Ranking, folded_queries, ranked
from isthmus.search.references import ReferenceCorpus
from isthmus.search.results import ALIKE, mean_direction
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.types import Mask, Matrix, Rows

COPIES = 10  # near-duplicates of a source that still leave a whole list
BATCH = 64  # queries whose documents are fetched at once


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """The first answer of a query: its score, the top of its list, whether it is right, and the source there."""

    query: int
    score: float
    top: Top
    right: bool
    present: bool = True


def observed(snapshot: Snapshot, store: Store, trial: ReferenceCorpus, rows: Rows) -> Observed:
    """Ask queries of a trial corpus, each with its source present and taken out."""
    own = own_scores(snapshot, trial, rows)
    found: list[FirstAnswer] = []
    for start in range(0, len(rows), BATCH):
        places = np.arange(start, min(start + BATCH, len(rows)))
        found += _answers(snapshot, store, trial, rows[places], places, own[places])
    return Observed(
        np.array([each.score for each in found]),
        [each.top for each in found],
        np.array([each.right for each in found], dtype=bool),
        np.array([each.query for each in found]),
        np.array([each.present for each in found], dtype=bool),
    )


def _answers(
    snapshot: Snapshot, store: Store, trial: ReferenceCorpus, rows: Rows, numbers: Rows, own: Matrix
) -> Iterator[FirstAnswer]:
    lists = ranked(snapshot, trial.queries.take(rows), FIELD + 2 + COPIES)
    where = store.rows_of(trial.ids[place] for place in trial.sources[rows])
    sources = [where.get(trial.ids[place], -1) for place in trial.sources[rows]]
    there = store.segments(sorted({*sources, *(int(row) for each in lists for row in each.documents)} - {-1}))
    means = {row: mean_direction(fused) for row, fused in fused_vectors(there).items()}
    for at, ranking in enumerate(lists):
        asked = query_parts(trial.queries, int(rows[at]))
        mine = likeness(asked, _trial_parts(trial, int(trial.sources[rows[at]])))
        others = ~_alike(means, ranking, sources[at])
        wrong = ranking.scores[others]
        if not len(wrong):
            yield FirstAnswer(int(numbers[at]), own[at], top_of(own[at : at + 1], mine), right=True)
            continue
        first = int(ranking.documents[others][0])
        theirs = likeness(asked, parts_of(there.get(first, ())))
        wins = bool(own[at] >= wrong[0])
        present = top_of(np.sort(np.append(wrong, own[at]))[::-1], mine if wins else theirs)
        yield FirstAnswer(int(numbers[at]), present.first, present, wins)
        yield FirstAnswer(int(numbers[at]), float(wrong[0]), top_of(wrong, theirs), right=False, present=False)


def _alike(means: Mapping[int, Matrix], ranking: Ranking, source: int) -> Mask:
    """Return which documents of a list are the source, or nearly the same."""
    rows = ranking.documents.tolist()
    if source not in means:
        return np.array([row == source for row in rows], dtype=bool)
    near = [row in means and float(means[row] @ means[source]) >= ALIKE for row in rows]
    return np.array([row == source or close for row, close in zip(rows, near, strict=True)], dtype=bool)


def _trial_parts(trial: ReferenceCorpus, place: int) -> dict[str, Matrix]:
    """Return the parts of a document that the trial corpus does not hide."""
    rows = np.flatnonzero(trial.owner == place)
    vectors = trial.documents
    return {name: vectors.parts[name][rows] for name in vectors.parts if vectors.present[name][rows].all()}


def own_scores(snapshot: Snapshot, trial: ReferenceCorpus, rows: Rows) -> Matrix:
    """Return the score of each query with its own document, as that document is in the trial corpus."""
    fitted_, sources = snapshot.calibrated.fitted, snapshot.calibrated.sources
    wanted = np.unique(trial.sources[rows])
    kept = np.isin(trial.owner, wanted)
    owner = np.searchsorted(wanted, trial.owner[kept])
    documents = trial.documents.take(kept)
    pairs = [(query, at) for at, place in enumerate(wanted) for query in sources.get(trial.ids[place], ())]
    known = np.array(pairs, dtype=np.intp).reshape(-1, 2) if pairs else None
    folded = fitted_.fold(documents, sources=known, owner=owner)
    asked = folded_queries(snapshot, trial.queries.take(rows))
    first = np.searchsorted(owner, np.arange(len(wanted) + 1))
    out = np.empty(len(rows))
    for at, row in enumerate(rows):
        place = int(np.searchsorted(wanted, trial.sources[row]))
        mine = slice(int(first[place]), int(first[place + 1]))
        inner = (folded.vectors[mine] @ asked.vectors[at]).max(keepdims=True)
        out[at] = fitted_.finish(inner[None], asked.modality[at : at + 1], folded.modality[mine][:1])[0, 0]
    return out
