"""What an engine computes on folded vectors, finished, equals the dense reference path."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.types import Folded, Matrix, Vectors
from worlds import DYNAMIC_SPECS, SPECS, World, one_modality, world


def close(fitted: Fitted, scores: Matrix, expected: Matrix) -> None:
    """Equal to 1e-5."""
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5, err_msg=repr(fitted))


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
@given(seed=st.integers(0, 10_000), balance=st.sampled_from([0.0, 1.0]))
def test_a_dynamic_inverted_softmax_folds_exactly_too(spec: str, seed: int, balance: float) -> None:
    w = world(seed)
    fitted = fitted_on(spec, w).with_balance({"image": balance})
    for documents in (w.documents, w.unseen):
        scores, _, _ = by_engine(fitted, w.asked, documents)
        close(fitted, scores, fitted.scores(w.asked, documents))


@pytest.mark.parametrize("spec", ["qbnorm(beta=7.0,dynamic=true)", "nnn(k=2)+standardize", "standardize+qbnorm"])
@given(seed=st.integers(0, 10_000))
def test_known_sources_fold_as_they_score(spec: str, seed: int) -> None:
    w = world(seed)
    fitted = calibration.fit(spec, w.documents, w.queries, sources=w.positives)
    folded = fitted.fold(w.documents, sources=w.positives)
    active = fitted.activation(w.asked, folded) if fitted.spec.dynamic else None
    inner = fitted.fold_queries(w.asked, active=active).vectors @ folded.vectors.T
    expected = fitted.scores(w.asked, w.documents, sources=w.positives)
    close(fitted, fitted.finish(inner, w.asked.modality, folded.modality), expected)


def test_a_threshold_is_the_best_score_without_the_reference_querys_own_source() -> None:
    w = world()
    fitted = calibration.fit("qbnorm(dynamic=true)", w.documents, w.queries, sources=w.positives)
    raw = calibration.fit("none", w.documents, w.queries).scores(w.queries, w.documents)
    raw[np.arange(len(raw)), w.positives] = -np.inf
    for modality in w.queries.modalities:
        (thresholds,) = fitted.thresholds[modality]
        np.testing.assert_allclose(thresholds, raw[w.queries.modality == modality].max(axis=1), atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_three_parts_joint_parts_and_any_memory_order_fold_too(spec: str) -> None:
    rng = np.random.default_rng(0)

    def made(n: int) -> Vectors:
        parts: dict[str, Any] = {
            part: np.asfortranarray(rng.normal(size=(n, 6)) + cone).astype(dtype)
            for part, cone, dtype in (("text", 1, np.float16), ("image", -1, np.float64), ("audio", 0, np.float32))
        }
        parts["text+image"] = (rng.normal(size=(n, 6)) - 0.5)[::-1]
        kinds = np.arange(n) % 5
        present = {p: (kinds == i) | ((kinds == 4) & (p != "text+image")) for i, p in enumerate(parts)}
        return Vectors(parts, present)

    documents, queries, asked = made(60), made(60), made(20)
    assert documents.modalities == ("audio", "audio+image+text", "image", "image+text", "text")
    known = rng.integers(0, 60, size=60) if "learned" in spec else None
    fitted = calibration.fit(spec, documents, queries, positives=known, reference_documents=made(15))
    close(fitted, by_engine(fitted, asked, documents)[0], fitted.scores(asked, documents))


def test_folding_on_every_core_equals_folding_row_by_row() -> None:
    rng = np.random.default_rng(0)
    documents = Vectors.of(rng.normal(size=(70_000, 256)).astype(np.float32) + 1, "image")  # enough for threads
    fitted = calibration.fit("center+nnn(k=4)", documents.take(slice(0, 500)), documents.take(slice(0, 50)))
    rows = np.array([0, 4095, 4096, 69_999])
    np.testing.assert_allclose(
        fitted.fold(documents).vectors[rows], fitted.fold(documents.take(rows)).vectors, atol=1e-6
    )


@pytest.mark.parametrize("spec", [s for s in DYNAMIC_SPECS if "dbnorm" in s])
def test_dynamic_dbnorm_folds_exactly_but_for_the_factor_that_one_active_set_leaves(spec: str) -> None:
    cases = set()
    for w in (world(seed, queries=12) for seed in range(16)):
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


def test_only_the_ratio_of_weights_matters_and_a_lone_part_keeps_its_vector() -> None:
    w = world()
    n = len(w.documents)
    plain = calibration.fit("center", w.documents, w.queries)
    expected = plain.scores(w.asked, w.documents)
    for scale in (1e-9, 1e30):
        scaled = replace_weights(w.documents, {p: np.full(n, scale) for p in w.documents.parts})
        np.testing.assert_allclose(plain.scores(w.asked, scaled), expected, atol=1e-9)
        np.testing.assert_allclose(plain.fold(scaled).vectors, plain.fold(w.documents).vectors, atol=1e-6)
    ends = calibration.fit("center", w.documents, w.queries, weights={"text": 0.0, "image": 1.0})
    alone = w.documents.modality != "image+text"
    np.testing.assert_allclose(ends.scores(w.asked, w.documents)[:, alone], expected[:, alone], atol=1e-9)
    fused = np.flatnonzero(~alone)
    image_only = Vectors.of(w.documents.parts["image"][fused], "image")
    np.testing.assert_allclose(
        ends.scores(w.asked, w.documents.take(fused)), plain.scores(w.asked, image_only), atol=1e-9
    )


def test_a_file_keeps_every_setting_so_that_defaults_may_change(tmp_path: Path) -> None:
    w = world()
    calibration.fit("nnn", w.documents, w.queries).save(tmp_path / "x.calibration")
    assert b"nnn(k=none,alpha=0.75)" in (tmp_path / "x.calibration").read_bytes()


def test_drift_can_be_measured_after_loading(tmp_path: Path) -> None:
    w = world()
    calibration.fit("nnn(k=2)", w.documents, w.queries).save(tmp_path / "x.calibration")
    at_fit = calibration.load(tmp_path / "x.calibration").statistics
    assert calibration.drift(at_fit, calibration.Statistics.of(w.documents)) == {"text": 0.0, "image": 0.0}
    assert min(calibration.drift(at_fit, at_fit.add(w.unseen)).values()) > 0


def test_the_weight_of_a_document_with_one_part_does_not_matter() -> None:
    documents, queries, asked = (Vectors.of(m, "text") for m in one_modality())
    heavy = replace_weights(documents, {"text": np.linspace(0.1, 9, len(documents))})
    for spec in ("none", "center", "dn"):
        plain = calibration.fit(spec, documents, queries).scores(asked, documents)
        np.testing.assert_allclose(calibration.fit(spec, heavy, queries).scores(asked, heavy), plain, atol=1e-12)


@pytest.mark.parametrize("spec", ["center", "dn(lam=1.0)", "center+standardize+nnn(k=3)"])
def test_means_of_a_training_split_are_those_of_a_fit_on_it(spec: str) -> None:
    here, train = world(0), world(1)
    borrowed = calibration.fit(spec, here.documents, here.queries, means=train.documents)
    alone = calibration.fit(spec.partition("+")[0], train.documents, here.queries)
    assert np.array_equal(borrowed.shift.documents(here.unseen, np.float32), alone.fold(here.unseen).vectors)
    assert np.array_equal(borrowed.shift.queries(here.asked, np.float32), alone.fold_queries(here.asked).vectors)
    own = calibration.fit(spec, here.documents, here.queries)
    assert not np.allclose(borrowed.scores(here.asked, here.unseen), own.scores(here.asked, here.unseen), atol=1e-3)
    same = calibration.fit(spec, here.documents, here.queries, means=here.documents)
    assert np.array_equal(same.scores(here.asked, here.unseen), own.scores(here.asked, here.unseen))


def test_a_shift_fitted_on_another_data_set_can_be_used(tmp_path: Path) -> None:
    here, elsewhere = world(0), world(1)
    means = calibration.fit("center", elsewhere.documents, elsewhere.queries)
    borrowed = calibration.fit("center+standardize", here.documents, here.queries, means=means)
    local = calibration.fit("center+standardize", here.documents, here.queries)
    assert np.array_equal(
        borrowed.fold(here.documents).vectors, means.fold(here.documents).vectors
    )  # the vectors are the other set's
    assert borrowed.scale and local.scale and borrowed.scale.statistics != local.scale.statistics
    borrowed.save(tmp_path / "x.calibration")
    loaded = calibration.load(tmp_path / "x.calibration")
    assert np.array_equal(loaded.scores(here.asked, here.unseen), borrowed.scores(here.asked, here.unseen))


def replace_weights(vectors: Vectors, weights: dict[str, Matrix]) -> Vectors:
    return replace(vectors, weights=weights)
