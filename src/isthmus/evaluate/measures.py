"""A measure is a value: ``nDCG@10``, ``nDCG(gain=exp)@10``, ``nDCG-retrieved@10``, ``R@100``, ``hit@1``, ``MRR``.

This module defines what a measure *is*. ``ir-measures`` (trec_eval's own code) computes the measures it knows, if it is
installed, and ``formulas`` the rest. Tests check that the two agree.

>>> Measure.parse("nDCG(gain=exp)@10")
nDCG(gain=exp)@10
>>> Measure.parse("nDCG@10") == Measure("nDCG", 10)
True
>>> Measure.parse("RR")
MRR
>>> Measure.parse("ndgc@10")
Traceback (most recent call last):
isthmus.errors.UnknownName: No measure is called 'ndgc'. Did you mean 'nDCG'?
>>> values("RR@10", {"q": {"a": 0.9, "b": 0.5}}, {"q": {"b": 1}, "no answer": {"a": 1}, "none relevant": {"a": 0}})
{'q': 0.5, 'no answer': 0.0}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.evaluate import formulas
from isthmus.evaluate.runs import Qrels, Run, ranking
from isthmus.registry import lookup
from isthmus.types import Matrix

By: TypeAlias = Literal["ours", "ir-measures"]


class MeasureKind(NamedTuple):
    """A named measure: its equation, its name in ir-measures, whether it takes a gain, whether it needs a cut."""

    formula: formulas.Formula
    theirs: str | None
    graded: bool = False
    must_cut: bool = False


MEASURES: Mapping[str, MeasureKind] = {
    "nDCG": MeasureKind(formulas.ndcg, "nDCG", graded=True),
    "nDCG-retrieved": MeasureKind(formulas.ndcg_retrieved, None, graded=True),
    "R": MeasureKind(formulas.recall, "R", must_cut=True),
    "P": MeasureKind(formulas.precision, "P", must_cut=True),
    "hit": MeasureKind(formulas.hit, "Success", must_cut=True),
    "RR": MeasureKind(formulas.reciprocal_rank, "RR"),
    "AP": MeasureKind(formulas.average_precision, "AP"),
}
# The same by another name. RR without a cut is written MRR, as the papers do.
ALSO: Mapping[str, str] = {"MRR": "RR", "Recall": "R", "Precision": "P", "Success": "hit", "MAP": "AP", "NDCG": "nDCG"}
GAINS: Mapping[str, Callable[[int], int]] = {"linear": lambda rel: rel, "exp": lambda rel: 2**rel - 1}
MOST_LEVELS = 1000  # trec_eval counts the documents of every level of relevance up to the highest
_WRITTEN = re.compile(r"\s*(?P<name>[^\s()@=]+)\s*(?:\(\s*(?P<settings>[^()]*?)\s*\))?\s*(?:@\s*(?P<k>\S+))?\s*")


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A name, where rankings are cut (None: no cut), and the gain of a relevance: itself, or 2^relevance − 1."""

    name: str
    k: int | None = None
    gain: str = "linear"

    def __post_init__(self) -> None:
        kind = lookup(MEASURES, self.name, "measure")
        lookup(GAINS, self.gain, "gain")
        if self.gain != "linear" and not kind.graded:
            raise BadInput(f"{self.name} uses binary relevance and takes no gain.")
        if self.k is None and kind.must_cut:
            raise BadInput(f"{self.name} needs a cut: write {self.name}@10.")
        if self.k is not None and (isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1):
            raise BadInput(f"{self.name}@{self.k}: the cut must be a whole number from 1, as in {self.name}@10.")

    @classmethod
    def parse(cls, text: str | Measure) -> Measure:
        """Parse a measure, or raise an error that says what to write instead."""
        if isinstance(text, Measure):
            return text
        match = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise BadInput(f"{text!r} is not a measure. Write nDCG@10, R@100, MRR or nDCG(gain=exp)@10.")
        name, cut = ALSO.get(match["name"], match["name"]), match["k"]
        lookup({**MEASURES, **ALSO}, name, "measure")
        if cut is not None and not cut.isdecimal():
            raise BadInput(f"{text!r}: the cut must be a whole number from 1, as in {name}@10.")
        gain = "linear"
        if match["settings"]:
            key, _, gain = (word.strip() for word in match["settings"].partition("="))
            lookup({"gain": None}, key, f"setting of {name}")
        return cls(name, None if cut is None else int(cut), gain)

    def __str__(self) -> str:
        if self.name == "RR" and self.k is None:
            return "MRR"
        gain = "" if self.gain == "linear" else f"(gain={self.gain})"
        return f"{self.name}{gain}" + ("" if self.k is None else f"@{self.k}")

    __repr__ = __str__


