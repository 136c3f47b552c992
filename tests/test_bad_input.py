"""Bad input has an answer that says what, why and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import calibration, errors
from isthmus.types import Vectors
from worlds import DYNAMIC_SPECS, SPECS, world

W = world()
TEXT = W.queries.take(W.queries.modality == "text")


def fit(spec: str, documents: Vectors = W.documents, queries: Vectors = W.queries, **options: Any) -> Any:
    options.setdefault("reference_documents", W.gallery if "dbnorm" in spec else None)
    if "learned" in spec:
        options.setdefault("positives", W.positives[: len(queries)])
    return calibration.fit(spec, documents, queries, **options)


def test_another_dimension_is_refused_everywhere_by_name() -> None:
    other = Vectors.of(np.ones((2, 5)), "text")
    fitted = fit("center")
    with pytest.raises(errors.BadVectors, match=r"query vectors have 5 dimensions .* 8"):
        fit("center", queries=other)
    with pytest.raises(errors.BadVectors, match="reference document vectors have 5"):
        fit("dbnorm", reference_documents=other)
    with pytest.raises(errors.BadVectors, match="query vectors have 5"):
        fitted.scores(other, W.documents)
    with pytest.raises(errors.BadVectors, match="document vectors have 5"):
        fitted.scores(W.asked, other)
    with pytest.raises(errors.BadVectors, match="document vectors have 5"):
        fitted.fold(other)
    with pytest.raises(errors.BadVectors, match="query vectors have 5"):
        fitted.fold_queries(other)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_by_row(value: float) -> None:
    matrix = np.ones((3000, 4))
    matrix[2999, 1] = value
    bad, good = Vectors.of(matrix, "text"), Vectors.of(np.random.default_rng(0).normal(size=(9, 4)), "text")
    fitted = fit("nnn(k=2)", good, good)
    attempts: list[Callable[[], object]] = [
        lambda: fit("center", bad, good),
        lambda: fit("nnn(k=2)", bad, good),
        lambda: fit("none", good, bad),
        lambda: fitted.fold(bad),
    ]
    for attempt in attempts:
        with pytest.raises(errors.BadVectors, match="row 2999 of part 'text' holds NaN or infinity, so"):
            attempt()


def test_zero_vectors_are_refused_by_row_but_absent_parts_may_hold_anything() -> None:
    matrix = np.ones((3, 4))
    matrix[1] = 0
    with pytest.raises(errors.BadVectors, match="row 1 of part 'text' is all zeros"):
        fit("none", Vectors.of(matrix, "text"), Vectors.of(np.ones((1, 4)), "text"))
    masked = Vectors({"text": matrix, "image": np.ones((3, 4))}, {"text": np.array([True, False, True])})
    assert np.isfinite(calibration.fit("none", masked, masked).scores(masked, masked)).all()


@pytest.mark.parametrize("method", ["nnn", "learned"])
def test_more_neighbours_than_reference_queries_are_refused_not_padded(method: str) -> None:
    n = min(int((W.queries.modality == m).sum()) for m in W.queries.modalities)
    fit(f"{method}(k={n})").fold(W.documents)
    with pytest.raises(errors.CannotFit, match=rf"k is {n + 1}, .* only {n}"):
        fit(f"{method}(k={n + 1})").fold(W.documents)


def test_without_k_all_references_up_to_128_are_neighbours() -> None:
    n = len(TEXT)
    default, explicit = (fit(spec, queries=TEXT).fold(W.documents).vectors for spec in ("nnn", f"nnn(k={n})"))
    assert np.array_equal(default, explicit)
    many = TEXT.take(np.arange(300) % n)
    default, explicit = (fit(spec, queries=many).fold(W.documents).vectors for spec in ("nnn", "nnn(k=128)"))
    assert np.array_equal(default, explicit)


def test_one_reference_query_is_refused_where_it_tells_nothing_and_used_where_it_does() -> None:
    one = TEXT.take(slice(0, 1))
    asked = W.asked.take(W.asked.modality == "text")
    with pytest.raises(errors.CannotFit, match="at least 2 reference queries with a text part and got 1"):
        fit("center", queries=one)
    with pytest.raises(errors.CannotFit, match=r"no spread .* text queries to image"):
        fit("standardize", queries=one)
    with pytest.raises(errors.CannotFit, match="at least 8"):
        fit("learned", queries=one)
    for spec in ("none", "dn", "nnn", "qbnorm", "dbnorm"):
        assert np.isfinite(fit(spec, queries=one).scores(asked, W.documents)).all()


def test_no_spread_in_the_best_similarities_is_refused() -> None:
    same = TEXT.take(np.zeros(10, dtype=int))
    with pytest.raises(errors.CannotFit, match="σ = "):
        fit("standardize", queries=same)


def test_no_documents_and_no_reference_queries_are_refused() -> None:
    with pytest.raises(errors.CannotFit, match="no documents"):
        fit("none", documents=W.documents.take(slice(0, 0)))
    with pytest.raises(errors.CannotFit, match="no reference queries"):
        fit("none", queries=W.queries.take(slice(0, 0)))


@pytest.mark.parametrize("spec", [*SPECS, *DYNAMIC_SPECS, "minmax", "zscore", "rrf"])
def test_no_queries_or_no_documents_to_score_give_empty_arrays(spec: str) -> None:
    fitted = fit(spec)
    nothing = W.documents.take(slice(0, 0))
    assert fitted.scores(W.asked.take(slice(0, 0)), W.documents).shape == (0, len(W.documents))
    assert fitted.scores(W.asked, nothing).shape == (len(W.asked), 0)
    if fitted.spec.per_query is None:
        assert fitted.fold(nothing).vectors.shape == (0, fitted.fold(W.documents).vectors.shape[1])


@pytest.mark.parametrize("spec", SPECS)
def test_a_query_modality_that_was_not_fitted_is_refused(spec: str) -> None:
    fitted = fit(spec, queries=TEXT, positives=W.positives[: len(TEXT)] if "learned" in spec else None)
    image = W.asked.take(W.asked.modality == "image")
    attempts: list[Callable[[], object]] = [
        lambda: fitted.scores(image, W.documents),
        lambda: fitted.fold_queries(image),
        lambda: fitted.finish(np.zeros((1, 1)), "image", "text"),
    ]
    for attempt in attempts:
        with pytest.raises(errors.UnknownModality, match=r"no image reference queries were fitted \(fitted: text\)"):
            attempt()


def test_a_document_modality_with_no_documents_is_refused_only_where_it_had_to_be_fitted() -> None:
    texts = W.documents.take(W.documents.modality == "text")
    images = W.unseen.take(W.unseen.modality == "image")
    for spec in ("none", "nnn(k=3)", "qbnorm"):
        assert np.isfinite(fit(spec, texts).scores(W.asked, images)).all()
    for spec in ("center", "dn", "standardize", "nnn(k=3)+standardize"):
        with pytest.raises(errors.UnknownModality, match="image"):
            fit(spec, texts).scores(W.asked, images)
    single = W.documents.take(W.documents.modality != "image+text")
    fused = W.unseen.take(W.unseen.modality == "image+text")
    assert np.isfinite(fit("center", single).scores(W.asked, fused)).all()  # part means serve fused documents


def test_a_document_alone_in_its_part_is_similar_to_nothing_after_centring() -> None:
    keep = np.flatnonzero(W.documents.modality == "text")
    lone = np.append(keep, np.flatnonzero(W.documents.modality == "image")[0])
    documents = W.documents.take(lone)
    fitted = fit("center", documents)
    assert np.array_equal(fitted.scores(W.asked, documents)[:, -1], np.zeros(len(W.asked)))
    assert np.array_equal(fitted.fold(documents).vectors[-1], np.zeros(8))


def test_dbnorm_without_a_gallery_bank_says_what_to_use() -> None:
    with pytest.raises(errors.CannotFit, match=r"reference_documents=.*qbnorm"):
        fit("dbnorm", reference_documents=None)


def test_labelled_pairs_must_cover_every_pair_of_modalities() -> None:
    with pytest.raises(errors.CannotFit, match="0 labelled pairs"):
        fit("standardize", positives=[(0, 0), (0, 3)])


@pytest.mark.parametrize(
    ("positives", "said"),
    [
        ([(0, 999)], "document 999, but there are 30"),
        ([(99, 0)], "query row 99, but there are 24"),
        ([(0, -2)], "document -2"),
        ([1, 2, 3], "cannot be read"),
        ([(0.5, 1.5)], "row numbers"),
        (np.zeros((2, 3), dtype=int), "cannot be read"),
        ([[0, 1], [2]], "different lengths"),
        (np.full(24, -5), "document -5"),
        (calibration.Pairs(np.array([0]), np.array([999])), "document 999"),
    ],
)
def test_pairs_that_name_no_row_are_refused(positives: Any, said: str) -> None:
    with pytest.raises(errors.BadInput, match=said):
        fit("standardize", positives=positives)


def test_a_bank_made_only_from_one_document_is_refused_for_that_document() -> None:
    fitted = fit("nnn(k=3)", queries=TEXT)
    with pytest.raises(errors.CannotFit, match=r"all \d+ reference queries of one modality come from document 2"):
        fitted.fold(W.documents, sources=np.full(len(TEXT), 2))


def test_a_pair_given_twice_counts_once() -> None:
    fitted = fit("nnn(k=3)", queries=TEXT)
    twice = fitted.fold(W.documents, sources=[(0, 2)] * len(TEXT)).vectors
    assert np.array_equal(twice, fitted.fold(W.documents, sources=[(0, 2)]).vectors)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"txet": 9.0}, "No part of these documents is called 'txet'. Did you mean 'text'?"),
        ({"text": np.nan}, "finite number that is not negative, not nan"),
        ({"text": -1.0}, "not negative"),
        ({"text": "a"}, "finite number"),
        ({"text": 0.0, "image": 0.0}, "nothing is left to fuse"),
    ],
)
def test_fusion_weights_that_mean_nothing_are_refused(weights: Any, said: str) -> None:
    with pytest.raises(errors.BadInput) as caught:
        fit("center", weights=weights)
    assert said in str(caught.value)


def test_means_from_elsewhere_must_fit_the_spec_and_the_vectors() -> None:
    centred = fit("center")
    small = Vectors.of(np.random.default_rng(0).normal(size=(9, 4)), "text")
    for attempt, said in (
        (lambda: fit("none", means=centred), "cannot take the means of 'center'"),
        (lambda: fit("dn(lam=0.1)", means=fit("dn(lam=1.0)")), "cannot take the means"),
        (lambda: fit("center", means=centred.shift), "or a fitted calibration, not Centered"),
        (lambda: fit("center", means=centred, weights={"text": 1.0}), "not both"),
        (lambda: fit("center", small, small, means=centred), "The means have 8 dimensions; these vectors have 4"),
        (lambda: fit("center", small, small, means=W.documents), "The means have 8 dimensions; these vectors have 4"),
        (lambda: fit("nnn(k=3)", means=W.documents), "subtracts no means"),
    ):
        with pytest.raises(errors.BadInput, match=said):
            attempt()  # type: ignore[no-untyped-call]


def test_means_of_nothing_and_of_too_few_modalities_are_refused() -> None:
    with pytest.raises(errors.CannotFit, match="There are no documents in means="):
        fit("center", means=W.documents.take(slice(0, 0)))
    with pytest.raises(errors.UnknownModality, match="no mean was fitted for the document part 'image'"):
        fit("center", means=TEXT).fold(W.documents)


def test_what_is_no_vectors_and_no_spec_is_refused_with_what_to_write() -> None:
    matrix = np.ones((3, 8))
    with pytest.raises(errors.BadVectors, match=r"must be Vectors, not ndarray. Write Vectors.of"):
        fit("center", matrix, matrix)  # type: ignore[arg-type]
    with pytest.raises(errors.BadVectors, match="must be Vectors"):
        fit("center").scores(matrix, W.documents)
    with pytest.raises(errors.BadSpec, match="written as text"):
        calibration.fit(None, W.documents, W.queries)  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [1e-200, 1e-50, 1e50, 1e200])
def test_float64_vectors_beyond_the_range_of_float32_are_taken(scale: float) -> None:
    huge = Vectors({p: m * scale for p, m in W.documents.parts.items()}, W.documents.present)
    np.testing.assert_allclose(fit("center").fold(huge).vectors, fit("center").fold(W.documents).vectors, atol=1e-5)


def test_changing_what_is_not_there_is_refused() -> None:
    with pytest.raises(errors.BadSpec, match="only nnn has"):
        fit("center").with_alpha(0.5)
    with pytest.raises(errors.BadSpec, match="fit again"):
        fit("nnn(k=3)+standardize").with_alpha(0.5)
    with pytest.raises(errors.BadSpec, match="finite"):
        fit("center").with_balance({"image": np.nan})
    with pytest.raises(errors.BadSpec, match="finite number, not 'a'"):
        fit("center").with_balance({"image": "a"})
    with pytest.raises(errors.UnknownName, match="Did you mean 'image'"):
        fit("center").with_balance({"imag": 1.0})
    assert fit("center").with_balance({"text+image": 1.0}).balance == {"image+text": 1.0}


def test_a_dynamic_calibration_asks_for_its_activation() -> None:
    fitted = fit("qbnorm(dynamic=true)")
    with pytest.raises(errors.BadSpec, match="pass active="):
        fitted.fold_queries(W.asked)
    with pytest.raises(errors.BadSpec, match="not dynamic"):
        fit("nnn(k=3)").activation(W.asked, fit("nnn(k=3)").fold(W.documents))
    with pytest.raises(errors.BadInput, match="no documents"):
        fitted.activation(W.asked, fitted.fold(W.documents.take(slice(0, 0))))


def test_modalities_that_do_not_fit_the_inner_products_are_refused() -> None:
    fitted = fit("standardize")
    with pytest.raises(errors.BadInput, match=r"shape \(2, 3\) came with query modalities of shape \(1,\)"):
        fitted.finish(np.zeros((2, 3)), ["text"], "image")
    with pytest.raises(errors.BadInput, match="one name for all"):
        fitted.finish(np.zeros((2, 3)), np.full((2, 3), "text"), "image")
    with pytest.raises(errors.BadInput, match=r"shape \(2, 3\) came with document modalities of shape \(2,\)"):
        fitted.finish(np.zeros((2, 3)), "text", ["image", "text"])


def test_a_damaged_or_foreign_file_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.calibration"
    fit("center+nnn(k=3)").save(path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:100], whole[:-10], whole + b"x", b"not a calibration at all"):
        path.write_bytes(damaged)
        with pytest.raises(errors.BadFile, match=r"x\.calibration is damaged"):
            calibration.load(path)
    with monkeypatch.context() as patched:
        patched.setattr("isthmus.calibration._sealed.VERSION", 9)
        fit("center+nnn(k=3)").save(path)
    with pytest.raises(errors.BadFile, match="version 9"):
        calibration.load(path)
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(errors.BadFile, match="no isthmus calibration"):
        calibration.load(path)
    with pytest.raises(FileNotFoundError):
        calibration.load(tmp_path / "absent.calibration")
