"""Running statistics are exact under adds, deletes and merges, and drift says when a re-fit pays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration import Moments, Statistics, drift
from isthmus.calibration.center import Center
from isthmus.errors import BadInput
from isthmus.types import Rows, Vectors
from test_learned import macro
from worlds import world


@given(
    seed=st.integers(0, 10_000), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=8), offset=st.floats(-1e6, 1e6)
)
def test_moments_follow_adds_and_deletes_exactly(seed: int, sizes: list[int], offset: float) -> None:
    rng = np.random.default_rng(seed)
    groups = [rng.normal(size=(n, 3)) + offset for n in sizes]
    moments = Moments.empty(3)
    for group in groups:
        moments = moments.add(group)
    kept = [group for i, group in enumerate(groups) if i % 2 == 0]
    for group in groups[1::2]:
        moments = moments.remove(group)
    rows = np.vstack(kept)
    assert moments.count == len(rows)
    if len(rows):
        scale = 1 + abs(offset)
        np.testing.assert_allclose(moments.mean, rows.mean(axis=0), atol=1e-12 * scale)
        np.testing.assert_allclose(moments.variance, rows.var(axis=0), atol=1e-9 * scale)


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 30))
def test_shards_merge_to_the_whole_in_any_order(seed: int, cut: int) -> None:
    vectors = world(seed).documents
    whole = Statistics.of(vectors)
    first, second = Statistics.of(vectors.take(slice(0, cut))), Statistics.of(vectors.take(slice(cut, None)))
    for merged in (first.merge(second), second.merge(first)):
        assert set(merged.parts) == set(whole.parts)
        for part, moments in whole.parts.items():
            assert merged.parts[part].count == moments.count
            np.testing.assert_allclose(merged.parts[part].mean, moments.mean, atol=1e-14)
            np.testing.assert_allclose(merged.parts[part].m2, moments.m2, atol=1e-12)


def test_after_ten_thousand_adds_and_deletes_the_mean_has_not_wandered() -> None:
    rng = np.random.default_rng(0)
    stay = rng.normal(size=(10, 4))
    moments = Moments.of(stay)
    for _ in range(5000):
        passing = rng.normal(size=(3, 4))
        moments = moments.add(passing).remove(passing)
    np.testing.assert_allclose(moments.mean, stay.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(moments.variance, stay.var(axis=0), atol=1e-11)


def test_removing_a_part_to_the_last_row_forgets_it_and_removing_more_is_refused() -> None:
    w = world()
    images = w.documents.take(w.documents.modality == "image")
    texts = w.documents.take(w.documents.modality == "text")
    both = Statistics.of(texts).add(images)
    assert set(both.remove(images).parts) == {"text"}
    with pytest.raises(BadInput, match="none were added"):
        Statistics.of(texts).remove(images)
    with pytest.raises(BadInput, match="never added"):
        Statistics.of(texts.take(slice(0, 2))).remove(texts)


def test_a_centring_made_from_running_statistics_is_the_one_fitted_on_what_is_there_now() -> None:
    w = world()
    live = Statistics.of(w.documents).add(w.unseen).remove(w.documents)
    shift = Center().from_statistics(live, Statistics.of(w.queries), {})
    fitted = calibration.fit("center", w.unseen, w.queries)
    np.testing.assert_allclose(
        shift.documents(w.unseen, np.float64), fitted.shift.documents(w.unseen, np.float64), atol=1e-10
    )


def test_rows_of_another_dimension_are_refused() -> None:
    with pytest.raises(BadInput, match="rows of 1 dimensions cannot be combined with rows of 4"):
        Moments.of(np.ones((2, 4))).add(np.ones((2, 1)))


def test_drift_is_0_without_change_and_infinite_for_a_part_that_was_not_there() -> None:
    w = world()
    statistics = Statistics.of(w.documents)
    assert drift(statistics, statistics) == {"text": 0.0, "image": 0.0}
    texts = Statistics.of(w.documents.take(w.documents.modality == "text"))
    assert drift(texts, statistics)["image"] == float("inf")
    assert "image" not in drift(statistics, texts)


def collection(share_of_new: float, n: int = 200, dim: int = 24) -> tuple[Vectors, Vectors, Rows]:
    """Texts and images; a share of the images comes from another source, in a cone of its own."""
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(n, dim))
    image = np.arange(n) % 2 == 1
    cone, elsewhere = 2 * rng.normal(size=(2, dim))
    new = image & (np.arange(n) < share_of_new * n)
    documents = topics + 0.6 * rng.normal(size=(n, dim)) + np.where(image[:, None], -cone, cone)
    documents[new] += elsewhere
    return (
        Vectors.of(documents, np.where(image, "image", "text")),
        Vectors.of(topics + 0.5 * rng.normal(size=(n, dim)) + cone, "text"),
        np.arange(n),
    )


def test_a_refit_pays_when_drift_is_large_and_not_when_it_is_small() -> None:
    before, queries, _ = collection(0.0)
    kept = calibration.fit("center", before, queries)
    at_fit = Statistics.of(before)
    drifts, gains = [], []
    for share in (0.0, 0.02, 0.05, 0.2, 0.5, 1.0):
        now, queries, right = collection(share)
        refitted = calibration.fit("center", now, queries)
        drifts.append(drift(at_fit, Statistics.of(now))["image"])
        gains.append(macro(refitted, now, queries, right) - macro(kept, now, queries, right))
    assert (np.diff(drifts) > 0).all()
    assert max(gain for d, gain in zip(drifts, gains, strict=True) if d < 0.1) < 0.01
    assert gains[-1] > 0.1
    assert drifts[-1] > 0.5
