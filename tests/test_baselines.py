"""Per-query baselines that users know: right by their formula, and honest about not folding."""

from __future__ import annotations

import numpy as np
import pytest

from isthmus import calibration
from isthmus.calibration.minmax import MinMax
from isthmus.errors import BadSpec
from isthmus.types import Matrix
from worlds import world

W = world()


def scores(spec: str) -> Matrix:
    return calibration.fit(spec, W.documents, W.queries).scores(W.asked, W.documents)


@pytest.mark.parametrize("spec", ["minmax", "minmax(k=3)", "zscore", "zscore(k=3)", "rrf", "center+rrf(k=5)"])
def test_the_order_inside_a_modality_is_that_of_similarity(spec: str) -> None:
    similarity = scores("center" if "center" in spec else "none")
    rescaled = scores(spec)
    for modality in W.documents.modalities:
        columns = np.flatnonzero(W.documents.modality == modality)
        order = np.argsort(-similarity[:, columns], axis=1)
        assert (np.diff(np.take_along_axis(rescaled[:, columns], order, axis=1), axis=1) <= 0).all()


def test_minmax_gives_each_modalitys_best_1_and_its_kth_0() -> None:
    for modality in W.documents.modalities:
        ordered = np.sort(scores("minmax(k=3)")[:, W.documents.modality == modality], axis=1)[:, ::-1]
        np.testing.assert_allclose(ordered[:, 0], 1, atol=1e-8)
        np.testing.assert_allclose(ordered[:, 2], 0, atol=1e-8)


def test_a_modality_of_one_document_is_its_own_best_under_minmax() -> None:
    assert MinMax().rescale(np.array([[0.3]])).tolist() == [[1.0]]


def test_zscore_has_mean_0_and_deviation_1_over_the_k_best() -> None:
    for modality in W.documents.modalities:
        best = np.sort(scores("zscore(k=4)")[:, W.documents.modality == modality], axis=1)[:, -4:]
        np.testing.assert_allclose(best.mean(axis=1), 0, atol=1e-8)
        np.testing.assert_allclose(best.std(axis=1), 1, atol=1e-7)


def test_rrf_scores_by_rank_and_a_tie_goes_to_the_more_similar() -> None:
    similarity, fused = scores("none"), scores("rrf(k=60)")
    for row in range(len(W.asked)):
        firsts = np.flatnonzero(fused[row] > 1 / 61 - 1e-8)
        assert len(firsts) == len(W.documents.modalities)
        assert np.array_equal(firsts[np.argsort(-fused[row, firsts])], firsts[np.argsort(-similarity[row, firsts])])


@pytest.mark.parametrize("spec", ["minmax", "zscore", "rrf", "center+rrf"])
def test_a_baseline_that_looks_at_a_whole_list_says_that_it_does_not_fold(spec: str) -> None:
    fitted = calibration.fit(spec, W.documents, W.queries)
    for attempt in (
        lambda: fitted.fold(W.documents),
        lambda: fitted.fold_queries(W.asked),
        lambda: fitted.finish(np.zeros((1, 1)), "text", "text"),
    ):
        with pytest.raises(BadSpec, match="does not fold"):
            attempt()
