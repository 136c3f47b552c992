"""LENS: its loss is the equation, its negatives are wrong documents, and what it learns can be loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from isthmus import Document, encoders
from isthmus.align.base import Found
from isthmus.align.retrievers import Bm25
from isthmus.cli import app
from isthmus.errors import BadFile, BadInput
from isthmus.train import bridge_settings, judged, lens
from isthmus.train.judged import Judged, mined, split
from isthmus.train.lens import LensLesson, LensRecipe, TokenCache, backward, batches, info_nce
from isthmus.train.make import make_lens
from isthmus.train.sentence import SentenceModel
from tiny import WORDS, write_sentence_transformer

NOUNS = [word for word in WORDS if word.isascii() and len(word) > 2]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_sentence_transformer(tmp_path_factory.mktemp("start")))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of a few words; a query is two words of its document, and every third has two right documents."""
    folder = tmp_path_factory.mktemp("beir")
    rng = np.random.default_rng(0)
    texts = [[str(word) for word in rng.choice(NOUNS, 6)] for _ in range(60)]
    rows = [{"_id": f"d{i}", "title": text[0], "text": " ".join(text[1:])} for i, text in enumerate(texts)]
    queries = [{"_id": f"q{i}", "text": f"{texts[i][1]} {texts[i][4]}"} for i in range(40)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, [*queries, {"_id": "other", "text": "cat"}])))
    (folder / "qrels").mkdir()
    lines = [f"q{i}\td{i}\t1" for i in range(40)] + [f"q{i}\td{i + 1}\t1" for i in range(0, 40, 3)]
    lines += [f"q{i}\td{i + 5}\t0" for i in range(10)]
    (folder / "qrels/train.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    return folder


@pytest.fixture(scope="module")
def lesson(data: Path) -> LensLesson:
    known = judged.read(data)
    learned, held = split(known, 0.2, seed=0, apart=True)
    ids, texts = list(known.documents), list(known.documents.values())
    return LensLesson(known, mined(known, [Bm25(ids, texts)], 10), learned, held)


def unit(rng: np.random.Generator, *shape: int) -> Any:
    rows = rng.normal(size=shape)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@given(st.integers(1, 6), st.integers(0, 8), st.integers(0, 99))
def test_info_nce_is_the_equation(queries: int, more: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = queries + more
    q, d, target = unit(rng, queries, 5), unit(rng, n, 5), rng.integers(n, size=queries)
    right = rng.random((queries, n)) < 0.3
    right[np.arange(queries), target] = True
    expected = 0.0
    for i in range(queries):
        kept = [j for j in range(n) if not right[i, j] or j == target[i]]
        total = sum(math.exp(float(q[i] @ d[j]) / 0.02) for j in kept)
        expected -= float(q[i] @ d[target[i]]) / 0.02 - math.log(total)
    found = info_nce(torch.tensor(q), torch.tensor(d), torch.tensor(target), torch.tensor(right), 0.02)
    assert found.item() == pytest.approx(expected / queries, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("b", "m"), [(4, 7), (1, 7), (6, 0)])
def test_info_nce_of_uniform_similarities_is_the_logarithm_of_the_candidates(b: int, m: int) -> None:
    n = b * (1 + m)
    target = torch.arange(b) * (1 + m)
    right = torch.zeros(b, n, dtype=torch.bool)
    right[torch.arange(b), target] = True
    loss = info_nce(torch.ones(b, 3), torch.ones(n, 3), target, right, 0.02)
    assert loss.item() == pytest.approx(math.log(n), abs=1e-5)


def test_another_right_document_never_counts_as_a_negative() -> None:
    q = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    d = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]], requires_grad=True)
    right = torch.tensor([[True, False, True], [False, True, False]])
    info_nce(q[:1], d, torch.tensor([0]), right[:1], 0.5).backward()  # type: ignore[no-untyped-call]
    assert d.grad is not None
    assert d.grad[2].abs().max() == 0  # right for the first query: it pushes nothing away
    assert d.grad[1].abs().max() > 0


