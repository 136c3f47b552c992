"""Learn the prior of P(match) for ``mini``, and measure it on corpora that it was not learned from.

    python reproduce/match_prior.py --data DIR --packs PACKS [--out OUT] [--cache CACHE] [--write]
                   (needs flickr8k/, scifact/, docvqa/, packed emoji, WordNet; an hour, ten minutes from the cache)

With ``--write`` the prior, learned from all corpora, goes into the encoder's folder, and the reliability of first hits
is drawn. The table is of priors learned from the corpora that share no document with the one they are measured on:
first hits (AUROC, ECE, and *kept*, the share of right first hits with P(match) ≥ .5), and the first ten. *fitted* is
what P(match) is without a prior, a curve that each collection fits on queries made from its own documents.

A question is a real one with judged answers (``match_corpora.py``); a hit of any grade is relevant. Each question is
also asked with its answers taken out, with a weight of .05: as if one question in twenty had no answer. More would
make the first hits of questions that have one look less likely than they are. Hits after the first have a weight of
.05 each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import match_corpora
import mixtures
import numpy as np
from match_corpora import DESIGNS
from tables import Row, arguments, compared

from isthmus.encoders.locations import EMBEDDED
from isthmus.evaluate import Corpus
from isthmus.evaluate.benchmarks import load
from isthmus.search import calibrate, prior
from isthmus.search.identical import CERTAIN
from isthmus.search.list_tops import likeness, query_parts
from isthmus.search.prior import BankGap, Prior
from isthmus.search.probability import Curve, Match, auroc, ece, logistic, sigmoid, top_of
from isthmus.types import Mask, Matrix

TEN = 10
DEEP = 60  # hits, so that ten and a field are left without the answers
UNANSWERED, LATER = 0.05, 0.05  # weights
PULL = 1e-3
RAISED = 5  # first hits that may have been raised because they have the picture: nothing is learned of these
LEAST = 0.5
SMALL = "small"
BINS = 10
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "match_reliability.png"
OPTIONS = {
    "packs": "packed photos and drawings",
    "out": "the corpora; default: out/match",
    "cache": "vectors and collections; default: out/match-cache",
}


class Seen(NamedTuple):
    """A hit of a question: what a curve sees of it, whether it is relevant, and P(match) without a prior."""

    corpus: str
    modality: str  # of the question
    removed: bool  # whether the answers were taken out
    rank: int  # from 0
    right: bool
    ahead: float  # of the field, in gaps
    first: float  # how far the first is ahead
    alike: float
    apart: float
    copy: bool
    fitted: float
    weight: float


Hits = dict[str, np.ndarray[tuple[int], np.dtype[Any]]]  # a column for each field of ``Seen``


def some(hits: Hits, rows: Mask) -> Hits:
    """Return some of the hits."""
    return {name: column[rows] for name, column in hits.items()}


def observed(folder: Path, name: str, cache: Path) -> Iterator[Seen]:
    """Ask every question of a corpus; yield its hits, with and without its answers."""
    benchmark, encoded = load(f"mixtures:{name}", folder), mixtures.corpus(folder, name, cache)
    with mixtures.collection(benchmark, cache) as things:
        print(f"{name}: {things.calibrate().fitted.spec}", file=sys.stderr)
        gaps = prior.gaps(things.snapshot(), mixtures.mini(cache))
        fitted = calibrate.matched(things.snapshot(), things.store, things.references(), None)
        asked = mixtures.encoded_queries(benchmark, encoded, files=False)  # what no hash decides
        lists = things.search_many(asked, DEEP)
        raised = [
            {hit.id for hit in hits if hit.explanation is not None and hit.explanation.raised is not None}
            for hits in things.search_many(asked, RAISED, explain=True)
        ]
    for row, hits in enumerate(lists):
        judged, modality = benchmark.qrels.get(benchmark.questions[row].id, {}), str(encoded.queries.modality[row])
        for removed in (False, True):
            kept = [hit for hit in hits if not removed or judged.get(hit.id, 0) <= 0]
            if kept:
                alike = _alike(encoded, row, kept[0].id)
                right = [judged.get(hit.id, 0) > 0 for hit in kept]
                scores = np.array([hit.score for hit in kept])
                for rank, ahead, first, near, apart, likely in _seen(scores, alike, gaps[modality], fitted, modality):
                    weight = (LATER if rank else 1.0) * (UNANSWERED if removed else 1.0)
                    copy = kept[rank].id in raised[row]
                    told = (name, modality, removed, rank, right[rank], ahead, first, near, apart)
                    yield Seen(*told, copy, likely, weight)


def _seen(
    scores: Matrix, alike: float | None, gap: BankGap, fitted: Match, modality: str
) -> Iterator[tuple[int, float, float, float, float, float]]:
    top = top_of(scores, alike)
    p = fitted.probability(modality, scores, top)
    field = gap.usual if top.field is None else top.field
    first, likely = (top.first - field) / gap.size, [np.nan] * len(scores) if p is None else p.tolist()
    for rank, score in enumerate(scores[:TEN].tolist()):
        ahead = (score - field) / gap.size
        yield rank, ahead, first, alike or 0.0, float(alike is None), likely[rank]


def _alike(encoded: Corpus, row: int, name: str) -> float | None:
    rows = np.flatnonzero(encoded.owner == list(encoded.document_ids).index(name))
    held = encoded.documents
    parts = {part: held.parts[part][rows] for part in held.parts if held.present[part][rows].all()}
    return likeness(query_parts(encoded.queries, row), parts)


def learned(hits: Hits) -> dict[str, Curve]:
    """Return a curve of scores in gaps for each query modality."""
    curves = {}
    for modality in np.unique(hits["modality"]):
        mine = some(hits, (hits["modality"] == modality) & ~hits["copy"])
        x = np.column_stack([mine[name] for name in ("ahead", "alike", "first", "apart")])
        a, b, alike, d, apart = logistic(x, mine["right"].astype(float), mine["weight"], PULL, rising=2)
        curves[str(modality)] = Curve(a, b, -(b + d), d, alike, apart)
    return curves


def predicted(curves: Mapping[str, Curve], hits: Hits) -> Matrix:
    """Return P(match) of hits."""
    p = np.full(len(hits["rank"]), np.nan)
    for modality, curve in curves.items():
        mine = hits["modality"] == modality
        weights = (curve.slope, curve.first, curve.alike, curve.apart)
        seen = np.stack([hits[name][mine].astype(float) for name in ("ahead", "first", "alike", "apart")])
        found = sigmoid(curve.intercept + np.array(weights) @ seen)
        p[mine] = np.where(hits["copy"][mine], np.maximum(found, CERTAIN), found)
    return p


def left_out(hits: Hits) -> Matrix:
    """Return P(match) of every hit, learned from the corpora that share no source with its own."""
    p = np.full(len(hits["rank"]), np.nan)
    for sources in {design.sources for design in DESIGNS.values()}:
        apart = [name for name, design in DESIGNS.items() if not design.sources & sources]
        mine = np.isin(hits["corpus"], [name for name, design in DESIGNS.items() if design.sources == sources])
        p[mine] = predicted(learned(some(hits, np.isin(hits["corpus"], apart))), some(hits, mine))
    return p


def measured(p: Matrix, hits: Hits) -> list[float]:
    """Return AUROC, ECE and the share kept of first hits."""
    right = hits["right"]
    return [auroc(p, right), ece(p, right), float((p[right] >= LEAST).mean())]


def row(name: str, p: Matrix, hits: Hits) -> Row:
    """Measure P(match) on some hits, all with their answers present."""
    first, known = hits["rank"] == 0, ~np.isnan(hits["fitted"])
    before = measured(hits["fitted"][first & known], some(hits, first & known)) if known.any() else ["none"] * 3
    of_ten = measured(p, hits)[:2]
    after = measured(p[first], some(hits, first))
    counts: Row = {"corpus": name, "questions": f"{int(first.sum())}", "right": float(hits["right"][first].mean())}
    names = ("AUROC", "ECE", "kept", "AUROC, ten", "ECE, ten", "fitted: AUROC", "fitted: ECE", "fitted: kept")
    return counts | dict(zip(names, [*after, *of_ten, *before], strict=True))


def table(hits: Hits) -> list[Row]:
    """Measure each corpus, each kind of question, and questions without an answer."""
    p = left_out(hits)
    asked = ~hits["removed"]
    groups = {name: hits["corpus"] == name for name in DESIGNS if not name.startswith(SMALL)}
    groups["about ten documents"] = np.char.startswith(hits["corpus"].astype(str), SMALL)
    groups |= {f"asked by {name}": hits["modality"] == name for name in ("text", "image", "image+text")}
    groups["all"] = np.ones(len(p), dtype=bool)
    rows = [row(name, p[mine & asked], some(hits, mine & asked)) for name, mine in groups.items()]
    return [*rows, row("all, and all without their answers", p, hits)]


def draw(hits: Hits) -> None:
    """Draw how many first hits are relevant against P(match) of priors learned without their corpus."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4.6), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for name, column, color in (("P(match)", left_out(hits), "C0"), ("without a prior", hits["fitted"], "C1")):
        mine = (hits["rank"] == 0) & ~hits["removed"] & ~np.isnan(column)
        p, right = column[mine], hits["right"][mine]
        bins = np.minimum((p * BINS).astype(int), BINS - 1)
        points = [(p[bins == at].mean(), right[bins == at].mean(), (bins == at).sum()) for at in np.unique(bins)]
        x, y, count = zip(*points, strict=True)
        axes.plot(x, y, color=color, label=f"{name}: ECE {ece(p, right):.3f}")
        axes.scatter(x, y, s=[4 + 0.3 * each for each in count], color=color)
    axes.set(xlabel="P(match) of the first hit", ylabel="share that is relevant", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title("Does P(match) say how often a first hit is relevant?", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=120)


def gathered(names: Sequence[str], folder: Path, cache: Path) -> Hits:
    """Return the hits of all corpora."""
    seen = [hit for name in names for hit in observed(folder, name, cache)]
    return {field: np.array(column) for field, column in zip(Seen._fields, zip(*seen, strict=True), strict=True)}


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    corpora, kept_vectors = Path(options.out or "out/match"), Path(options.cache or "out/match-cache")
    match_corpora.build(options.data, Path(options.packs), corpora)
    everything = gathered(list(DESIGNS), corpora, kept_vectors)
    if options.write:
        identity = mixtures.mini(kept_vectors).identity
        draw(everything)
        Prior(identity, learned(everything)).write(EMBEDDED["mini"] / prior.FILE)
    raise SystemExit(compared("match_prior", table(everything), options.write))
