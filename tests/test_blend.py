"""``blend``: raw cosine at strength 0, a full calibration at 1, bounded biases, offsets from the query's own vector."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration.blend import Blend, mean_vectors, with_strengths
from isthmus.calibration.passages import Passages
from isthmus.errors import BadSpec
from isthmus.types import Matrix, Rows, Vectors
from worlds import world

seeds = pytest.mark.parametrize("seed", [0, 1, 2])


def order(scores: Matrix) -> Rows:
    return np.argsort(-scores, axis=1, kind="stable")


@seeds
def test_strength_0_ranks_as_raw_cosine_and_differs_from_it_by_one_affine_map(seed: int) -> None:
    w = world(seed)
    raw = calibration.fit("none", w.documents, w.queries).scores(w.asked, w.documents)
    none = calibration.fit("blend(k=3,strength=0)", w.documents, w.queries).scores(w.asked, w.documents)
    np.testing.assert_array_equal(order(none), order(raw))
    for modality in w.asked.modalities:
        rows = w.asked.modality == modality
        slope, offset = np.polyfit(raw[rows].ravel(), none[rows].ravel(), 1)
        np.testing.assert_allclose(none[rows], slope * raw[rows] + offset, atol=1e-8)


@seeds
def test_it_equals_its_equations(seed: int) -> None:
    w = world(seed)
    k, alpha, strength = 3, 0.75, 0.4
    fitted = calibration.fit(f"blend(k={k},strength={strength})", w.documents, w.queries)
    plain = calibration.fit("none", w.documents, w.queries)
    found, similar, references = (
        fitted.scores(w.asked, w.documents),
        plain.scores(w.asked, w.documents),
        plain.scores(w.queries, w.documents),
    )
    x = plain.shift.documents(w.documents, np.float64)
    x_asked, x_references = (plain.shift.queries(v, np.float64) for v in (w.asked, w.queries))
    for m in w.asked.modalities:
        asked, known = w.asked.modality == m, w.queries.modality == m
        top = references[known].max(axis=1)
        share = alpha * known.sum() / (known.sum() + k)
        for name in w.documents.modalities:
            of = w.documents.modality == name
            near = np.sort(references[known][:, of], axis=0)[-k:].mean(axis=0)
            b = np.clip(near, near.mean() - near.std(), near.mean() + 3 * near.std())
            mean = x[of].mean(axis=0)
            best = (references[known][:, of] - share * b).max(axis=1) - x_references[known] @ mean
            t = similar[np.ix_(asked, of)] - share * b - (x_asked[asked] @ mean)[:, None]
            z = (t - best.mean()) / best.std()
            raw = (similar[np.ix_(asked, of)] - top.mean()) / top.std()
            np.testing.assert_allclose(found[np.ix_(asked, of)], (1 - strength) * raw + strength * z, atol=2e-4)


@given(seed=st.integers(0, 20), strength=st.floats(0, 1))
def test_a_strength_between_is_the_mean_of_both_ends(seed: int, strength: float) -> None:
    w = world(seed)
    ends = [calibration.fit(f"blend(k=3,strength={end})", w.documents, w.queries) for end in (0, 1)]
    fitted = calibration.fit(f"blend(k=3,strength={strength})", w.documents, w.queries)
    raw, full = (end.scores(w.asked, w.documents) for end in ends)
    mixed = (1 - strength) * raw + strength * full
    scale = 1 + np.abs(mixed).max()
    np.testing.assert_allclose(fitted.scores(w.asked, w.documents) / scale, mixed / scale, atol=1e-6)
    assert ends[0].coefficients is not None
    assert ends[1].coefficients is not None
    strengths = dict.fromkeys(ends[1].coefficients.table, strength)
    joined = replace(ends[1], coefficients=with_strengths(ends[0].coefficients, ends[1].coefficients, strengths))
    np.testing.assert_allclose(joined.scores(w.asked, w.documents) / scale, mixed / scale, atol=1e-6)


@seeds
def test_each_query_modality_has_its_own_strength(seed: int) -> None:
    w = world(seed)
    raw, full = (calibration.fit(f"blend(k=3,strength={end})", w.documents, w.queries) for end in (0, 1))
    assert raw.coefficients is not None
    assert full.coefficients is not None
    strengths = {pair: float(pair[0] == "text") for pair in full.coefficients.table}
    joined = replace(full, coefficients=with_strengths(raw.coefficients, full.coefficients, strengths))
    for name in w.asked.modalities:
        asked = w.asked.take(w.asked.modality == name)
        end = full if name == "text" else raw
        np.testing.assert_allclose(joined.scores(asked, w.documents), end.scores(asked, w.documents), atol=1e-9)


def test_a_document_far_from_every_reference_is_not_lifted_above_the_lower_bound() -> None:
    rng = np.random.default_rng(0)
    axis = np.eye(16)[0]
    near = axis + 0.3 * rng.standard_normal((60, 16))
    far = -axis + 0.05 * rng.standard_normal((1, 16))  # similar to no query that anybody asks
    documents = Vectors.of(np.vstack([near, far]).astype(np.float32), "text")
    queries = Vectors.of((axis + 0.3 * rng.standard_normal((100, 16))).astype(np.float32), "text")
    unbounded, bounded = (
        calibration.fit(spec, documents, queries).scores(queries, documents)
        for spec in ("blend(lower=1000.0)", "blend(lower=1.0)")
    )
    lifted = (unbounded - bounded)[:, -1]
    assert lifted.min() > 0.5  # in deviations of the best scores


def test_few_references_subtract_a_smaller_share_of_the_bias() -> None:
    w = world(3)
    text = w.queries.take(w.queries.modality == "text")
    few, many = text.take(np.arange(4)), text
    share = {}
    for name, some in (("few", few), ("many", many)):
        coefficients = calibration.fit("blend(k=3)", w.documents, some).coefficients
        assert coefficients is not None
        terms = coefficients.of("text", "text")
        share[name] = terms.weight / terms.slope
    np.testing.assert_allclose(share["few"], 0.75 * 4 / 7)
    np.testing.assert_allclose(share["many"], 0.75 * len(many) / (len(many) + 3))


def test_a_long_document_counts_once_in_the_mean_of_its_modality() -> None:
    documents = Passages.of(Vectors.of(np.eye(3, dtype=np.float32), "text"), [0, 0, 1])
    np.testing.assert_allclose(mean_vectors(documents, np.eye(3, dtype=np.float32))["text"], [0.25, 0.25, 0.5])


@pytest.mark.parametrize(
    "settings", [{"strength": -0.1}, {"strength": float("nan")}, {"k": 0}, {"alpha": float("inf")}, {"lower": -1.0}]
)
def test_settings_out_of_bounds_are_rejected(settings: dict[str, float]) -> None:
    with pytest.raises(BadSpec, match="blend needs"):
        Blend(**settings)  # type: ignore[arg-type]
