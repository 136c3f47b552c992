"""Measures: what they are, against trec_eval's own code and by hand."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from isthmus.errors import BadInput, MissingExtra, UnknownName
from isthmus.evaluate import MEASURES, Measure, left_out, values
from isthmus.evaluate.measures import mean

THEIRS = {
    "nDCG@10": "ndcg_cut_10",
    "nDCG@3": "ndcg_cut_3",
    "nDCG": "ndcg",
    "R@5": "recall_5",
    "P@5": "P_5",
    "hit@1": "success_1",
    "hit@5": "success_5",
    "MRR": "recip_rank",
    "AP": "map",
    "AP@5": "map_cut_5",
}
ALL = [*THEIRS, "RR@3", "nDCG(gain=exp)@10", "nDCG(gain=exp)", "nDCG-retrieved@10", "nDCG-retrieved(gain=exp)@3"]


@st.composite
def worlds(draw: st.DrawFn) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Some queries: some asked and not judged, some judged and not asked, some with nothing right; no equal scores."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for i in range(draw(st.integers(1, 6))):
        documents = [f"d{j}" for j in rng.permutation(30)]
        if rng.random() < 0.8:
            kept = documents[: int(rng.integers(0, 30))]
            run[f"q{i}"] = dict(zip(kept, (rng.permutation(len(kept)) / 7 - 1).tolist(), strict=True))
        if rng.random() < 0.9:
            judged = rng.choice(documents, size=int(rng.integers(1, 20)), replace=False)
            qrels[f"q{i}"] = {str(d): int(rng.integers(-1, 4)) for d in judged}
    return run, qrels


@pytest.mark.parametrize("name", ALL)
def test_a_measures_repr_reads_back(name: str) -> None:
    assert repr(Measure.parse(name)) == name
    assert Measure.parse(repr(Measure.parse(name))) == Measure.parse(name)


@pytest.mark.parametrize("name", ALL)
@given(world=worlds())
@settings(max_examples=25, deadline=None)
def test_every_measure_is_that_of_trec_eval(
    name: str, world: tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]
) -> None:
    run, qrels = world
    ours = values(name, run, qrels, by="ours")
    right = {query: judged for query, judged in qrels.items() if max(judged.values()) > 0}
    assert list(ours) == list(right)
    assert set(left_out(run, qrels)) == {*run, *qrels} - set(right)
    if MEASURES[Measure.parse(name).name].theirs:
        assert values(name, run, qrels, by="ir-measures") == pytest.approx(ours, abs=1e-12)
    if name in THEIRS and right:
        asked = {query: hits for query, hits in run.items() if hits}
        judged = {query: {d: max(rel, 0) for d, rel in of.items()} for query, of in right.items()}
        theirs = pytrec_eval.RelevanceEvaluator(judged, {THEIRS[name]}).evaluate(asked)
        expected = {query: theirs[query][THEIRS[name]] if query in theirs else 0.0 for query in right}
        assert ours == pytest.approx(expected, abs=1e-12)
    assert all(0 <= value <= 1 + 1e-12 for value in ours.values())


RUN = {"q": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.6}}
QRELS = {"q": {"b": 1, "d": 3, "lost": 2}}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("R@2", 1 / 3),
        ("R@4", 2 / 3),
        ("P@4", 2 / 4),
        ("P@8", 2 / 8),
        ("hit@1", 0.0),
        ("hit@2", 1.0),
        ("RR@1", 0.0),
        ("MRR", 1 / 2),
        ("AP", (1 / 2 + 2 / 4) / 3),
        ("nDCG@4", (1 / math.log2(3) + 3 / math.log2(5)) / (3 + 2 / math.log2(3) + 1 / 2)),
        ("nDCG(gain=exp)@4", (1 / math.log2(3) + 7 / math.log2(5)) / (7 + 3 / math.log2(3) + 1 / 2)),
        ("nDCG-retrieved@4", (1 / math.log2(3) + 3 / math.log2(5)) / (3 + 1 / math.log2(3))),
    ],
)
@pytest.mark.parametrize("by", ["ours", None])
def test_a_ranking_small_enough_to_check_by_hand(name: str, expected: float, by: str | None) -> None:
    assert values(name, RUN, QRELS, by=by) == {"q": pytest.approx(expected)}  # type: ignore[arg-type]


def as_gr_clip_does(relevances: list[int], k: int) -> float:
    """Hand the best k to scikit-learn, as the authors' retrieval_mixbench.py does; it refuses a list of one."""
    best = relevances[:k]
    if len(best) < 2:
        return float(best[0] > 0)
    return float(ndcg_score([best], [[-float(place) for place in range(len(best))]], k=k))


