"""Side by side with what others wrote: nnn-retrieval's exhaustive path, Faiss."""

from __future__ import annotations

import numpy as np
import pytest
from nnn import DNRanker, NNNRanker, NNNRetriever

from isthmus import calibration
from isthmus.calibration.bank import nearest_mean, over_bank
from isthmus.calibration.largest import mean_of_largest
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.rows import unit
from isthmus.errors import BadInput
from isthmus.index import FaissNeighbours
from isthmus.types import Matrix, Vectors
from worlds import world


def unit_rows(n: int, seed: int, dim: int = 32) -> Matrix:
    rng = np.random.default_rng(seed)
    return unit((rng.normal(size=(n, dim)) + 0.5).astype(np.float32))


@pytest.mark.parametrize(("k", "alpha"), [(1, 0.5), (8, 0.75), (128, 1.0)])
def test_nnn_scores_equal_those_of_nnn_retrieval(k: int, alpha: float) -> None:
    images, references, queries = unit_rows(200, 0), unit_rows(300, 1), unit_rows(40, 2)
    ranker = NNNRanker(
        NNNRetriever(32), images, references, alternate_ks=k, alternate_weight=alpha, batch_size=64, use_gpu=False
    )
    theirs, rows = ranker.search(queries, 200)
    fitted = calibration.fit(f"nnn(k={k},alpha={alpha})", Vectors.of(images, "image"), Vectors.of(references, "text"))
    ours = fitted.scores(Vectors.of(queries, "text"), Vectors.of(images, "image"))
    np.testing.assert_allclose(np.take_along_axis(ours, rows, axis=1), theirs, atol=2e-5)
    folded = (
        fitted.fold_queries(Vectors.of(queries, "text")).vectors @ fitted.fold(Vectors.of(images, "image")).vectors.T
    )
    np.testing.assert_allclose(np.take_along_axis(folded, rows, axis=1), theirs, atol=2e-5)


def test_dn_followed_by_nnn_equals_nnn_retrievals_dn_ranker() -> None:
    images, references, queries = unit_rows(100, 3), unit_rows(90, 4), unit_rows(20, 5)
    ranker = DNRanker(
        NNNRetriever(32),
        images,
        references,
        alternate_ks=8,
        alternate_weight=0.5,
        retrieval_dev_embeds=images,
        query_dev_embeds=references,
        dn_lambda=0.25,
        batch_size=64,
    )
    theirs, rows = ranker.search(queries, 100)
    fitted = calibration.fit(
        "dn(lam=0.25)+nnn(k=8,alpha=0.5)", Vectors.of(images, "image"), Vectors.of(references, "text")
    )
    ours = fitted.scores(Vectors.of(queries, "text"), Vectors.of(images, "image"))
    np.testing.assert_allclose(np.take_along_axis(ours, rows, axis=1), theirs, atol=2e-5)


def test_the_bias_by_a_faiss_index_that_looks_everywhere_is_the_exhaustive_one() -> None:
    documents, bank = unit_rows(150, 6), unit_rows(400, 7)
    exact = over_bank(documents, bank, lambda similarity, _: mean_of_largest(similarity, 16))
    np.testing.assert_allclose(nearest_mean(documents, bank, 16, FaissNeighbours(probes=1000)), exact, atol=1e-6)
    few = nearest_mean(documents, bank, 16, FaissNeighbours(probes=2))
    assert (few <= exact + 1e-6).all()  # a missed neighbour can only lower the mean
    assert np.abs(few - exact).mean() < 0.05


def test_known_sources_are_left_out_through_an_index_too() -> None:
    documents, bank = unit_rows(50, 8), unit_rows(120, 9)
    own = Pairs.of(np.arange(120) % 50, queries=120, documents=50)
    exact = over_bank(documents, bank, lambda similarity, _: mean_of_largest(similarity, 8), own)
    np.testing.assert_allclose(nearest_mean(documents, bank, 8, FaissNeighbours(probes=99), own), exact, atol=1e-6)


def test_more_neighbours_than_the_probed_cells_hold_are_still_found() -> None:
    documents, bank = unit_rows(20, 10), unit_rows(400, 11)
    similarity, rows = FaissNeighbours(probes=1)(documents, bank, 200)
    assert (rows >= 0).all()
    np.testing.assert_allclose(similarity, np.einsum("id,ikd->ik", documents, bank[rows]), atol=1e-5)
    with pytest.raises(BadInput, match="k = 401 neighbours must be between 1 and 400"):
        FaissNeighbours()(documents, bank, 401)
    with pytest.raises(BadInput, match="NaN"):
        FaissNeighbours()(documents * np.nan, bank, 4)
    with pytest.raises(BadInput, match="At least one cell"):
        FaissNeighbours(probes=0)


def test_a_neighbour_search_serves_fit_and_fold() -> None:
    w = world(1, queries=60)
    search = FaissNeighbours(probes=99)
    for spec in ("nnn(k=3)+standardize", "learned(k=3)"):
        options = {"positives": w.positives} if "learned" in spec else {}
        exact = calibration.fit(spec, w.documents, w.queries, **options)  # type: ignore[arg-type]
        by_index = calibration.fit(spec, w.documents, w.queries, neighbours=search, **options)  # type: ignore[arg-type]
        folded = by_index.fold(w.documents, neighbours=search).vectors
        np.testing.assert_allclose(folded, exact.fold(w.documents).vectors, atol=1e-4)
