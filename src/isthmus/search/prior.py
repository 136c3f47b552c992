"""The prior of P(match): what judged answers to people's questions taught about the scores of an encoder.

In words: generated queries share words with their source and know one right document, so a curve learned from them is
right for 'this very document' and too low for 'a relevant one'. A prior is learned once, from real questions with
judged answers over many kinds of collections, and is stored with the encoder. It also serves a collection of
photos alone or of ten documents, from which nothing can be learned. Scores of collections differ in scale, so the prior
compares gaps: by how much a hit is ahead of the field, in units of how much the first answers of the bank's queries,
most of which have no answer in the collection, are ahead of theirs.

Formula, for a hit of score s, a first score s₁ and a field f (probability.py), and the mean gap γ of the bank's queries
of the same modality:

    logit = a + b·(s − f)/γ + d·(s₁ − f)/γ + e(v)          γ = mean of their s₁ − f; b, e₁ ≥ 0

What it means: γ is folded into the weights, so that a collection keeps a plain ``Curve``. Under any calibration, the
bank's queries are scored by it, too.

Reference: ours. ``reproduce/match_prior.py`` makes the file, and measures it on corpora that it was not learned from.

>>> from isthmus.search.probability import Top
>>> curve = rescaled(Curve(intercept=-1.0, slope=2.0, field=-2.0), BankGap(0.1))
>>> round(float(curve(np.array(0.6), Top(0.6, field=0.5))), 3)  # one gap ahead: 1 / (1 + exp(1 - 2))
0.731
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isthmus.encoders import Encoder
from isthmus.encoders.locations import EMBEDDED
from isthmus.encoders.references import SHIPPED_QUERIES, bank_vectors
from isthmus.search.probability import FIELD, Curve, top_of
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot

FILE = "match.json"  # in the folder of an embedded encoder
QUERIES = 300  # of the bank, of each modality, that set the scale
SMALLEST = 1e-3  # gap, as of copies alone


@dataclass(frozen=True, slots=True)
class Prior:
    """Curves of scores in gaps, by query modality."""

    identity: str  # of the encoder
    curves: Mapping[str, Curve]

    @classmethod
    def read(cls, path: Path) -> Prior:
        """Read a prior."""
        held: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return cls(held["identity"], {name: Curve(**weights) for name, weights in held["curves"].items()})

    def write(self, path: Path) -> None:
        """Write it, with four decimals."""
        curves = {
            name: {weight: round(value, 4) for weight, value in asdict(curve).items() if value is not None}
            for name, curve in self.curves.items()
        }
        path.write_text(json.dumps({"identity": self.identity, "curves": curves}, indent=1) + "\n", "utf-8")


def shipped(encoder: Encoder | None) -> Prior | None:
    """Return the prior in an encoder's folder; None if there is none, or it is of other weights."""
    folder = EMBEDDED.get(encoder.name) if encoder is not None else None
    if encoder is None or folder is None or not (folder / FILE).exists():
        return None
    prior = Prior.read(folder / FILE)
    return prior if prior.identity == encoder.identity else None


class BankGap(NamedTuple):
    """How far the first answers of the bank's queries are ahead, and the score that such an answer usually has."""

    size: float
    usual: float = 0.0


def rescaled(curve: Curve, gap: BankGap) -> Curve:
    """Return a curve of scores in gaps as one of a collection's own scores."""
    weights = {name: getattr(curve, name) / gap.size for name in ("slope", "field", "first")}
    return replace(curve, **weights, usual=gap.usual)


def gaps(snapshot: Snapshot, encoder: Encoder) -> dict[str, BankGap]:
    """Search for queries of the bank; return by query modality how far the first is ahead of the field, on average.

    Where there is no field, as in a collection of one document, the spread of the first scores takes its place.
    """
    bank = bank_vectors(encoder, limit=SHIPPED_QUERIES)
    found: dict[str, BankGap] = {}
    for modality in bank.modalities:
        if modality in snapshot.calibrated.fitted.query_modalities:
            rows = np.flatnonzero(bank.modality == modality)
            some = rows[np.linspace(0, len(rows) - 1, min(QUERIES, len(rows))).astype(int)]
            lists = ranked(snapshot, bank.take(some), FIELD + 1)
            tops = [top_of(ranking.scores) for ranking in lists if len(ranking)]
            first = [top.first for top in tops] or [0.0]
            ahead = [top.first - top.field for top in tops if top.field is not None]
            size = float(np.mean(ahead) if ahead else np.std(first))
            found[modality] = BankGap(max(size, SMALLEST), float(np.mean(first)))
    return found
