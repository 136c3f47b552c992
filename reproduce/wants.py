"""Does a query in words say what it wants? An offset of pictures that depends on the query's vector, on the mixtures.

    python reproduce/wants.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE]
                                                                        (the data of mixtures.py; five minutes)

A logistic model of the query's vector predicts whether its answer is a picture or a text; documents of both take no
part, for a query cannot know whether a photo has a caption. Its log-odds less their mean, held between −1 and 1 (the
floor: no modality is shut out), times a share, are added to the scores of pictures. They depend on the query alone, so
they fold. Fitted on:

own queries      the queries that the collection generates from its documents, whose source is known
others' queries  those of the two other mixtures
questions        half of the questions themselves, with their judgements, used for the other half: more than a
                 collection ever has

Base: ``blend(strength=0.5)``. nDCG@10 of questions in words, by the modality of the best document; their mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import mixtures
import mixtures_set
import numpy as np
from tables import Row, arguments, compared

from isthmus import calibration
from isthmus.evaluate import run_of, values
from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.mixtures import names
from isthmus.kinds import IMAGE, TEXT
from isthmus.types import Mask, Matrix, Rows

SPEC = "blend(strength=0.5)"
SHARES = (0.25, 0.5, 1.0)
FEWEST = 16  # queries of each label
L2 = 10.0  # of the weights; the intercept is free


@dataclass(frozen=True)
class Labelled:
    """Vectors of queries in words, and whether the answer of each is a picture."""

    vectors: Matrix
    picture: Mask

    def __len__(self) -> int:
        return len(self.picture)


@dataclass(frozen=True)
class Asked:
    """The questions in words of a mixture: vectors, scores of all documents, and what is right."""

    name: str
    ids: list[str]
    vectors: Matrix
    scores: Matrix  # (questions, documents)
    documents: list[str]
    picture: Mask  # (documents,)
    kinds: list[str]  # the slice of each question
    qrels: Mapping[str, Mapping[str, int]]
    made: Labelled

    def labelled(self, rows: Rows) -> Labelled:
        """Return some of the questions with their own labels: those whose answers are a picture or a text."""
        told = [row for row in rows if self.kinds[row] in (f"{TEXT} → {TEXT}", f"{TEXT} → {IMAGE}")]
        return Labelled(self.vectors[told], np.array([self.kinds[row].endswith(IMAGE) for row in told]))

    def measured(self, offsets: Matrix) -> dict[str, float]:
        """Return nDCG@10 by slice when pictures get an offset, one per question."""
        run = run_of(self.scores + offsets[:, None] * self.picture, self.ids, self.documents, 10)
        found = values("nDCG@10", run, {name: self.qrels[name] for name in self.ids})
        by_kind = {
            kind: [found[i] for i, k in zip(self.ids, self.kinds, strict=True) if k == kind] for kind in self.kinds
        }
        return {kind: float(np.mean(each)) for kind, each in by_kind.items()}


def asked(folder: Path, name: str, cache: Path) -> Asked:
    """Score the questions in words of a mixture, and label the queries that its collection generates."""
    encoded = mixtures.corpus(folder, name, cache)
    with mixtures.collection(load(f"mixtures:{name}", folder), cache) as things:
        references = things.references()
    real, trial = references.real, references.trial
    place = {document: row for row, document in enumerate(encoded.document_ids)}
    sources = np.array([place[real.ids[row]] if row >= 0 else -1 for row in real.sources])
    fitted = calibration.fit(SPEC, real.documents, real.queries, sources=real.sources, owner=real.owner)
    rows = np.flatnonzero(encoded.queries.modality == TEXT)
    scores = fitted.scores(encoded.queries.take(rows), encoded.documents, sources=sources, owner=encoded.owner)
    first = np.searchsorted(np.asarray(encoded.owner), np.arange(len(encoded.document_ids)))
    of_source = np.append(trial.documents.modality[np.searchsorted(trial.owner, np.arange(len(trial.ids)))], "")
    label = of_source[trial.sources]
    told = trial.judges & (trial.queries.modality == TEXT) & np.isin(label, (TEXT, IMAGE))
    ids = [encoded.query_ids[int(row)] for row in rows]
    return Asked(
        name,
        ids,
        _unit(encoded.queries.parts[TEXT][rows]),
        np.asarray(scores),
        list(encoded.document_ids),
        encoded.documents.modality[first] == IMAGE,
        [(encoded.types or {})[one] for one in ids],
        encoded.qrels,
        Labelled(_unit(trial.queries.parts[TEXT][told]), label[told] == IMAGE),
    )


def log_odds(labelled: Labelled, vectors: Matrix) -> Matrix:
    """Fit the model; return its log-odds of these vectors, less their mean, held between −1 and 1."""
    from scipy.optimize import minimize

    if min(labelled.picture.sum(), (~labelled.picture).sum()) < FEWEST:
        return np.zeros(len(vectors))
    mean = labelled.vectors.mean(axis=0)
    x = labelled.vectors - mean
    sign = np.where(labelled.picture, 1.0, -1.0)
    weight = np.where(labelled.picture, 0.5 / labelled.picture.sum(), 0.5 / (~labelled.picture).sum()) * len(sign)

    def loss(w: Matrix) -> tuple[float, Matrix]:
        margin = sign * (x @ w[1:] + w[0])
        slope = -weight * sign * 0.5 * (1 - np.tanh(margin / 2))
        value = float(weight @ np.logaddexp(0, -margin)) + 0.5 * L2 * float(w[1:] @ w[1:])
        return value, np.concatenate([[slope.sum()], x.T @ slope + L2 * w[1:]])

    w = minimize(loss, np.zeros(x.shape[1] + 1), jac=True, method="L-BFGS-B").x
    odds = (vectors - mean) @ w[1:]
    return np.asarray(np.clip(odds - odds.mean(), -1, 1))


def of_questions(one: Asked) -> Matrix:
    """Return the offsets of each half of the questions, from a model of the other half."""
    half = np.random.default_rng(0).permutation(len(one.ids)) % 2 == 0
    out = np.zeros(len(one.ids))
    for part in (half, ~half):
        out[part] = log_odds(one.labelled(np.flatnonzero(~part)), one.vectors[part])
    return out


def main(folder: Path, cache: Path) -> list[Row]:
    """Measure each source of labels, at each share."""
    several = [asked(folder, name, cache) for name in names(folder, "dev")]
    rows: list[Row] = []
    for one in several:
        others = [other.made for other in several if other is not one]
        joined = Labelled(
            np.concatenate([other.vectors for other in others]), np.concatenate([other.picture for other in others])
        )
        offsets = {
            "own queries": log_odds(one.made, one.vectors),
            "others' queries": log_odds(joined, one.vectors),
            "questions": of_questions(one),
        }
        base = one.measured(np.zeros(len(one.ids)))
        rows.append(_row(one.name, "no offset", base))
        rows += [
            _row(one.name, f"{label}, × {share:g}", one.measured(share * offset))
            for label, offset in offsets.items()
            for share in SHARES
        ]
    return rows


def _row(mixture: str, offset: str, found: Mapping[str, float]) -> Row:
    kinds = {f"→ {kind}": found[f"{TEXT} → {kind}"] for kind in (TEXT, IMAGE, f"{IMAGE}+{TEXT}")}
    return {"mixture": mixture, "offset": offset, **kinds, "mean": float(np.mean(list(kinds.values())))}


def _unit(vectors: Matrix) -> Matrix:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float64)


if __name__ == "__main__":
    options = arguments(__doc__, {key: mixtures.OPTIONS[key] for key in ("packs", "mixtures", "cache")})
    place = Path(options.mixtures or "out/mixtures")
    if not place.exists():
        mixtures_set.build(options.data, Path(options.packs), place)
    raise SystemExit(compared("wants", main(place, Path(options.cache or "out/mixtures-cache")), options.write))
