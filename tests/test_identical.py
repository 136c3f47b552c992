"""An identical picture comes first, under every calibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Collection, Document, Query
from isthmus.search.identical import CERTAIN, IDENTICAL, NEAR, same
from isthmus.types import Matrix
from stock import unit

DIM = 12
SPECS = ["auto", "center", "standardize", "nnn(k=3)", "center+nnn(k=3)+standardize", "qbnorm(beta=7.0)", "blend(k=3)"]


def parts(seed: int, n: int = 36) -> list[dict[str, Matrix]]:
    """Make documents in turn of a text, a picture and both; every modality in a cone of its own."""
    rng = np.random.default_rng(seed)
    cones = 2 * rng.normal(size=(2, DIM))
    made = {name: unit(rng.normal(size=(n, DIM)) + cone) for name, cone in zip(("text", "image"), cones, strict=True)}
    kinds = (("text",), ("image",), ("text", "image"))
    return [{name: made[name][row] for name in kinds[row % 3]} for row in range(n)]


def shelf(several: list[dict[str, Matrix]], spec: str = "auto") -> Collection:
    things = Collection.open(":memory:", "none", calibration="none")
    things.add([Document(f"{row}", vectors=vectors) for row, vectors in enumerate(several)])
    rng = np.random.default_rng(9)
    references = [
        Query(vectors={name: vector + 0.3 * rng.normal(size=DIM)}) for one in several for name, vector in one.items()
    ]
    things.calibrate(spec, queries=references)
    return things


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), spec=st.sampled_from(SPECS), words=st.booleans())
def test_an_identical_picture_comes_first_under_every_calibration(seed: int, spec: str, words: bool) -> None:
    several = parts(seed)
    with shelf(several, spec) as things:
        for row, one in enumerate(several):
            if "image" in one:
                asked = {"image": one["image"]} | ({"text": unit(one["image"][::-1])} if words else {})
                hits = things.search(Query(vectors=asked), k=5)
                assert hits[0].id == f"{row}"
                scores = [hit.score for hit in hits]
                assert scores == sorted(scores, reverse=True)


def test_a_copy_comes_first_and_pictures_that_are_all_alike_keep_their_order() -> None:
    near, identical = 0.999 * NEAR, 0.999 * IDENTICAL
    assert same([1 - near, 1 - 3.01 * near]) == 1
    assert same([1 - near, 1 - 2.99 * near]) == 0  # the next one is too near
    assert same([1 - 1.001 * NEAR, 0.0]) == 0  # too far
    assert same([1 - identical, 1 - identical, 1 - 2 * identical]) == 2
    assert same([0.99] * 20) == same([0.5, 0.4]) == same([]) == 0
    assert same([1.0, *[0.99] * 19]) == same([0.99]) == 1


def test_a_raised_hit_is_explained_probable_and_counted_once() -> None:
    several = parts(3)
    with shelf(several, "standardize") as things:
        hits = things.search(Query(vectors={"image": several[1]["image"]}), k=36, explain=True)
        first = hits[0].explanation
        assert first is not None
        assert first.raised is not None
        assert first.score + first.raised == pytest.approx(hits[0].score)
        assert "the same as the query" in str(first)
        assert len({hit.id for hit in hits}) == len(hits) == 36
        assert all(hit.explanation is not None and hit.explanation.raised is None for hit in hits[1:])
        assert hits[0].probability is None or hits[0].probability >= CERTAIN


def test_pages_filters_and_modalities_hold_for_raised_documents() -> None:
    several = parts(4)
    with shelf(several) as things:
        asked = Query(vectors={"image": several[2]["image"]})
        whole = [hit.id for hit in things.search(asked, k=12)]
        assert whole[0] == "2"
        assert [hit.id for hit in things.search(asked, k=4, offset=4)] == whole[4:8]
        assert "2" not in {hit.id for hit in things.search(asked, k=12, where={"id": {"not": "2"}})}
        assert {hit.modality for hit in things.search(asked, k=12, modalities=["text"])} == {"text"}


def test_raw_cosine_and_a_lighter_picture_are_left_alone() -> None:
    several = parts(5)
    several[0]["text"] = several[1]["image"]  # a text with the vector of a picture: equal by raw cosine, added earlier
    with shelf(several) as things:
        asked = {"image": several[1]["image"], "text": several[3]["text"]}
        raw = things.search(Query(vectors={"image": asked["image"]}), k=2, calibration="none")
        assert [hit.id for hit in raw] == ["0", "1"]
        assert things.search(Query(vectors={"image": asked["image"]}), k=1)[0].id == "1"
        light = things.search(Query(vectors=asked, weights={"image": 0.2, "text": 1.0}), k=36, explain=True)
        assert all(hit.explanation is not None and hit.explanation.raised is None for hit in light)


def test_of_two_documents_with_the_picture_the_words_decide() -> None:
    several = parts(6)
    several[5]["image"] = several[2]["image"]
    with shelf(several) as things:
        for mine, other in ((2, 5), (5, 2)):
            asked = Query(vectors={"image": several[2]["image"], "text": several[mine]["text"]})
            assert [hit.id for hit in things.search(asked, k=2)] == [f"{mine}", f"{other}"]
