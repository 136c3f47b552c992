"""The strength of each kind of query, chosen by evidence."""

from __future__ import annotations

import numpy as np
import pytest

from isthmus import calibration
from isthmus.calibration import Fitted
from isthmus.search import strengths
from isthmus.search.calibrate import chosen, fitted
from isthmus.search.references import ReferenceCorpus, ReferenceSets
from isthmus.search.strength_evidence import CHANGE, FEWEST, KnownAnswers, changed, copies, held_out, spec_of
from isthmus.search.strengths import (
    DEFAULT,
    DEFAULT_FOR_TEXT,
    LOSS,
    MOST_FOR_TEXT,
    STRENGTHS,
    by_evidence,
)
from isthmus.types import Vectors
from stock import unit

DIM = 24
GAP = 3.0


def references(
    *, texts: int = 60, images: int = 60, judges: int = 24, asked: tuple[str, ...] = ("text", "image"), gap: float = GAP
) -> ReferenceSets:
    """Make texts and images in cones of their own; each kind of query asks for the first ``judges`` of each."""
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(texts + images, DIM))
    cones = {name: gap * unit(rng.normal(size=DIM)) for name in ("text", "image")}
    modality = np.array(["text"] * texts + ["image"] * images)
    own = np.array([cones[name] for name in modality])
    documents = Vectors.of(unit(topics + own + 0.6 * rng.normal(size=own.shape)), modality)
    sources, made, kinds = [], [], []
    for kind in asked:
        for first, count in ((0, texts), (texts, images)):
            rows = np.arange(first, first + min(judges, count))
            sources += rows.tolist()
            made.append(unit(topics[rows] + cones.get(kind, 0.0) + 0.6 * rng.normal(size=(len(rows), DIM))))
            kinds += [kind] * len(rows)
    queries = Vectors.of(np.concatenate(made), kinds)
    count = len(queries)
    corpus = ReferenceCorpus(
        [f"{row}" for row in range(len(documents))],
        documents,
        np.arange(len(documents)),
        queries,
        np.array(sources),
        np.ones(count, dtype=bool),
        [""] * count,
    )
    return ReferenceSets(corpus, corpus)


def choose(sets: ReferenceSets) -> Fitted:
    return by_evidence(sets, lambda spec: fitted(spec, sets))


def test_where_one_modality_drowns_the_other_it_is_calibrated_without_a_loss() -> None:
    found = {choice.modality: choice for choice in choose(references()).choices}
    assert set(found) == {"text", "image"}
    words = found["text"]
    assert 0 < words.strength <= MOST_FOR_TEXT
    assert words.after["image"] > words.before["image"] + 0.05
    for choice in found.values():
        assert all(choice.after[each] >= choice.before[each] - LOSS for each in choice.before)
        assert f"{2 * 24} generated queries" in str(choice)


def test_where_nothing_is_gained_queries_stay_with_raw_cosine() -> None:
    """Without a gap, a calibration has nothing to gain that is worth its cost; words pay none, and do not lose."""
    found = {choice.modality: choice for choice in choose(references(gap=0.0)).choices}
    assert found["image"].strength == 0
    assert np.mean(list(found["text"].after.values())) >= np.mean(list(found["text"].before.values()))


@pytest.mark.parametrize(("judges", "known"), [(FEWEST - 1, False), (FEWEST, True)])
def test_with_too_few_known_answers_the_default_is_taken(judges: int, known: bool) -> None:
    for choice in choose(references(judges=judges)).choices:
        assert bool(choice.before) == known
        if not known:
            assert choice.strength == (DEFAULT_FOR_TEXT if choice.modality == "text" else DEFAULT)
            assert "fewer than 16" in choice.evidence


def test_words_need_evidence_for_every_modality_of_documents() -> None:
    sets = references(images=FEWEST - 1)
    found = {choice.modality: choice for choice in choose(sets).choices}
    assert found["text"].strength == DEFAULT_FOR_TEXT
    assert "image documents" in found["text"].evidence
    assert found["image"].before.keys() == {"text"}  # what is known is judged


def test_where_texts_clearly_lose_words_get_less_than_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KnownAnswers, "loss", lambda _, strength, __: strength)
    found = {choice.modality: choice for choice in choose(references(images=FEWEST - 1)).choices}
    assert found["text"].strength == 0
    assert "less than the default" in found["text"].evidence


