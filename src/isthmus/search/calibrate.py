"""Calibrate a collection: choose a calibration, fit it, and fit P(match) of its scores.

references   the user's, made from the documents, the bank                        (references.py)
auto         a strength for each kind of query, judged on trial documents with known answers   (strengths.py);
             the best of a grid, if enough of the user's own queries have answers
fit          on the documents as they are; no query meets its source
match        P(match), from first answers with the source present and taken out   (probability.py)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from isthmus import calibration
from isthmus.calibration import AUTO_GRID, Fitted, Spec
from isthmus.errors import BadSpec, CannotFit
from isthmus.kinds import TEXT
from isthmus.search import probability
from isthmus.search.probability import FIELD, Match, Observed, field_of
from isthmus.search.ranking import folded_queries, ranked
from isthmus.search.references import ReferenceCorpus, ReferenceSets
from isthmus.search.snapshot import Snapshot
from isthmus.search.strengths import FEWEST, STRENGTHS, by_evidence, spec_of
from isthmus.storage.protocols import Store
from isthmus.types import Matrix, Rows

GRID = (*AUTO_GRID, *(spec_of(strength) for strength in STRENGTHS if strength))
STEPS = len(GRID)  # at most, of ``chosen``


def checked(spec: str | Spec) -> Spec | None:
    """Parse a spec, or raise an error if a collection cannot use it; None for ``auto``."""
    if isinstance(spec, str) and spec == "auto":
        return None
    parsed = Spec.parse(spec)
    if parsed.per_query is not None:
        raise BadSpec(
            f"'{parsed}' looks at each query's whole list, so it does not fold into an index. A collection takes "
            "the others; compare it with the array functions."
        )
    return parsed


def chosen(
    spec: str | Spec,
    references: ReferenceSets,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> Fitted:
    """Fit the requested calibration."""
    asked = checked(spec)
    if asked is not None:
        return fitted(asked, references)
    try:
        if references.answered >= FEWEST:
            return _by_answers(references, progress)
        return by_evidence(references, lambda one: fitted(one, references), progress)
    except CannotFit as error:
        return replace(fitted("none", references), note=f"auto took none: {error}")


def _by_answers(references: ReferenceSets, progress: Callable[[int, int], None]) -> Fitted:
    """Fit what ranks best for the user's own queries with known answers, together with generated ones.

    ``learned`` is tried here alone. From generated queries, which share the words of their texts, it would learn that
    right texts are very similar, and then rank pictures too high for real ones (`reproduce/collection.py`).
    """
    trial = references.trial.of_judges()
    tuned = calibration.tune(
        GRID, trial.documents, trial.queries, positives=trial.sources, owner=trial.owner, progress=progress
    )
    return replace(fitted(tuned.best, references), tuned=tuned)


def fitted(spec: str | Spec, references: ReferenceSets) -> Fitted:
    """Fit one spec on the real corpus; ``learned`` needs answers of every modality and uses the trial corpus."""
    parsed = Spec.parse(spec)
    learns = parsed.learned is not None and parsed.learned.needs_answers
    corpus = references.trial if learns else references.real
    known = corpus.sources if (corpus.sources >= 0).any() else None
    answers = np.where(corpus.judges, corpus.sources, -1) if learns else None
    return calibration.fit(
        parsed, corpus.documents, corpus.queries, positives=answers, sources=known, owner=corpus.owner
    )


def matched(snapshot: Snapshot, store: Store, references: ReferenceSets) -> Match:
    """Search for every judge with its document present and removed, and fit P(match) by query modality."""
    trial = references.trial
    curves, held_out = {}, {}
    for modality in trial.queries.modalities:
        asked = (trial.queries.modality == modality) & (trial.sources >= 0)
        rows = np.flatnonzero(asked & trial.judges)
        if modality != TEXT and "+" not in modality and len(rows):  # people also search by example
            rows = np.concatenate([rows, np.flatnonzero(asked & ~trial.judges)[: len(rows)]])
        if not len(rows):
            continue
        observed = _observed(snapshot, store, trial, rows)
        curve = probability.fit(observed)
        if curve is not None:
            curves[modality] = curve
            held_out[modality] = probability.judged(observed)
    spec = snapshot.calibrated.fitted.spec
    if TEXT in curves and (spec.scale is not None or spec.learned is not None):
        for modality in snapshot.calibrated.fitted.query_modalities:  # on one scale: the curve of texts applies
            curves.setdefault(modality, curves[TEXT])
    return Match(curves, held_out)


def _observed(snapshot: Snapshot, store: Store, trial: ReferenceCorpus, rows: Rows) -> Observed:
    queries = trial.queries.take(rows)
    own = own_scores(snapshot, trial, rows)
    where = store.rows_of(trial.ids[place] for place in trial.sources[rows])
    score, field, right = (np.empty((2, len(rows))) for _ in range(3))
    for at, ranking in enumerate(ranked(snapshot, queries, FIELD + 2)):
        source = where.get(trial.ids[trial.sources[rows[at]]], -1)
        wrong = ranking.scores[~np.isin(ranking.documents, list(store.copies(source)))]
        present = np.sort(np.append(wrong, own[at]))[::-1]
        nothing = len(wrong) == 0
        score[:, at] = present[0], present[0] if nothing else wrong[0]
        field[:, at] = field_of(present), field_of(present if nothing else wrong)
        right[:, at] = nothing or own[at] >= wrong[0], 0
    numbers = np.tile(np.arange(len(rows)), 2)
    return Observed(score.ravel(), field.ravel(), right.ravel().astype(bool), numbers)


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