def test_hard_negatives_are_never_right_and_come_from_both_lists_in_turn() -> None:
    class Says:
        name = "says"

        def __init__(self, *names: str) -> None:
            self.names = names

        def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
            return [[(name, 0.0) for name in self.names[:k]] for _ in texts]

    known = Judged({name: name for name in "abcdef"}, {"q": "?"}, {"q": ["a", "d"]})
    assert mined(known, [Says(*"abcdef"), Says(*"dfbca")], 3)["q"] == ["b", "f", "c", "e"]


def test_no_batch_has_a_right_document_among_the_negatives_of_its_query(lesson: LensLesson) -> None:
    recipe = LensRecipe(batch=8, negatives=5)
    seen: list[str] = []
    for batch in batches(lesson, recipe, 0):
        seen += batch.queries
        assert len(set(batch.documents)) == len(batch.documents)
        for row, query in enumerate(batch.queries):
            names = [name for at, name in enumerate(batch.documents) if batch.right[row, at]]
            assert set(names) == set(lesson.judged.right[query]) & set(batch.documents)
            assert batch.documents[int(batch.target[row])] in lesson.judged.right[query]
            assert not set(lesson.negatives[query]) & set(lesson.judged.right[query])
    assert sorted(seen) == sorted(lesson.learned)


def test_the_first_negatives_can_be_left_out(lesson: LensLesson) -> None:
    for batch in batches(lesson, LensRecipe(batch=1, negatives=99, skip=4), 0):
        (query,) = batch.queries
        assert sorted(batch.documents[1:]) == sorted(lesson.negatives[query][4:])


def test_weights_halfway_lie_between_the_start_and_what_was_learned(
    start: str, lesson: LensLesson, tmp_path: Path
) -> None:
    first = SentenceModel.load(start)
    whole, none, half = (
        lens.train(replace(TRY, epochs=1, shares=(share,)), first, lesson, tmp_path / str(share))
        for share in (1.0, 0.0, 0.5)
    )
    logs = [(tmp_path / str(share) / "log.jsonl").read_text().splitlines() for share in (1.0, 0.0, 0.5)]
    assert json.loads(logs[1][0])["nDCG@10"] == json.loads(logs[1][1])["nDCG@10"]  # nothing of what was learned
    for name, tensor in first.state_dict().items():
        torch.testing.assert_close(none.state_dict()[name], tensor)
    if all(max(json.loads(log[1])["nDCG@10"]) > json.loads(log[0])["nDCG@10"][0] for log in (logs[0], logs[2])):
        for name, tensor in half.state_dict().items():
            middle = torch.lerp(first.state_dict()[name].float(), whole.state_dict()[name].float(), 0.5)
            torch.testing.assert_close(tensor.float(), middle)


def test_an_epoch_draws_as_its_seed_says_and_no_other_epoch_the_same(lesson: LensLesson) -> None:
    recipe = LensRecipe(batch=8)
    first, again, other = (batches(lesson, recipe, epoch) for epoch in (0, 0, 1))
    assert [batch.documents for batch in first] == [batch.documents for batch in again]
    assert [batch.queries for batch in first] != [batch.queries for batch in other]


def test_queries_to_decide_by_share_no_right_document_with_those_to_learn_from(lesson: LensLesson) -> None:
    right = lesson.judged.right
    assert 0 < len(lesson.held) <= 8
    assert sorted([*lesson.learned, *lesson.held]) == sorted(right)
    assert not {d for q in lesson.held for d in right[q]} & {d for q in lesson.learned for d in right[q]}


def test_queries_that_all_hang_together_cannot_be_parted() -> None:
    known = Judged({"d": "x"}, {"p": "x", "q": "y"}, {"p": ["d"], "q": ["d"]})
    with pytest.raises(BadInput, match="1 groups, the smallest of 2"):
        split(known, 0.5, seed=0, apart=True)
    assert sorted(map(len, split(known, 0.5, seed=0))) == [1, 1]


