"""P(match): never rises along a list, knows a copy, and is there for every collection of an encoder with a prior."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Collection, Document, Query, encoders, samples
from isthmus.encoders import Encoder
from isthmus.encoders.locations import EMBEDDED
from isthmus.search import observations, prior, versions
from isthmus.search.list_tops import likeness
from isthmus.search.prior import BankGap, Prior, rescaled, shipped
from isthmus.search.probability import Curve, Match, Observed, auroc, ece, judged_prior, logistic, top_of
from stock import unit
from tiny import WORDS

numbers = st.floats(-30, 30, allow_nan=False)
weights = st.builds(
    Curve,
    intercept=numbers,
    slope=st.floats(0, 30),
    field=numbers,
    first=numbers,
    alike=numbers,
    apart=numbers,
)


@given(weights, st.lists(numbers, min_size=1, max_size=30), st.none() | st.floats(-1, 1) | st.just(1.0))
def test_it_never_rises_from_a_hit_to_the_next(curve: Curve, scores: list[float], alike: float | None) -> None:
    ranked = np.sort(np.array(scores, dtype=np.float32))[::-1]
    found = Match({"text": curve}).probability("text", ranked, top_of(ranked, alike))
    assert found is not None
    assert (np.diff(found) <= 0).all()
    assert ((found >= 0) & (found <= 1)).all()


@pytest.fixture(scope="module")
def worded(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Iterator[Collection]:
    """Texts of few words, so that many share some, and some pictures."""
    rng = np.random.default_rng(1)
    with Collection.open(tmp_path_factory.mktemp("worded") / "c", encoder, follow=False) as things:
        things.add([Document(f"t{i}", " ".join(rng.choice(WORDS, 4))) for i in range(120)])
        things.add([Document(f"i{i}", image=rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)) for i in range(20)])
        yield things


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.booleans(), st.sampled_from([None, "text"]))
def test_it_never_rises_along_the_hits_of_a_collection(
    worded: Collection, words: list[str], hybrid: bool, modality: str | None
) -> None:
    found = [hit.probability for hit in worded.search(" ".join(words), k=40, hybrid=hybrid, modalities=modality)]
    assert None not in found
    assert found == sorted(found, reverse=True)  # type: ignore[type-var]


@pytest.fixture(scope="module")
def mini() -> Encoder:
    return encoders.load("mini", threads=1)


def test_the_shipped_prior_is_of_the_shipped_encoder(mini: Encoder) -> None:
    found = shipped(mini)
    assert found is not None
    assert set(found.curves) == {"image", "image+text", "text"} <= set(mini.modalities)  # sounds have none
    assert all(curve.slope > 0 for curve in found.curves.values())


def test_a_prior_of_other_weights_is_not_used(mini: Encoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = shipped(mini)
    assert found is not None
    replace(found, identity="of an older mini").write(tmp_path / prior.FILE)
    assert Prior.read(tmp_path / prior.FILE).curves == found.curves
    monkeypatch.setattr(prior, "EMBEDDED", {"mini": tmp_path})
    assert shipped(mini) is None
    assert EMBEDDED["mini"] != tmp_path


def test_an_encoder_without_a_prior_has_none(encoder: Encoder) -> None:
    assert shipped(encoder) is None
    assert shipped(None) is None


@given(st.lists(numbers, min_size=2, max_size=20), st.floats(0.1, 10), numbers)
def test_a_prior_reads_scores_of_any_scale_alike(scores: list[float], scale: float, offset: float) -> None:
    curve = Curve(intercept=-1.0, slope=2.0, field=-1.5, first=-0.5)
    plain = np.sort(np.round(scores, 2))[::-1]  # equal scores are equal on every scale
    moved = plain * scale + offset
    assert rescaled(curve, BankGap(1.0))(plain, top_of(plain)) == pytest.approx(
        rescaled(curve, BankGap(scale, offset))(moved, top_of(moved)), abs=1e-6
    )


@pytest.mark.parametrize("kind", ["pictures", "texts", "both"])
def test_a_collection_of_a_few_documents_has_it_for_every_kind_of_query(
    mini: Encoder, tmp_path: Path, kind: str
) -> None:
    pictures = sorted(samples.folder().rglob("*.jpg"))[:4]
    texts = ["a dog runs on the grass", "a bowl of soup on a table", "the harbour at night"]
    documents = [Document(path.stem, image=path) for path in pictures] if kind != "texts" else []
    documents += [Document(f"t{i}", text) for i, text in enumerate(texts)] if kind != "pictures" else []
    with Collection.open(tmp_path / "c", mini, follow=False) as things:
        things.add(documents)
        for query in (Query("a dog"), Query(image=pictures[0]), Query("a dog", image=pictures[0])):
            found = [hit.probability for hit in things.search(query)]
            assert None not in found
            assert found == sorted(found, reverse=True)  # type: ignore[type-var]
        assert len(things.search("a dog", min_probability=0.0)) == len(documents)


def test_an_identical_picture_is_nearly_certain_and_its_copy_too(mini: Encoder, tmp_path: Path) -> None:
    pictures = sorted(samples.folder().rglob("*.jpg"))[:6]
    with Collection.open(tmp_path / "c", mini, follow=False) as things:
        things.add([Document(path.stem, image=path) for path in pictures])
        things.add([Document("copy", image=pictures[2])])
        first, second, third, *_ = things.search(Query(image=pictures[2]))
        assert {first.id, second.id} == {pictures[2].stem, "copy"}
        assert first.probability is not None and first.probability >= 0.9
        assert second.probability == first.probability
        assert third.probability is not None and third.probability < first.probability


def test_a_copy_stays_certain_where_words_reorder_the_hits(mini: Encoder, tmp_path: Path) -> None:
    pictures = sorted(samples.folder().rglob("*.jpg"))[:6]
    with Collection.open(tmp_path / "c", mini, follow=False) as things:
        things.add([Document(path.stem, f"number {i}", image=path) for i, path in enumerate(pictures)])
        things.add([Document(f"t{i}", f"words about the number {i}") for i in range(20)])
        found = things.search(Query("number 2", image=pictures[2]), hybrid=True)
        told = {hit.id: hit.probability for hit in found}
        assert (told[pictures[2].stem] or 0) >= 0.9
        assert list(told.values()) == sorted(told.values(), reverse=True)  # type: ignore[type-var]


def test_likeness_is_of_parts_of_one_name_at_their_best() -> None:
    query = {"image": np.array([[1.0, 0.0]]), "text": np.array([[0.0, 1.0]])}
    assert likeness(query, {"image": np.array([[0.0, 2.0], [3.0, 0.0]])}) == pytest.approx(1.0)
    assert likeness(query, {"text": np.array([[0.8, 0.6]]), "image": np.array([[0.0, 1.0]])}) == pytest.approx(0.6)
    assert likeness(query, {"tone": np.array([[1.0, 0.0]])}) is None


def test_a_stored_curve_of_three_weights_still_opens(worded: Collection) -> None:
    calibrated = worded.calibration
    assert calibrated is not None and calibrated.match is not None
    form = versions._extras(calibrated)["match"]
    before = {"curves": {"text": {"intercept": -2.0, "slope": 1.5, "field": -1.0}}, "held_out": {"text": {}}}
    assert versions._match(json.loads(json.dumps(form))) == calibrated.match
    old = versions._match(before)
    assert old is not None
    scores = np.array([2.0, 1.0])
    assert old.probability("text", scores, top_of(scores, alike=1.0)) == pytest.approx(
        1 / (1 + np.exp(2 - 1.5 * scores + 1.0))
    )
    assert not old.compares_parts("text")


def test_near_duplicates_of_the_source_are_no_wrong_answers(tmp_path: Path) -> None:
    """Every document has a twin nearly like it; without its source a query must not find the twin."""
    rng = np.random.default_rng(3)
    rows = unit(rng.normal(size=(60, 32)))
    twins = unit(rows + 0.01 * rng.normal(size=rows.shape))
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add(
            [
                Document(f"{side}{i}", vectors={"text": row})
                for side, several in (("a", rows), ("b", twins))
                for i, row in enumerate(several)
            ]
        )
        trial = things.references().trial
        asked = np.flatnonzero(trial.sources >= 0)
        seen = observations.observed(things.snapshot(), things.store, trial, asked)
    assert len(seen) == 2 * len(asked)
    assert seen.right.mean() == 0.5
    assert seen.score[~seen.right].max() < 0.9 < seen.score[seen.right].min()


def test_a_curve_from_elsewhere_is_judged_where_the_source_is_present() -> None:
    scores = np.array([3.0, 0.0] * 20)
    tops = [top_of(np.array([score, 0.0])) for score in scores]
    seen = Observed(scores, tops, scores > 1, np.arange(40), present=scores > 1)
    sure, doubtful = Curve(-3.0, 4.0, 0.0), Curve(-9.0, 2.0, 0.0)
    assert judged_prior(seen, sure) == {"auroc": 1.0, "ece": pytest.approx(0, abs=1e-3), "answers": 40.0}
    assert judged_prior(seen, doubtful)["ece"] == pytest.approx(1 - 1 / (1 + np.exp(3)))
    assert judged_prior(seen.take(scores > 1), sure) == {}


def test_a_logistic_regression_finds_the_weights_of_its_data() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 2))
    right = rng.random(4000) < 1 / (1 + np.exp(1 - 2 * x[:, 0] + x[:, 1]))
    assert logistic(x, right.astype(float), pull=0.0) == pytest.approx([-1, 2, -1], abs=0.25)
    heavy = logistic(x, right.astype(float), np.where(right, 3.0, 1.0), pull=0.0)
    assert heavy[0] == pytest.approx(-1 + np.log(3), abs=0.25)  # right answers count three times
    against = logistic(-x, right.astype(float), pull=0.0)
    assert against[1] == 0.0  # the first weight is never negative


def test_measures_of_confidence() -> None:
    assert auroc(np.array([0.9, 0.5, 0.5, 0.1]), np.array([True, True, False, False])) == 0.875
    assert np.isnan(auroc(np.array([0.9]), np.array([True])))
    assert ece(np.array([0.75, 0.75]), np.array([True, False])) == pytest.approx(0.25)


def test_one_document_and_many_copies_are_judged_too(mini: Encoder) -> None:
    words = "The cat sleeps on the red sofa all day."
    for copies in (1, 30):
        with Collection.open(":memory:", mini, follow=False) as things:
            things.add([Document(f"{row}", words) for row in range(copies)])
            near, far = (things.search(asked, k=1)[0].probability for asked in (words, "tax law in Finland"))
            assert near is not None
            assert far is not None
            assert near > 0.5 > far
