"""How strongly a collection is calibrated: chosen for each kind of query, by evidence.

``blend`` mixes raw cosine (strength 0) with a full calibration (strength 1). Queries made from documents are asked
under several strengths, and the ranks of their documents decide (strength_evidence.py):

    evidence     queries of one modality whose source is known, by the modality of the source; at least ``FEWEST``
    allowed      strengths at which no modality of documents loses more than ``LOSS`` of nDCG@10, nor those that are
                 asked for by a changed copy of themselves
    chosen       the allowed strength with the best mean over the modalities; other kinds than words pay ``COST`` for it
    both         a query of several kinds has the mean strength of its kinds
    no evidence  ``DEFAULT_FOR_TEXT`` for words, ``DEFAULT`` for others, or the largest allowed strength below; 0 where
                 there is one modality of documents
    some         words need evidence for every modality of documents; where some lack it, the largest strength up to the
                 default at which no other loses ``MARGIN``
    few          a modality of n documents has the share n/(n + ``SMALL``) of the strength: one photo among texts is not
                 a typical best answer

Queries made from a text share its words and find it more easily than a person's words do, so they understate what texts
lose (on the design mixtures to a quarter). So for words the strength ends at ``MOST_FOR_TEXT``: on these mixtures half
a calibration has most of what pictures gain and less than half of what texts lose. A collection of one modality has no
gap; there a bias alone must gain ``MARGIN``. Changed copies say what pictures lose that are asked for by nearly the
same picture. Nothing says what others lose: hence the cost, so that a full calibration has to gain something worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isthmus.calibration import Fitted
from isthmus.calibration.blend import Choice, with_strengths
from isthmus.errors import CannotFit
from isthmus.kinds import TEXT, atoms
from isthmus.search import strength_evidence
from isthmus.search.references import ReferenceSets
from isthmus.search.strength_evidence import FEWEST, KnownAnswers, spec_of

STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_FOR_TEXT = 0.5
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
        choices[name] = _choice(references, name, choices, (raw, full))
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


def _choice(
    references: ReferenceSets, modality: str, known: Mapping[str, Choice], ends: tuple[Fitted, Fitted]
) -> Choice:
    parts = [known[kind].strength for kind in atoms(modality) if kind in known]
    if len(atoms(modality)) > 1 and parts:
        return Choice(modality, float(np.mean(parts)), "the mean of its kinds")
    rule = _Rule(modality, evidence(references, modality, ends), references.trial.documents.modalities)
    if not rule.judged:
        return rule.by_default()
    if modality == TEXT and rule.missing:
        return rule.with_some_unknown()
    return rule.by_gain()


def evidence(references: ReferenceSets, modality: str, ends: tuple[Fitted, Fitted]) -> KnownAnswers:
    """Ask the queries of a modality under each of its strengths; ``ends`` are the fits of strength 0 and 1."""
    strengths = tuple(each for each in STRENGTHS if modality != TEXT or each <= MOST_FOR_TEXT)
    found = strength_evidence.held_out(references.trial, modality, strengths)
    if modality == TEXT:
        return found
    return replace(found, copies=strength_evidence.copies(references.real, modality, ends, strengths))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Choose the strength of one query modality: by what is gained, or by default."""

    modality: str
    known: KnownAnswers
    documents: Sequence[str]  # their modalities

    @property
    def judged(self) -> list[str]:
        return list(self.known.counts)

    @property
    def missing(self) -> list[str]:
        return [name for name in self.documents if name not in self.known.counts]

    @property
    def default(self) -> float:
        return DEFAULT_FOR_TEXT if self.modality == TEXT else DEFAULT

    def by_default(self) -> Choice:
        """Return the default, or less where changed copies lose; raw cosine if there is one modality of documents."""
        why = f"fewer than {FEWEST} queries with a known answer"
        if len(self.documents) == 1:
            return Choice(self.modality, 0.0, f"the default: {why}")
        allowed = [each for each in STRENGTHS if each <= self.default and not self._loses_copies(each)]
        return Choice(self.modality, max(allowed), f"{self._below(max(allowed))}: {why}")

    def with_some_unknown(self) -> Choice:
        """Return the largest strength up to the default at which no judged modality clearly loses."""
        allowed = [
            each
            for each in self.known.by_strength
            if each <= self.default and self.known.loss(each, self.judged) <= MARGIN
        ]
        why = f"fewer than {FEWEST} queries with a known answer among {', '.join(self.missing)} documents"
        return Choice(self.modality, max(allowed), f"{self._below(max(allowed))}: {why}")

    def by_gain(self) -> Choice:
        """Return the strength that gains most, after its cost, and loses nothing; raw cosine if there is none."""
        cost = 0.0 if self.modality == TEXT else COST
        best, most = 0.0, 0.0 if len(self.documents) > 1 else MARGIN
        for strength in self.known.by_strength:
            worth = self.known.gain(strength, self.judged) - cost * strength
            if self._is_allowed(strength) and worth > most:
                best, most = strength, worth
        before, after = self.known.by_strength[0.0], self.known.by_strength[best]
        return Choice(self.modality, best, f"{sum(self.known.counts.values())} generated queries", before, after)

    def _is_allowed(self, strength: float) -> bool:
        return self.known.loss(strength, self.judged) <= LOSS and not self._loses_copies(strength)

    def _loses_copies(self, strength: float) -> bool:
        return self.known.loss_of_copies(strength) > LOSS

    def _below(self, strength: float) -> str:
        return "the default" if strength == self.default else "less than the default, at which other documents lose"