def test_only_the_train_split_and_only_judged_queries_are_read(data: Path) -> None:
    known = judged.read(data)
    assert "other" not in known.queries
    assert known.right["q0"] == ["d0", "d1"]  # judged 0 is not right
    with pytest.raises(BadInput, match="corpus"):
        judged.read(data / "qrels")


@pytest.mark.parametrize("chunk", [3, 7, 1000])
def test_gradients_in_chunks_are_those_of_the_whole_batch(start: str, lesson: LensLesson, chunk: int) -> None:
    recipe = LensRecipe(batch=6, chunk=chunk)
    batch = batches(lesson, recipe, 0)[0]
    model = SentenceModel.load(start)
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0  # chunks draw other noise than the whole
    tokens = TokenCache.of(model, lesson, recipe)
    loss = backward(model, tokens, batch, recipe)
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    vectors = model.vectors(tokens.rows(batch))
    whole = info_nce(vectors[:6], vectors[6:], batch.target, batch.right, recipe.temperature)
    whole.backward()  # type: ignore[no-untyped-call]
    assert loss == pytest.approx(whole.item(), rel=1e-4)
    assert found
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(found[name], p.grad, rtol=1e-3, atol=2e-4)


def test_chunks_have_the_same_dropout_both_times(start: str, lesson: LensLesson) -> None:
    """With one chunk, gradients are those of an ordinary pass that draws the same noise."""
    recipe = LensRecipe(batch=6, chunk=1000)
    batch = batches(lesson, recipe, 0)[0]
    model = SentenceModel.load(start).train()
    tokens = TokenCache.of(model, lesson, recipe)
    torch.manual_seed(5)
    loss = backward(model, tokens, batch, recipe)
    rows = tokens.rows(batch)
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    torch.manual_seed(5)
    vectors = torch.empty(len(rows), 16)
    vectors[order] = model.vectors([rows[row] for row in order])
    whole = info_nce(vectors[:6], vectors[6:], batch.target, batch.right, recipe.temperature)
    whole.backward()  # type: ignore[no-untyped-call]
    assert loss == pytest.approx(whole.item(), rel=1e-5)
    for name, gradient in found.items():
        torch.testing.assert_close(model.get_parameter(name).grad, gradient, rtol=1e-3, atol=1e-4)


TRY = LensRecipe(batch=8, epochs=3, rate=2e-3, patience=9, warm=0.1, chunk=16)


def test_the_loss_falls_and_the_held_out_queries_decide(start: str, lesson: LensLesson, tmp_path: Path) -> None:
    said: list[str] = []
    lens.train(replace(TRY, epochs=6), SentenceModel.load(start), lesson, tmp_path, report=said.append)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in log] == list(range(7))
    assert log[-1]["loss"] < 0.8 * log[1]["loss"]
    best = max(log, key=lambda row: max(row["nDCG@10"]))
    assert said[-1].startswith(f"kept: epoch {best['epoch']},")


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    start: str, lesson: LensLesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = lens.train(TRY, SentenceModel.load(start), lesson, tmp_path / "straight")
    monkeypatch.setattr(lens, "CHECKPOINT_EVERY", 3)
    original, calls = lens.backward, iter(range(99))

    def interrupted(*given: Any) -> Any:
        if next(calls) == 8:  # in the second epoch
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(lens, "backward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lens.train(TRY, SentenceModel.load(start), lesson, tmp_path / "halting")
    monkeypatch.setattr(lens, "backward", original)
    resumed = lens.train(TRY, SentenceModel.load(start), lesson, tmp_path / "halting")
    for name, tensor in straight.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor, rtol=0, atol=0)


def test_a_checkpoint_of_another_recipe_is_not_gone_on_with(start: str, lesson: LensLesson, tmp_path: Path) -> None:
    lens.train(replace(TRY, epochs=1), SentenceModel.load(start), lesson, tmp_path)
    with pytest.raises(BadInput, match="another recipe"):
        lens.train(replace(TRY, epochs=1, rate=1.0), SentenceModel.load(start), lesson, tmp_path)


