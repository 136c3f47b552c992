"""``tune`` and ``auto``: chosen on held-out queries, never worse there than raw cosine, never circular."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from isthmus import calibration, errors
from isthmus.calibration.tune import (
    AUTO_GRID,
    DN_PAPER_GRID,
    NNN_PAPER_GRID,
    QBNORM_PAPER_GRID,
    WITHOUT_KNOWN_ANSWERS,
    Trial,
    Tuned,
    _folds,
    ndcg_at_10,
)
from isthmus.types import Mask, Matrix, Vectors
from test_learned import two_cones
from worlds import world


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
    assert str(fitted.spec) == WITHOUT_KNOWN_ANSWERS
    assert fitted.tuned is None


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
    assert "not fitted: k = 9999" in str(tuned)


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
    fold = _folds(pairs, 90, 2, np.random.default_rng(0), by_query=False)
    assert (fold.reshape(30, 3) == fold.reshape(30, 3)[:, :1]).all()
    assert 10 <= fold.reshape(30, 3)[:, 0].sum() <= 20


def test_the_judges_were_not_used_to_fit() -> None:
    documents, queries, right = two_cones(0, n=40)
    asked: list[int] = []

    def measure(scores: Matrix, relevant: Mask) -> Matrix:
        asked.append(len(scores))
        return ndcg_at_10(scores, relevant)

    calibration.tune(["center"], documents, queries, positives=right, folds=4, measure=measure)
    assert sum(asked) == len(queries)  # each query judges once, in the fold that was fitted without it


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


def test_dynamic_and_per_query_candidates_can_be_tuned_too() -> None:
    documents, queries, right = two_cones(0, n=40)
    grid = ["qbnorm(dynamic=true)", "rrf", "minmax(k=20)"]
    tuned = calibration.tune(grid, documents, queries, positives=right)
    assert all(0 < trial.value < 1 for trial in tuned.trials)


def test_the_papers_grids_can_be_read() -> None:
    for grid in (AUTO_GRID, NNN_PAPER_GRID, DN_PAPER_GRID, QBNORM_PAPER_GRID):
        assert len({calibration.Spec.parse(text) for text in grid}) == len(grid)
    assert len(NNN_PAPER_GRID) == 110


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
