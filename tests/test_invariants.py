"""What follows from the equations, each as a claim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration
from isthmus.calibration.largest import largest, mean_of_largest
from isthmus.calibration.qbnorm import soft_maximum
from isthmus.calibration.rows import unit
from isthmus.types import Matrix, Vectors
from worlds import DIM, SPECS, one_modality, world

seeds = given(seed=st.integers(0, 10_000))


def cosine(queries: Matrix, documents: Matrix) -> Matrix:
    return unit(queries) @ unit(documents).T


def scores(spec: str, documents: Vectors, queries: Vectors, asked: Vectors, **options: object) -> Matrix:
    return calibration.fit(spec, documents, queries, **options).scores(asked, documents)  # type: ignore[arg-type]


def same_order(a: Matrix, b: Matrix) -> None:
    """Every pair that one orders clearly, the other orders the same way."""
    for x, y in zip(a, b, strict=True):
        dx, dy = x[:, None] - x[None, :], y[:, None] - y[None, :]
        clear = (np.abs(dx) > 1e-6) & (np.abs(dy) > 1e-6)
        assert (np.sign(dx)[clear] == np.sign(dy)[clear]).all()


@seeds
def test_alpha_0_or_lambda_0_is_raw_cosine(seed: int) -> None:
    w = world(seed)
    raw = scores("none", w.documents, w.queries, w.asked)
    np.testing.assert_allclose(scores("nnn(k=3,alpha=0.0)", w.documents, w.queries, w.asked), raw, atol=1e-12)
    np.testing.assert_allclose(scores("dn(lam=0.0)", w.documents, w.queries, w.asked), raw, atol=1e-12)


@seeds
def test_zero_means_make_centring_raw_cosine(seed: int) -> None:
    documents, queries, asked = one_modality(seed)
    mirrored = Vectors.of(np.vstack([documents, -documents]), "image")
    both = Vectors.of(np.vstack([queries, -queries]), "text")
    centred = scores("center", mirrored, both, Vectors.of(asked, "text"))
    np.testing.assert_allclose(centred, cosine(asked, np.vstack([documents, -documents])), atol=1e-7)


@seeds
def test_the_bias_falls_as_k_grows(seed: int) -> None:
    similarity = np.random.default_rng(seed).normal(size=(9, 20))
    biases = np.stack([mean_of_largest(similarity, k) for k in range(1, 21)])
    assert (np.diff(biases, axis=0) <= 1e-12).all()


@seeds
def test_a_bank_repeated_m_times_with_k_times_m_gives_the_same_bias(seed: int) -> None:
    w = world(seed)
    thrice = w.queries.take(np.tile(np.arange(len(w.queries)), 3))
    once = scores("nnn(k=4)", w.documents, w.queries, w.asked)
    np.testing.assert_allclose(scores("nnn(k=12)", w.documents, thrice, w.asked), once, atol=1e-6)
    once = scores("qbnorm", w.documents, w.queries, w.asked)
    np.testing.assert_allclose(scores("qbnorm", w.documents, thrice, w.asked), once, atol=1e-6)


@seeds
def test_dn_ranks_like_nnn_with_all_references_inside_each_modality(seed: int) -> None:
    w = world(seed, queries=40)
    text = w.queries.take(w.queries.modality == "text")
    asked = w.asked.take(w.asked.modality == "text")
    dn = scores("dn(lam=0.6)", w.documents, text, asked)
    nnn = scores(f"nnn(k={len(text)},alpha=0.6)", w.documents, text, asked)
    for modality in w.documents.modalities:
        columns = w.documents.modality == modality
        same_order(dn[:, columns], nnn[:, columns])


@seeds
def test_inverted_softmax_tends_to_nnn_of_all_as_beta_falls_and_of_one_as_it_grows(seed: int) -> None:
    w = world(seed)
    text = w.queries.take(w.queries.modality == "text")
    asked = w.asked.take(w.asked.modality == "text")

    def by(spec: str) -> Matrix:
        return scores(spec, w.documents, text, asked)

    np.testing.assert_allclose(by("qbnorm(beta=0.0001)"), by(f"nnn(k={len(text)},alpha=1.0)"), atol=1e-4)
    np.testing.assert_allclose(by("qbnorm(beta=1000000.0)"), by("nnn(k=1,alpha=1.0)"), atol=1e-4)


@given(beta=st.sampled_from([1e-6, 1.0, 20.0, 400.0, 1e6]), seed=st.integers(0, 1000))
def test_the_soft_maximum_stays_finite_and_between_mean_and_maximum_in_float32(beta: float, seed: int) -> None:
    similarity = np.random.default_rng(seed).uniform(-1, 1, size=(5, 300)).astype(np.float32)
    soft = soft_maximum(similarity, beta)
    assert soft.dtype == np.float32
    assert np.isfinite(soft).all()
    assert (soft >= similarity.mean(axis=1) - 1e-6).all()
    assert (soft <= similarity.max(axis=1) + 1e-6).all()


def test_beta_400_stays_finite_when_folded() -> None:
    w = world()
    for spec in ("qbnorm(beta=400.0)", "standardize+qbnorm(beta=400.0)", "dbnorm(beta_gallery=400.0,beta_query=400.0)"):
        fitted = calibration.fit(spec, w.documents, w.queries, reference_documents=w.gallery)
        assert np.isfinite(fitted.fold(w.documents).vectors).all()
        assert np.isfinite(fitted.scores(w.asked, w.documents)).all()


@seeds
def test_fusing_and_centring_commute(seed: int) -> None:
    w = world(seed, weights=True)
    fitted = calibration.fit("center", w.documents, w.queries)
    means = fitted.shift.tensors()
    both = w.documents.take(w.documents.modality == "image+text")
    assert both.weights is not None
    fused = sum(both.weights[p][:, None] * unit(both.parts[p]) for p in both.parts)
    mean = sum(both.weights[p][:, None] * means[f"document:{p}"] for p in both.parts)
    expected = unit(np.asarray(fused - mean))
    np.testing.assert_allclose(fitted.shift.documents(both, np.float64), expected, atol=1e-12)


@seeds
def test_centred_means_are_zero_before_normalising_again(seed: int) -> None:
    w = world(seed)
    means = calibration.fit("center", w.documents, w.queries).shift.tensors()
    for side, vectors in (("document", w.documents), ("query", w.queries)):
        for part in vectors.parts:
            rows = unit(vectors.parts[part][vectors.present[part]])
            np.testing.assert_allclose((rows - means[f"{side}:{part}"]).mean(axis=0), 0, atol=1e-12)


def test_a_constant_added_to_one_modalitys_similarities_changes_nothing_after_standardizing() -> None:
    documents, queries, asked = (unit(m) for m in one_modality(4))
    modality = np.array(["text", "image"] * 12 + ["text"])
    plain = Vectors.of(pad(documents, 0.0, 1.0), modality)
    lifted = Vectors.of(pad(documents, np.where(modality == "image", 0.5, 0.0), 1.0), modality)
    text, ask = (Vectors.of(pad(m, 1.0, 1.0), "text") for m in (queries, asked))
    shift = scores("none", lifted, text, ask) - scores("none", plain, text, ask)
    np.testing.assert_allclose(shift[:, modality == "text"], 0, atol=1e-12)
    np.testing.assert_allclose(shift[:, modality == "image"], shift[0, 1], atol=1e-12)
    assert abs(shift[0, 1]) > 0.1
    expected = scores("standardize", plain, text, ask)
    np.testing.assert_allclose(scores("standardize", lifted, text, ask), expected, atol=1e-4)


def pad(rows: Matrix, along: Matrix | float, length: float) -> Matrix:
    """Append a coordinate shared with the queries, and one of its own that keeps the row's length the same."""
    along = np.broadcast_to(along, len(rows))
    rest = np.sqrt(2.0 + length - along**2)
    zeros = np.zeros(len(rows))
    if (along == 1.0).all():  # queries see only the shared coordinate
        return np.column_stack([rows, along, zeros])
    return np.column_stack([rows, along, rest])


