"""``learned`` finds what is there, falls back where nothing is known, and asks for what it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad

from isthmus import calibration, errors
from isthmus.calibration.bank import ReferenceBank
from isthmus.calibration.known import Answers, lists_of
from isthmus.calibration.listwise import PRIOR, Lists, _loss, _temperature, minimum
from isthmus.calibration.passages import Passages
from isthmus.calibration.rows import unit
from isthmus.calibration.tune import ndcg_at_10
from isthmus.types import Matrix, Rows, Vectors
from worlds import world


def two_cones(seed: int, n: int = 120, dim: int = 24) -> tuple[Vectors, Vectors, Rows]:
    """Texts match a query closely, images loosely and in a cone of their own; each query has one right document."""
    rng = np.random.default_rng(seed)
    topics = rng.normal(size=(n, dim))
    image = np.arange(n) % 2 == 1
    cone = np.random.default_rng(99).normal(size=dim)  # the encoder's, the same for every sample
    noise = np.where(image, 1.2, 0.6)[:, None] * rng.normal(size=(n, dim))
    documents = topics + noise + np.where(image[:, None], -cone, cone)
    queries = np.repeat(topics, 2, axis=0) + 0.5 * rng.normal(size=(2 * n, dim)) + cone
    return (
        Vectors.of(documents, np.where(image, "image", "text")),
        Vectors.of(queries, "text"),
        np.repeat(np.arange(n), 2),
    )


def macro(fitted: calibration.Fitted, documents: Vectors, queries: Vectors, right: Rows) -> float:
    relevant = np.zeros((len(queries), len(documents)), dtype=bool)
    relevant[np.arange(len(queries)), right] = True
    values = ndcg_at_10(fitted.scores(queries, documents), relevant)
    modality = documents.modality[right]
    return float(np.mean([values[modality == name].mean() for name in documents.modalities]))


def test_learned_beats_raw_cosine_and_its_own_prior_on_unseen_documents_and_queries() -> None:
    for seed in (0, 2):
        documents, queries, right = two_cones(seed)
        unseen = two_cones(seed + 1)
        values = {
            spec: macro(calibration.fit(spec, documents, queries, sources=right), *unseen)
            for spec in ("none", "nnn(k=16)+standardize", "learned")
        }
        assert values["learned"] > values["none"] + 0.1
        assert values["learned"] > values["nnn(k=16)+standardize"] + 0.01


def test_the_fit_is_a_minimum_below_the_prior() -> None:
    rng = np.random.default_rng(0)
    shape = (200, 12)
    modality = rng.integers(0, 2, shape)
    u = rng.normal(size=shape) - 1.5 * modality  # one modality's scores are too low
    u[:, 0] += 2
    lists = Lists(u, rng.normal(size=shape), modality, np.ones(shape, dtype=bool), 2)
    fitted = minimum(lists, l2=1.0)
    g = _temperature(lists)
    at_fit, gradient = _loss(fitted.ravel(), lists, g * PRIOR, 1 / g**2)
    at_prior, _ = _loss(np.tile(g * PRIOR, 2), lists, g * PRIOR, 1 / g**2)
    assert at_fit < at_prior - 1
    assert np.abs(gradient).max() < 1e-2
    assert fitted[1, 2] - fitted[0, 2] > 1  # the offset that was taken away is found


def test_with_a_strong_prior_it_ranks_like_nnn_then_standardize() -> None:
    documents, queries, right = two_cones(0)
    prior = calibration.fit("nnn(k=16)+standardize", documents, queries, sources=right)
    held = calibration.fit("learned(l2=1e9)", documents, queries, positives=right)
    a, b = (fitted.scores(queries, documents) for fitted in (prior, held))
    ratio = (a - a.mean()) / (b - b.mean())
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-3)


def test_slopes_stay_positive_so_that_it_folds() -> None:
    w = world(3)
    upside_down = np.random.default_rng(0).integers(0, len(w.documents), size=len(w.queries))  # no right answers
    fitted = calibration.fit("learned(k=3,l2=0.001)", w.documents, w.queries, positives=upside_down)
    assert fitted.coefficients is not None
    assert min(terms.slope for terms in fitted.coefficients.table.values()) > 0


def test_a_modality_without_known_answers_keeps_the_prior_and_is_not_drowned() -> None:
    documents, queries, right = two_cones(0)
    texts = np.flatnonzero(documents.modality[right] == "text")
    fitted = calibration.fit("learned", documents, queries.take(texts), positives=right[texts])
    assert fitted.coefficients is not None
    unseen_documents, unseen_queries, unseen_right = two_cones(1)
    images = documents.modality[unseen_right] == "image"
    none = calibration.fit("none", documents, queries)
    scores, raw = (f.scores(unseen_queries, unseen_documents) for f in (fitted, none))
    rank = (scores > scores[np.arange(len(scores)), unseen_right][:, None]).sum(axis=1)
    raw_rank = (raw > raw[np.arange(len(raw)), unseen_right][:, None]).sum(axis=1)
    assert np.median(rank[images]) < np.median(raw_rank[images]) / 3


def test_a_query_modality_without_known_answers_keeps_the_prior() -> None:
    w = world(4)
    known = np.where(w.queries.modality == "text", w.positives, -1)
    fitted = calibration.fit("learned(k=3)", w.documents, w.queries, positives=known)
    prior = calibration.fit("nnn(k=3)+standardize", w.documents, w.queries, sources=known)
    images = w.asked.take(w.asked.modality == "image")
    expected = prior.scores(images, w.documents, sources=known)
    np.testing.assert_allclose(fitted.scores(images, w.documents, sources=known), expected, rtol=1e-4, atol=1e-4)


def test_a_query_modality_with_too_few_known_answers_keeps_the_prior_too() -> None:
    w = world(4)
    few = np.flatnonzero(w.queries.modality == "image")[:3]
    known = np.where((w.queries.modality == "text") | np.isin(np.arange(len(w.queries)), few), w.positives, -1)
    fitted = calibration.fit("learned(k=3)", w.documents, w.queries, sources=known)
    prior = calibration.fit("nnn(k=3)+standardize", w.documents, w.queries, sources=known)
    for modality in ("image", "image+text"):
        asked = w.asked.take(w.asked.modality == modality)
        expected = prior.scores(asked, w.documents, sources=known)
        np.testing.assert_allclose(fitted.scores(asked, w.documents, sources=known), expected, rtol=1e-4, atol=1e-4)


def test_learned_learns_from_positives_alone_where_there_are_some_and_keeps_sources_apart() -> None:
    documents, queries, right = two_cones(0)
    half = np.where(np.arange(len(right)) % 2 == 0, right, -1)
    rest = np.where(np.arange(len(right)) % 2 == 1, right, -1)
    taught = calibration.fit("learned", documents, queries, positives=half, sources=right)
    assert taught.coefficients
    again = calibration.fit("learned", documents, queries, positives=half, sources=rest)
    assert again.coefficients
    assert taught.coefficients.table == again.coefficients.table  # a positive is kept apart as a source is
    by_sources = calibration.fit("learned", documents, queries, sources=right)
    assert by_sources.coefficients
    assert by_sources.coefficients.table != taught.coefficients.table  # without positives, sources are the answers


def three_cones(seed: int, n: int = 240, dim: int = 24) -> tuple[Vectors, Vectors, Rows]:
    """Texts, images and sounds, each in a cone of its own; two queries for each document."""
    rng = np.random.default_rng(seed)
    topics, kind = rng.normal(size=(n, dim)), np.arange(n) % 3
    cone, elsewhere = np.random.default_rng(99).normal(size=(2, dim))
    noise = np.array([0.6, 1.2, 1.0])[kind, None] * rng.normal(size=(n, dim))
    documents = topics + noise + np.array([cone, -cone, 1.3 * elsewhere])[kind]
    queries = np.repeat(topics, 2, axis=0) + 0.5 * rng.normal(size=(2 * n, dim)) + cone
    modality = np.array(["text", "image", "audio"])[kind]
    return Vectors.of(documents, modality), Vectors.of(queries, "text"), np.repeat(np.arange(n), 2)


def test_a_document_modality_without_known_answers_is_neither_drowned_nor_favoured() -> None:
    documents, queries, right = three_cones(0)
    known = np.flatnonzero(documents.modality[right] != "audio")
    unseen, asked, _ = three_cones(1)
    shares = {}
    for spec in ("none", "nnn(k=16)+standardize", "learned"):
        fitted = calibration.fit(spec, documents, queries.take(known), sources=right[known])
        first = unseen.modality[fitted.scores(asked, unseen).argmax(axis=1)]
        shares[spec] = float((first == "audio").mean())  # a third of the queries ask for one
    assert shares["none"] < 0.05
    assert abs(shares["learned"] - shares["nnn(k=16)+standardize"]) < 0.05
    assert 0.15 < shares["learned"] < 0.4


def test_one_known_answer_of_a_document_modality_does_not_outweigh_hundreds_of_others() -> None:
    documents, queries, right = three_cones(0, n=900)
    audio = documents.modality[right] == "audio"
    unseen, asked, _ = three_cones(1)
    prior = calibration.fit("nnn(k=16)+standardize", documents, queries, sources=right)
    usual = float((unseen.modality[prior.scores(asked, unseen).argmax(axis=1)] == "audio").mean())
    for lone in np.flatnonzero(audio)[:6]:
        known = np.flatnonzero(~audio | (np.arange(len(right)) == lone))
        fitted = calibration.fit("learned", documents, queries.take(known), sources=right[known])
        first = unseen.modality[fitted.scores(asked, unseen).argmax(axis=1)]
        assert abs(float((first == "audio").mean()) - usual) < 0.1


@pytest.mark.parametrize("positives", [None, np.full(24, -1), [(0, 1)]])
def test_too_few_known_answers_are_refused_with_what_to_use_instead(positives: Any) -> None:
    w = world()
    with pytest.raises(errors.CannotFit, match=r"at least 8 .*nnn\+standardize"):
        calibration.fit("learned(k=3)", w.documents, w.queries, positives=positives)


def test_every_target_modality_counts_alike_however_many_queries_it_has() -> None:
    modality = np.array([[0], [0], [0], [1]])
    ones = np.ones((4, 1))
    importance = Lists(ones, ones, modality, ones > 0, 2).importance
    assert importance[:3].sum() == pytest.approx(importance[3:].sum())
    assert importance.sum() == pytest.approx(4)


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    shape = (6, 9)
    lists = Lists(rng.normal(size=shape), rng.normal(size=shape), rng.integers(0, 3, shape), rng.random(shape) > 0.1, 3)
    lists.counted[:, 0] = True
    prior = np.array([1.0, 0.0, 0.0])

    def value(theta: Matrix) -> float:
        return _loss(theta, lists, prior, 0.3)[0]

    def gradient(theta: Matrix) -> Matrix:
        return _loss(theta, lists, prior, 0.3)[1]

    error = check_grad(value, gradient, rng.normal(size=9))
    assert error < 1e-5


def test_another_right_document_of_a_query_is_never_a_wrong_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x = unit(np.random.default_rng(0).normal(size=(6, 4)))
    documents = Vectors.of(x, ["text", "image"] * 3)
    known = calibration.Pairs.of([(0, 2), (0, 5), (1, 3)], queries=2, documents=6)
    scale = np.array([[0.0, 1.0], [0.0, 1.0]])
    monkeypatch.setattr("isthmus.calibration.known.FEWEST", 1)
    references = ReferenceBank({"text": x[:2]}, {"text": np.arange(2)})
    answers = Answers(Passages(documents), x, references, known, known)
    lists = lists_of(answers, "text", np.zeros(6), scale, scale, candidates=9)
    assert lists.counted[:, 0].all()  # the right document itself
    assert (~lists.counted).sum(axis=1).tolist() == [2, 2, 1]  # its copy in the list, and the query's other answer
