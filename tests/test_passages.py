"""Documents of several passages: scored by their best passage, weighing 1 in every mean, on every path alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equations as eq
from isthmus import calibration, errors
from isthmus.calibration import Fitted, Statistics
from isthmus.calibration.bank import nearest_mean, over_bank, pair_similarities
from isthmus.calibration.largest import mean_of_largest
from isthmus.calibration.pairs import Pairs
from isthmus.calibration.passages import Passages, best_columns, best_rows, blocks
from isthmus.calibration.rows import unit
from isthmus.index import FaissNeighbours
from isthmus.types import Matrix, Rows, Vectors
from worlds import DYNAMIC_SPECS, SPECS, World, world

PER_QUERY = ["minmax(k=5)", "center+zscore(k=5)", "rrf"]
EVERY_SPEC = SPECS + DYNAMIC_SPECS + PER_QUERY
FOLDING = [s for s in SPECS + DYNAMIC_SPECS if not ("dbnorm" in s and "dynamic" in s)]  # that one drops a factor
few = settings(max_examples=10)


class Split(NamedTuple):
    vectors: Vectors
    owner: Rows


def split(documents: Vectors, seed: int) -> Split:
    """Cut each document into 1 to 4 passages: its text changes from one to the next, its image is repeated."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(documents)), rng.integers(1, 5, size=len(documents)))
    rows = documents.take(owner)
    texts = rows.parts["text"]
    other = texts + np.linalg.norm(texts, axis=1, keepdims=True) * 0.3 * rng.normal(size=texts.shape)
    return Split(Vectors({**rows.parts, "text": other}, rows.present, rows.weights), owner)


def fitted_on(spec: str, w: World, documents: Split, **options: Any) -> Fitted:
    known: dict[str, Any] = {"positives": w.positives} if "learned" in spec else {}
    return calibration.fit(
        spec,
        documents.vectors,
        w.queries,
        owner=documents.owner,
        **{"reference_documents": w.gallery, **known, **options},
    )


def by_engine(fitted: Fitted, asked: Vectors, documents: Split, **options: Any) -> Matrix:
    """Search rows, keep each document's best, finish."""
    folded = fitted.fold(documents.vectors, owner=documents.owner, **options)
    active = fitted.activation(asked, folded) if fitted.spec.dynamic else None
    queries = fitted.fold_queries(asked, active=active)
    first = np.unique(documents.owner, return_index=True)[1]
    inner = np.maximum.reduceat(queries.vectors @ folded.vectors.T, first, axis=1)
    return fitted.finish(inner, queries.modality, folded.modality[first])


