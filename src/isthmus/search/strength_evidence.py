"""What queries with a known answer say about each strength of ``blend``: the evidence of strengths.py.

In words: queries made from documents are asked over documents with hidden parts (trials.py), held out from the fit.
A picture is also asked for by a copy of itself that was changed a little, as people ask with a crop or another version.

Formula, for the scores S₀ of strength 0 and S₁ of strength 1, which are fitted once:

    score at strength λ     (1 − λ) · S₀ + λ · S₁
    value                   1 / log₂(1 + rank of the right document), 0 beyond rank 10: nDCG@10 of one right document
    changed copy of x       c · x + √(1 − c²) · u        u: the direction between two other documents, orthogonal to x
                            c = 1 − ``CHANGE`` · (1 − mean cosine of two documents)

What it means: a crop of 70 to 90% of a picture, compressed again, changes its vector by about a twentieth of what two
pictures differ (``mini``: photos .03 to .07 of 1 − cosine, scanned pages .003). Where documents are all alike, such as
scanned pages, even a copy is hard to find, and a full calibration may lose it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages
from isthmus.calibration.tune import folded_scores, folds_of
from isthmus.errors import CannotFit
from isthmus.search.references import ReferenceCorpus
from isthmus.types import Matrix, Rows, Vectors

FEWEST = 16  # queries with a known answer of a document modality; with fewer, it is not judged
FOLDS = 2
DEPTH = 10
CHANGE = 0.05  # of a copy, in units of the distance of two documents
COPIES = 200  # changed copies, at most


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """nDCG@10 by strength, and by the modality of the right document; the modalities that are judged, and by how many.

    ``copies``: of documents that are asked for by a changed copy; empty if they are too few.
    """

    by_strength: Mapping[float, Mapping[str, float]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    copies: Mapping[float, float] = field(default_factory=dict)

    def loss(self, strength: float, judged: Sequence[str]) -> float:
        """Return the largest loss of a judged modality against raw cosine."""
        raw, tried = self.by_strength[0.0], self.by_strength[strength]
        return max(raw[name] - tried[name] for name in judged)

    def gain(self, strength: float, judged: Sequence[str]) -> float:
        """Return the mean gain of the judged modalities over raw cosine."""
        raw, tried = self.by_strength[0.0], self.by_strength[strength]
        return float(np.mean([tried[name] - raw[name] for name in judged]))

    def loss_of_copies(self, strength: float) -> float:
        """Return what documents lose that are asked for by a changed copy; 0 if that is not known."""
        return self.copies[0.0] - self.copies[strength] if self.copies else 0.0


def spec_of(strength: float) -> str:
    """Return the spec of a strength."""
    return f"blend(strength={strength})"


def held_out(trial: ReferenceCorpus, modality: str, strengths: Sequence[float]) -> KnownAnswers:
    """Ask the generated queries of a modality under each strength; no evidence if too few have a known answer."""
    rows = np.flatnonzero(trial.queries.modality == modality)
    judges = trial.judges[rows]
    counts = {
        name: n
        for name, n in trial.targets(np.isin(np.arange(len(trial.queries)), rows[judges])).items()
        if n >= FEWEST
    }
    if not counts:
        return KnownAnswers()
    queries, sources = trial.queries.take(rows), trial.sources[rows]
    documents = Passages.of(trial.documents, trial.owner)
    known = Pairs.of(np.where(judges, sources, -1), queries=len(rows), documents=len(documents))
    fold_of = folds_of(known, queries, FOLDS, np.random.default_rng(0))
    values = np.zeros((len(strengths), len(rows)))
    try:
        for fold in range(FOLDS):
            others, held = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            asked, made_from = queries.take(others), sources[others]
            ends = [
                calibration.fit(spec_of(end), trial.documents, asked, sources=made_from, owner=trial.owner)
                for end in (0.0, 1.0)
            ]
            values[:, held] = _values(ends, documents, made_from, queries.take(held), sources[held], strengths)
    except CannotFit:
        return KnownAnswers()
    found = documents.modality[sources]
    of = {name: judges & (found == name) for name in counts}
    table = {
        each: {name: float(row[mask].mean()) for name, mask in of.items()}
        for each, row in zip(strengths, values, strict=True)
    }
    return KnownAnswers(table, counts)


def copies(real: ReferenceCorpus, kind: str, ends: Sequence[Fitted], strengths: Sequence[float]) -> dict[float, float]:
    """Ask for documents of one kind by a changed copy of each; nothing if they are too few.

    ``ends``: the fits of strength 0 and 1 on all documents.
    """
    rows = np.flatnonzero(real.documents.modality == kind)
    if len(np.unique(real.owner[rows])) < FEWEST:
        return {}
    rng = np.random.default_rng(0)
    chosen = rng.permutation(rows)[:COPIES]
    asked = Vectors.of(changed(real.documents.parts[kind], rows, chosen, rng), kind)
    documents = Passages.of(real.documents, real.owner)
    values = _values(ends, documents, real.sources, asked, real.owner[chosen], strengths)
    return dict(zip(strengths, values.mean(axis=1).tolist(), strict=True))


def changed(vectors: Matrix, rows: Rows, chosen: Rows, rng: np.random.Generator) -> Matrix:
    """Return a changed copy of each chosen vector; it differs as two other rows do, and a twentieth as much."""
    x, center = _unit(vectors[chosen]), _unit(vectors[rows]).mean(axis=0)
    cosine = 1 - CHANGE * (1 - float(center @ center))
    away = vectors[rng.choice(rows, len(chosen))] - vectors[rng.choice(rows, len(chosen))]
    away -= (away * x).sum(axis=1, keepdims=True) * x
    return np.asarray(cosine * x + np.sqrt(1 - cosine**2) * _unit(away), dtype=np.float32)


def _unit(vectors: Matrix) -> Matrix:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, np.finfo(np.float32).tiny))


def _values(
    ends: Sequence[Fitted],
    documents: Passages,
    made_from: Rows,
    queries: Vectors,
    right: Rows,
    strengths: Sequence[float],
) -> Matrix:
    """Return nDCG@10 of each query under each strength, ``(strengths, queries)``."""
    out = np.zeros((len(strengths), len(queries)))
    sources = Pairs.of(made_from, queries=len(made_from), documents=len(documents))
    raw, full = (folded_scores(end, documents, queries, sources) for end in ends)
    for (rows, at_0), (_, at_1) in zip(raw, full, strict=True):
        for place, strength in enumerate(strengths):
            out[place, rows] = _of_right((1 - strength) * at_0 + strength * at_1, right[rows])
    return out


def _of_right(scores: Matrix, right: Rows) -> Matrix:
    """Return nDCG@10 of each row, whose one right document is given; equal scores rank in the order of documents."""
    own = scores[np.arange(len(right)), right][:, None]
    earlier = np.arange(scores.shape[1]) < right[:, None]
    rank = 1 + ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
    return np.where(rank <= DEPTH, 1 / np.log2(1 + rank), 0.0)
