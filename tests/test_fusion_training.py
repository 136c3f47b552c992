"""The training of fusion: a solvable task is learned, what a query asks for is known, pairs are read from files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

import isthmus
from isthmus.cli import app
from isthmus.errors import BadFile, BadInput
from isthmus.queries.kinds import IMAGE, MIXED, TEXT
from isthmus.train.fusion import data, echo, loop, steps
from isthmus.train.fusion.features import Pictures, Texts, patch_map
from isthmus.train.fusion.layers import Pool
from isthmus.train.fusion.lessons import RELATED, FusionBatch, FusionLesson, begins, cared
from isthmus.train.fusion.measure import measured, word_accuracy
from isthmus.train.fusion.model import Fusion
from isthmus.train.fusion.objectives import ANY, contrast, matching, ranking, right
from isthmus.train.fusion.queues import Queue
from isthmus.train.fusion.recipe import FusionRecipe

DIM, CELLS, PATCH = 16, 3, 8
TRY = FusionRecipe(
    steps={"pretrain": 150, "finetune": 20},
    slow=3e-3,
    quick=1e-2,
    batch=16,
    queue=32,
    every=75,
    merge=1,
    match=1,
    drop=0.0,
    noise=0.0,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads cost more than they give, at this size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ragged(rows: list[torch.Tensor]) -> Texts:
    start = torch.tensor([0, *torch.tensor([len(row) for row in rows]).cumsum(0).tolist()])
    return Texts(torch.cat(rows).half(), start)


def toy(n: int, seed: int) -> FusionLesson:
    """Documents of a text and a picture that say different things; a query's words are near what they ask for.

    Words about pictures are turned by a fixed rotation, the same in every lesson: that is there to be learned.
    """
    torch.manual_seed(99)
    turn = torch.linalg.qr(torch.randn(DIM, DIM)).Q
    mark = F.normalize(torch.randn(2, DIM), dim=1)  # words of the two sides look different
    torch.manual_seed(seed)
    text, image = (F.normalize(torch.randn(n, DIM), dim=1) for _ in range(2))
    frame = torch.zeros(1, DIM)

    def words(vector: torch.Tensor, side: int, count: int) -> torch.Tensor:
        said = vector @ turn if side else vector
        return said + 0.7 * mark[side] + 0.1 * torch.randn(count, DIM)

    query_sides: dict[str, list[torch.Tensor]] = {TEXT: [], IMAGE: [], MIXED: []}
    for row in range(n):
        one, other = words(text[row], 0, 3), words(image[row], 1, 2)
        query_sides[TEXT].append(torch.cat([frame, one, frame]))
        query_sides[IMAGE].append(torch.cat([frame, other, frame]))
        query_sides[MIXED].append(torch.cat([frame, *((one, other) if row % 2 == 0 else (other, one)), frame]))
    return FusionLesson(
        ragged([text[row] + 0.1 * torch.randn(4 + row % 3, DIM) for row in range(n)]),
        Pictures(torch.rand(n, CELLS, PATCH).half(), image),
        torch.arange(n),
        torch.arange(2 * n).reshape(n, 2),
        {kind: ragged(several) for kind, several in query_sides.items()},
        torch.arange(n) % 2,
        (1, 1),
    )


def test_a_solvable_task_is_learned(tmp_path: Path) -> None:
    said: list[str] = []
    model = loop.train(
        TRY, {"pretrain": toy(200, 1), "finetune": toy(100, 2)}, toy(40, 3), tmp_path, report=said.append
    )
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    start, found = rows[0], measured(model, toy(40, 4))
    assert start[IMAGE] < 0.3 < 0.6 < found[IMAGE]
    assert found[MIXED] > start[MIXED]
    assert found[f"{IMAGE}, matched"] > start[f"{IMAGE}, matched"]
    assert word_accuracy(model, toy(40, 4), MIXED) > 0.9
    assert [row["stage"] for row in rows] == ["start", "pretrain", "pretrain", "finetune"]
    assert len(said) == len(rows)


def test_the_same_seed_gives_the_same_weights(tmp_path: Path) -> None:
    short = replace(TRY, steps={"pretrain": 3})
    one, other = (
        loop.train(short, {"pretrain": toy(30, 1)}, toy(10, 3), tmp_path / name).state_dict() for name in "ab"
    )
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_start_is_kept_where_training_makes_it_worse(tmp_path: Path) -> None:
    wild = replace(TRY, steps={"pretrain": 6}, slow=5.0, quick=5.0, match_rate=5.0, every=6)
    held = toy(40, 3)
    kept = loop.train(wild, {"pretrain": toy(50, 1)}, held, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert measured(kept, held)[TEXT] == pytest.approx(rows[0][TEXT], abs=1e-3)


def test_a_kind_of_query_cares_for_what_it_is_about() -> None:
    ids = torch.tensor([[3, 4]])
    assert [cared(ids, kind).tolist() for kind in (TEXT, IMAGE, MIXED)] == [[[3, ANY]], [[ANY, 4]], [[3, 4]]]


def test_each_side_of_a_query_has_its_own_words() -> None:
    lesson, rows = toy(4, 1), torch.arange(4)
    text, there, image, here = lesson.query_sides(rows, TEXT, 2)
    assert there.sum(dim=1).tolist() == [5, 5, 5, 5]
    assert not here.any()
    assert text.shape[1] == 5
    assert image.shape[1] == 1
    assert [mask.any().item() for mask in lesson.query_sides(rows, MIXED, 2)[1::2]] == [True, True]
    assert torch.equal(lesson.query_sides(rows, MIXED, 1)[0], lesson.queries[MIXED].take(rows)[0])


def test_the_words_of_a_mixed_query_are_known_by_where_they_came_from() -> None:
    lesson = toy(2, 1)
    label, there = lesson.chosen(torch.tensor([0, 1]), MIXED)
    assert there.tolist() == 2 * [[False, True, True, True, True, True, False]]  # the frame asks for nothing
    assert label[0, 1:6, 0].tolist() == [1, 1, 1, 0, 0]  # the text's words first
    assert label[1, 1:6, 0].tolist() == [0, 0, 1, 1, 1]
    written = replace(lesson, first=torch.tensor([-1, 1]))
    assert written.chosen(torch.tensor([0, 1]), MIXED)[1].any(dim=1).tolist() == [False, True]


def test_words_about_a_text_that_describes_its_picture_teach_no_side() -> None:
    lesson = replace(toy(2, 1), first=torch.tensor([RELATED, 1]))
    for kind in (TEXT, IMAGE, MIXED):
        assert lesson.chosen(torch.tensor([0, 1]), kind)[1].any(dim=1).tolist() == [False, True]
    pair = data.TrainingPair("t", "i", "", Path(), {TEXT: "a", IMAGE: "b", MIXED: "a b"})
    assert (begins(pair), begins(replace(pair, related=True))) == (0, RELATED)


def trial(side: int, found: list[float], towers: float) -> echo.EchoTrial:
    return echo.EchoTrial(np.array([side]), np.array([found]), np.array([towers]))


def test_the_echo_that_loses_nowhere_is_chosen_before_the_one_that_gains_most() -> None:
    captions = trial(1, [0.2, 0.4, 0.6, 0.6, 0.5], 0.5)
    photos = trial(1, [0.9, 0.8, 0.7, 0.6, 0.5], 0.5)
    texts = trial(0, [0.9, 0.8, 0.7, 0.6, 0.5], 0.5)
    assert echo.best([captions, photos, texts]) == (0.0, 0.5)
    assert echo.best([trial(1, [0.2, 0.3, 0.4, 0.3, 0.2], 0.5)])[1] == 0.5  # the least loss, where all lose
    assert echo.best([trial(echo.BOTH, [0.7] * 5, 0.5), photos])[1] == 0.0


def test_the_copy_in_the_queue_follows_slowly() -> None:
    model = Fusion(TRY.shape(DIM, PATCH))
    copy = Fusion(TRY.shape(DIM, PATCH))
    before = copy.document.out.weight.detach().clone()
    with torch.no_grad():
        model.document.out.weight += 1.0
    steps.follow(copy, model, 0.9)
    assert torch.allclose(copy.document.out.weight, before + 0.1, atol=1e-6)


def test_both_queues_get_what_a_step_saw() -> None:
    lesson, model, queues = toy(6, 1), Fusion(TRY.shape(DIM, PATCH)).eval(), (Queue(8), Queue(8))
    rows = torch.tensor([4, 2])
    steps.remember(model, lesson, FusionBatch(IMAGE, rows, rows.flip(0), rows), queues)
    assert queues[0].ids.tolist() == [[ANY, 9], [ANY, 5]]
    assert queues[1].ids.tolist() == [[4, 9], [8, 5]]  # beside another's text


def test_some_documents_lose_only_what_is_not_asked_for() -> None:
    lesson, rng = toy(50, 1), torch.Generator().manual_seed(0)
    whole = lesson.documents(torch.arange(50), torch.arange(50))
    half = replace(TRY, alone=0.5)
    about_text, about_image, mixed = (steps.noisy(whole, kind, half, rng) for kind in (TEXT, IMAGE, MIXED))
    assert torch.equal(about_text.text_mask, whole.text_mask)
    assert 0 < about_text.patch_mask.any(dim=1).float().mean() < 1
    assert torch.equal(about_image.patch_mask, whole.patch_mask)
    assert 0 < about_image.text_mask.any(dim=1).float().mean() < 1
    assert mixed.text_mask.equal(whole.text_mask)
    assert mixed.patch_mask.equal(whole.patch_mask)


def test_a_recipe_refuses_what_cannot_be_trained() -> None:
    with pytest.raises(BadInput, match="batch must be at least 2, not 1"):
        FusionRecipe(batch=1)


@pytest.mark.parametrize(("kind", "texts", "images"), [(TEXT, True, False), (IMAGE, False, True), (MIXED, True, True)])
def test_a_query_about_one_part_sees_it_beside_anothers_other_part(kind: str, texts: bool, images: bool) -> None:
    lesson, rng = toy(50, 1), torch.Generator().manual_seed(0)
    batch = steps.draw(lesson, TRY, rng, kind)
    assert (torch.equal(batch.texts, batch.rows), torch.equal(batch.images, batch.rows)) == (texts, images)
    assert sorted(batch.texts.tolist()) == sorted(batch.images.tolist()) == sorted(batch.rows.tolist())
    queries, documents = lesson.ids_of(batch)
    assert right(queries, documents).diagonal().all()
    fixed = steps.draw(lesson, replace(TRY, anew=False), rng, kind)
    assert torch.equal(fixed.texts, fixed.images)


@pytest.mark.parametrize("pool", ["kinds", "mean"])
def test_the_matcher_begins_with_right_and_wrong_on_either_side_of_0(pool: Pool) -> None:
    lesson, recipe = toy(60, 1), replace(TRY, batch=40, matched=40, pool=pool, alone=0.0)
    model = Fusion(recipe.shape(DIM, PATCH))
    steps.level(model, lesson, recipe, torch.Generator().manual_seed(0))
    middles = []
    for kind in (TEXT, IMAGE):
        rng = torch.Generator().manual_seed(1)
        batch = steps.draw(lesson, recipe, rng, kind)
        fused = model.document(lesson.documents(batch.texts, batch.images))
        queries = model.query(*lesson.query_sides(batch.rows, kind, model.query.sides)).vectors
        logits = steps.matched(model, lesson, batch, (queries, fused), recipe, rng).detach()
        middles.append(float(logits[:, 0].mean() + logits[:, 1:].mean()) / 2)
    if pool == "kinds":
        assert max(map(abs, middles)) < 3
    now, shift = sum(middles) / 2, float(model.matcher.shift.detach().sum())
    assert (
        abs(now) < abs(now - shift) / 2
    )  # nearer to 0 than it would be unshifted; one shift for both kinds with "mean"


def test_pictures_are_blurred_by_what_two_others_differ_in() -> None:
    lesson, rng = toy(50, 1), torch.Generator().manual_seed(0)
    whole = lesson.documents(torch.arange(50), torch.arange(50))
    blurred = steps.noisy(whole, TEXT, replace(TRY, noise=0.85, alone=0.0), rng)
    moved = F.cosine_similarity(whole.image, blurred.image)
    assert 0.4 < float(moved.mean()) < 0.95
    assert torch.allclose(blurred.image.norm(dim=1), torch.ones(50), atol=1e-5)
    assert torch.allclose(blurred.patches.mean(dim=0), whole.patches.mean(dim=0), atol=1e-4)  # permutations add nothing
    assert torch.equal(blurred.text, whole.text)


def test_the_map_of_patches_finds_a_linear_tower() -> None:
    torch.manual_seed(0)
    tower = torch.randn(DIM, PATCH)
    cells = torch.randn(300, CELLS, PATCH)
    found = patch_map(Pictures(cells, cells.mean(dim=1) @ tower.T + 3.0), ridge=1e-6)
    assert torch.allclose(found, tower, atol=1e-2)


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    recipe = replace(TRY, steps={"pretrain": 8, "finetune": 6}, every=4, drop=0.1, noise=0.5)
    stages, held = {"pretrain": toy(60, 1), "finetune": toy(60, 2)}, toy(20, 3)
    whole = loop.train(recipe, stages, held, tmp_path / "whole").state_dict()
    for stop in range(5):  # while the start is measured, steps 4 and 8, steps 4 and 6 of fine-tuning
        out = tmp_path / f"stopped-{stop}"
        said: list[str] = []

        def interrupt(line: str, said: list[str] = said, stop: int = stop) -> None:
            said.append(line)
            if len(said) == stop + 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            loop.train(recipe, stages, held, out, report=interrupt)
        again = loop.train(recipe, stages, held, out).state_dict()
        assert all(torch.equal(again[name], whole[name]) for name in whole)
        assert (out / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    with pytest.raises(BadInput, match=r"checkpoint\.pt is of a training with another seed \(0, now 9\)\. Continue"):
        loop.train(replace(recipe, seed=9), stages, held, tmp_path / "whole")
    for others in ({"pretrain": toy(60, 1)}, {"pretrain": toy(60, 5), "finetune": toy(60, 2)}):
        with pytest.raises(BadInput, match="another data or towers"):
            loop.train(recipe, others, held, tmp_path / "whole")


@torch.no_grad()
def test_the_loss_is_the_sum_of_its_parts() -> None:
    lesson, model = toy(40, 1), Fusion(TRY.shape(DIM, PATCH))
    queues = Queue(8), Queue(8)
    rows = torch.arange(8)
    steps.remember(model, lesson, FusionBatch(MIXED, rows, rows, rows), queues)
    mine = rows + 8
    batch = FusionBatch(MIXED, mine, mine, mine)

    def loss(recipe: FusionRecipe) -> float:
        return float(steps.step_loss(model, lesson, batch, queues, recipe, torch.Generator().manual_seed(3)))

    fused = model.document(lesson.documents(mine, mine))
    vectors = model.query(*lesson.query_sides(mine, MIXED, 2)).vectors
    past = (queues[0].vectors, queues[0].ids), (queues[1].vectors, queues[1].ids)
    told = contrast(vectors, fused.vectors, lesson.ids_of(batch), past, model.temperature)
    label, known = lesson.chosen(mine, MIXED)
    parted_loss = F.binary_cross_entropy_with_logits(
        model.chooser(*lesson.queries[MIXED].take(mine))[known], label[known]
    )
    bare = replace(TRY, alone=0.0)
    assert loss(replace(bare, matching=0.0)) == pytest.approx(float(told + parted_loss), abs=1e-5)
    rng = torch.Generator().manual_seed(3)
    torch.rand(len(rows), 1, generator=rng)  # which documents lose a part: drawn, whatever the share
    four = steps.matched(model, lesson, batch, (vectors, fused), bare, rng)
    whole = float(told + parted_loss + matching(four) + ranking(four))
    assert loss(bare) == pytest.approx(whole, abs=1e-4)
    assert loss(replace(bare, paper=True)) == pytest.approx(whole - float(ranking(four)), abs=1e-4)


def test_queues_are_fed_by_the_slow_copy_and_begin_empty_in_each_stage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[bool, int]] = []
    trained: list[Fusion] = []
    real, real_loss = steps.remember, steps.step_loss

    def step_loss(model: Fusion, *given: Any) -> torch.Tensor:
        trained.append(model)
        return real_loss(model, *given)

    def remember(model: Fusion, lesson: FusionLesson, batch: FusionBatch, queues: tuple[Queue, Queue]) -> None:
        seen.append((model is trained[-1], len(queues[0].vectors)))
        real(model, lesson, batch, queues)

    monkeypatch.setattr(loop, "remember", remember)
    monkeypatch.setattr(loop, "step_loss", step_loss)
    recipe = replace(TRY, steps={"pretrain": 3, "finetune": 2})
    loop.train(recipe, {"pretrain": toy(60, 1), "finetune": toy(60, 2)}, toy(10, 3), tmp_path)
    assert seen == [(False, 0), (False, 16), (False, 32), (False, 0), (False, 16)]


def test_training_begins_with_a_map_of_patches_and_a_level_matcher(tmp_path: Path) -> None:
    stages = {"pretrain": toy(60, 1)}
    model = loop.train(replace(TRY, steps={"pretrain": 0}), stages, toy(10, 3), tmp_path)
    expected = patch_map(stages["pretrain"].pictures)
    assert torch.allclose(model.document.patch.weight, expected)
    assert expected.abs().max() > 0
    assert model.matcher.shift.abs().min() > 1


def row(name: str, **more: str | bool) -> dict[str, str | bool]:
    return {"id": name, "doc_text": "a text", "doc_image": "a.png", "query_text": "words", "query_img": "a dog", **more}


def written(folder: Path, **files: list[dict[str, str | bool]]) -> Path:
    for name, rows in files.items():
        (folder / f"multimodal_{name}.json").write_text(json.dumps(rows))
    (folder / "images").mkdir(exist_ok=True)
    (folder / "images" / "a.png").touch()
    return folder


def test_pairs_are_read_in_the_layout_of_the_benchmark(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        pretrain_pairs=[row("1"), row("2", query_img=""), row("3", text_id="t", image_id="i")],
        finetune_pairs=[row("4", query_multi="both")],
        val_pairs=[row("5")],
    )
    read = data.read(folder)
    assert [len(pairs) for pairs in read.stages.values()] == [2, 1]
    assert read.left_out == 1
    one, other = read.stages["pretrain"]
    assert (one.text_id, one.image_id, other.text_id, other.image_id) == ("1", "1", "t", "i")
    assert one.queries[MIXED] in ("words a dog", "a dog words")
    assert read.stages["finetune"][0].queries[MIXED] == "both"
    assert read.held[0].image == folder / "images" / "a.png"
    assert (read.held[0].related, read.held[0].group) == (False, "")
    written(tmp_path, val_pairs=[row("5", related=True, group="captioned")])
    assert (data.read(folder).held[0].related, data.read(folder).held[0].group) == (True, "captioned")


def test_held_out_queries_may_name_their_documents(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        pretrain_pairs=[row("1")],
        val_queries=[{"id": "7", "query_text": "words", "query_img": "a cat"}],
        documents=[{"id": "7", "doc_text": "a text", "doc_image": "a.png"}, {"id": "8", "doc_text": "another"}],
    )
    (held,) = data.read(folder).held
    assert (held.text_id, held.queries[IMAGE]) == ("7", "a cat")


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"multimodal_pretrain_pairs\.json, which does not exist"):
        data.read(tmp_path)
    written(tmp_path, pretrain_pairs=[row("1", doc_image="")], val_pairs=[row("2")])
    with pytest.raises(BadInput, match="no row of pretrain has a text, a picture and queries"):
        data.read(tmp_path)
    (tmp_path / "multimodal_pretrain_pairs.json").write_text('[{"id": "1"}]')
    with pytest.raises(BadFile, match="row 1 has no 'doc_text'"):
        data.read(tmp_path)


def test_the_command_trains_and_writes_an_encoder(tmp_path: Path) -> None:
    pictures = sorted((Path(isthmus.__file__).parent / "samples").rglob("*.jpg"))[:2]
    folder = written(tmp_path, pretrain_pairs=[], val_pairs=[])
    for number, picture in enumerate(pictures):
        (folder / "images" / f"{number}.jpg").write_bytes(picture.read_bytes())
    rows = [row(str(n), doc_text=f"text {n} of a tower", doc_image=f"{n}.jpg", query_text=f"text {n}") for n in (0, 1)]
    written(tmp_path, pretrain_pairs=rows, val_pairs=rows)
    out = tmp_path / "fused"
    options = ["--data", str(folder), "--out", str(out), "--steps", "1", "--batch", "2", "--queue", "2"]
    ran = CliRunner().invoke(app, ["train", "fusion", *options])
    assert ran.exit_code == 0, ran.output
    assert f"onnx:{out}" in ran.output
    assert {path.name for path in out.glob("*.onnx")} == {"document.onnx", "query.onnx", "choose.onnx", "match.onnx"}
    assert sum(path.stat().st_size for path in out.glob("*.onnx")) < 10_000_000  # it adds at most 10 MB
    assert "echo: (" in ran.output
    weights = isthmus.encoders.load(f"onnx:{out}").query.echo  # type: ignore[attr-defined]
    assert all(weight in echo.GRID for weight in weights)
    assert [json.loads(line)["step"] for line in (out / "run" / "log.jsonl").read_text().splitlines()] == [0, 1]
