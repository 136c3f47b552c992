"""One index of everything: the plain inner product of rows and queries in layout ``one`` is the score."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Collection, Document, Query, calibration
from isthmus.calibration import Fitted
from isthmus.calibration.passages import OwnerLike
from isthmus.errors import BadInput, BadSpec, UnknownModality, UnknownName
from isthmus.types import Matrix, Rows, Vectors
from test_folding import close, fitted_on
from worlds import DYNAMIC_SPECS, SPECS, world

DYNAMIC_QBNORM = [spec for spec in DYNAMIC_SPECS if "qbnorm" in spec]


def queries_of(asked: Vectors, modality: str) -> Vectors:
    return asked.take(asked.modality == modality)


def inner_of_one(
    fitted: Fitted,
    asked: Vectors,
    documents: Vectors,
    modality: str,
    sources: Rows | None = None,
    owner: OwnerLike | None = None,
) -> Matrix:
    """What an engine computes, ``(n_queries, rows)``: float32 in, and no map after."""
    folded = fitted.fold(documents, layout="one", queries=modality, sources=sources, owner=owner)
    active = fitted.activation(asked, folded) if fitted.spec.dynamic else None
    queries = fitted.fold_queries(asked, layout="one", modality=modality, active=active)
    assert folded.vectors.dtype == queries.vectors.dtype == np.float32
    return queries.vectors @ folded.vectors.T


@pytest.mark.parametrize("spec", SPECS + DYNAMIC_QBNORM)
@settings(max_examples=4)  # of every spec: enough in all
@given(seed=st.integers(0, 10_000), balance=st.floats(-3, 3), weights=st.booleans())
def test_the_inner_product_is_the_score(spec: str, seed: int, balance: float, weights: bool) -> None:
    w = world(seed, weights=weights)
    fitted = fitted_on(spec, w).with_balance({"image": balance, "image+text": -balance / 2})
    for modality in fitted.query_modalities:
        asked = queries_of(w.asked, modality)
        for documents in (w.documents, w.unseen):
            close(fitted, inner_of_one(fitted, asked, documents, modality), fitted.scores(asked, documents))


@pytest.mark.parametrize("spec", ["center+nnn(k=3)+standardize", "center+learned(k=3)", *DYNAMIC_QBNORM[:2]])
@settings(max_examples=5)
@given(seed=st.integers(0, 10_000))
def test_the_best_passage_of_a_document_has_its_score_and_no_query_meets_its_source(spec: str, seed: int) -> None:
    w = world(seed)
    one_kind = np.argsort(w.documents.modality_code, kind="stable")  # passages of a document are of one modality
    rows = w.documents.take(one_kind)
    starts = np.flatnonzero(np.diff(rows.modality_code, prepend=-1) | (np.arange(len(rows)) % 2 == 0))
    owner = np.searchsorted(starts, np.arange(len(rows)), side="right") - 1
    sources = w.positives % len(starts)
    fitted = calibration.fit(spec, rows, w.queries, owner=owner, sources=sources)
    for modality in fitted.query_modalities:
        asked = queries_of(w.asked, modality)
        inner = inner_of_one(fitted, asked, rows, modality, sources, owner)
        expected = fitted.scores(asked, rows, sources=sources, owner=owner)
        close(fitted, np.maximum.reduceat(inner, starts, axis=1), expected)


@pytest.mark.parametrize("spec", [s for s in DYNAMIC_SPECS if "dbnorm" in s])
def test_what_dynamic_dbnorm_drops_is_the_same_in_both_layouts(spec: str) -> None:
    w = world(1)
    fitted = fitted_on(spec, w)
    folded = fitted.fold(w.documents)
    for modality in fitted.query_modalities:
        asked = queries_of(w.asked, modality)
        queries = fitted.fold_queries(asked, active=fitted.activation(asked, folded))
        expected = fitted.finish(queries.vectors @ folded.vectors.T, modality, folded.modality)
        close(fitted, inner_of_one(fitted, asked, w.documents, modality), expected)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), documents=st.integers(2, 6), references=st.integers(2, 6))
def test_one_dimension_and_one_modality_are_enough(seed: int, documents: int, references: int) -> None:
    rng = np.random.default_rng(seed)
    texts, asked = (Vectors.of(rng.uniform(0.1, 2, size=(n, 1)), "text") for n in (documents, references))
    fitted = calibration.fit("nnn(k=1)", texts, asked).with_balance({"text": 0.5})
    folded = fitted.fold(texts, layout="one")
    assert folded.vectors.shape == (documents, 1 + 1 + 1 + 1)  # the vector, the bias, the modality, the length
    close(fitted, inner_of_one(fitted, asked, texts, "text"), fitted.scores(asked, texts))


@pytest.mark.parametrize("spec", ["none", "center+nnn(k=3)+standardize", "standardize+dbnorm(beta_query=2.0)"])
def test_rows_are_equally_long_whichever_documents_they_are_folded_with(spec: str) -> None:
    w = world()
    fitted = fitted_on(spec, w)
    lengths = [
        np.linalg.norm(fitted.fold(documents, layout="one", queries="text").vectors, axis=1)
        for documents in (w.documents, w.unseen)
    ]
    np.testing.assert_allclose(np.concatenate(lengths), lengths[0][0], rtol=1e-5)


@pytest.mark.parametrize("spec", ["none", "center+nnn(k=3)+standardize", "qbnorm(dynamic=true)"])
def test_no_documents_and_no_queries_fold_to_no_rows_of_the_same_width(spec: str) -> None:
    w = world()
    fitted = fitted_on(spec, w)
    none = w.documents.take(slice(0, 0))
    sets = np.zeros((0, 1), dtype=bool) if fitted.spec.dynamic else None
    some = fitted.fold(w.documents, layout="one", queries="text").vectors
    assert fitted.fold(none, layout="one", queries="text").vectors.shape == (0, some.shape[1])
    queries = fitted.fold_queries(w.asked.take(slice(0, 0)), layout="one", modality="text", active=sets)
    assert queries.vectors.shape == (0, some.shape[1])


def test_a_document_modality_that_needed_no_fit_has_no_offset() -> None:
    w = world()
    texts = w.documents.take(w.documents.modality == "text")
    fitted = calibration.fit("nnn(k=3)", texts, w.queries)
    asked = queries_of(w.asked, "text")
    close(fitted, inner_of_one(fitted, asked, w.documents, "text"), fitted.scores(asked, w.documents))
    scaled = calibration.fit("standardize", texts, w.queries)
    with pytest.raises(UnknownModality, match="fitted without image"):
        scaled.fold(w.documents, layout="one", queries="text")


def test_alpha_and_balance_change_without_touching_folded_documents() -> None:
    w = world()
    fitted = fitted_on("center+standardize+nnn(k=3)", w)
    changed = fitted.with_alpha(0.2).with_balance({"image": 1.0})
    folded = fitted.fold(w.documents, layout="one", queries="image")
    assert np.array_equal(changed.fold(w.documents, layout="one", queries="image").vectors, folded.vectors)


def test_a_saved_calibration_folds_queries_for_rows_that_were_folded_before(tmp_path: Path) -> None:
    w = world()
    fitted = fitted_on("center+learned(k=3)", w)
    rows = fitted.fold(w.documents, layout="one", queries="text")
    fitted.save(tmp_path / "x.calibration")
    asked = queries_of(w.asked, "text")
    queries = calibration.load(tmp_path / "x.calibration").fold_queries(asked, layout="one", modality="text")
    close(fitted, queries.vectors @ rows.vectors.T, fitted.scores(asked, w.documents))


def test_queries_of_another_modality_are_rejected() -> None:
    w = world()
    fitted = fitted_on("center+nnn(k=3)+standardize", w)
    images = queries_of(w.asked, "image")
    with pytest.raises(UnknownModality, match="these queries are image, but the documents were folded for text"):
        fitted.fold_queries(images, layout="one", modality="text")
    with pytest.raises(UnknownModality, match="folded for text queries"):
        fitted.fold_queries(w.asked, layout="one", modality="text")  # some of them
    dynamic = fitted_on("qbnorm(dynamic=true)", w)
    with pytest.raises(UnknownModality, match="folded for text queries"):
        dynamic.activation(images, dynamic.fold(w.documents, layout="one", queries="text"))


def test_the_modality_may_be_left_out_only_if_there_is_one() -> None:
    w = world()
    several = fitted_on("center", w)
    with pytest.raises(BadInput, match=r"Choose it with queries \(--queries\), one of: image, image\+text, text"):
        several.fold(w.documents, layout="one")
    with pytest.raises(BadInput, match="Choose it with modality"):
        several.fold_queries(queries_of(w.asked, "text"), layout="one")
    one = calibration.fit("center", w.documents, queries_of(w.queries, "text"))
    asked = queries_of(w.asked, "text")
    left_out = one.fold_queries(asked, layout="one").vectors @ one.fold(w.documents, layout="one").vectors.T
    close(one, left_out, one.scores(asked, w.documents))


def test_what_a_layout_cannot_be_is_rejected() -> None:
    w = world()
    fitted = fitted_on("center", w)
    with pytest.raises(UnknownName, match=r"No layout is called 'on'\. Did you mean 'one'\?"):
        fitted.fold(w.documents, layout="on", queries="text")
    with pytest.raises(BadInput, match="which belongs to the layout 'one'"):
        fitted.fold(w.documents, queries="text")
    with pytest.raises(UnknownName, match="No fitted query modality is called 'audio'"):
        fitted.fold(w.documents, layout="one", queries="audio")
    assert fitted.fold(w.documents, layout="one", queries="text+image").queries == "image+text"
    with pytest.raises(BadSpec, match="does not fold"):
        fitted_on("minmax", w).fold(w.documents, layout="one", queries="text")


def test_the_default_layout_says_that_it_serves_every_query_modality() -> None:
    w = world()
    folded = fitted_on("center", w).fold(w.documents)
    assert folded.queries is None
    assert folded.vectors.shape[1] == w.documents.dim


def test_exported_rows_of_one_layout_have_the_scores_of_a_search(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    asked = rng.normal(size=(3, 8))
    with Collection.open(tmp_path / "c", "none") as things:
        things.add(
            Document(f"{i}", vectors={part: rng.normal(size=8) + shift})
            for i in range(40)
            for part, shift in [("text", 1) if i % 2 else ("image", -1)]
        )
        things.calibrate(
            "center+nnn(k=3)+standardize",
            queries=[Query(vectors={part: rng.normal(size=8)}) for part in ("text", "image") for _ in range(20)],
        )
        things.delete(["3"])
        things.add([Document("late", vectors={"text": rng.normal(size=8)})])
        found = [things.search(Query(vectors={"text": one}), k=40) for one in asked]
        assert things.export_vectors(tmp_path / "x.npz", layout="one", queries="text") == 40
        fitted = things.snapshot().calibrated.fitted
        with pytest.raises(BadInput, match="Choose it with queries"):
            things.export_vectors(tmp_path / "x.npz", layout="one")
    with np.load(tmp_path / "x.npz") as rows:
        queries = fitted.fold_queries(Vectors.of(asked, "text"), layout="one", modality="text")
        scores = queries.vectors @ rows["vectors"].T
        place = {name: at for at, name in enumerate(rows["id"].tolist())}
    assert "3" not in place
    for row, hits in enumerate(found):
        assert [hit.id for hit in hits] == [list(place)[at] for at in np.argsort(-scores[row])]
        np.testing.assert_allclose(scores[row][[place[hit.id] for hit in hits]], [hit.score for hit in hits], atol=1e-5)