def test_training_stops_when_no_epoch_is_better(start: str, lesson: LensLesson, tmp_path: Path) -> None:
    still = lens.train(replace(TRY, rate=0.0, epochs=9, patience=2), SentenceModel.load(start), lesson, tmp_path)
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3  # the start and two epochs
    for name, tensor in SentenceModel.load(start).state_dict().items():
        torch.testing.assert_close(still.state_dict()[name], tensor)


TEXTS = ["a red cat sits on the sofa", "dogs", "the house and the tree and the dog runs on grass of the house"]


@pytest.mark.parametrize(("small", "tolerance"), [(False, 1e-4), (True, 0.05)])
def test_the_command_writes_an_encoder_that_both_libraries_load_alike(
    start: str, data: Path, tmp_path: Path, small: bool, tolerance: float
) -> None:
    out = tmp_path / "made"
    options = ["--epochs", "1", "--batch", "8", "--rate", "1e-3", "--depth", "5", *(["--small"] if small else [])]
    command = ["train", "lens", "--data", str(data), "--start", start, "--out", str(out), *options]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "nDCG@10" in done.stderr
    assert f"onnx:{out / 'onnx'}" in done.stdout
    one, other = encoders.load(f"st:{out / 'st'}"), encoders.load(f"onnx:{out / 'onnx'}")
    documents = [Document(str(row), text) for row, text in enumerate(TEXTS)]
    for first, second in (
        (one.encode_documents(documents), other.encode_documents(documents)),
        (one.encode_queries(TEXTS), other.encode_queries(TEXTS)),
    ):
        np.testing.assert_allclose(first.parts["text"], second.parts["text"], atol=tolerance)
    assert "epoch 1: loss" in done.stderr
    log = (out / "run/log.jsonl").read_text()
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    assert (out / "run/log.jsonl").read_text() == log  # nothing was left to do


def test_the_papers_settings_are_one_option_and_each_can_be_changed(start: str, data: Path, tmp_path: Path) -> None:
    assert LensRecipe(batch=512, rate=1e-5, epochs=3, patience=3, shares=(1.0,)) == bridge_settings.LENS
    assert (bridge_settings.LENS.negatives, bridge_settings.LENS.temperature) == (7, 0.02)
    given = ["--data", str(data), "--start", start, "--out", str(tmp_path), "--paper", "--depth", "5"]
    command = ["train", "lens", *given, "--set", "temperature=0.05", "--set", "apart=false"]
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["recipe"]
    assert all(said in saved for said in ("rate=1e-05", "batch=512", "epochs=3", "temperature=0.05", "shares=(1.0,)"))
    for wrong in ("apart=maybe", "batch=many"):
        with pytest.raises(BadInput, match=r"must be (true or false|a number)"):
            CliRunner().invoke(app, [*command, "--set", wrong], catch_exceptions=False)


def test_half_precision_gives_nearly_the_same_vectors_and_trains(start: str, data: Path, tmp_path: Path) -> None:
    whole, half = SentenceModel.load(start), SentenceModel.load(start, half=True)
    rows = whole.tokens(TEXTS, "document", 64)
    found = half.encoded(rows)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, whole.encoded(rows), atol=0.03, rtol=0)
    make_lens(data, tmp_path, start=start, recipe=replace(TRY, epochs=1), half=True)
    assert encoders.load(f"onnx:{tmp_path / 'onnx'}").dim == 16


def test_negatives_mined_otherwise_are_not_taken(start: str, data: Path, tmp_path: Path) -> None:
    make_lens(data, tmp_path, start=start, recipe=replace(TRY, epochs=1, depth=5))
    with pytest.raises(BadInput, match="mined with other settings"):
        make_lens(data, tmp_path, start=start, recipe=replace(TRY, epochs=1, depth=6))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot load"):
        SentenceModel.load(str(tmp_path))
