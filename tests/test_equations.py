"""Each method equals its equations, written out with loops."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import equations as eq
from isthmus import calibration
from isthmus.types import Matrix, Vectors
from worlds import World, world

WORLDS = [world(0), world(1, weights=True)]
worlds = pytest.mark.parametrize("w", WORLDS, ids=["equal weights", "own weights"])

Shift = Callable[[Vectors, Vectors], list[Matrix]]
SHIFTS: dict[str, Shift] = {
    "none": lambda vectors, _: eq.raw(vectors),
    "center": eq.centred,
    "dn(lam=0.3)": lambda vectors, fitted_on: eq.distribution_normalized(vectors, fitted_on, 0.3),
}
shifts = pytest.mark.parametrize("shift", SHIFTS)


class ByHand:
    """Shifted vectors, and the similarities that the equations speak of."""

    def __init__(self, w: World, shift: str) -> None:
        self.w = w
        make = SHIFTS[shift]
        self.documents = make(w.documents, w.documents)
        self.references = make(w.queries, w.queries)
        self.asked = make(w.asked, w.queries)
        self.gallery = make(w.gallery, w.documents)

    def references_of(self, m: str) -> list[Matrix]:
        return [r for r, modality in zip(self.references, self.w.queries.modality, strict=True) if modality == m]

    def documents_of(self, modality: str) -> list[Matrix]:
        return [d for d, M in zip(self.documents, self.w.documents.modality, strict=True) if modality == M]

    def best(self, m: str, M: str) -> list[float]:
        return [max(eq.dot(r, d) for d in self.documents_of(M)) for r in self.references_of(m)]

    def table(self, score: Callable[[float, str, str, Matrix], float]) -> Matrix:
        """Score every asked query and document: score(similarity, query modality, document modality, document)."""
        return np.array(
            [
                [
                    score(eq.dot(q, d), str(m), str(M), d)
                    for d, M in zip(self.documents, self.w.documents.modality, strict=True)
                ]
                for q, m in zip(self.asked, self.w.asked.modality, strict=True)
            ]
        )


def check(spec: str, w: World, expected: Matrix, **options: object) -> None:
    fitted = calibration.fit(spec, w.documents, w.queries, reference_documents=w.gallery, **options)  # type: ignore[arg-type]
    np.testing.assert_allclose(fitted.scores(w.asked, w.documents), expected, atol=1e-5, rtol=1e-5)


@worlds
@shifts
def test_a_shift_alone_scores_by_inner_product(w: World, shift: str) -> None:
    check(shift, w, ByHand(w, shift).table(lambda s, m, M, d: s))


@worlds
@shifts
def test_standardize_subtracts_the_mean_best_similarity_and_divides_by_its_spread(w: World, shift: str) -> None:
    hand = ByHand(w, shift)

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        mean, deviation = eq.mean_and_deviation(hand.best(m, M))
        return (s - mean) / deviation

    check(f"{shift}+standardize", w, hand.table(score))


@worlds
@shifts
def test_nnn_subtracts_the_mean_of_the_k_largest_similarities(w: World, shift: str) -> None:
    hand = ByHand(w, shift)

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        return s - 0.6 * eq.nearest_mean([eq.dot(r, d) for r in hand.references_of(m)], 4)

    check(f"{shift}+nnn(k=4,alpha=0.6)", w, hand.table(score))


@worlds
@shifts
def test_qbnorm_is_the_log_of_the_inverted_softmax(w: World, shift: str) -> None:
    hand = ByHand(w, shift)

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        return eq.log_inverted_softmax(s, [eq.dot(r, d) for r in hand.references_of(m)], 6.0)

    check(f"{shift}+qbnorm(beta=6.0)", w, hand.table(score))


@worlds
@shifts
@pytest.mark.parametrize("betas", [(4.0, 6.0), (0.0, 6.0), (4.0, 0.0)])
def test_dbnorm_is_the_log_of_the_product_of_two_inverted_softmaxes(
    w: World, shift: str, betas: tuple[float, float]
) -> None:
    hand = ByHand(w, shift)

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        gallery = [eq.dot(g, d) for g in hand.gallery]
        return eq.log_dual_inverted_softmax(s, gallery, [eq.dot(r, d) for r in hand.references_of(m)], *betas)

    check(f"{shift}+dbnorm(beta_gallery={betas[0]},beta_query={betas[1]})", w, hand.table(score))


@pytest.mark.parametrize("dynamic", ["false", "true"])
def test_dbnorm_without_a_gallery_is_qbnorm(dynamic: str) -> None:
    w = world(2, queries=12)
    fitted = [
        calibration.fit(spec, w.documents, w.queries)
        for spec in (
            f"standardize+dbnorm(beta_gallery=0,beta_query=2,dynamic={dynamic})",
            f"standardize+qbnorm(beta=2,dynamic={dynamic})",
        )
    ]
    dense, expected = (one.scores(w.asked, w.documents) for one in fitted)
    np.testing.assert_array_equal(dense, expected)
    folded, by_qbnorm = (one.fold(w.documents).vectors for one in fitted)
    np.testing.assert_array_equal(folded, by_qbnorm)


def test_a_small_beta_tends_to_leaving_its_bank_out() -> None:
    w = world(2)
    near, at = (
        calibration.fit(f"dbnorm(beta_gallery={beta})", w.documents, w.queries, reference_documents=w.gallery)
        for beta in ("1e-6", "0")
    )
    np.testing.assert_allclose(near.scores(w.asked, w.documents), at.scores(w.asked, w.documents), atol=1e-6)


def test_dynamic_dbnorm_with_one_bank_corrects_by_that_bank_alone_and_folds() -> None:
    seen = set()
    for w in (world(seed, queries=9) for seed in range(8)):
        hand = ByHand(w, "none")
        expected = hand.table(lambda s, m, M, d: s)
        in_gallery = activation_set(hand.gallery, hand.documents)
        for row in range(len(expected)):
            on = int(expected[row].argmax()) in in_gallery
            seen.add(on)
            if on:
                expected[row] = [
                    eq.log_inverted_softmax(s, [eq.dot(g, d) for g in hand.gallery], 4.0)
                    for s, d in zip(expected[row], hand.documents, strict=True)
                ]
        spec = "dbnorm(beta_gallery=4,beta_query=0,dynamic=true)"
        check(spec, w, expected)
        fitted = calibration.fit(spec, w.documents, w.queries, reference_documents=w.gallery)
        folded = fitted.fold(w.documents)
        asked = fitted.fold_queries(w.asked, active=fitted.activation(w.asked, folded))
        inner = asked.vectors @ folded.vectors.T
        np.testing.assert_allclose(fitted.finish(inner, asked.modality, folded.modality), expected, atol=1e-5)
    assert seen == {True, False}


@worlds
def test_a_bias_after_a_scale_is_fitted_on_standardized_scores(w: World) -> None:
    hand = ByHand(w, "center")

    def standardized(s: float, m: str, M: str) -> float:
        mean, deviation = eq.mean_and_deviation(hand.best(m, M))
        return (s - mean) / deviation

    def nnn(s: float, m: str, M: str, d: Matrix) -> float:
        references = [standardized(eq.dot(r, d), m, M) for r in hand.references_of(m)]
        return standardized(s, m, M) - 0.6 * eq.nearest_mean(references, 4)

    def qbnorm(s: float, m: str, M: str, d: Matrix) -> float:
        references = [standardized(eq.dot(r, d), m, M) for r in hand.references_of(m)]
        return eq.log_inverted_softmax(standardized(s, m, M), references, 1.5)

    check("center+standardize+nnn(k=4,alpha=0.6)", w, hand.table(nnn))
    check("center+standardize+qbnorm(beta=1.5)", w, hand.table(qbnorm))


@worlds
def test_a_scale_after_a_bias_is_fitted_on_unbiased_scores(w: World) -> None:
    hand = ByHand(w, "none")

    def unbiased(s: float, m: str, d: Matrix) -> float:
        return s - 0.6 * eq.nearest_mean([eq.dot(r, d) for r in hand.references_of(m)], 4)

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        best = [max(unbiased(eq.dot(r, e), m, e) for e in hand.documents_of(M)) for r in hand.references_of(m)]
        mean, deviation = eq.mean_and_deviation(best)
        return (unbiased(s, m, d) - mean) / deviation

    check("nnn(k=4,alpha=0.6)+standardize", w, hand.table(score))


def test_labelled_pairs_replace_pseudo_positives() -> None:
    w = WORLDS[0]
    hand = ByHand(w, "none")
    positives = [(q, d) for q in range(len(w.queries)) for d in range(0, len(w.documents), 2)]

    def score(s: float, m: str, M: str, d: Matrix) -> float:
        labelled = [
            eq.dot(hand.references[q], hand.documents[e])
            for q, e in positives
            if w.queries.modality[q] == m and w.documents.modality[e] == M
        ]
        mean, deviation = eq.mean_and_deviation(labelled)
        return (s - mean) / deviation

    check("standardize", w, hand.table(score), positives=positives)


def activation_set(bank: list[Matrix], documents: list[Matrix]) -> set[int]:
    return {max(range(len(documents)), key=lambda i: eq.dot(r, documents[i])) for r in bank}


def test_dynamic_qbnorm_corrects_only_queries_whose_best_document_is_some_reference_querys_best() -> None:
    seen = set()
    for w in (world(seed, queries=12) for seed in range(6)):
        hand = ByHand(w, "none")
        expected = hand.table(lambda s, m, M, d: s)
        for row, m in enumerate(w.asked.modality):
            active = activation_set(hand.references_of(m), hand.documents)
            on = int(expected[row].argmax()) in active
            seen.add(on)
            if on:
                expected[row] = [
                    eq.log_inverted_softmax(s, [eq.dot(r, d) for r in hand.references_of(m)], 6.0)
                    for s, d in zip(expected[row], hand.documents, strict=True)
                ]
        check("qbnorm(beta=6.0,dynamic=true)", w, expected)
    assert seen == {True, False}  # both cases were met


def test_dynamic_dbnorm_has_a_defined_score_for_each_of_its_four_cases() -> None:
    seen = set()
    for w in (world(seed, queries=9) for seed in range(12)):
        hand = ByHand(w, "none")
        expected = hand.table(lambda s, m, M, d: s)
        in_gallery = activation_set(hand.gallery, hand.documents)
        for row, m in enumerate(w.asked.modality):
            references = hand.references_of(m)
            best = int(expected[row].argmax())
            case = best in in_gallery, best in activation_set(references, hand.documents)
            seen.add(case)
            for column, d in enumerate(hand.documents):
                s = expected[row, column]
                gallery, queries = [eq.dot(g, d) for g in hand.gallery], [eq.dot(r, d) for r in references]
                factor = np.log(max(s, 1e-6))
                expected[row, column] = {
                    (True, True): eq.log_dual_inverted_softmax(s, gallery, queries, 4.0, 6.0),
                    (True, False): eq.log_inverted_softmax(s, gallery, 4.0) + factor / 4.0,
                    (False, True): eq.log_inverted_softmax(s, queries, 6.0) + factor / 6.0,
                    (False, False): s,
                }[case]
        check("dbnorm(beta_gallery=4.0,beta_query=6.0,dynamic=true)", w, expected)
    assert len(seen) == 4


def test_a_source_never_meets_its_own_query_while_statistics_and_biases_are_fitted() -> None:
    w = WORLDS[0]
    hand = ByHand(w, "none")
    sources = w.positives
    rows_of = {m: [q for q in range(len(w.queries)) if w.queries.modality[q] == m] for m in w.queries.modalities}

    def bias(d: int, m: str) -> float:
        others = [eq.dot(hand.references[q], hand.documents[d]) for q in rows_of[m] if sources[q] != d]
        return eq.nearest_mean(others, 2)

    def best(q: int, m: str, M: str) -> float:
        found = [d for d in range(len(w.documents)) if w.documents.modality[d] == M and sources[q] != d]
        return max(eq.dot(hand.references[q], hand.documents[d]) - 0.75 * bias(d, m) for d in found)

    expected = hand.table(lambda s, m, M, d: s)
    for row, m in enumerate(w.asked.modality):
        for d, M in enumerate(w.documents.modality):
            mean, deviation = eq.mean_and_deviation([best(q, m, M) for q in rows_of[m]])
            expected[row, d] = (expected[row, d] - 0.75 * bias(d, m) - mean) / deviation
    fitted = calibration.fit("nnn(k=2)+standardize", w.documents, w.queries, sources=sources)
    scores = fitted.scores(w.asked, w.documents, sources=sources)
    np.testing.assert_allclose(scores, expected, atol=1e-5, rtol=1e-5)
    inner = fitted.fold_queries(w.asked).vectors @ fitted.fold(w.documents, sources=sources).vectors.T
    np.testing.assert_allclose(
        fitted.finish(inner, w.asked.modality, w.documents.modality), expected, atol=1e-5, rtol=1e-5
    )
