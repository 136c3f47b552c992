"""P(match) on the benchmark of mixtures with ``mini``: how likely a hit is relevant, and how often it is.

    python reproduce/match_mixtures.py --data DIR --packs PACKS [--mixtures OUT] [--cache CACHE] [--held-out]
                                        (builds the mixtures if OUT has none; half an hour, five minutes from the cache)

Each mixture is a collection as people use it, calibrated by ``auto``, and asked its questions. For first hits: how many
are relevant, the mean P(match), AUROC, ECE, *kept* (the share of right first hits with P(match) ≥ .5) and *dropped*
(the share of wrong ones below it); AUROC and ECE for the first ten hits; *identical*, the smallest P(match) of a first
hit with the same picture file as the question; and in how many lists P(match) rises from a hit to the next. The prior
of ``mini`` was learned on the mixtures named ``-dev`` and others (``match_prior.py`` leaves corpora out). The held-out
ones run only with ``--held-out``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mixtures
import mixtures_set
import numpy as np
from tables import Row, arguments, compared

from isthmus.evaluate.benchmarks import load
from isthmus.evaluate.benchmarks.mixtures import names
from isthmus.search.probability import auroc, ece
from isthmus.types import Mask, Matrix

TEN = 10
LEAST = 0.5
SEARCHES = ("vectors", "hybrid")
OPTIONS = {key: mixtures.OPTIONS[key] for key in ("packs", "mixtures", "cache")}


@dataclass(frozen=True)
class Lists:
    """P(match) and relevance of the first ten hits of questions, ``(questions, 10)``, NaN where a list ends."""

    probability: Matrix
    right: Mask
    modality: Matrix  # of the question
    identical: Mask  # whether the first hit has the same picture file as the question

    def take(self, rows: Mask) -> Lists:
        """Return some questions."""
        return Lists(self.probability[rows], self.right[rows], self.modality[rows], self.identical[rows])

    @property
    def rising(self) -> int:
        """In how many lists P(match) rises from a hit to the next."""
        return int((np.diff(self.probability, axis=1) > 0).any(axis=1).sum())


def ask(folder: Path, name: str, cache: Path) -> dict[str, Lists]:
    """Ask a mixture its questions, by vectors and by vectors and words."""
    benchmark, encoded = load(f"mixtures:{name}", folder), mixtures.corpus(folder, name, cache)
    asked, same = mixtures.encoded_queries(benchmark, encoded), mixtures.identical(benchmark)
    found: dict[str, Lists] = {}
    with mixtures.collection(benchmark, cache) as things:
        things.calibrate()
        for search in SEARCHES:
            p, right = np.full((len(asked), TEN), np.nan), np.zeros((len(asked), TEN), dtype=bool)
            identical = np.zeros(len(asked), dtype=bool)
            for row, hits in enumerate(things.search_many(asked, TEN, hybrid=search == "hybrid")):
                key = benchmark.questions[row].id
                p[row, : len(hits)] = [np.nan if hit.probability is None else hit.probability for hit in hits]
                right[row, : len(hits)] = [benchmark.qrels.get(key, {}).get(hit.id, 0) > 0 for hit in hits]
                identical[row] = bool(hits) and hits[0].id in same.get(key, ())
            found[search] = Lists(p, right, encoded.queries.modality.astype(str), identical)
    return found


def row(name: str, search: str, lists: Lists) -> Row:
    """Measure some lists."""
    p, right = lists.probability[:, 0], lists.right[:, 0]
    there = ~np.isnan(lists.probability)
    every, relevant = lists.probability[there], lists.right[there]
    copies = p[lists.identical]
    return {
        "mixture": name,
        "search": search,
        "questions": f"{len(p)}",
        "right": float(right.mean()),
        "P(match)": float(p.mean()),
        "AUROC": auroc(p, right),
        "ECE": ece(p, right),
        "kept": float((p[right] >= LEAST).mean()),
        "dropped": float((p[~right] < LEAST).mean()),
        "AUROC, ten": auroc(every, relevant),
        "ECE, ten": ece(every, relevant),
        "identical": float(copies.min()) if len(copies) else "none",
        "rising": f"{lists.rising}",
    }


def together(several: list[Lists]) -> Lists:
    """Return the lists of several mixtures."""
    return Lists(*(np.concatenate([getattr(each, name) for each in several]) for name in Lists.__dataclass_fields__))


def table(found: dict[str, dict[str, Lists]], group: str) -> list[Row]:
    """Measure every mixture, all of them, and all by the modality of the question."""
    rows = [row(name, search, found[name][search]) for name in found for search in SEARCHES]
    for search in SEARCHES:
        every = together([each[search] for each in found.values()])
        rows.append(row(f"all {group}", search, every))
        rows += [
            row(f"all {group}, asked by {kind}", search, every.take(every.modality == kind))
            for kind in ("text", "image", "image+text")
        ]
    return rows


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS, {"held-out": "run the held-out mixtures, not those for design"})
    place, chosen = Path(options.mixtures or "out/mixtures"), "held-out" if options.held_out else "dev"
    if not place.exists():
        mixtures_set.build(options.data, Path(options.packs), place)
    kept_vectors = Path(options.cache or "out/mixtures-cache")
    answers = {name: ask(place, name, kept_vectors) for name in names(place, chosen)}
    expected = "match_mixtures_held_out" if options.held_out else "match_mixtures"
    raise SystemExit(compared(expected, table(answers, chosen), options.write))