@pytest.mark.parametrize("spec", SPECS)
def test_a_rotation_of_everything_changes_nothing(spec: str) -> None:
    w = world(2)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))

    def turned(v: Vectors) -> Vectors:
        return Vectors({p: np.nan_to_num(m, nan=0.0) @ rotation for p, m in v.parts.items()}, v.present, v.weights)

    positives = w.positives if "learned" in spec else None
    plain = scores(spec, w.documents, w.queries, w.asked, reference_documents=w.gallery, positives=positives)
    fitted = calibration.fit(
        spec, turned(w.documents), turned(w.queries), reference_documents=turned(w.gallery), positives=positives
    )
    tolerance = 2e-3 if "learned" in spec else 2e-5  # an optimiser stops within its own tolerance
    np.testing.assert_allclose(fitted.scores(turned(w.asked), turned(w.documents)), plain, atol=tolerance, rtol=1e-5)


@seeds
def test_standardizing_keeps_the_order_inside_a_modality(seed: int) -> None:
    w = world(seed)
    raw, standardized = (scores(s, w.documents, w.queries, w.asked) for s in ("none", "standardize"))
    for modality in w.documents.modalities:
        columns = w.documents.modality == modality
        same_order(raw[:, columns], standardized[:, columns])


@seeds
def test_a_corpus_of_one_modality_keeps_the_order_of_cosine_under_standardize(seed: int) -> None:
    documents, queries, asked = one_modality(seed)
    standardized = scores("standardize", *(Vectors.of(m, "text") for m in (documents, queries, asked)))
    same_order(standardized, cosine(asked, documents))