def values(measure: str | Measure, run: Run, qrels: Qrels, *, by: By | None = None) -> dict[str, float]:
    """Return the measure of every query that has a relevant document, in the order of the qrels.

    A judged query without an answer counts as 0 and is never skipped. A query without any relevant judgement has no
    value: ``left_out`` lists those. A relevance below 1 is not relevant. Equal scores rank in the order of the run
    (trec_eval uses descending ids). ``by``: what computes them; default: ir-measures if it is installed and knows the
    measure, the equations otherwise.
    """
    measure = Measure.parse(measure)
    if by not in (None, "ours", "ir-measures"):
        raise BadInput(f"Measures are computed by 'ours' or 'ir-measures', not {by!r}.")
    theirs = MEASURES[measure.name].theirs is not None
    if by == "ir-measures" and not theirs:
        raise BadInput(f"ir-measures has no {measure.name}. Leave by= out.")
    worth = GAINS[measure.gain]
    there = {
        query: {document: worth(rel) for document, rel in judged.items() if rel > 0} for query, judged in qrels.items()
    }
    there = {query: gains for query, gains in there.items() if gains}
    rankings = {query: ranking(run.get(query, {}), measure.k, query) for query in there}
    small = max((gain for gains in there.values() for gain in gains.values()), default=0) <= MOST_LEVELS
    if by == "ir-measures" or (by is None and theirs and small and find_spec("ir_measures")):
        return _by_ir_measures(measure, rankings, there)
    return {query: _by_formula(measure, rankings[query], gains) for query, gains in there.items()}


def left_out(run: Run, qrels: Qrels) -> tuple[str, ...]:
    """Return the queries of qrels and run that ``values`` leaves out: none of their documents is judged relevant.

    >>> left_out({"q": {}, "searched": {}}, {"q": {"a": 1}, "judged": {"a": 0}})
    ('judged', 'searched')
    """
    queries = dict.fromkeys([*qrels, *run])
    return tuple(query for query in queries if not any(rel > 0 for rel in qrels.get(query, {}).values()))


def mean(of: Mapping[str, float]) -> float:
    """Return the mean over queries; without queries, raise an error."""
    if not of:
        raise BadInput(
            "No query has a relevant document, so there is nothing to average. Check that run and qrels belong "
            "together."
        )
    return float(np.mean(list(of.values())))


def _by_formula(measure: Measure, ranked: list[str], gains: Mapping[str, int]) -> float:
    earned: Matrix = np.array([gains.get(document, 0) for document in ranked], dtype=np.float64)
    there: Matrix = np.sort(np.array(list(gains.values()), dtype=np.float64))[::-1]
    return MEASURES[measure.name].formula(earned, there, measure.k)


def _by_ir_measures(
    measure: Measure, rankings: Mapping[str, list[str]], there: Mapping[str, Mapping[str, int]]
) -> dict[str, float]:
    """Pass ranks as scores, so that equal scores and trec_eval's single precision change nothing."""
    library = need("ir_measures", extra="evaluate")
    written = f"{MEASURES[measure.name].theirs}" + ("" if measure.k is None else f"@{measure.k}")
    run = {query: {d: float(-place) for place, d in enumerate(ranked)} for query, ranked in rankings.items() if ranked}
    out = dict.fromkeys(there, 0.0)
    if run:
        qrels = {query: dict(gains) for query, gains in there.items()}
        for found in library.iter_calc([library.parse_measure(written)], qrels, run):
            out[found.query_id] = float(found.value)
    return out