@given(gains=st.lists(st.integers(0, 3), min_size=1, max_size=20), k=st.integers(1, 12), missed=st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_ndcg_over_the_retrieved_is_gr_clips_and_never_below_trec_evals(gains: list[int], k: int, missed: int) -> None:
    run = {"q": {f"d{i}": -float(i) for i in range(len(gains))}}
    qrels = {"q": {f"d{i}": gain for i, gain in enumerate(gains)} | {f"m{i}": 1 for i in range(missed)} | {"x": 1}}
    theirs = values(f"nDCG-retrieved@{k}", run, qrels)["q"]
    assert theirs == pytest.approx(as_gr_clip_does(gains, k))
    assert theirs >= values(f"nDCG@{k}", run, qrels)["q"] - 1e-12


def test_what_was_not_found_costs_nothing_over_the_retrieved() -> None:
    run, qrels = {"q": {"a": 1.0, "z": 0.5}}, {"q": {"a": 1, "b": 1, "c": 1}}
    assert values("nDCG-retrieved@10", run, qrels) == {"q": 1.0}
    assert values("nDCG@10", run, qrels)["q"] < 0.5


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("run", [{}, {"q": {}}, {"other": {"a": 1.0}}])
def test_a_judged_query_without_an_answer_is_0(name: str, run: dict[str, dict[str, float]]) -> None:
    assert values(name, run, {"q": {"a": 1}}) == {"q": 0.0}


def test_a_query_with_nothing_right_is_left_out_and_named() -> None:
    qrels = {"q": {"a": 1}, "r": {"a": 0, "b": -1}, "s": {}}
    assert values("R@1", {"r": {"a": 1.0}, "q": {"a": 1.0}, "t": {"a": 1.0}}, qrels) == {"q": 1.0}
    assert left_out({"t": {}}, qrels) == ("r", "s", "t")
    assert mean(values("R@1", {}, qrels)) == 0.0
    with pytest.raises(BadInput, match="nothing to average"):
        mean(values("R@1", {}, {"r": {"a": 0}}))


@pytest.mark.parametrize("by", ["ours", "ir-measures"])
def test_equal_scores_rank_as_the_run_has_them_and_close_ones_do_not_tie(by: str) -> None:
    for first, second in (("a", "b"), ("b", "a")):
        run = {"q": {first: 1.0, second: 1.0}}
        assert values("RR@10", run, {"q": {"b": 1}}, by=by)["q"] == (0.5 if first == "a" else 1.0)  # type: ignore[arg-type]
    near = {"q": {"a": 1.0, "b": 1.0 + 1e-12}}  # alike in single precision
    assert values("MRR", near, {"q": {"b": 1}}, by=by) == {"q": 1.0}  # type: ignore[arg-type]


def test_a_huge_relevance_is_only_a_number() -> None:
    assert values("nDCG(gain=exp)@10", RUN, {"q": {"a": 40, "b": 1}}) == {"q": pytest.approx(1.0)}


def test_the_equations_serve_where_ir_measures_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = values("nDCG@3", RUN, QRELS)
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    assert values("nDCG@3", RUN, QRELS) == pytest.approx(expected)
    with pytest.raises(MissingExtra, match=r"isthmus\[evaluate\]"):
        values("nDCG@3", RUN, QRELS, by="ir-measures")


@pytest.mark.parametrize(
    ("same", "name"), [("RR", "MRR"), ("MRR@10", "RR@10"), (" nDCG ( gain = exp ) @ 10 ", "nDCG(gain=exp)@10")]
)
def test_other_ways_to_write_the_same(same: str, name: str) -> None:
    assert Measure.parse(same) == Measure.parse(name)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("ndgc@10", UnknownName, "'nDCG'"),
        ("ndcg@10", UnknownName, "'nDCG'"),
        ("nDCG-retreived@10", UnknownName, "'nDCG-retrieved'"),
        ("mrr", UnknownName, "'MRR'"),
        ("nDCG(gian=exp)@10", UnknownName, "'gain'"),
        ("nDCG(gain=expo)@10", UnknownName, "'exp'"),
        ("R", BadInput, "R@10"),
        ("R@0", BadInput, "whole number"),
        ("R@-1", BadInput, "whole number"),
        ("R@ten", BadInput, "whole number"),
        ("P(gain=exp)@3", BadInput, "no gain"),
        ("", BadInput, "is not a measure"),
        ("nDCG@10 R@5", BadInput, "is not a measure"),
        (10, BadInput, "is not a measure"),
    ],
)
def test_what_is_no_measure_is_refused_with_what_to_write(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        Measure.parse(name)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(BadInput, match="'a' for query 'q'"):
        values("MRR", {"q": {"a": math.nan}}, {"q": {"a": 1}})


def test_a_measure_ir_measures_lacks_is_not_asked_of_it() -> None:
    with pytest.raises(BadInput, match="nDCG-retrieved"):
        values("nDCG-retrieved@10", RUN, QRELS, by="ir-measures")
    with pytest.raises(BadInput, match="'theirs'"):
        values("nDCG@10", RUN, QRELS, by="theirs")  # type: ignore[arg-type]
