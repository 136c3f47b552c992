"""How strongly a collection is calibrated: chosen for each kind of query, by evidence.

``blend`` mixes raw cosine (strength 0) with a full calibration (strength 1). Queries made from documents are asked
under several strengths, and the ranks of their documents decide:

    evidence     queries of one modality whose source is known, by the modality of the source; at least ``FEWEST``
    allowed      strengths at which no modality of documents loses more than ``LOSS`` of nDCG@10
    chosen       the allowed strength with the best mean over the modalities; other kinds than words pay ``COST`` for it
    both         a query of several kinds has the mean strength of its kinds
    no evidence  ``DEFAULT_FOR_TEXT`` for words, ``DEFAULT`` for others; 0 where there is one modality of documents
    some         words need evidence for every modality of documents; where some lack it, the largest strength up to the
                 default at which no other loses ``MARGIN``
    few          a modality of n documents has the share n/(n + ``SMALL``) of the strength: one photo among texts is not
                 a typical best answer

Queries made from a text share its words and find it more easily than a person's words do, so they understate what texts
lose (on the design mixtures to a quarter). So for words the strength ends at ``MOST_FOR_TEXT``: on these mixtures half
a calibration has most of what pictures gain and less than half of what texts lose. A collection of one modality has no
gap; there a bias alone must gain ``MARGIN``. No evidence says what pictures lose that are asked for by other pictures:
hence the cost, so that a full calibration has to gain something worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted, Tuned
from isthmus.calibration.blend import Choice, with_strengths
from isthmus.calibration.tune import Trial
from isthmus.errors import CannotFit
from isthmus.kinds import TEXT, atoms
from isthmus.search.references import ReferenceSets

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_FOR_TEXT = 0.5
FEWEST = 16  # queries with a known answer of a document modality; with fewer, it is not judged
LOSS = 0.015  # of nDCG@10, on generated queries
COST = 0.04  # in nDCG@10, of a full calibration
MARGIN = 0.03  # a clear difference
SMALL = 8  # documents
DEFAULT_FOR_TEXT, DEFAULT = 0.5, 0.25

Fit = Callable[[str], Fitted]


def by_evidence(
    references: ReferenceSets, fit: Fit, progress: Callable[[int, int], None] = lambda _, __: None
) -> Fitted:
    """Fit ``blend`` with a strength for each query modality; ``fit`` fits a spec on the collection's documents."""
    raw, full = fit(spec_of(0.0)), fit(spec_of(1.0))
    modalities = full.query_modalities
    choices: dict[str, Choice] = {}
    for place, name in enumerate(sorted(modalities, key=lambda one: len(atoms(one)))):
        choices[name] = _choice(references, name, choices)
        progress(place + 1, len(modalities))
    if raw.coefficients is None or full.coefficients is None:
        raise CannotFit("blend was fitted without coefficients.")
    counts = references.real.counts()
    strengths = {
        (name, found): choice.strength * counts.get(found, 0) / (counts.get(found, 0) + SMALL)
        for name, choice in choices.items()
        for found in full.document_modalities
    }
    coefficients = with_strengths(raw.coefficients, full.coefficients, strengths)
    return replace(full, coefficients=coefficients, choices=tuple(choices[name] for name in modalities))


def spec_of(strength: float) -> str:
    """Return the spec of a strength."""
    return f"blend(strength={strength})"


def _choice(references: ReferenceSets, modality: str, known: Mapping[str, Choice]) -> Choice:
    several = len(references.real.documents.modalities) > 1
    parts = [known[kind].strength for kind in atoms(modality) if kind in known]
    if len(atoms(modality)) > 1 and parts:
        return Choice(modality, float(np.mean(parts)), "the mean of its kinds")
    tuned, counts = evidence(references, modality)
    unknown = DEFAULT_FOR_TEXT if modality == TEXT else DEFAULT
    if tuned is None:
        why = f"the default: fewer than {FEWEST} queries with a known answer"
        return Choice(modality, unknown if several else 0.0, why)
    judged = [name for name, count in counts.items() if count >= FEWEST]
    queries = sum(counts[name] for name in judged)
    missing = [name for name in references.trial.documents.modalities if name not in judged]
    if modality == TEXT and missing:
        strength = max(
            _strength(trial)
            for trial in tuned.trials
            if _strength(trial) <= unknown and not _loses(tuned, trial, judged, MARGIN)
        )
        lower = "less than the default, at which other documents lose"
        why = "the default" if strength == unknown else lower
        why += f": fewer than {FEWEST} queries with a known answer among {', '.join(missing)} documents"
        return Choice(modality, strength, why)
    cost = 0.0 if modality == TEXT else COST
    raw, best = tuned.trials[0], _best(tuned, judged, 0.0 if several else MARGIN, cost)
    before, after = ({name: each.by_modality[name] for name in judged} for each in (raw, best))
    return Choice(modality, _strength(best), f"{queries} generated queries", before, after)


def _best(tuned: Tuned, judged: Sequence[str], margin: float, cost: float) -> Trial:
    """Return the trial that gains most, and more than the margin, without a loss; raw cosine is the first."""
    raw, *others = tuned.trials
    best, most = raw, margin
    for trial in others:
        gains = [trial.by_modality[name] - raw.by_modality[name] for name in judged]
        worth = float(np.mean(gains)) - cost * _strength(trial)
        if not _loses(tuned, trial, judged) and worth > most:
            best, most = trial, worth
    return best


def _loses(tuned: Tuned, trial: Trial, judged: Sequence[str], limit: float = LOSS) -> bool:
    """Whether a modality of documents loses more than a limit against raw cosine, the first trial."""
    raw = tuned.trials[0]
    return min(trial.by_modality[name] - raw.by_modality[name] for name in judged) < -limit


def _strength(trial: Trial) -> float:
    return float(trial.spec.steps[-1].settings.strength)


def evidence(references: ReferenceSets, modality: str) -> tuple[Tuned | None, dict[str, int]]:
    """Ask the generated queries of a modality under each strength; None if too few have a known answer."""
    trial = references.trial
    asked = trial.judges & (trial.queries.modality == modality)
    counts = trial.targets(asked)
    if max(counts.values(), default=0) < FEWEST:
        return None, counts
    known = np.where(asked, trial.sources, -1)
    strengths = [each for each in STRENGTHS if modality != TEXT or each <= MOST_FOR_TEXT]
    specs = [spec_of(strength) for strength in strengths]
    try:
        tuned = calibration.tune(specs, trial.documents, trial.queries, positives=known, owner=trial.owner)
    except CannotFit:
        return None, counts
    return (None if any(each.refused for each in tuned.trials) else tuned), counts
