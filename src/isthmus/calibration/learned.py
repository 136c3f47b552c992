"""``learned(k, l2)``: slope, bias weight and offset per pair of modalities, fitted on queries with known answers.

In words: ``standardize`` measures how far apart the modalities are and ``nnn`` how much of a hub each document is,
but how much weight to give each is a guess. If the right document of some reference queries is known (they were
generated from it, or a user clicked on it), those few numbers can be fitted.

Formula, for query modality m, document modality M, nnn bias b and t = s − α₀b:

    u           = (t − μ)/σ              μ, σ of the best t of each reference query among documents of M
    h           = (b − mean)/deviation   over documents of M
    score(q, d) = slope_mM · u − weight_mM · h + offset_mM
    minimise    Σ_q ω_q · −log softmax_d(score(q, ·))[d_q]  +  λ ‖(slope, weight, offset)/g − (1, 0, 0)‖²

with ω giving every target modality equal weight, softmax over the mixed list, and g the one inverse
temperature per query modality fitted first. The bias of a query's source ignores that query.

What it means: with few references it is ``nnn(alpha=α₀)+standardize``, with many it follows the data. A
modality with no or very few known answers keeps the prior. Slopes stay positive, so it folds like a
scale and a bias.

Reference: ours. L-BFGS-B (Byrd et al. 1995) from SciPy; the problem is convex once g is fixed. Further
columns that would fold as well (biases of other k, the document's nearness to other documents, the spread of
its similarities, its length before normalising) were tried and did not help: docs/calibration.md.

>>> Learned(k=0)
Traceback (most recent call last):
isthmus.errors.BadSpec: learned needs k ≥ 1, not 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isthmus.calibration.bank import best_by_modality
from isthmus.calibration.bias import Banks, Coefficients, JointMethod, Terms
from isthmus.calibration.known import PRIOR_ALPHA, Answers, lists_of, moments
from isthmus.calibration.listwise import FEWEST, minimum
from isthmus.calibration.nnn import chosen_k
from isthmus.errors import BadSpec, CannotFit
from isthmus.types import Matrix

DEFAULT_K = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(JointMethod):
    """Fit slope, bias weight and offset per (query modality, document modality)."""

    k: int | None = None
    l2: float = 100.0
    candidates: int = 256

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise BadSpec(f"learned needs k ≥ 1, not {self.k}.")
        if not (np.isfinite(self.l2) and self.l2 > 0):
            raise BadSpec(f"learned needs a positive, finite l2, not {self.l2}.")
        if self.candidates < 1:
            raise BadSpec(f"learned needs candidates ≥ 1, not {self.candidates}.")

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
        """Fit each query modality separately; one with too few known answers keeps the prior."""
        if max(answers.counts.values()) < FEWEST:
            got = ", ".join(f"{count} {query_modality}" for query_modality, count in answers.counts.items())
            raise CannotFit(
                f"learned needs at least {FEWEST} reference queries of one modality with a known answer and got {got}. "
                "Pass positives= (query row, document); without known answers use 'nnn+standardize'."
            )
        table: dict[tuple[str, str], Terms] = {}
        documents, x = answers.documents, answers.x
        codes = range(len(documents.modalities))
        for query_modality, bank in answers.references.vectors.items():
            own = answers.references.own(query_modality, answers.apart)
            b = self.columns(Banks(answers.bank(query_modality)))[:, 0]
            t_scale = moments(best_by_modality(x, documents, bank, PRIOR_ALPHA * b, own), common=0.05)
            b_scale = moments([b[documents.modality_code == code] for code in codes], common=1.0)
            lists = lists_of(answers, query_modality, b, t_scale, b_scale, self.candidates)
            for name, numbers, t, h in zip(
                documents.modalities, minimum(lists, self.l2), t_scale, b_scale, strict=True
            ):
                table[query_modality, name] = _in_raw_units(numbers, t, h)
        return Coefficients(table)


def _in_raw_units(numbers: Matrix, t: Matrix, h: Matrix) -> Terms:
    """Turn coefficients on (u, h) into those on (s, b)."""
    slope, weight, offset = numbers
    (t_mean, t_deviation), (b_mean, b_deviation) = t, h
    return Terms(
        float(slope / t_deviation),
        float(slope / t_deviation * PRIOR_ALPHA + weight / b_deviation),
        float(offset - slope * t_mean / t_deviation + weight * b_mean / b_deviation),
    )
