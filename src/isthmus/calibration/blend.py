"""``blend(k, alpha, strength, lower, upper)``: raw cosine blended with a calibrated score, by query modality.

In words: a full calibration gives photos their place and costs some texts theirs. How much of it a collection needs
depends on what its texts and pictures are about, and on the kind of query. So the strength is a number from 0, which is
raw cosine exactly, to 1, and each query modality may have its own.

Formula, for query modality m, document modality M, mean vector c_M of the documents of M, and nnn's bias b:

    b⁻          = b, held between mean − lower·σ_b and mean + upper·σ_b of M
    t           = s − α' · b⁻ − q·c_M                α' = α · n/(n + k), for n reference queries
    z           = (t − μ_mM) / σ_mM                  μ, σ of the best t of each reference query among documents of M
    z₀          = (s − μ_m) / σ_m                    μ, σ of the best s of each reference query among all documents
    score(q, d) = (1 − λ_m) · z₀ + λ_m · z           λ: the strength

What it means: q·c_M is how near the query is to a modality as a whole; it is an offset on the query's side, so it costs
a document nothing. A document far from every reference query has a small bias, which lifts it above what it is
worth: the lower bound prevents that, and few references subtract a smaller share. All of it folds: slopes, offsets
and biases per pair of modalities, and a column of ones for each document modality, where the query has its q·c_M.

Reference: ours; center (Li et al. 2025), nnn (Chowdhury et al. 2024) and standardize (Yamashita et al.) at strength 1,
in the space of the raw vectors. `docs/calibration.md` shows what a strength gains and costs.

>>> Blend(strength=2.0)
Traceback (most recent call last):
isthmus.errors.BadSpec: blend needs a strength from 0 to 1, not 2.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from isthmus.calibration.bank import best_by_modality
from isthmus.calibration.bias import Banks, Coefficients, JointMethod, Terms
from isthmus.calibration.known import Answers, moments
from isthmus.calibration.nnn import chosen_k
from isthmus.calibration.passages import Passages
from isthmus.errors import BadSpec
from isthmus.types import Matrix

DEFAULT_K = 16
SPREAD = 0.05  # of similarities, if nothing tells


@dataclass(frozen=True, slots=True)
class Choice:
    """The strength of a query modality, on what evidence, and nDCG@10 by document modality before and after."""

    modality: str
    strength: float
    evidence: str
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        gains = ", ".join(f"{name} {self.before[name]:.2f} → {self.after[name]:.2f}" for name in self.before)
        measured = f": nDCG@10 {gains}" if gains and self.strength else ""
        return f"{self.modality} queries: strength {self.strength:g} ({self.evidence}{measured})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blend(JointMethod):
    """Blend raw cosine with a score that is free of each modality's mean, scale and hubs."""

    k: int | None = None
    alpha: float = 0.75
    strength: float = 1.0
    lower: float = 1.0
    upper: float = 3.0

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise BadSpec(f"blend needs k ≥ 1, not {self.k}.")
        if not np.isfinite(self.alpha):
            raise BadSpec(f"blend needs a finite alpha, not {self.alpha}.")
        if not 0 <= self.strength <= 1:
            raise BadSpec(f"blend needs a strength from 0 to 1, not {self.strength}.")
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            if not 0 <= value < np.inf:
                raise BadSpec(f"blend needs {name} as a finite number that is not negative, not {value}.")

    @property
    def needs_answers(self) -> bool:
        """Whether known answers are needed: they are not."""
        return False

    def describe(self, references: int) -> str:
        """Describe how many neighbours are used."""
        return f"neighbours   {self.neighbours(references)} of {references}"

    def neighbours(self, references: int) -> int:
        """Return the k to use with this many references, or raise an error."""
        return chosen_k(self.k, references, DEFAULT_K)

    def columns(self, banks: Banks) -> Matrix:
        """Return the bias of ``nnn``, ``(documents, 1)``."""
        return banks.references.mean_of_largest(self.neighbours(len(banks.references)))[:, None]

    def learn(self, answers: Answers) -> Coefficients:
        """Fit each query modality separately. Known answers are only kept apart from their documents."""
        documents, x = answers.documents, answers.x
        means = mean_vectors(documents, x)
        table: dict[tuple[str, str], Terms] = {}
        for query_modality, bank in answers.references.vectors.items():
            own = answers.references.own(query_modality, answers.apart)
            b = self.columns(Banks(answers.bank(query_modality)))[:, 0]
            code = documents.modality_code
            b_scale = moments([b[code == at] for at in range(len(documents.modalities))], common=SPREAD)
            low, high = b_scale[:, 0] - self.lower * b_scale[:, 1], b_scale[:, 0] + self.upper * b_scale[:, 1]
            share = self.alpha * len(bank) / (len(bank) + self.neighbours(len(bank)))
            subtracted = (share * np.clip(b, low[code], high[code])).astype(np.float32)
            nearness = np.stack([bank @ mean for mean in means.values()])  # (modalities, references)
            plain = best_by_modality(x, documents, bank, np.zeros(len(documents), dtype=np.float32), own)
            t_scale = moments(best_by_modality(x, documents, bank, subtracted, own) - nearness, common=SPREAD)
            (s_mean, s_deviation), *_ = moments([plain.max(axis=0)], common=SPREAD)
            for name, (mean, deviation), bounds in zip(
                documents.modalities, t_scale, zip(low, high, strict=True), strict=True
            ):
                raw = Terms(1 / s_deviation, 0.0, -s_mean / s_deviation)
                full = Terms(1 / deviation, share / deviation, -mean / deviation, 1.0, *map(float, bounds))
                table[query_modality, name] = between(raw, full, self.strength)
        return Coefficients(table, means)


def between(raw: Terms, full: Terms, strength: float) -> Terms:
    """Return (1 − strength) · raw + strength · full."""
    slope = (1 - strength) * raw.slope + strength * full.slope
    return Terms(
        float(slope),
        float((1 - strength) * raw.weight + strength * full.weight),
        float((1 - strength) * raw.offset + strength * full.offset),
        float(strength * full.slope * full.nearness / slope),
        full.lowest,
        full.highest,
    )


def with_strengths(raw: Coefficients, full: Coefficients, strengths: Mapping[tuple[str, str], float]) -> Coefficients:
    """Return the coefficients of two fits, with strength 0 and 1, blended by pair of query and document modality."""
    return Coefficients(
        {pair: between(terms, full.table[pair], strengths[pair]) for pair, terms in raw.table.items()},
        full.means,
    )


def mean_vectors(documents: Passages, x: Matrix) -> dict[str, Matrix]:
    """Return the mean vector of the documents of each modality; a document counts once, whatever its passages."""
    share = documents.share
    code = documents.vectors.modality_code
    out: dict[str, Matrix] = {}
    for at, name in enumerate(documents.modalities):
        rows = np.flatnonzero(code == at)
        weight = share[rows] / share[rows].sum()
        out[name] = (weight @ x[rows]).astype(np.float32)
    return out
