"""An identical picture comes first, under every calibration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.search.identical import CERTAIN, IDENTICAL, NEAR, count_copies, put_first
from isthmus.search.ranking import Ranking
from isthmus.search.results import Answer
from isthmus.types import Matrix
from stock import unit
from tiny import WORDS

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
    assert count_copies([1 - near, 1 - 3.01 * near]) == 1
    assert count_copies([1 - near, 1 - 2.99 * near]) == 0  # the next one is too near
    assert count_copies([1 - 1.001 * NEAR, 0.0]) == 0  # too far
    assert count_copies([1 - identical, 1 - identical, 1 - 2 * identical]) == 2
    assert count_copies([0.99] * 20) == count_copies([0.5, 0.4]) == count_copies([]) == 0
    assert count_copies([1.0, *[0.99] * 19]) == count_copies([1.0]) == 1
    assert count_copies([0.99]) == 0  # no other to compare with


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


def test_a_raised_hit_is_nearly_certain() -> None:
    ranking = Ranking(np.arange(3), np.zeros(3, int), np.array([3.0, 2.0, 1.0]), np.zeros(3), ["image"] * 3)
    first = put_first(Answer(ranking, np.array([0.5, 0.4, 0.1])), {2: 1.0})
    assert first.ranking.documents.tolist() == [2, 0, 1]
    assert first.probability is not None
    assert first.probability.tolist() == [CERTAIN, 0.5, 0.4]
    assert first.raised is not None
    assert first.raised[0] == 2.0


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


def pages(count: int) -> list[Document]:
    """Make documents of a picture and a text whose pictures are all alike and whose texts are not."""
    rng = np.random.default_rng(0)
    paper = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
    out = []
    for row in range(count):
        mine = paper.copy()
        mine[row % 32, row // 32] = 0
        out.append(Document(f"{row}", " ".join(rng.choice(WORDS, 6)), image=mine))
    return out


def test_the_same_file_comes_first_where_pictures_are_alike_and_texts_decide(encoder: Encoder) -> None:
    several = pages(120)
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add(several)
        for row in range(0, 120, 9):
            stored = things.get(f"{row}").parts
            picture = next(part.content for part in stored if part.kind == "image")
            for asked in (picture, several[row].image):  # the bytes of the stored file; the pixels that were added
                assert things.search(Query(image=asked), k=1)[0].id == f"{row}"


def test_a_filter_does_not_make_another_picture_a_copy(encoder: Encoder) -> None:
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add([Document(one.id, image=one.image, metadata={"n": row}) for row, one in enumerate(pages(30))])
        new = Query(image=np.random.default_rng(5).integers(0, 255, (32, 32, 3), dtype=np.uint8))
        for options in ({}, {"where": {"n": 0}}, {"modalities": ["image"]}):
            for hit in things.search(new, k=3, explain=True, **options):
                assert hit.explanation is not None
                assert hit.explanation.raised is None


def test_forty_copies_are_all_first(encoder: Encoder) -> None:
    rng = np.random.default_rng(1)
    picture, *others = (rng.integers(0, 255, (32, 32, 3), dtype=np.uint8) for _ in range(30))
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add([Document(f"copy {row}", image=picture) for row in range(40)])
        things.add([Document(f"other {row}", image=other) for row, other in enumerate(others)])
        things.add([Document(f"text {row}", " ".join(rng.choice(WORDS, 6))) for row in range(40)])
        content = things.get("copy 0").parts[0].content
        assert {hit.id for hit in things.search(Query(image=content), k=40)} == {f"copy {row}" for row in range(40)}
