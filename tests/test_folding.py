"""What an engine computes on folded vectors, finished, equals the dense reference path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.types import Folded, Matrix, Vectors
from worlds import DYNAMIC_SPECS, SPECS, World, one_modality, world


def close(fitted: Fitted, scores: Matrix, expected: Matrix) -> None:
    """Equal to 1e-5; where a slope stretches similarities so far that float32 cannot tell them, to 3e-7 of those."""
    slopes = [1 / deviation for _, deviation in fitted.scale.statistics.values()] if fitted.scale else [1.0]
    slopes += [slope for slope, _, _ in fitted.coefficients.table.values()] if fitted.coefficients else []
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=max(1e-5, 3e-7 * max(slopes)))


def fitted_on(spec: str, w: World) -> Fitted:
    learns = "learned" in spec
    return calibration.fit(
        spec,
        w.documents,
        w.queries,
        reference_documents=w.gallery,
        positives=w.positives if learns else None,
    )


def by_engine(fitted: Fitted, asked: Vectors, documents: Vectors) -> tuple[Matrix, Folded, Folded]:
    folded = fitted.fold(documents)
    active = fitted.activation(asked, folded) if fitted.spec.dynamic else None
    queries = fitted.fold_queries(asked, active=active)
    inner = queries.vectors @ folded.vectors.T
    return fitted.finish(inner, queries.modality, folded.modality), queries, folded


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 10_000), weights=st.booleans())
def test_folded_inner_products_finished_equal_the_dense_scores(spec: str, seed: int, weights: bool) -> None:
    w = world(seed, weights=weights)
    fitted = fitted_on(spec, w)
    for documents in (w.documents, w.unseen):
        scores, _, folded = by_engine(fitted, w.asked, documents)
        assert folded.vectors.dtype == np.float32
        close(fitted, scores, fitted.scores(w.asked, documents))


@pytest.mark.parametrize("spec", [s for s in DYNAMIC_SPECS if "qbnorm" in s])
@given(seed=st.integers(0, 10_000))
def test_a_dynamic_inverted_softmax_folds_exactly_too(spec: str, seed: int) -> None:
    w = world(seed, queries=12)
    fitted = fitted_on(spec, w)
    for documents in (w.documents, w.unseen):
        scores, _, _ = by_engine(fitted, w.asked, documents)
        close(fitted, scores, fitted.scores(w.asked, documents))


@pytest.mark.parametrize("spec", [s for s in DYNAMIC_SPECS if "dbnorm" in s])
def test_dynamic_dbnorm_folds_exactly_but_for_the_factor_that_one_active_set_leaves(spec: str) -> None:
    cases = set()
    for w in (world(seed, queries=9) for seed in range(10)):
        fitted = fitted_on(spec, w)
        scores, _, folded = by_engine(fitted, w.asked, w.documents)
        active = fitted.activation(w.asked, folded)
        one = active[:, 0] != active[:, 1]
        cases |= set(map(tuple, active.tolist()))
        dense = fitted.scores(w.asked, w.documents)
        close(fitted, scores[~one], dense[~one])
        if one.any():
            assert np.abs(scores[one] - dense[one]).max() > 1e-3  # the documented deviation is real
    assert len(cases) == 4


@pytest.mark.parametrize("spec", SPECS + DYNAMIC_SPECS)
def test_a_saved_calibration_gives_the_same_scores_after_loading(spec: str, tmp_path: Path) -> None:
    w = world(3, weights=True)
    fitted = fitted_on(spec, w).with_balance({"image": 0.25})
    fitted.save(tmp_path / "shelf.calibration")
    loaded = calibration.load(tmp_path / "shelf.calibration")
    assert str(loaded.spec) == str(fitted.spec)
    assert np.array_equal(loaded.scores(w.asked, w.unseen), fitted.scores(w.asked, w.unseen))
    assert np.array_equal(by_engine(loaded, w.asked, w.unseen)[0], by_engine(fitted, w.asked, w.unseen)[0])
    assert list(tmp_path.iterdir()) == [tmp_path / "shelf.calibration"]  # no draft is left behind


@pytest.mark.parametrize("spec", SPECS)
@given(seed=st.integers(0, 10_000), k=st.integers(1, 12))
def test_the_best_k_of_each_modality_merged_are_the_best_k_of_all(spec: str, seed: int, k: int) -> None:
    w = world(seed)
    fitted = fitted_on(spec, w)
    dense = fitted.scores(w.asked, w.documents)
    queries, folded = fitted.fold_queries(w.asked), fitted.fold(w.documents)
    for row, asked in enumerate(queries.modality):
        merged: list[float] = []
        for found in w.documents.modalities:
            engine = folded.vectors[folded.modality == found] @ queries.vectors[row]
            best = np.sort(engine)[::-1][:k]
            merged += fitted.finish(best, str(asked), found).tolist()
        close(fitted, np.sort(merged)[::-1][:k], np.sort(dense[row])[::-1][:k])


def test_alpha_changes_without_touching_folded_documents() -> None:
    w = world()
    for spec in ("center+nnn(k=3,alpha=0.75)", "standardize+nnn(k=3,alpha=0.75)"):
        fitted = fitted_on(spec, w)
        changed = fitted.with_alpha(0.2)
        folded = fitted.fold(w.documents)
        assert np.array_equal(changed.fold(w.documents).vectors, folded.vectors)
        inner = changed.fold_queries(w.asked).vectors @ folded.vectors.T
        refitted = fitted_on(spec.replace("0.75", "0.2"), w)
        expected = refitted.scores(w.asked, w.documents)
        close(fitted, changed.finish(inner, w.asked.modality, folded.modality), expected)


def test_the_statistics_of_a_scale_change_without_touching_folded_documents() -> None:
    w = world()
    pseudo = fitted_on("standardize+nnn(k=3)", w)
    pairs = [(q, d) for q in range(len(w.queries)) for d in range(len(w.documents))]
    labelled = calibration.fit("standardize+nnn(k=3)", w.documents, w.queries, positives=pairs)
    assert labelled.scale and pseudo.scale and labelled.scale.statistics != pseudo.scale.statistics
    assert np.array_equal(labelled.fold(w.documents).vectors, pseudo.fold(w.documents).vectors)


def test_a_balance_moves_one_modality_and_nothing_else() -> None:
    w = world()
    fitted = fitted_on("learned(k=3)", w)
    moved = fitted.with_balance({"image": 0.5})
    difference = moved.scores(w.asked, w.documents) - fitted.scores(w.asked, w.documents)
    np.testing.assert_allclose(difference, np.broadcast_to(0.5 * (w.documents.modality == "image"), difference.shape))
    close(fitted, by_engine(moved, w.asked, w.documents)[0], moved.scores(w.asked, w.documents))
    assert np.array_equal(moved.fold(w.documents).vectors, fitted.fold(w.documents).vectors)


def test_finish_takes_one_modality_for_a_side_a_row_of_them_or_one_per_hit() -> None:
    w = world()
    fitted = fitted_on("center+standardize", w)
    inner = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32)
    one = fitted.finish(inner, "text", "image")
    assert np.array_equal(one, fitted.finish(inner, ["text", "text"], ["image", "image"]))
    assert np.array_equal(one, fitted.finish(inner, "text", np.full((2, 2), "image")))
    assert np.array_equal(one[0], fitted.finish(inner[0], "text", "image"))
    mixed = fitted.finish(inner, ["text", "image"], [["image", "text"], ["text", "image"]])
    assert mixed[1, 0] == fitted.finish(inner[1:, :1], "image", "text")[0, 0]


def test_documents_weights_for_a_collection_equal_the_same_weights_on_every_document() -> None:
    w = world()
    n = len(w.documents)
    own = replace_weights(w.documents, {"text": np.full(n, 0.3), "image": np.full(n, 0.7)})
    for spec in ("none", "center", "dn", "center+standardize+nnn(k=3)"):
        collection = calibration.fit(spec, w.documents, w.queries, weights={"text": 0.3, "image": 0.7})
        each = calibration.fit(spec, own, w.queries)
        expected = each.scores(w.asked, own)
        np.testing.assert_allclose(collection.scores(w.asked, w.documents), expected, atol=1e-6)


def test_the_weight_of_a_document_with_one_part_does_not_matter() -> None:
    documents, queries, asked = (Vectors.of(m, "text") for m in one_modality())
    heavy = replace_weights(documents, {"text": np.linspace(0.1, 9, len(documents))})
    for spec in ("none", "center", "dn"):
        plain = calibration.fit(spec, documents, queries).scores(asked, documents)
        np.testing.assert_allclose(calibration.fit(spec, heavy, queries).scores(asked, heavy), plain, atol=1e-12)


def test_a_shift_fitted_on_another_data_set_can_be_used() -> None:
    here, elsewhere = world(0), world(1)
    means = calibration.fit("center", elsewhere.documents, elsewhere.queries)
    borrowed = calibration.fit("center+standardize", here.documents, here.queries, shift=means.shift)
    local = calibration.fit("center+standardize", here.documents, here.queries)
    assert np.array_equal(
        borrowed.fold(here.documents).vectors, means.fold(here.documents).vectors
    )  # the vectors are the other set's
    assert borrowed.scale and local.scale and borrowed.scale.statistics != local.scale.statistics


def replace_weights(vectors: Vectors, weights: dict[str, Matrix]) -> Vectors:
    return replace(vectors, weights=weights)
