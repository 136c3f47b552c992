"""Vectors: parts, presence, weights, modality; and every way to get them wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration.rows import unit
from isthmus.errors import BadVectors, IsthmusError
from isthmus.types import Vectors

EYE = np.eye(3)


def test_a_modality_is_the_set_of_parts_in_alphabetical_order() -> None:
    vectors = Vectors(
        {"text": EYE, "image": EYE, "audio": EYE},
        {"text": np.array([1, 1, 0], bool), "image": np.array([0, 1, 1], bool), "audio": np.array([0, 1, 0], bool)},
    )
    assert vectors.modality.tolist() == ["text", "audio+image+text", "image"]
    assert vectors.modalities == ("audio+image+text", "image", "text")


def test_one_vector_for_both_has_the_same_modality_as_two_vectors() -> None:
    joint = Vectors.of(EYE, "image+text")
    apart = Vectors({"image": EYE, "text": EYE})
    assert joint.modality.tolist() == apart.modality.tolist() == ["image+text"] * 3
    assert list(joint.parts) == ["image+text"]


def test_a_part_may_be_absent_everywhere_and_there_may_be_no_rows() -> None:
    vectors = Vectors({"text": EYE, "image": EYE}, {"image": np.zeros(3, bool)})
    assert vectors.modalities == ("text",)
    assert len(Vectors.of(np.empty((0, 3)), [])) == 0
    assert Vectors.of(np.empty((0, 3)), []).modality.tolist() == []


def test_rows_of_different_parts_can_be_put_together() -> None:
    weighted = Vectors({"text": EYE, "image": EYE}, weights={"text": np.full(3, 0.2), "image": np.full(3, 0.8)})
    together = Vectors.concat([Vectors.of(EYE, "text"), weighted, Vectors.of(EYE, "image")])
    assert together.modality.tolist() == ["text"] * 3 + ["image+text"] * 3 + ["image"] * 3
    assert together.weights is not None
    assert together.weights["image"].tolist() == [1.0] * 3 + [0.8] * 3 + [1.0] * 3
    with pytest.raises(BadVectors, match="nothing to put together"):
        Vectors.concat([])


def test_take_keeps_order_masks_and_weights() -> None:
    vectors = Vectors({"text": EYE}, weights={"text": np.array([1.0, 2.0, 3.0])})
    taken = vectors.take(np.array([2, 0]))
    assert taken.parts["text"].tolist() == EYE[[2, 0]].tolist()
    assert taken.weights is not None
    assert taken.weights["text"].tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Vectors({}), "at least one part"),
        (lambda: Vectors(EYE), "Write Vectors.of(matrix, 'text')"),  # type: ignore[arg-type]
        (lambda: Vectors({"text": np.ones(3)}), "must be (rows, dimensions)"),
        (lambda: Vectors({"text": np.ones((3, 0))}), "0 dimensions"),
        (lambda: Vectors({"text": np.array([["a"]])}), "real numbers"),
        (lambda: Vectors({"": EYE}), "not a part's name"),
        (lambda: Vectors({"text": EYE, "image": np.ones((3, 4))}), "has 4 dimensions but part 'text' has 3"),
        (lambda: Vectors({"text": EYE, "image": np.ones((2, 3))}), "has 2 rows but part 'text' has 3"),
        (lambda: Vectors({"text": EYE}, {"text": np.ones(3)}), "must be 3 booleans"),  # type: ignore[dict-item]
        (lambda: Vectors({"text": EYE}, {"text": np.ones(2, bool)}), "must be 3 booleans"),
        (lambda: Vectors({"text": EYE}, {"image": np.ones(3, bool)}), "without vectors: image"),
        (lambda: Vectors({"text": EYE}, {"text": np.array([1, 0, 1], bool)}), "row 1 has no part"),
        (lambda: Vectors({"text": EYE}, weights={"text": np.array([1.0, -1.0, 1.0])}), "-1.0 at row 1"),
        (lambda: Vectors({"text": EYE}, weights={"text": np.array([1.0, np.nan, 1.0])}), "nan at row 1"),
        (lambda: Vectors({"text": EYE}, weights={"text": np.array([1.0, 0.0, 1.0])}), "row 1 gives weight 0"),
        (lambda: Vectors({"text": EYE}, weights={"image": np.ones(3)}), "without vectors: image"),
        (lambda: Vectors.of(EYE, ["text", "image"]), "3 vectors came with 2 modalities"),
    ],
)
def test_malformed_vectors_are_refused_with_what_is_wrong(make: Any, said: str) -> None:
    with pytest.raises(BadVectors) as caught:
        make()
    assert said in str(caught.value)
    assert isinstance(caught.value, IsthmusError | ValueError)


@given(exponent=st.integers(-37, 37), dtype=st.sampled_from([np.float32, np.float64]))
def test_vectors_of_any_scale_become_unit_vectors(exponent: int, dtype: Any) -> None:
    rows = (np.random.default_rng(0).uniform(0.5, 1, size=(4, 6)) * 10.0**exponent).astype(dtype)
    np.testing.assert_allclose(np.linalg.norm(unit(rows).astype(np.float64), axis=1), 1, atol=1e-6)


def test_integers_and_half_precision_are_taken_as_they_are() -> None:
    whole = Vectors.of(np.array([[3, 4], [4, 3]]), "text")
    half = Vectors.of(np.array([[3, 4], [4, 3]], dtype=np.float16), "text")
    for vectors in (whole, half):
        scores = calibration.fit("none", vectors, vectors).scores(vectors, vectors)
        np.testing.assert_allclose(scores, [[1, 0.96], [0.96, 1]])