@pytest.mark.parametrize("spec", SPECS)
def test_under_a_kept_fit_adding_documents_never_changes_another_documents_score(spec: str) -> None:
    w = world(5)
    positives = w.positives if "learned" in spec else None
    fitted = calibration.fit(spec, w.documents, w.queries, reference_documents=w.gallery, positives=positives)
    more = Vectors(
        {p: np.vstack([w.documents.parts[p], w.unseen.parts[p]]) for p in w.documents.parts},
        {p: np.concatenate([w.documents.present[p], w.unseen.present[p]]) for p in w.documents.parts},
    )
    n = len(w.documents)
    before, after = fitted.scores(w.asked, w.documents), fitted.scores(w.asked, more)[:, :n]
    np.testing.assert_allclose(after, before, atol=1e-12)
    np.testing.assert_allclose(fitted.fold(more).vectors[:n], fitted.fold(w.documents).vectors, atol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_inputs_are_never_written_to(spec: str) -> None:
    w = world(6, weights=True)
    for vectors in (w.documents, w.queries, w.asked, w.gallery):
        for array in (*vectors.parts.values(), *vectors.present.values(), *(vectors.weights or {}).values()):
            array.flags.writeable = False
    positives = w.positives
    positives.flags.writeable = False
    fitted = calibration.fit(
        spec, w.documents, w.queries, reference_documents=w.gallery, positives=positives if "learned" in spec else None
    )
    fitted.scores(w.asked, w.documents)
    inner = fitted.fold_queries(w.asked).vectors @ fitted.fold(w.documents).vectors.T
    inner.flags.writeable = False
    fitted.finish(inner, w.asked.modality, w.documents.modality)


@pytest.mark.parametrize("spec", SPECS)
def test_batch_size_and_order_never_matter(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    w = world(7)
    positives = w.positives if "learned" in spec else None
    fitted = calibration.fit(spec, w.documents, w.queries, reference_documents=w.gallery, positives=positives)
    whole = fitted.fold(w.documents).vectors
    order = np.random.default_rng(0).permutation(len(w.documents))
    np.testing.assert_allclose(fitted.fold(w.documents.take(order)).vectors, whole[order], atol=1e-6)
    for row in range(len(w.documents)):
        alone = fitted.fold(w.documents.take(slice(row, row + 1))).vectors[0]
        np.testing.assert_allclose(alone, whole[row], atol=1e-6)
    monkeypatch.setattr("isthmus.calibration.bank.SIMILARITY_BYTES", 64)
    monkeypatch.setattr("isthmus.calibration.rows.BLOCK_BYTES", 64)
    np.testing.assert_allclose(fitted.fold(w.documents).vectors, whole, atol=1e-6)
    shuffled = np.random.default_rng(1).permutation(len(w.queries))
    again = calibration.fit(
        spec,
        w.documents,
        w.queries.take(shuffled),
        reference_documents=w.gallery,
        positives=None if positives is None else positives[shuffled],
    )
    tolerance = 2e-3 if "learned" in spec else 1e-5
    np.testing.assert_allclose(again.scores(w.asked, w.documents), fitted.scores(w.asked, w.documents), atol=tolerance)


def test_a_hub_loses_its_wrong_first_places() -> None:
    rng = np.random.default_rng(0)
    shared = np.full(16, 1.2)
    topics = rng.normal(size=(60, 16))
    documents = topics + 0.9 * rng.normal(size=topics.shape) + shared
    documents = Vectors.of(np.vstack([documents, shared]), "text")  # the last one is only what all others share
    hub = len(documents) - 1
    references = Vectors.of(topics + 0.6 * rng.normal(size=topics.shape) + shared, "text")
    queries = Vectors.of(topics + 0.6 * rng.normal(size=topics.shape) + shared, "text")
    right = np.arange(60)
    first = {
        spec: scores(spec, documents, references, queries).argmax(axis=1)
        for spec in ("none", "nnn(k=8)", "qbnorm", "center")
    }
    assert (first["none"] == hub).sum() >= 8
    for spec in ("nnn(k=8)", "qbnorm", "center"):
        assert (first[spec] == hub).sum() <= (first["none"] == hub).sum() // 4
        assert (first[spec] == right).mean() > (first["none"] == right).mean()


def test_centring_closes_the_gap_between_two_cones() -> None:
    rng = np.random.default_rng(1)
    topics = rng.normal(size=(60, 16))
    cone = rng.normal(size=16) * 2
    images, texts = topics + 0.7 * rng.normal(size=topics.shape) - cone, rng.normal(size=topics.shape) + cone
    documents = Vectors.of(np.vstack([images, texts]), ["image"] * 60 + ["text"] * 60)
    queries = Vectors.of(topics + cone, "text")
    raw, centred = (scores(spec, documents, queries, queries) for spec in ("none", "center"))
    assert (raw.argmax(axis=1) >= 60).all()  # raw cosine: some text is first, always
    assert (centred.argmax(axis=1) == np.arange(60)).mean() > 0.8


@given(
    seed=st.integers(0, 10_000),
    columns=st.integers(1, 400),
    k=st.integers(1, 400),
    levels=st.integers(1, 50),
    hidden=st.booleans(),
)
def test_the_k_largest_are_those_of_a_full_sort_with_ties_and_hidden_entries(
    seed: int, columns: int, k: int, levels: int, hidden: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, levels, size=(5, columns)).astype(np.float32)
    if hidden:
        values[rng.random(values.shape) < 0.3] = -np.inf
    k = min(k, columns)
    assert np.array_equal(np.sort(largest(values, k), axis=1), np.sort(values, axis=1)[:, columns - k :])
