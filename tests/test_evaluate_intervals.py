"""Intervals cover, tests are exact where they can be, tables read back."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from isthmus.errors import BadFile, BadInput, UnknownName
from isthmus.evaluate import FORMS, Row, from_csv, from_json, interval, macro, paired, render
from isthmus.evaluate.intervals import randomisation, t_test


def test_a_95_percent_interval_covers_the_truth_about_95_times_in_100() -> None:
    rng = np.random.default_rng(1)
    samples = rng.beta(2, 3, size=(400, 60))  # mean 0.4
    found = [interval(sample, resamples=400, rng=i) for i, sample in enumerate(samples)]
    assert 0.91 <= np.mean([low <= 0.4 <= high for _, low, high in found]) <= 0.98
    narrow = [interval(sample, level=0.5, resamples=400) for sample in samples]
    assert 0.42 <= np.mean([low <= 0.4 <= high for _, low, high in narrow]) <= 0.58


def test_an_interval_is_as_wide_as_the_normal_one() -> None:
    values = np.random.default_rng(0).uniform(size=2000)
    value, low, high = interval(values)
    assert value == pytest.approx(values.mean())
    assert (high - low) / 2 == pytest.approx(1.96 * values.std() / np.sqrt(2000), rel=0.08)


def test_a_seed_gives_the_same_interval_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).uniform(size=50)
    whole = interval(values, rng=3)
    assert interval(values, rng=np.random.default_rng(3)) == whole != interval(values, rng=4)
    monkeypatch.setattr("isthmus.evaluate.intervals.BLOCK", 128)
    assert interval(values, rng=3).low == pytest.approx(whole.low, abs=0.02)


def test_one_value_and_equal_values_have_no_width() -> None:
    assert interval([0.25]) == (0.25, 0.25, 0.25)
    assert interval({"p": 0.5, "q": 0.5}) == (0.5, 0.5, 0.5)


def test_the_macro_average_counts_every_group_alike() -> None:
    values = {f"a{i}": 1.0 for i in range(90)} | {f"b{i}": 0.0 for i in range(10)}
    groups = {query: query[0] for query in values}
    assert macro(values, groups) == (0.5, 0.5, 0.5)  # each group's own mean never changes
    rng = np.random.default_rng(0)
    values = {query: float(value) for query, value in zip(values, rng.uniform(size=100), strict=True)}
    of_groups = [[v for q, v in values.items() if q[0] == name] for name in "ab"]
    value, low, high = macro(values, groups, resamples=4000)
    assert value == pytest.approx(np.mean([np.mean(of) for of in of_groups]))
    error = np.sqrt(sum(np.var(of) / len(of) for of in of_groups)) / 2
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.1)


@given(differences=st.lists(st.sampled_from([-0.5, -0.25, 0.0, 0.1, 0.3, 1.0]), min_size=1, max_size=7))
@settings(max_examples=40, deadline=None)
def test_the_randomisation_test_tries_every_sign_while_it_can(differences: list[float]) -> None:
    observed = abs(sum(differences))
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in product([1, -1], repeat=len(differences))
    ]
    assert randomisation(differences) == np.mean([s >= observed - 1e-9 for s in sums])


def test_drawn_signs_come_close_to_all_signs() -> None:
    differences = np.random.default_rng(5).normal(0.3, 1, size=12)
    exact = randomisation(differences, flips=5000)
    assert randomisation(differences, flips=4000, rng=1) == pytest.approx(exact, abs=0.03)
    assert randomisation(np.ones(100)) == pytest.approx(1 / 10_001)  # never 0


@given(differences=st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=30))
@settings(max_examples=40, deadline=None)
def test_the_t_test_is_scipys(differences: list[float]) -> None:
    if np.std(differences) > 1e-3:
        assert t_test(differences) == pytest.approx(ttest_1samp(differences, 0).pvalue, abs=1e-9)


def test_two_runs_alike_do_not_differ_and_a_better_one_does() -> None:
    rng = np.random.default_rng(0)
    base = {f"q{i}": float(v) for i, v in enumerate(rng.uniform(0, 0.8, size=80))}
    same = paired(base, base)
    assert (same.difference, same.low, same.high, same.p, same.p_t, same.queries) == (0, 0, 0, 1, 1, 80)
    better = {query: value + 0.1 + 0.05 * rng.normal() for query, value in base.items()}
    result = paired(better, base)
    assert 0.08 < result.low < result.difference < result.high < 0.12
    assert result.p < 0.001 > result.p_t
    assert paired(base, better).difference == pytest.approx(-result.difference)


def test_p_is_below_5_percent_5_times_in_100_when_nothing_differs() -> None:
    draws = np.random.default_rng(2).normal(size=(300, 20))
    ps = np.array([randomisation(d, flips=400, rng=i) for i, d in enumerate(draws)])
    assert 0.02 <= (ps <= 0.05).mean() <= 0.09
    assert t_test([0.5]) == 1.0
    assert t_test([0.5, 0.5, 0.5]) == 0.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: interval([]), "no values"),
        (lambda: interval([0.5, float("nan")]), "Value 1"),
        (lambda: interval([0.5], level=95), "between 0 and 1"),
        (lambda: interval([0.5], resamples=0), "At least 1"),
        (lambda: macro({"q": 1.0}, {}), "'q'"),
        (lambda: macro({}, {}), "no values"),
        (lambda: paired({"p": 1.0}, {"q": 1.0}), "'p'"),
    ],
)
def test_what_cannot_be_averaged_is_refused(call: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        call()  # type: ignore[operator]


ROWS = [
    Row("mix, small", "mini", name, measure, part, value, value / 3, 1.0)
    for measure in ("nDCG@10", "nDCG(gain=exp)@10")
    for name, value in (("none", 0.1 + 0.2), ("center+nnn(k=16,alpha=0.5)", 2 / 3))
    for part in ("overall", "image+text")
]


def test_tables_for_machines_read_back_exactly() -> None:
    assert from_csv(render(ROWS, "csv")) == ROWS
    assert from_json(render(ROWS, "json")) == ROWS
    keys = ["benchmark", "encoder", "calibration", "measure", "slice", "value", "low", "high"]
    assert [list(row) for row in json.loads(render(ROWS, "json"))] == [keys] * len(ROWS)
    assert render(ROWS, "csv").splitlines()[0] == ",".join(keys)
    assert all(render([], form) in ("", "[]", ",".join(keys) + "\n") for form in FORMS)


def test_tables_for_people_have_calibrations_down_and_slices_across() -> None:
    first, second = render(ROWS).split("\n\n")
    assert first.splitlines()[0] == "mix, small, mini: nDCG@10"
    assert first.splitlines()[1].split() == ["calibration", "overall", "image+text"]
    assert len({line.index("[") for line in first.splitlines()[2:]}) == 1
    assert "nDCG(gain=exp)@10" in second
    lines = render(ROWS, "markdown").splitlines()
    assert lines[2:5] == [
        "| calibration | overall | image+text |",
        "| --- | ---: | ---: |",
        "| none | 0.300 [0.100, 1.000] | 0.300 [0.100, 1.000] |",
    ]


def test_a_slice_that_some_rows_lack_is_an_empty_cell() -> None:
    rows = [Row("", "", "a", "R@1", "overall", 1, 1, 1), Row("", "", "b", "R@1", "text", 0, 0, 0)]
    assert render(rows).splitlines()[0] == "results: R@1"
    assert render(rows, "markdown").splitlines()[-1] == "| b |  | 0.000 [0.000, 0.000] |"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("{}", "a list"),
        ('[{"value": 1}]', "Row 1 .* exactly"),
        (render(ROWS, "json").replace("1.0", '"x"'), "Row 1: .* numbers"),
    ],
)
def test_a_damaged_table_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        from_json(text)


def test_an_unknown_form_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="'markdown'"):
        render(ROWS, "markdwon")
    with pytest.raises(BadFile, match="Row 1"):
        from_csv("a,b\n1,2\n")
