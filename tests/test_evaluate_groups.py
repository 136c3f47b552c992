"""Whom a ranking shows: bias, skew and divergence, on rankings small enough to check by hand."""

from __future__ import annotations

from math import inf, log, log2

import numpy as np
import pytest

from isthmus.errors import BadInput
from isthmus.evaluate import max_skew, ndkl, retrieval_bias, skews
from isthmus.types import Names

EVEN = {"m": 0.5, "w": 0.5}


def lists(*rows: str) -> Names:
    return np.array([list(row) for row in rows])


def test_bias_is_the_difference_of_two_groups_over_their_sum() -> None:
    assert retrieval_bias(lists("mmmm", "wwww", "mmmw", "mwwm"), "m", "w").tolist() == [1.0, -1.0, 0.5, 0.0]


def test_bias_changes_its_sign_with_the_order_of_the_groups() -> None:
    found = lists("mmwm", "wwwm")
    assert retrieval_bias(found, "m", "w").tolist() == (-retrieval_bias(found, "w", "m")).tolist()


def test_a_third_group_does_not_count_in_the_bias_and_none_of_either_is_0() -> None:
    assert retrieval_bias(lists("moow", "mooo", "oooo"), "m", "w").tolist() == [0.0, 1.0, 0.0]


def test_skew_is_the_logarithm_of_a_share_over_the_expected_one() -> None:
    found = skews(lists("mmmw"), {"m": 0.6, "w": 0.4})
    assert found["m"] == pytest.approx([log(0.75 / 0.6)])
    assert found["w"] == pytest.approx([log(0.25 / 0.4)])


def test_the_largest_skew_is_that_of_the_group_ahead_and_0_when_all_is_as_expected() -> None:
    assert max_skew(lists("mmmw", "mwww", "mwmw"), EVEN) == pytest.approx([log(1.5), log(1.5), 0.0])


def test_a_group_that_is_not_there_has_no_finite_skew_and_is_never_the_largest() -> None:
    expected = {"m": 0.999, "w": 0.001}
    assert skews(lists("mm"), expected)["w"].tolist() == [-inf]
    assert max_skew(lists("mm"), expected) == pytest.approx([log(1 / 0.999)])


def test_ndkl_is_the_discounted_divergence_of_every_beginning_of_the_list() -> None:
    two = 0.75 * log(1.5) + 0.25 * log(0.5)  # mmmw as a whole
    three = log(2)  # m, mm and mmm
    weight = [1 / log2(i + 1) for i in (1, 2, 3, 4)]
    expected = (three * sum(weight[:3]) + two * weight[3]) / sum(weight)
    assert ndkl(lists("mmmw"), EVEN) == pytest.approx([expected])


def test_ndkl_counts_the_first_places_more() -> None:
    early, late = ndkl(lists("mmwwmw", "mwmwmm"), EVEN)
    assert early > late


def test_every_measure_is_the_least_where_groups_take_turns() -> None:
    turns, apart = lists("mwmwmw"), lists("mmmmmm")
    assert abs(retrieval_bias(turns, "m", "w")) < abs(retrieval_bias(apart, "m", "w"))
    assert max_skew(turns, EVEN) < max_skew(apart, EVEN)
    assert ndkl(turns, EVEN) < ndkl(apart, EVEN)


@pytest.mark.parametrize(
    ("found", "expected", "says"),
    [
        (lists("mo"), EVEN, "no expected share for 'o'"),
        (lists("mw"), {"m": 0.5, "w": 0.6}, "sum to 1"),
        (lists("mm"), {"m": 1.0, "w": 0.0}, "above 0"),
        (np.array(["m", "w"]), EVEN, "queries, k"),
        (np.empty((2, 0), dtype=str), EVEN, "queries, k"),
    ],
)
def test_what_is_no_table_of_groups_or_no_distribution_is_refused(
    found: Names, expected: dict[str, float], says: str
) -> None:
    for measure in (max_skew, ndkl):
        with pytest.raises(BadInput, match=says):
            measure(found, expected)
