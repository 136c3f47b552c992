"""Calibrate a collection: choose a calibration, fit it, and fit P(match) of its scores.

references   the user's, made from the documents, the bank                        (references.py)
auto         a strength for each kind of query, judged on trial documents with known answers   (strengths.py);
             the best of a grid, if enough of the user's own queries have answers
fit          on the documents as they are; no query meets its source
match        P(match): the encoder's prior on the scale of the collection                      (prior.py), or
             fitted on first answers with the source present and taken out                    (observations.py)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from isthmus import calibration
from isthmus.calibration import AUTO_GRID, Fitted, Spec
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, BadSpec, CannotFit
from isthmus.kinds import TEXT
from isthmus.search import arguments, observations, prior, probability
from isthmus.search.probability import Match
from isthmus.search.references import ReferenceCorpus, ReferenceSets
from isthmus.search.snapshot import Snapshot
from isthmus.search.strength_evidence import FEWEST, spec_of
from isthmus.search.strengths import by_evidence
from isthmus.storage.protocols import Store
from isthmus.types import Rows, Vectors

GRID = (*AUTO_GRID, *(spec_of(strength) for strength in (0.25, 0.5, 0.75, 1.0)))
STEPS = len(GRID)  # at most, of ``chosen``

Means: TypeAlias = Fitted | Vectors | None  # where a shift takes its means from; None: from the documents themselves


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
    means: Means = None,
) -> Fitted:
    """Fit the requested calibration; ``means`` as in ``calibration.fit``."""
    asked = checked(spec)
    if asked is not None:
        return fitted(asked, references, means)
    if means is not None:
        raise BadSpec("'auto' also chooses the shift: leave out means=, or name the calibration.")
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


def means_of(given: Means | Iterable[Document], load: Callable[[], Encoder | None]) -> Means:
    """Return where means come from, as ``calibration.fit`` takes it; documents are encoded."""
    if given is None or isinstance(given, Fitted | Vectors):
        return given
    documents = list(arguments.documents(given))
    encoder = load()
    if encoder is None:
        raise BadInput("This collection has no encoder: give means= as Vectors, or as a fitted calibration.")
    return encoder.encode_documents(documents)


def fitted(spec: str | Spec, references: ReferenceSets, means: Means = None) -> Fitted:
    """Fit one spec on the real corpus; ``learned`` needs answers of every modality and uses the trial corpus."""
    parsed = Spec.parse(spec)
    learns = parsed.learned is not None and parsed.learned.needs_answers
    corpus = references.trial if learns else references.real
    known = corpus.sources if (corpus.sources >= 0).any() else None
    answers = np.where(corpus.judges, corpus.sources, -1) if learns else None
    return calibration.fit(
        parsed, corpus.documents, corpus.queries, positives=answers, sources=known, means=means, owner=corpus.owner
    )


def matched(snapshot: Snapshot, store: Store, references: ReferenceSets, encoder: Encoder | None) -> Match:
    """Return P(match) by query modality: from the encoder's prior, else fitted on queries with a known source.

    Both are judged on such queries.
    """
    known = prior.shipped(encoder)
    gaps = {} if known is None or encoder is None else prior.gaps(snapshot, encoder)
    curves, held_out = {}, {}
    for modality in snapshot.calibrated.fitted.query_modalities:
        rows = _asked(references.trial, modality)
        seen = observations.observed(snapshot, store, references.trial, rows) if len(rows) else None
        if known is not None and modality in gaps and modality in known.curves:
            curves[modality] = prior.rescaled(known.curves[modality], gaps[modality])
            if seen is not None:
                held_out[modality] = probability.judged_prior(seen, curves[modality])
        elif seen is not None and (curve := probability.fit(seen)) is not None:
            curves[modality] = curve
            held_out[modality] = probability.judged(seen)
    spec = snapshot.calibrated.fitted.spec
    if TEXT in curves and known is None and (spec.scale is not None or spec.learned is not None):
        for modality in snapshot.calibrated.fitted.query_modalities:  # on one scale: the curve of texts applies
            curves.setdefault(modality, curves[TEXT])
    return Match(curves, held_out)


def _asked(trial: ReferenceCorpus, modality: str) -> Rows:
    """Return the queries of a modality that judge; people also search by example, with a picture of a document."""
    asked = (trial.queries.modality == modality) & (trial.sources >= 0)
    rows = np.flatnonzero(asked & trial.judges)
    if modality != TEXT and "+" not in modality and len(rows):
        rows = np.concatenate([rows, np.flatnonzero(asked & ~trial.judges)[: len(rows)]])
    return rows
