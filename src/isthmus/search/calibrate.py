"""Calibrate a collection: choose a calibration, fit it, and fit P(match) of its scores.

references   the user's, made from the documents, the bank                        (references.py)
auto         the best of a small grid, judged on trial documents with known answers
fit          on the documents as they are; no query meets its source
match        P(match), from first answers with the source present and taken out   (probability.py)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from isthmus import calibration
from isthmus.calibration import AUTO_GRID, Fitted, Spec, Tuned
from isthmus.calibration.auto import default_spec
from isthmus.errors import BadSpec, CannotFit
from isthmus.kinds import TEXT
from isthmus.search import probability
from isthmus.search.probability import FIELD, Match, Observed, field_of
from isthmus.search.ranking import folded_queries, ranked
from isthmus.search.references import ReferenceCorpus, ReferenceSets
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.types import Matrix, Rows

MARGIN = 0.03  # of macro nDCG@10 that a calibration must gain on generated queries
FEWEST = 16  # queries with a known answer of each modality; with fewer, nothing is judged


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
    held: Mapping[str, int],
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> Fitted:
    """Fit the requested calibration; ``held`` is the number of documents of each modality."""
    asked = checked(spec)
    if asked is not None:
        return fitted(asked, references)
    few = [name for name in held if references.trial.targets().get(name, 0) < FEWEST]
    if few:
        why = f"fewer than {FEWEST} queries with a known answer among {', '.join(few)} documents"
        return _default(references, why)
    trial = references.trial.of_judges()
    try:
        tuned = calibration.tune(
            grid(references),
            trial.documents,
            trial.queries,
            positives=trial.sources,
            owner=trial.owner,
            progress=progress,
        )
        return _kept(tuned, references)
    except CannotFit as error:
        return _default(references, str(error))


def _kept(tuned: Tuned, references: ReferenceSets) -> Fitted:
    """Fit the best of what was tried; ``none`` unless generated queries show a clear gain.

    Queries generated from documents favour calibrations slightly more than real queries do: on texts alone they show a
    gain of .025 where real queries lose .02 (`reproduce/collection.py`). The user's own answers need no margin.
    """
    value = {str(trial.spec): trial.value for trial in tuned.trials if not trial.refused}
    gained = value[str(tuned.best)] - value.get("none", 0.0)
    if references.answered >= FEWEST or gained >= MARGIN or str(tuned.best) == "none":
        return replace(fitted(tuned.best, references), tuned=tuned)
    why = f"auto kept none: '{tuned.best}' gains {gained:.3f} nDCG@10 on generated queries"
    return replace(fitted("none", references), tuned=tuned, note=f"{why}, less than {MARGIN}")


def grid(references: ReferenceSets) -> list[str]:
    """Return the specs that ``auto`` tries; ``learned`` only if the user's own queries have enough answers.

    Queries generated from a text share its words, so ``learned`` would learn that right texts are very similar, and
    real queries for texts would then rank pictures too high (`reproduce/collection.py`).
    """
    return [spec for spec in AUTO_GRID if "learned" not in spec or references.answered >= FEWEST]


def _default(references: ReferenceSets, why: str) -> Fitted:
    try:
        return replace(fitted(default_spec(references.real.queries), references), note=f"auto took its default: {why}")
    except CannotFit as error:
        return replace(fitted("none", references), note=f"auto took none: {why}, and its default does not fit: {error}")


def fitted(spec: str | Spec, references: ReferenceSets) -> Fitted:
    """Fit one spec on the real corpus; ``learned`` needs answers of every modality and uses the trial corpus."""
    parsed = Spec.parse(spec)
    learns = parsed.learned is not None
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
