"""``tune`` and ``auto``: chosen on held-out queries, never worse there than raw cosine, never circular."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration, errors
from isthmus.calibration import tune as tune_function
from isthmus.calibration.auto import AUTO_GRID
from isthmus.calibration.dbnorm import DualBankNormalization
from isthmus.calibration.fitting import fit_spec
from isthmus.calibration.grids import DBNORM_PAPER_GRID, DBNORM_WIDE_GRID, DN_GRID, NNN_PAPER_GRID, QBNORM_GRID
from isthmus.calibration.tune import Trial, Tuned, folds_of, ndcg_at_10, recall_at_1
from isthmus.types import Mask, Matrix, Rows, Vectors
from test_learned import two_cones
from worlds import world

tune_module = sys.modules[tune_function.__module__]


def test_the_best_is_never_worse_than_none_on_held_out_queries() -> None:
    for seed in range(3):
        documents, queries, right = two_cones(seed)
        tuned = calibration.tune(AUTO_GRID, documents, queries, positives=right)
        values = {str(trial.spec): trial.value for trial in tuned.trials}
        assert values[str(tuned.best)] == max(values.values()) > values["none"]


def test_auto_fits_the_best_spec_and_keeps_the_table(tmp_path: Path) -> None:
    documents, queries, right = two_cones(0)
    fitted = calibration.fit("auto", documents, queries, positives=right)
    assert fitted.tuned is not None
    assert fitted.spec == fitted.tuned.best
    assert "held out" in fitted.describe()
    fitted.save(tmp_path / "auto.calibration")
    assert calibration.load(tmp_path / "auto.calibration").describe() == fitted.describe()
    again = calibration.fit(str(fitted.spec), documents, queries, sources=right)
    assert np.array_equal(fitted.scores(queries, documents), again.scores(queries, documents))


def test_auto_keeps_raw_cosine_where_nothing_beats_it() -> None:
    rng = np.random.default_rng(0)
    documents = Vectors.of(np.eye(40), "text")
    queries = Vectors.of(np.repeat(np.eye(40), 2, axis=0) + 0.01 * rng.normal(size=(80, 40)), "text")
    fitted = calibration.fit("auto", documents, queries, positives=np.repeat(np.arange(40), 2))
    assert str(fitted.spec) == "none"


def test_auto_without_known_answers_takes_the_default_and_says_so_by_its_spec() -> None:
    w = world()
    fitted = calibration.fit("auto", w.documents, w.queries)
    fewest = min(int((w.queries.modality == m).sum()) for m in w.queries.modalities)
    assert str(fitted.spec) == f"center+nnn(k={fewest})+standardize"
    assert fitted.tuned is None
    assert "auto took its default: 0 known answers, 16 are needed" in fitted.describe()
    many = w.queries.take(np.arange(300) % len(w.queries))
    assert str(calibration.fit("auto", w.documents, many).spec) == "center+nnn(k=16)+standardize"


def test_auto_always_has_an_answer() -> None:
    documents, queries, _ = two_cones(0)
    one_source = calibration.fit("auto", documents, queries, positives=np.zeros(len(queries), dtype=int))
    assert "auto took" in one_source.describe()
    one_query = calibration.fit("auto", documents, queries.take(slice(0, 1)))
    assert str(one_query.spec) == "none"
    assert "auto took none: center needs at least 2" in one_query.note
    with pytest.raises(errors.BadSpec, match="chooses the shift"):
        calibration.fit("auto", documents, queries, means=one_query)


def test_auto_learns_from_positives_and_from_sources_alike() -> None:
    documents, queries, right = two_cones(0)
    few = np.where(np.arange(len(right)) == 0, right, -1)
    assert calibration.fit("auto", documents, queries, positives=few, sources=right).tuned is not None


def test_auto_copes_with_a_query_modality_too_rare_to_judge() -> None:
    documents, queries, right = two_cones(0)
    image = Vectors.of(np.ones((1, queries.dim)) + queries.parts["text"][:1], "image")
    fitted = calibration.fit("auto", documents, Vectors.concat([queries, image]), positives=[*right, -1])
    assert fitted.query_modalities == ("image", "text")


def with_image_queries(n: int) -> tuple[Vectors, Vectors, Rows]:
    """The two cones, and some image queries whose right document nobody knows."""
    documents, queries, right = two_cones(0)
    images = Vectors.of(documents.parts["image"][1 : 2 * n : 2] + 0.1, "image")
    return documents, Vectors.concat([queries, images]), np.concatenate([right, np.full(n, -1)])


def test_queries_without_a_known_answer_are_fitted_on_and_never_held_out() -> None:
    documents, queries, right = with_image_queries(2)
    pairs = calibration.Pairs.of(right, queries=len(queries), documents=len(documents))
    fold = folds_of(pairs, queries, 2, np.random.default_rng(0))
    assert (fold[right == -1] == -1).all()
    assert abs((fold == 0).sum() - (fold == 1).sum()) <= 2
    tuned = calibration.tune(["none", "center"], documents, queries, positives=right)
    assert not any(trial.refused for trial in tuned.trials)  # one image query alone would have no mean
    text_only = calibration.tune(["none"], documents, queries.take(right >= 0), positives=right[right >= 0])
    assert tuned.trials[0].value == text_only.trials[0].value


def test_auto_calibrates_a_query_modality_without_known_answers_by_the_prior() -> None:
    documents, queries, right = with_image_queries(40)
    fitted = calibration.fit("auto", documents, queries, sources=right)
    assert fitted.tuned is not None
    assert not any(trial.refused for trial in fitted.tuned.trials)
    learned = calibration.fit("center+learned", documents, queries, sources=right)
    prior = calibration.fit("center+nnn(k=16)+standardize", documents, queries, sources=right)
    images = queries.take(queries.modality == "image")
    np.testing.assert_allclose(
        learned.scores(images, documents, sources=right), prior.scores(images, documents, sources=right), atol=1e-4
    )


def test_judges_without_references_of_their_own_modality_are_a_reason_not_a_number() -> None:
    documents, queries, right = with_image_queries(2)
    only_images = np.where(right == -1, 3, -1)
    tuned = calibration.tune(["none"], documents, queries, positives=only_images)
    assert "no others of their modality" in tuned.trials[0].refused


def test_auto_uses_the_neighbour_search_it_is_given() -> None:
    documents, queries, right = two_cones(0, n=60)
    asked: list[int] = []

    def search(vectors: Matrix, bank: Matrix, k: int) -> Any:
        asked.append(k)
        similarity = vectors @ bank.T
        rows = np.argsort(-similarity, axis=1)[:, :k]
        return np.take_along_axis(similarity, rows, axis=1), rows

    by_search = calibration.fit("auto", documents, queries, positives=right, neighbours=search)
    assert asked
    assert str(by_search.spec) == str(calibration.fit("auto", documents, queries, positives=right).spec)


def test_of_equals_the_first_in_the_grid_wins_and_the_refused_never_do() -> None:
    parse = calibration.Spec.parse
    trials = (Trial(parse("none"), 0.5), Trial(parse("center"), 0.5), Trial(parse("nnn"), 1.0, {}, "no"))
    assert str(Tuned(trials).best) == "none"
    with pytest.raises(errors.CannotFit, match=r"No candidate could be fitted\. nnn: no"):
        _ = Tuned(trials[2:]).best


def test_a_candidate_that_cannot_be_fitted_is_listed_with_its_reason() -> None:
    documents, queries, right = two_cones(0)
    tuned = calibration.tune(["none", "nnn(k=9999)", "dbnorm"], documents, queries, positives=right)
    assert [bool(trial.refused) for trial in tuned.trials] == [False, True, True]
    assert "not fitted: k is 9999" in str(tuned)


def test_every_document_modality_counts_alike() -> None:
    documents, queries, right = two_cones(0)
    few_images = np.flatnonzero((documents.modality[right] == "text") | (np.arange(len(right)) % 20 == 2))
    tuned = calibration.tune(["none"], documents, queries.take(few_images), positives=right[few_images])
    by_modality = tuned.trials[0].by_modality
    assert tuned.trials[0].value == pytest.approx(np.mean(list(by_modality.values())))
    assert set(by_modality) == {"image", "text"}


def test_queries_of_one_document_are_held_out_together() -> None:
    right = np.repeat(np.arange(30), 3)
    pairs = calibration.Pairs.of(right, queries=90, documents=30)
    queries = Vectors.of(np.ones((90, 2)), "text")
    fold = folds_of(pairs, queries, 2, np.random.default_rng(0))
    assert (fold.reshape(30, 3) == fold.reshape(30, 3)[:, :1]).all()
    assert 10 <= fold.reshape(30, 3)[:, 0].sum() <= 20

    linked = calibration.Pairs.of([(0, 1), (0, 2), (1, 2), (2, 3)], queries=4, documents=9)
    for seed in range(20):
        fold = folds_of(linked, queries.take(slice(0, 4)), 2, np.random.default_rng(seed))
        assert fold[0] == fold[1]


def test_each_query_modality_is_spread_over_the_folds() -> None:
    queries = Vectors.of(np.ones((40, 2)), ["image"] * 4 + ["text"] * 36)
    fold = folds_of(None, queries, 2, np.random.default_rng(0))
    assert fold[:4].sum() == 2
    assert fold.sum() == 20


def test_the_judges_were_not_used_to_fit_and_sources_were_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    documents, queries, right = two_cones(0, n=40)
    fitted_on: list[set[bytes]] = []
    asked: list[int] = []

    def spy(spec: Any, of: Vectors, references: Vectors, **options: Any) -> Any:
        rows = references.parts["text"]
        fitted_on.append({row.tobytes() for row in rows})
        sources = options["sources"]
        number = {row.tobytes(): i for i, row in enumerate(queries.parts["text"])}
        made_from = [right[number[rows[q].tobytes()]] for q in sources.queries]
        assert np.array_equal(made_from, sources.documents)
        assert len(sources) == len(rows)
        fitted = fit_spec(spec, of, references, **options)
        fold = fitted.fold(documents, sources=sources).vectors
        assert not np.allclose(fold, fitted.fold(documents).vectors)  # leaving sources in would show
        expected.append(fold)
        return fitted

    def measure(scores: Matrix, relevant: Mask) -> Matrix:
        asked.append(len(scores))
        return ndcg_at_10(scores, relevant)

    expected: list[Matrix] = []
    monkeypatch.setattr(tune_module, "fit_spec", spy)
    tuned = calibration.tune(["nnn(k=4)"], documents, queries, positives=right, folds=4, measure=measure)
    everyone = {row.tobytes() for row in queries.parts["text"]}
    held_out = [everyone - used for used in fitted_on]
    assert sum(map(len, held_out)) == sum(asked) == len(queries)  # each query judges once, where it was not used
    assert set().union(*held_out) == everyone
    assert tuned.trials[0].value == pytest.approx(_by_hand(documents, queries, right, held_out, fitted_on))


def _by_hand(
    documents: Vectors, queries: Vectors, right: Rows, held_out: list[set[bytes]], used: list[set[bytes]]
) -> float:
    """Fit and score every fold again, in the open."""
    key = [row.tobytes() for row in queries.parts["text"]]
    values, modality = [], []
    for out, fold in zip(held_out, used, strict=True):
        others = np.array([i for i, k in enumerate(key) if k in fold])
        asked = np.array([i for i, k in enumerate(key) if k in out])
        fitted = calibration.fit("nnn(k=4)", documents, queries.take(others), sources=right[others])
        scores = fitted.scores(queries.take(asked), documents, sources=right[others])
        relevant = np.zeros(scores.shape, dtype=bool)
        relevant[np.arange(len(asked)), right[asked]] = True
        values.append(ndcg_at_10(scores, relevant))
        modality.append(documents.modality[right[asked]])
    every, kinds = np.concatenate(values), np.concatenate(modality)
    return float(np.mean([every[kinds == kind].mean() for kind in documents.modalities]))


def test_pseudo_positives_are_one_per_modality_and_only_on_request() -> None:
    documents, queries, _ = two_cones(0)
    tuned = calibration.tune(["none", "center+standardize"], documents, queries, positives="pseudo")
    assert str(tuned.best) == "center+standardize"  # the best image of each query is found beside its best text
    with pytest.raises(errors.CannotFit, match="positives='pseudo'"):
        calibration.tune(["none"], documents, queries, positives=np.full(len(queries), -1))
    with pytest.raises(errors.BadInput, match="'guess'"):
        calibration.tune(["none"], documents, queries, positives="guess")  # type: ignore[arg-type]
    with pytest.raises(errors.BadInput, match="at least 2 folds"):
        calibration.tune(["none"], documents, queries, positives="pseudo", folds=1)
    with pytest.raises(errors.BadInput, match="There are no specs"):
        calibration.tune([], documents, queries, positives="pseudo")
    assert str(calibration.tune("center", documents, queries, positives="pseudo").best) == "center"


def test_dynamic_and_per_query_candidates_can_be_tuned_too() -> None:
    documents, queries, right = two_cones(0, n=40)
    grid = ["qbnorm(dynamic=true)", "rrf", "minmax(k=20)"]
    tuned = calibration.tune(grid, documents, queries, positives=right)
    assert all(0 < trial.value < 1 for trial in tuned.trials)


def test_the_papers_grids_can_be_read() -> None:
    for grid in (AUTO_GRID, NNN_PAPER_GRID, DBNORM_WIDE_GRID, DBNORM_PAPER_GRID, DN_GRID, QBNORM_GRID):
        assert len({calibration.Spec.parse(text) for text in grid}) == len(grid)
    assert len(NNN_PAPER_GRID) == 110


def test_the_papers_grid_of_dbnorm_has_twenty_values_and_zero_for_each_bank() -> None:
    tried = [calibration.Spec.parse(text).bias for text in DBNORM_PAPER_GRID]
    assert len(tried) == 21 * 21 - 1
    for name, lowest, highest in (("beta_gallery", 0.001, 15), ("beta_query", 25, 200)):
        values = sorted({getattr(one, name) for one in tried})
        assert len(values) == 21
        assert (values[0], values[1], values[-1]) == (0, lowest, highest)
        assert lowest <= getattr(DualBankNormalization(), name) <= highest  # the default is in the paper's range


def test_auto_tries_what_it_has_always_tried() -> None:
    assert not any("dbnorm" in spec for spec in AUTO_GRID)


@given(seed=st.integers(0, 10_000), documents=st.integers(1, 30), relevant=st.integers(1, 15))
def test_ndcg_at_10_is_trec_evals(seed: int, documents: int, relevant: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.permutation(documents)[None, :] / 7.0
    mask = np.zeros((1, documents), dtype=bool)
    mask[0, rng.permutation(documents)[:relevant]] = True
    qrels = {"q": {f"d{i}": int(mask[0, i]) for i in range(documents)}}
    run = {"q": {f"d{i}": float(scores[0, i]) for i in range(documents)}}
    expected = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(run)["q"]["ndcg_cut_10"]
    assert ndcg_at_10(scores, mask)[0] == pytest.approx(expected, abs=1e-9)


def test_settings_can_be_chosen_by_r_at_1_as_the_nnn_paper_does() -> None:
    documents, queries, right = two_cones(0, n=40)
    grid = ["nnn(k=1,alpha=0.25)", "nnn(k=8,alpha=0.75)"]
    tuned = calibration.tune(grid, documents, queries, positives=right, measure=recall_at_1)
    assert all(0 < trial.value < 1 for trial in tuned.trials)
    scores = np.array([[0.5, 0.5, 0.1], [0.2, 0.3, 0.9]])
    assert recall_at_1(scores, np.array([[False, True, True], [False, False, True]])).tolist() == [0, 1]


def test_given_means_serve_the_specs_that_subtract_some() -> None:
    documents, queries, right = two_cones(0)
    split = documents.take(np.arange(len(documents)) % 3 == 0)
    own, given = (
        calibration.tune(["none", "center"], documents, queries, positives=right, means=means)
        for means in (None, split)
    )
    assert own.trials[0] == given.trials[0]
    assert own.trials[1].value != given.trials[1].value
    assert not given.trials[1].refused