def test_one_photo_among_texts_is_scored_nearly_by_raw_cosine() -> None:
    """A modality of few documents gets a share of the strength, so that its documents are not lifted."""
    found = choose(references(images=1))
    raw = fitted(spec_of(0.0), references(images=1))
    assert found.coefficients is not None and raw.coefficients is not None
    few, many = (found.coefficients.table["text", name] for name in ("image", "text"))
    full = fitted(spec_of(1.0), references(images=1)).coefficients
    assert full is not None
    assert few.nearness < 0.15 * full.table["text", "image"].nearness
    assert many.nearness > 3 * few.nearness


def test_a_collection_of_one_modality_keeps_raw_cosine() -> None:
    for choice in choose(references(images=0, asked=("text",))).choices:
        assert choice.strength == 0


def test_a_query_of_both_has_the_mean_strength_of_its_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = references(asked=("text", "image", "image+text"))
    monkeypatch.setattr(strengths, "evidence", lambda *_: KnownAnswers())
    found = {choice.modality: choice.strength for choice in choose(sets).choices}
    assert found == {"text": DEFAULT_FOR_TEXT, "image": DEFAULT, "image+text": (DEFAULT_FOR_TEXT + DEFAULT) / 2}


def test_the_chosen_strengths_are_what_is_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strengths, "SMALL", 0)
    sets = references()
    found = choose(sets)
    documents, queries = sets.real.documents, sets.real.queries
    scores = found.scores(queries, documents, sources=sets.real.sources)
    for choice in found.choices:
        alone = fitted(spec_of(choice.strength), sets).scores(queries, documents, sources=sets.real.sources)
        rows = queries.modality == choice.modality
        np.testing.assert_allclose(scores[rows], alone[rows], atol=1e-9)


def test_enough_answers_of_the_users_own_compare_every_method() -> None:
    sets = references()
    own = ReferenceSets(sets.real, sets.trial, answered=FEWEST)
    found = chosen("auto", own)
    assert found.tuned is not None
    assert {"none", "center"} <= {str(trial.spec) for trial in found.tuned.trials}
    assert chosen("auto", sets).tuned is None


def test_the_evidence_of_a_strength_is_that_of_its_own_fit() -> None:
    """Strengths between the ends are interpolated: the same as fitting and measuring each one."""
    trial = references(asked=("text",)).trial
    found = held_out(trial, "text", STRENGTHS)
    assert found.counts == {"image": 24, "text": 24}
    specs = [spec_of(strength) for strength in STRENGTHS]
    tuned = calibration.tune(specs, trial.documents, trial.queries, positives=trial.sources, owner=trial.owner)
    for strength, one in zip(STRENGTHS, tuned.trials, strict=True):
        assert found.by_strength[strength] == pytest.approx(one.by_modality, abs=1e-9)


@pytest.mark.parametrize("alike", [0.0, 5.0])
def test_a_changed_copy_differs_a_little_in_units_of_what_documents_differ(alike: float) -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(30, DIM)) + alike * np.eye(DIM)[0]).astype(np.float32)
    made = changed(vectors, np.arange(30), np.arange(10), rng)
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)
    distance = 1 - float((vectors @ vectors.T).mean())
    np.testing.assert_allclose(1 - (made * vectors[:10]).sum(axis=1), CHANGE * distance, atol=1e-5)


@pytest.mark.parametrize(("images", "known"), [(FEWEST - 1, False), (FEWEST, True)])
def test_copies_are_asked_for_where_there_are_enough_documents(images: int, known: bool) -> None:
    sets = references(images=images)
    ends = tuple(fitted(spec_of(strength), sets) for strength in (0.0, 1.0))
    found = copies(sets.real, "image", ends, STRENGTHS)
    assert bool(found) == known
    assert not known or (set(found) == set(STRENGTHS) and found[0.0] > 0.9)


@pytest.mark.parametrize(("loss", "kept"), [(LOSS - 1e-6, True), (LOSS + 1e-6, False)])
@pytest.mark.parametrize("judged", [True, False])
def test_pictures_that_lose_their_copies_keep_raw_cosine(
    monkeypatch: pytest.MonkeyPatch, loss: float, kept: bool, judged: bool
) -> None:
    """Whatever else they would gain, and without other evidence too."""
    lost = {strength: 1 - loss * (strength > 0) for strength in STRENGTHS}
    gained = {strength: {"text": strength} for strength in STRENGTHS}
    known = KnownAnswers(gained, {"text": FEWEST}, lost) if judged else KnownAnswers(copies=lost)
    monkeypatch.setattr(strengths, "evidence", lambda *_: known)
    found = {choice.modality: choice for choice in choose(references()).choices}
    assert (found["image"].strength > 0) == kept
    assert judged or kept or "less than the default" in found["image"].evidence