@pytest.mark.parametrize("spec", FOLDING)
@few
@given(seed=st.integers(0, 10_000), weights=st.booleans(), told=st.booleans())
def test_the_best_folded_passage_finished_is_the_documents_dense_score(
    spec: str, seed: int, weights: bool, told: bool
) -> None:
    w = world(seed, weights=weights)
    documents, unseen = split(w.documents, seed), split(w.unseen, seed)
    fitted = fitted_on(spec, w, documents, sources=w.positives if told else None)
    options = {"sources": w.positives if told else None}
    scores = fitted.scores(w.asked, documents.vectors, owner=documents.owner, **options)
    assert scores.shape == (len(w.asked), len(w.documents))
    np.testing.assert_allclose(by_engine(fitted, w.asked, documents, **options), scores, rtol=1e-5, atol=1e-5)
    scores = fitted.scores(w.asked, unseen.vectors, owner=unseen.owner)
    np.testing.assert_allclose(by_engine(fitted, w.asked, unseen), scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_documents_of_one_passage_each_are_documents_as_ever(spec: str) -> None:
    w = world(1)
    n = np.arange(len(w.documents))
    plain = fitted_on(spec, w, Split(w.documents, None), sources=w.positives)  # type: ignore[arg-type]
    owned = fitted_on(spec, w, Split(w.documents, n), sources=w.positives)
    expected = plain.scores(w.asked, w.documents, sources=w.positives)
    assert np.array_equal(owned.scores(w.asked, w.documents, sources=w.positives, owner=n), expected)
    assert np.array_equal(owned.scores(w.asked, w.documents, sources=w.positives), expected)
    if spec not in PER_QUERY:
        folded = plain.fold(w.documents, sources=w.positives).vectors
        assert np.array_equal(owned.fold(w.documents, sources=w.positives, owner=n).vectors, folded)


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_all_passages_of_a_document_said_twice_change_nothing(spec: str) -> None:
    w = world(2)
    once = split(w.documents, 2)
    rows = np.concatenate([np.flatnonzero(once.owner == d) for d in np.repeat(np.arange(len(w.documents)), 2)])
    twice = Split(once.vectors.take(rows), once.owner[rows])
    expected = fitted_on(spec, w, once).scores(w.asked, once.vectors, owner=once.owner)
    scores = fitted_on(spec, w, twice).scores(w.asked, twice.vectors, owner=twice.owner)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", EVERY_SPEC)
def test_permuting_documents_permutes_their_scores(spec: str) -> None:
    w = world(3)
    documents = split(w.documents, 3)
    order = np.random.default_rng(0).permutation(len(w.documents))
    rows = np.concatenate([np.flatnonzero(documents.owner == d) for d in order])
    place = np.argsort(order)
    moved = Split(documents.vectors.take(rows), place[documents.owner[rows]])
    expected = fitted_on(spec, w, documents, sources=w.positives).scores(
        w.asked, documents.vectors, owner=documents.owner, sources=w.positives
    )[:, order]
    there = place[w.positives]
    known = {"positives": there} if "learned" in spec else {}
    scores = fitted_on(spec, w, moved, sources=there, **known).scores(
        w.asked, moved.vectors, owner=moved.owner, sources=there
    )
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


class ByHand:
    """The equations over documents that are lists of passages."""

    def __init__(self, w: World, documents: Split, shift: str) -> None:
        self.w, self.owner = w, documents.owner
        rows, references, asked = documents.vectors, w.queries, w.asked
        if shift == "center":
            means = eq.passage_means(rows, documents.owner)
            x = eq.shifted(rows, means)
            self.references, self.asked = eq.centred(references, references), eq.centred(asked, references)
        elif shift == "dn":
            x = eq.dn_of_passages(rows, documents.owner, 0.3)
            self.references = eq.distribution_normalized(references, references, 0.3)
            self.asked = eq.distribution_normalized(asked, references, 0.3)
        else:
            x, self.references, self.asked = eq.raw(rows), eq.raw(references), eq.raw(asked)
        self.documents = [[x[row] for row in range(len(x)) if self.owner[row] == d] for d in range(len(w.documents))]

    def similarity(self, q: Matrix, d: int) -> float:
        return max(eq.dot(q, p) for p in self.documents[d])

    def of_references(self, m: str, d: int) -> list[float]:
        """The similarities of a document to the reference queries of modality m that were not made from it."""
        return [
            self.similarity(r, d)
            for row, r in enumerate(self.references)
            if self.w.queries.modality[row] == m and self.w.positives[row] != d
        ]

    def scores(self, score: Callable[[float, str, int], float]) -> Matrix:
        return np.array(
            [
                [score(self.similarity(q, d), str(m), d) for d in range(len(self.documents))]
                for q, m in zip(self.asked, self.w.asked.modality, strict=True)
            ]
        )


def hand_scale(hand: ByHand, value: Callable[[float, str, int], float]) -> dict[tuple[str, str], tuple[float, float]]:
    """μ and σ of each reference query's best document value in each modality, its own source left out."""
    w, out = hand.w, {}
    for m in w.queries.modalities:
        for M in w.documents.modalities:
            best = [
                max(
                    value(hand.similarity(r, d), m, d)
                    for d in range(len(w.documents))
                    if w.documents.modality[d] == M and w.positives[row] != d
                )
                for row, r in enumerate(hand.references)
                if w.queries.modality[row] == m
            ]
            out[m, M] = eq.mean_and_deviation(best)
    return out


def reference_scores(spec: str, hand: ByHand) -> Matrix:
    def plain(s: float, m: str, d: int) -> float:
        return s

    def nnn(s: float, m: str, d: int) -> float:
        return s - 0.6 * eq.nearest_mean(hand.of_references(m, d), 3)

    def qbnorm(s: float, m: str, d: int) -> float:
        return eq.log_inverted_softmax(s, hand.of_references(m, d), 6.0)

    value = nnn if "nnn" in spec else qbnorm if "qbnorm" in spec else plain
    if "standardize" not in spec:
        return hand.scores(value)
    scale = hand_scale(hand, value)

    def standardized(s: float, m: str, d: int) -> float:
        mean, deviation = scale[m, str(hand.w.documents.modality[d])]
        return (value(s, m, d) - mean) / deviation

    return hand.scores(standardized)


@pytest.mark.parametrize(
    "spec",
    [
        "center",
        "dn(lam=0.3)",
        "nnn(k=3,alpha=0.6)",
        "standardize",
        "qbnorm(beta=6.0)",
        "center+nnn(k=3,alpha=0.6)",
        "center+nnn(k=3,alpha=0.6)+standardize",
        "dn(lam=0.3)+qbnorm(beta=6.0)",
    ],
)
def test_scores_of_passages_are_the_equations_written_out(spec: str) -> None:
    w = world(4, documents=15, queries=30)
    documents = split(w.documents, 4)
    hand = ByHand(w, documents, "center" if "center" in spec else "dn" if "dn(" in spec else "none")
    fitted = fitted_on(spec, w, documents, sources=w.positives)
    scores = fitted.scores(w.asked, documents.vectors, sources=w.positives, owner=documents.owner)
    np.testing.assert_allclose(scores, reference_scores(spec, hand), rtol=1e-5, atol=1e-5)


def test_labelled_pairs_are_as_similar_as_the_documents_best_passage() -> None:
    w = world(5)
    documents = split(w.documents, 5)
    pairs = [(q, d) for q in range(len(w.queries)) for d in range(0, len(w.documents), 2)]
    fitted = calibration.fit(
        "standardize", documents.vectors, w.queries, positives=pairs, sources=w.positives, owner=documents.owner
    )
    hand = ByHand(w, documents, "none")
    assert fitted.scale is not None
    for (m, M), (mean, deviation) in fitted.scale.statistics.items():
        values = [
            hand.similarity(hand.references[q], d)
            for q, d in pairs
            if w.queries.modality[q] == m and w.documents.modality[d] == M
        ]
        assert (mean, deviation) == pytest.approx(eq.mean_and_deviation(values), abs=1e-6)
    nobody = Pairs.of(None, queries=1, documents=2)
    assert len(pair_similarities(np.eye(2), np.eye(2), nobody, np.array([0]))) == 0


@given(seed=st.integers(0, 10_000))
def test_statistics_weigh_documents_and_follow_adds_and_deletes(seed: int) -> None:
    w = world(seed)
    documents, more = split(w.documents, seed), split(w.unseen, seed + 1)
    seen = Statistics.of(documents.vectors, documents.owner)
    for part, mean in eq.passage_means(documents.vectors, documents.owner).items():
        assert seen.parts[part].count == w.documents.present[part].sum()
        np.testing.assert_allclose(seen.means[part], mean, atol=1e-12)
    np.testing.assert_allclose(seen.means["image"], Statistics.of(w.documents).means["image"], atol=1e-12)
    np.testing.assert_allclose(
        seen.parts["image"].variance, Statistics.of(w.documents).parts["image"].variance, atol=1e-12
    )
    back = seen.add(more.vectors, more.owner).remove(more.vectors, more.owner)
    both = Statistics.of(
        Vectors.concat([documents.vectors, more.vectors]),
        np.concatenate([documents.owner, more.owner + len(w.documents)]),
    )
    for part, moments in seen.parts.items():
        np.testing.assert_allclose(back.parts[part].mean, moments.mean, atol=1e-12)
        np.testing.assert_allclose(back.parts[part].m2, moments.m2, atol=1e-10)
        np.testing.assert_allclose(seen.add(more.vectors, more.owner).parts[part].m2, both.parts[part].m2, atol=1e-10)
    assert max(calibration.drift(seen, back).values()) < 1e-9


def test_the_variance_is_that_of_drawing_a_document_and_then_a_passage() -> None:
    rows = unit(np.random.default_rng(0).normal(size=(3, 4)))
    moments = Statistics.of(Vectors.of(rows, "text"), [0, 0, 1]).parts["text"]
    drawn = Statistics.of(Vectors.of(rows[[0, 1, 2, 2]], "text")).parts["text"]
    np.testing.assert_allclose(moments.variance, drawn.variance)


@pytest.mark.parametrize("told", [False, True])
def test_the_bias_by_an_index_that_looks_everywhere_is_the_exhaustive_one(told: bool) -> None:
    rng = np.random.default_rng(0)
    bank = unit(rng.normal(size=(300, 16)).astype(np.float32))
    owner = np.repeat(np.arange(200), rng.integers(1, 5, size=200))
    x = unit(rng.normal(size=(len(owner), 16)).astype(np.float32))
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    own = Pairs.of(rng.integers(0, 200, size=300), queries=300, documents=200) if told else None
    exact = over_bank(x, bank, lambda similarity, _: mean_of_largest(similarity, 8), own, starts)
    found = nearest_mean(x, bank, 8, FaissNeighbours(probes=99), own, starts)
    np.testing.assert_allclose(found, exact, atol=1e-6)
    rows = nearest_mean(x, bank, 8, FaissNeighbours(probes=99))
    assert np.abs(best_rows(rows[:, None], starts)[:, 0] - exact).max() > 1e-3  # not the best passage's own bias


def test_documents_are_never_cut_in_two_however_small_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(6)
    documents = split(w.documents, 6)
    passages = Passages.of(documents.vectors, documents.owner)
    for step in (1, 3, 7, 1000):
        cuts = list(blocks(passages.starts, len(documents.vectors), step))
        assert np.array_equal(np.concatenate([np.arange(s.start, s.stop) for s in cuts]), np.arange(len(passages)))
    specs = ["center+learned(k=3)", "standardize+qbnorm(dynamic=true)", "nnn(k=3)+standardize"]

    def results() -> list[Matrix]:
        return [by_engine(fitted_on(spec, w, documents), w.asked, documents) for spec in specs]

    expected = results()
    monkeypatch.setattr("isthmus.calibration.bank.SIMILARITY_BYTES", 300)
    monkeypatch.setattr("isthmus.calibration.rows.BLOCK_BYTES", 100)
    for small, large in zip(results(), expected, strict=True):
        np.testing.assert_allclose(small, large, rtol=1e-4, atol=1e-4)


def test_tune_and_auto_judge_documents_by_their_best_passage() -> None:
    rng = np.random.default_rng(0)
    topics, n = rng.normal(size=(160, 12)), 80
    owner = np.repeat(np.arange(n), 2)  # a document has two topics, and a query asks for one of them
    image = np.arange(n) % 2 == 1
    cone = rng.normal(size=12)
    rows = topics + 0.5 * rng.normal(size=topics.shape) + np.where(image[owner, None], -cone, cone)
    documents = Vectors.of(rows, np.where(image[owner], "image", "text"))
    queries = Vectors.of(topics + 0.4 * rng.normal(size=topics.shape) + cone, "text")
    tuned = calibration.tune(["none", "center+learned", "rrf"], documents, queries, positives=owner, owner=owner)
    values = {str(trial.spec): trial.value for trial in tuned.trials}
    assert values["center+learned"] > values["none"] + 0.05
    pseudo = calibration.tune(["none", "center+standardize"], documents, queries, positives="pseudo", owner=owner)
    assert str(pseudo.best) == "center+standardize"
    fitted = calibration.fit("auto", documents, queries, sources=owner, owner=owner)
    assert fitted.tuned is not None
    assert fitted.scores(queries, documents, owner=owner).shape == (160, n)
    assert fitted.statistics.parts["text"].count == n // 2
    again = calibration.fit(str(fitted.spec), documents, queries, sources=owner, owner=owner)
    assert np.array_equal(again.fold(documents, owner=owner).vectors, fitted.fold(documents, owner=owner).vectors)


def test_the_best_of_rows_and_of_columns_are_the_same() -> None:
    values = np.random.default_rng(0).normal(size=(7, 5))
    starts = np.array([0, 1, 4])
    assert np.array_equal(best_rows(values, starts), best_columns(values.T, starts).T)


@pytest.mark.parametrize(
    ("owner", "message"),
    [
        ([0, 0, 1], r"4 rows came with an owner of shape \(3,\)"),
        ([[0, 0, 1, 1]], r"shape \(1, 4\)"),
        ([1, 1, 2, 2], "owner is 1 at row 0"),
        ([0, 0, 2, 2], "owner is 2 at row 2 after 0"),
        ([0, 1, 0, 1], "owner is 0 at row 2 after 1"),
        ([-1, 0, 1, 2], "owner is -1 at row 0"),
        ([0.0, 0.0, 1.0, 1.0], "not float64"),
        ([True, True, False, False], "not bool"),
        (["a", "a", "b", "b"], "document numbers"),
        ([0, 0, 0, 1], "document 0 is text at row 0 and image at row 2"),
    ],
)
def test_what_is_no_numbering_of_documents_is_refused(owner: Any, message: str) -> None:
    documents = Vectors.of(np.eye(4), ["text", "text", "image", "image"])
    queries = Vectors.of(np.eye(4), "text")
    fitted = calibration.fit("none", documents, queries)
    for use in (
        lambda: calibration.fit("none", documents, queries, owner=owner),
        lambda: calibration.fit("auto", documents, queries, owner=owner),
        lambda: calibration.tune(["none"], documents, queries, positives="pseudo", owner=owner),
        lambda: fitted.fold(documents, owner=owner),
        lambda: fitted.scores(queries, documents, owner=owner),
        lambda: Statistics.of(documents, owner),
    ):
        with pytest.raises(errors.BadInput, match=message):
            use()


def test_sources_and_positives_name_documents_not_rows() -> None:
    documents = Vectors.of(np.random.default_rng(0).normal(size=(5, 4)), "text")
    queries = Vectors.of(np.eye(4), "text")
    owner = [0, 0, 0, 1, 1]
    for option in ("sources", "positives"):
        known: dict[str, Any] = {option: [0, 1, 2, -1]}
        with pytest.raises(errors.BadInput, match="document 2, but there are 2"):
            calibration.fit("nnn(k=1)", documents, queries, owner=owner, **known)


def test_no_documents_fold_to_nothing_with_an_owner_too() -> None:
    w = world()
    fitted = calibration.fit("center+nnn(k=2)", w.documents, w.queries)
    nothing = w.documents.take(slice(0, 0))
    assert len(fitted.fold(nothing, owner=[])) == 0
    assert fitted.scores(w.asked, nothing, owner=np.empty(0, dtype=int)).shape == (len(w.asked), 0)
