"""Runs and judgements: files in and out, damage, dense scores to rankings, slices."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.errors import BadFile, BadInput
from isthmus.evaluate import read_qrels, read_run, run_of, slices, values, write_qrels, write_run
from isthmus.evaluate.runs import ranking

RUN = {"q1": {"b": 0.1 + 0.2, "a": 1e-17, "é-ü": -3.0}, "q2": {"a": 5.0}}
QRELS = {"q1": {"a": 1, "b": 0}, "q2": {"a": 3, "c": -1}}


def test_a_run_reads_back_to_the_last_bit(tmp_path: Path) -> None:
    write_run(RUN, tmp_path / "run.txt", tag="mini")
    assert read_run(tmp_path / "run.txt") == RUN
    first = (tmp_path / "run.txt").read_text(encoding="utf-8").splitlines()[0]
    assert first == "q1 Q0 b 1 0.30000000000000004 mini"
    assert [file.name for file in tmp_path.iterdir()] == ["run.txt"]


@pytest.mark.parametrize("layout", ["trec", "beir"])
def test_qrels_read_back_and_the_layout_is_recognised(tmp_path: Path, layout: str) -> None:
    write_qrels(QRELS, tmp_path / "qrels", layout=layout)  # type: ignore[arg-type]
    assert read_qrels(tmp_path / "qrels") == QRELS


def test_beirs_ids_may_hold_spaces_and_its_header_may_be_missing(tmp_path: Path) -> None:
    qrels = {"my query": {"holiday photo 1.jpg": 1}}
    write_qrels(qrels, tmp_path / "qrels.tsv", layout="beir")
    assert read_qrels(tmp_path / "qrels.tsv") == qrels
    (tmp_path / "bare.tsv").write_bytes(b"\xef\xbb\xbfq 1\td 1\t1.0\r\n\r\nq 1\td 2\t0\r\n")
    assert read_qrels(tmp_path / "bare.tsv") == {"q 1": {"d 1": 1, "d 2": 0}}


def test_the_ranking_outlives_the_file_even_where_scores_tie(tmp_path: Path) -> None:
    run = {"q": {"b": 1.0, "a": 1.0, "c": 2.0}}
    write_run(run, tmp_path / "run")
    assert ranking(read_run(tmp_path / "run")["q"]) == ranking(run["q"]) == ["c", "b", "a"]


@pytest.mark.parametrize("name", ["two words", "", " lead", "tab\tbed", "line\nbreak", "no\u00a0break"])
def test_an_id_with_spaces_is_refused_and_leaves_the_old_file(tmp_path: Path, name: str) -> None:
    target = tmp_path / "file"
    target.write_text("old")
    with pytest.raises(BadInput, match="separated by spaces"):
        write_run({"q": {"a": 2.0, name: 1.0}}, target)
    with pytest.raises(BadInput, match="separated by spaces"):
        write_run({name: {"a": 1.0}}, target)
    with pytest.raises(BadInput, match="separated by spaces"):
        write_run({"q": {"a": 1.0}}, target, tag=name)
    with pytest.raises(BadInput, match="separated by spaces"):
        write_qrels({"q": {name: 1}}, target)
    assert target.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["", "tab\tbed", "line\nbreak"])
def test_an_id_that_breaks_beirs_table_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match="a tab or a line break"):
        write_qrels({"q": {name: 1}}, tmp_path / "qrels.tsv", layout="beir")


GOOD_RUN = b"q Q0 a 1 0.5 t\n"
GOOD_QRELS = b"q 0 a 1\n"


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"q Q0 b 2 0.4\n", "6 columns"),
        (b"q Q0 b 2 0.4 t and more\n", "this line has 8"),
        (b"q Q0 b 2 high t\n", "'high' is not a finite number"),
        (b"q Q0 b 2 nan t\n", "not a finite number"),
        (b"q Q0 b 2 inf t\n", "not a finite number"),
        (b"q Q0 a 2 0.4 t\n", "twice"),
        (b"q Q0 \xff 2 0.4 t\n", "UTF-8"),
        (b"q Q0 \0 2 0.4 t\n", "zero byte"),
    ],
)
def test_a_damaged_run_is_refused_with_the_line(tmp_path: Path, damage: bytes, says: str) -> None:
    (tmp_path / "run").write_bytes(GOOD_RUN + b"\n" + damage)
    with pytest.raises(BadFile, match=f"line 3: .*{says}"):
        read_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"q 0 b\n", "4 columns"),
        (b"q 0 b 1 2\n", "this line has 5"),
        (b"q 0 b x\n", "'x' is not"),
        (b"q 0 b 0.5\n", "whole number"),
        (b"q 0 a 0\n", "two different judgements"),
        (b"q\tb\t1\n", "4 columns"),
    ],
)
def test_damaged_judgements_are_refused_with_the_line(tmp_path: Path, damage: bytes, says: str) -> None:
    (tmp_path / "qrels").write_bytes(GOOD_QRELS + damage)
    with pytest.raises(BadFile, match=f"line 2: .*{says}"):
        read_qrels(tmp_path / "qrels")


def test_a_beir_row_with_a_missing_column_is_refused_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\nq\tb\n")
    with pytest.raises(BadFile, match=r"line 3: .*3 columns"):
        read_qrels(tmp_path / "qrels")
    (tmp_path / "qrels").write_text("query-id\tcorpus-id\tscore\nq\t\t1\n")
    with pytest.raises(BadFile, match="line 2: an id is empty"):
        read_qrels(tmp_path / "qrels")


def test_a_file_without_judgements_is_refused_but_a_run_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(BadFile, match="no judgements"):
        read_qrels(tmp_path / "empty")
    assert read_run(tmp_path / "empty") == {}
    write_run({}, tmp_path / "run")
    assert read_run(tmp_path / "run") == {}


def test_scores_that_no_file_can_hold_are_refused(tmp_path: Path) -> None:
    for score in (math.inf, math.nan):
        with pytest.raises(BadInput, match="'a' for query 'q'"):
            write_run({"q": {"a": score}}, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@given(seed=st.integers(0, 10**6), documents=st.integers(1, 40), k=st.integers(1, 50), levels=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_run_of_is_a_stable_sort_cut_at_k(seed: int, documents: int, k: int, levels: int) -> None:
    scores = np.random.default_rng(seed).integers(0, levels, size=(3, documents)).astype(np.float32)
    names = [f"d{i}" for i in range(documents)]
    run = run_of(scores, ["x", "y", "z"], names, k)
    for query, row in zip("xyz", scores, strict=True):
        expected = np.argsort(-row, kind="stable")[:k]
        assert list(run[query]) == [f"d{i}" for i in expected] == ranking(run[query])


def test_a_document_at_minus_infinity_is_not_searched() -> None:
    assert run_of(np.array([[1.0, -np.inf], [-np.inf, -np.inf]]), ["p", "q"], ["a", "b"]) == {"p": {"a": 1.0}, "q": {}}


def test_what_is_no_run_is_refused() -> None:
    scores = np.zeros((1, 2))
    with pytest.raises(BadInput, match="at least 1"):
        run_of(scores, ["q"], ["a", "b"], k=0)
    with pytest.raises(BadInput, match="do not fit"):
        run_of(scores, ["q", "r"], ["a", "b"])
    with pytest.raises(BadInput, match="'a' occurs twice"):
        run_of(scores, ["q"], ["a", "a"])
    with pytest.raises(BadInput, match="query 'q' is not a number"):
        run_of(np.array([[0.0, math.nan]]), ["q"], ["a", "b"])


def test_a_query_counts_in_each_modality_of_its_right_documents_with_those_alone_relevant() -> None:
    modality = {"note": "text", "photo": "image", "post": "image+text"}
    qrels = {"q": {"note": 1, "photo": 2, "post": 0, "gone": 1}, "r": {"note": 1}, "s": {"post": 0}}
    parts = slices(qrels, modality=modality, types={"q": "short", "r": "short", "s": "long"})
    assert list(parts) == ["overall", "image", "text", "short"]
    assert parts["image"] == {"q": {"photo": 2}}
    assert parts["text"] == {"q": {"note": 1}, "r": {"note": 1}}
    run = {"q": {"note": 3.0, "photo": 2.0}}  # the note stays in the ranking, and is in the way of the photo
    assert values("RR@10", run, parts["image"]) == {"q": 0.5}
    assert values("RR@10", run, parts["text"]) == {"q": 1.0, "r": 0.0}


def test_a_query_type_called_like_a_modality_is_named_apart() -> None:
    parts = slices({"q": {"a": 1}, "r": {"a": 1}}, modality={"a": "text"}, types={"q": "text", "r": "overall"})
    assert list(parts) == ["overall", "text", "overall queries", "text queries"]
    assert slices({"q": {"a": 0}}) == {}


def test_importing_evaluate_brings_in_no_measures_and_no_scipy() -> None:
    code = "import isthmus.evaluate, sys; print('scipy' in sys.modules, 'ir_measures' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
