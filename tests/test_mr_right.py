"""Mr. Right as printed: its settings, both kinds of hard negatives, its matcher, trained towers, resuming, export."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from torch import Tensor, nn
from torch.nn import functional as F
from typer.testing import CliRunner

import isthmus
import tiny
from isthmus import Document, encoders
from isthmus.cli import app
from isthmus.documents import Query
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.locations import EMBEDDED
from isthmus.errors import BadInput, UnknownName
from isthmus.queries.kinds import KINDS
from isthmus.train import checkpoint
from isthmus.train import export as shrinking
from isthmus.train.augment import normalised
from isthmus.train.fusion.layers import unit_mean
from isthmus.train.fusion.model import FusedDocuments
from isthmus.train.fusion.queues import Queue
from isthmus.train.fusion.run import FusionRun
from isthmus.train.mr_right import export, loop, maps, start, step
from isthmus.train.mr_right.exported import read_matcher
from isthmus.train.mr_right.matcher import ClassMatcher
from isthmus.train.mr_right.measure import held_out
from isthmus.train.mr_right.model import MrRight, ReadTexts
from isthmus.train.mr_right.randaugment import OPERATIONS, changed, rand_augmented
from isthmus.train.mr_right.recipe import MrRightRecipe
from isthmus.train.mr_right.tensors import PaddedTokens, PairTensors
from isthmus.train.towers import TrainableImageTower, TrainableTextTower, tokenized, tokenizer

transformers = pytest.importorskip("transformers")
DIM, SIZE, WORDS = 16, 32, 24
TRY = MrRightRecipe(
    epochs={"pretrain": 2, "finetune": 1},
    batch=8,
    queue=12,
    size=SIZE,
    query_tokens=4,
    document_tokens=6,
    merge=1,
    match=2,
    drop=0.1,
    operations=1,
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Backbone(nn.Module):
    """A convolution in place of an EfficientNet: cells of 8 pixels a side."""

    def __init__(self) -> None:
        super().__init__()
        self.filters, self._fc = nn.Conv2d(3, 12, 8, stride=8), nn.Linear(12, 5)

    def extract_features(self, pixels: Tensor) -> Tensor:
        return F.relu(self.filters(pixels))


def made(recipe: MrRightRecipe = TRY, seed: int = 0) -> MrRight:
    torch.manual_seed(seed)
    sizes = {"hidden_size": DIM, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    bert = transformers.BertModel(
        transformers.BertConfig(vocab_size=WORDS + 4, max_position_embeddings=16, **sizes), add_pooling_layer=False
    )
    image = TrainableImageTower(Backbone(), 12, torch.randn(5, DIM), hidden=8, drop=0.0)
    return MrRight(TrainableTextTower(bert), image, recipe.shape(DIM))


def pairs(n: int, seed: int = 0) -> PairTensors:
    """Documents whose text is some words and whose picture has a colour; queries name the words, the colour, both."""
    rng = torch.Generator().manual_seed(seed)
    text = torch.randint(4, WORDS, (n, TRY.document_tokens), generator=rng)
    shade = torch.randint(0, 255, (n, 3, 1, 1), generator=rng).to(torch.uint8)
    asked = [torch.randint(4, WORDS, (n, TRY.query_tokens), generator=rng) for _ in KINDS]
    asked[0] = text[:, : TRY.query_tokens]

    def tokens(ids: Tensor) -> PaddedTokens:
        return PaddedTokens(ids, torch.ones_like(ids))

    ids = torch.arange(2 * n).reshape(n, 2)
    pixels = shade.expand(n, 3, SIZE, SIZE).contiguous()
    return PairTensors(tokens(text), tuple(map(tokens, asked)), pixels, torch.arange(n), ids)


def queues(room: int = 12) -> tuple[Queue, Queue]:
    return Queue(room), Queue(room)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_defaults_are_the_papers_settings() -> None:
    """Section 5.3: epochs, rates, decay, clipping, queue, lengths, size; Appendix D: layers of the matcher."""
    recipe = MrRightRecipe()
    assert recipe.epochs == {"pretrain": 40, "finetune": 20}
    assert (recipe.rate, recipe.last_rate, recipe.decay, recipe.clip) == (5e-5, 1e-7, 0.02, 0.5)
    assert (recipe.queue, recipe.query_tokens, recipe.document_tokens, recipe.size) == (9600, 40, 128, 288)
    assert recipe.match == 6
    assert len(made(replace(TRY, match=6)).matcher.layers) == 6
    with pytest.raises(BadInput, match="match must be at least 1, not 0"):
        MrRightRecipe(match=0)


def test_the_rate_rises_in_the_first_epoch_and_ends_at_its_last_value() -> None:
    recipe = MrRightRecipe()
    rates = [loop.rate_at(at, 25, 40 * 25, recipe) for at in range(40 * 25)]
    assert rates[:25] == sorted(rates[:25])
    assert rates[24] == max(rates) == 5e-5
    assert rates[24:] == sorted(rates[24:], reverse=True)
    assert rates[-1] == pytest.approx(1e-7)


def test_the_matcher_gives_two_classes_from_its_first_token() -> None:
    matcher = ClassMatcher(TRY.shape(DIM)).eval()
    document, masks = torch.randn(3, 7, DIM), torch.ones(3, 2, 7, dtype=torch.bool)
    words, there = torch.randn(3, 4, DIM), torch.ones(3, 4, dtype=torch.bool)
    seen: list[Tensor] = []
    matcher.last.register_forward_hook(lambda _, given, out: seen.append(given[0]))
    matcher.layers[-1].register_forward_hook(lambda _, given, out: seen.append(out))
    assert matcher(document, masks, words, there).shape == (3, 2)
    assert torch.equal(seen[1], seen[0][:, 0])  # [CLS], at the head of [CLS ; document ; query]
    assert seen[0].shape == (3, 1 + 7 + 4, DIM)


def test_the_matcher_sees_features_and_never_a_similarity() -> None:
    model = made().eval()
    batch = step.draw(pairs(8), torch.arange(8), generator())
    found = step.encode(model, batch, TRY, generator())
    before = model.match(found.documents, found.words)
    turned = FusedDocuments(-found.documents.vectors, *found.documents[1:])
    assert torch.equal(model.match(turned, found.words), before)  # vectors do not enter
    other = FusedDocuments(found.documents.vectors, found.documents.tokens.flip(0), found.documents.masks)
    assert not torch.allclose(model.match(other, found.words), before, atol=1e-4)  # features do
    words = ReadTexts(found.words.states.flip(0), found.words.mask)
    assert not torch.allclose(model.match(found.documents, words), before, atol=1e-4)


def test_each_query_and_each_document_draws_its_own_hard_negative() -> None:
    similarity = torch.tensor([[0.9, 0.8, 0.1], [0.2, 0.9, 0.1], [0.7, 0.1, 0.9]])  # (queries, documents)
    ids = torch.arange(6).reshape(3, 2)
    documents, asked = step.hard_negatives(similarity, ids, 0.001, generator())
    assert documents.tolist() == [1, 0, 0]  # the most similar wrong document of each row
    assert asked.tolist() == [2, 0, 0] or asked.tolist() == [2, 0, 1]  # of each column; the last is a tie
    shared = torch.tensor([[0, 0], [0, 0], [1, 1]])
    documents, asked = step.hard_negatives(similarity, shared, 0.001, generator())
    assert [int(documents[0]), int(asked[0])] == [2, 2]  # the same document twice in a batch is no negative


def test_the_matcher_is_trained_on_both_kinds_of_negatives_and_two_pseudo_negatives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = made(replace(TRY, merge=0)).eval()  # without merge attention, features are the towers' own
    found = step.encode(model, step.draw(pairs(8), torch.arange(8), generator()), TRY, generator())
    given: list[Any] = []

    def match(documents: FusedDocuments, words: ReadTexts) -> Tensor:
        given.append((documents.tokens, words.states))
        return torch.arange(20.0).reshape(10, 2) * torch.tensor([1.0, -1.0])

    monkeypatch.setattr(model, "match", match)
    documents, asked = torch.tensor([5, 6]), torch.tensor([7, 3])
    loss = step.matching(model, found, documents, asked)
    (tokens, words), length = given[0], TRY.document_tokens
    text, image = found.documents.tokens[:, :length], found.documents.tokens[:, length:]
    expected = [(0, 0, 0), (1, 1, 1), (0, 5, 5), (1, 6, 6), (0, 5, 0), (1, 6, 1), (0, 0, 5), (1, 1, 6)]
    expected += [(7, 0, 0), (3, 1, 1)]  # query, text, image of each pair
    for row, (query, of_text, of_image) in enumerate(expected):
        assert torch.allclose(tokens[row, :length], text[of_text], atol=1e-6)
        assert torch.allclose(tokens[row, length:], image[of_image], atol=1e-6)
        assert torch.equal(words[row], found.words.states[query])
    odds = torch.arange(20.0).reshape(10, 2) * torch.tensor([1.0, -1.0])
    labels = torch.tensor([1, 1, *8 * [0]])  # only the pairs of the data are right
    assert float(loss) == pytest.approx(float(F.cross_entropy(odds, labels)))


def test_every_pair_draws_its_own_kind_of_query() -> None:
    data = pairs(60)
    batch = step.draw(data, torch.arange(60), generator())
    kinds = [[bool(torch.equal(batch.query.ids[row], asked.ids[row])) for asked in data.queries] for row in range(60)]
    counts = np.array(kinds).sum(axis=0)
    assert all(any(row) for row in kinds)
    assert counts.min() > 8


@pytest.mark.parametrize("loss", ["contrast", "matching"])
def test_gradients_of_either_loss_reach_both_towers(loss: str) -> None:
    model, data = made(), pairs(8)
    found = step.losses(model, step.draw(data, torch.arange(8), generator()), queues(), TRY, generator())
    getattr(found, loss).backward()
    for tower in (model.text, model.image):
        grads = [float(one.grad.abs().sum()) for one in tower.parameters() if one.grad is not None]
        assert max(grads) > 0


def test_a_step_works_in_half_precision_as_on_a_gpu() -> None:
    model, data = made(), pairs(16)
    with torch.autocast("cpu", torch.bfloat16):
        found = step.losses(model, step.draw(data, torch.arange(16), generator()), queues(), TRY, generator())
    assert found.contrast.dtype == found.matching.dtype == torch.float32
    (found.contrast + found.matching).backward()  # type: ignore[no-untyped-call]
    assert all(bool(one.grad.isfinite().all()) for one in model.parameters() if one.grad is not None)


def test_the_queues_hold_the_last_vectors_of_the_model_itself() -> None:
    model, data, held = made(replace(TRY, drop=0.0)), pairs(24), queues()
    model.text.bert.config.hidden_dropout_prob = 0.0  # type: ignore[union-attr]
    for first in (0, 8, 16):
        step.losses(model, step.draw(data, torch.arange(first, first + 8), generator()), held, TRY, generator())
    for queue in held:
        assert queue.ids[:, 0].tolist() == [2 * row for row in range(12, 24)]  # twelve of 24, the oldest gone
        assert torch.allclose(queue.vectors.norm(dim=1), torch.ones(12), atol=1e-5)
        assert not queue.vectors.requires_grad


def test_gradients_are_clipped() -> None:
    model, norms = made(), []
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)

    def norm(*_: Any) -> None:
        grads = [one.grad for one in model.parameters() if one.grad is not None]
        norms.append(float(torch.cat([grad.flatten() for grad in grads]).norm()))

    optimiser.register_step_pre_hook(norm)
    with torch.no_grad():
        model.log_temperature.fill_(-5.0)  # a steep loss
    run = FusionRun(TRY, "", model, generator(), copied=False)
    for clip in (1e9, 0.5):
        run.recipe = replace(TRY, clip=clip)
        loop._step(run, pairs(8), torch.arange(8), optimiser, rate=0.0)
    assert norms[0] > 1
    assert norms[1] == pytest.approx(0.5, rel=1e-3)


def test_vectors_learn_pairs_by_heart(tmp_path: Path) -> None:
    recipe = replace(TRY, epochs={"pretrain": 40}, rate=3e-3, drop=0.0, every=40, operations=0, smallest=1.0, merge=0)
    data = pairs(16)
    model = made(recipe)
    before = held_out(model, data)
    loop.train(model, recipe, {"pretrain": data}, data, tmp_path)
    assert sum(held_out(model, data).values()) > sum(before.values()) + 0.8


def test_the_matcher_learns_which_features_match() -> None:
    torch.manual_seed(0)
    matcher = ClassMatcher(replace(TRY, match=1, drop=0.0).shape(DIM))
    optimiser = torch.optim.AdamW(matcher.parameters(), lr=1e-2)
    for _ in range(60):
        document, words, labels = torch.randn(32, 3, DIM), torch.randn(32, 2, DIM), torch.arange(32) % 2
        document[:, :, 0] += 4.0 * labels[:, None]  # a mark of documents that match
        masks, there = torch.ones(32, 2, 3, dtype=torch.bool), torch.ones(32, 2, dtype=torch.bool)
        loss = F.cross_entropy(matcher(document, masks, words, there), labels)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    assert float(loss.detach()) < 0.2


def test_the_best_weights_are_kept_or_the_last(tmp_path: Path) -> None:
    wild = replace(TRY, epochs={"pretrain": 1}, rate=5.0, clip=1e9)
    data, start_of = pairs(16), made(wild).state_dict()
    best, last = (
        loop.train(made(wild), replace(wild, keep=keep), {"pretrain": data}, data, tmp_path / keep).state_dict()
        for keep in ("best", "last")
    )
    assert all(torch.equal(best[name], start_of[name]) for name in best)  # a wild step makes everything worse
    assert not torch.equal(last["ask.weight"], start_of["ask.weight"])
    with pytest.raises(UnknownName, match="choice of weights"):
        MrRightRecipe(keep="lost")  # type: ignore[arg-type]


def test_an_interrupted_training_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "SAVED", 0.0)  # every epoch
    stages, held = {"pretrain": pairs(17), "finetune": pairs(9, 1)}, pairs(6, 2)
    whole = loop.train(made(), TRY, stages, held, tmp_path / "whole").state_dict()
    for stop in range(4):  # while the start is measured, epochs 1 and 2, the epoch of fine-tuning
        out = tmp_path / f"stopped-{stop}"
        said: list[str] = []

        def interrupt(line: str, said: list[str] = said, stop: int = stop) -> None:
            said.append(line)
            if len(said) == stop + 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            loop.train(made(), TRY, stages, held, out, report=interrupt)
        again = loop.train(made(), TRY, stages, held, out).state_dict()
        assert all(torch.equal(again[name], whole[name]) for name in whole)
        assert (out / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()
    with pytest.raises(BadInput, match=r"another rate \(5e-05, now 0\.1\)"):
        loop.train(made(), replace(TRY, rate=0.1), stages, held, tmp_path / "whole")
    with pytest.raises(BadInput, match=r"pretrain has 17 pairs, fewer than a batch \(64\)"):
        loop.train(made(), replace(TRY, batch=64), stages, held, tmp_path / "large")


def test_quick_epochs_are_measured_each_and_saved_at_the_end_of_a_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SAVED", math.inf)
    saved: list[str] = []
    monkeypatch.setattr(checkpoint, "save", lambda out, state: saved.append(state["log"]))
    loop.train(made(), TRY, {"pretrain": pairs(17), "finetune": pairs(9, 1)}, pairs(6, 2), tmp_path)
    assert [log.count("\n") for log in saved] == [1 + 2, 1 + 2 + 1]  # the start, and every epoch


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_of_randaugment_keeps_the_shape_and_changes_a_picture(name: str) -> None:
    pixels = torch.randint(0, 250, (4, 3, 16, 16), generator=generator()).float()
    chosen = torch.full((4,), list(OPERATIONS).index(name))
    out = changed(pixels, chosen, torch.full((4,), 0.9))
    assert out.shape == pixels.shape
    assert 0 <= float(out.min()) <= float(out.max()) <= 255
    assert torch.equal(out, pixels) == (name == "identity")


def test_randaugment_is_repeated_by_its_seed_and_draws_for_each_picture() -> None:
    assert len(OPERATIONS) == 14
    pixels = torch.randint(0, 255, (1, 3, 16, 16), generator=generator()).to(torch.uint8).expand(6, -1, -1, -1)
    one, same, other = (rand_augmented(pixels, 12, 0.5, (2, 9.0), generator(seed)) for seed in (0, 0, 1))
    assert one.shape == (6, 3, 12, 12)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert float((one[0] - one[1]).abs().max()) > 0.01
    assert float(one.abs().max()) <= 1.0


@pytest.fixture
def exported(tmp_path: Path) -> tuple[MrRight, Path]:
    model = made(replace(TRY, document_tokens=tiny.LENGTH)).eval()
    with torch.no_grad():
        model.merge.out.weight += 0.3 * torch.randn(DIM, DIM)
        model.ask.weight += 0.3 * torch.randn(DIM, DIM)
    tiny.tokenizer().save(str(tmp_path / "tokenizer.json"))
    export.export(model, tmp_path / "tokenizer.json", tmp_path / "out", name="right", recipe=TRY, small=False)
    return model, tmp_path / "out"


def test_the_exported_encoder_gives_the_models_vectors_and_matches(exported: tuple[MrRight, Path]) -> None:
    model, out = exported
    encoder = encoders.load(f"onnx:{out.rename(out.with_name('moved'))}")
    assert isinstance(encoder, FusionEncoder)
    picture = np.random.default_rng(0).integers(0, 255, (SIZE, SIZE, 3)).astype(np.uint8)
    document, query = Document("d", "red cat", picture), Query("the cat sits")
    words = tiny.tokenizer()
    words.no_padding()
    words.no_truncation()

    def read(text: str) -> ReadTexts:
        ids = torch.tensor([words.encode(text).ids])
        return model.read(ids, torch.ones_like(ids))

    pixels = (torch.from_numpy(picture).permute(2, 0, 1)[None].float() - 127.0) / 128.0
    with torch.no_grad():
        fused, asked = model.documents(read("red cat"), model.look(pixels)), read("the cat sits")
        vector = model.queries(asked).numpy()
        classes = model.match(fused, asked)
    found = encoder.encode_documents([document]).parts["image+text"]
    assert np.allclose(found, fused.vectors.numpy(), atol=1e-4)
    assert np.allclose(encoder.encode_queries([query]).parts["text"], vector, atol=1e-4)
    (logit,) = encoder.matcher().scores(query, [document])
    assert float(logit) == pytest.approx(float(classes[0, 1] - classes[0, 0]), abs=1e-3)


@pytest.mark.parametrize("small", [False, True])
def test_the_matcher_is_read_back_as_it_was_exported(
    exported: tuple[MrRight, Path], monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    model, out = exported
    file = out / "match.onnx"
    monkeypatch.setattr(shrinking, "SMALLEST", DIM)  # even these matrices
    if small:
        shrinking.shrink(file)
    matcher = read_matcher(file)
    tokens, words = torch.randn(3, 5, DIM), torch.randn(3, 4, DIM)
    masks, there = torch.rand(3, 2, 5) < 0.5, torch.ones(3, 4, dtype=torch.bool)
    given = {"document": tokens, "masks": masks, "similarity": torch.zeros(3, 1), "words_0": words, "mask_0": there}
    (expected,) = InferenceSession(str(file)).run(["logits"], {name: one.numpy() for name, one in given.items()})
    with torch.no_grad():
        classes = matcher(tokens, masks, unit_mean(words, there), there)
    assert np.allclose((classes[:, 1] - classes[:, 0]).numpy(), expected, atol=1e-4)
    parameters = zip(matcher.parameters(), model.matcher.parameters(), strict=True)
    changed = [float((read - trained).detach().abs().max()) for read, trained in parameters]
    assert (0 < max(changed) < 0.1) if small else max(changed) < 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--paper", "--noise", "0.5"], "--noise is for the training on frozen towers"),
        (["--epochs", "3"], "--epochs is for --paper"),
        (["--paper", "--one-mean"], "Choose one of them"),
    ],
)
def test_options_of_the_other_training_are_refused(tmp_path: Path, options: list[str], message: str) -> None:
    ran = CliRunner().invoke(app, ["train", "fusion", "--data", str(tmp_path), *options])
    assert ran.exit_code != 0
    assert message in " ".join(str(ran.output).split()) + str(ran.exception)


def test_a_training_starts_from_the_towers_of_mini() -> None:
    folder, mini = EMBEDDED["mini"], encoders.load("mini")
    words = tokenizer(folder, 12)
    picture = np.random.default_rng(0).integers(0, 255, (8, 8, 3)).astype(np.uint8).repeat(32, 0).repeat(32, 1)
    text, image = start.text_tower(folder).eval(), start.image_tower(folder, 256).eval()
    with torch.no_grad():
        said = text(*tokenized(words, ["a dog jumps over a log"])).numpy()
        seen = image(normalised(torch.from_numpy(picture).permute(2, 0, 1)[None])).numpy()
    expected = mini.encode_documents([Document("d", "a dog jumps over a log", picture)]).parts
    assert float((said * expected["text"]).sum()) > 0.9999
    assert float((seen * expected["image"]).sum()) > 0.9999
    assert all(one.requires_grad for tower in (text, image) for one in tower.parameters())


def test_a_map_shows_what_raises_the_match_and_leaves_the_model_alone() -> None:
    model = made(replace(TRY, match=3)).eval()
    found = step.encode(model, step.draw(pairs(8), torch.arange(8), generator()), TRY, generator())
    document = FusedDocuments(*(part[:1] for part in found.documents))
    words = ReadTexts(found.words.states[:1], found.words.mask[:1])
    seen = maps.match_map(model.matcher, document, words)
    tokens = TRY.document_tokens + (SIZE // 8) ** 2
    assert seen.first.shape == (tokens,)
    assert seen.words.shape == (TRY.query_tokens, tokens)
    assert float(seen.words.min()) >= 0
    assert float(seen.words.max()) > 0
    classes = model.match(document, words)[0]
    assert seen.logit == pytest.approx(float((classes[1] - classes[0]).detach()), abs=1e-5)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(type(layer.own).__name__ == "Attention" for layer in model.matcher.layers)


def test_the_command_trains_the_towers_of_mini_and_writes_an_encoder(tmp_path: Path) -> None:
    pictures = sorted((Path(isthmus.__file__).parent / "samples").rglob("*.jpg"))[:2]
    rows = [
        {"id": str(n), "doc_text": f"text {n}", "doc_image": picture.name, "query_text": f"{n}", "query_img": "a dog"}
        for n, picture in enumerate(pictures)
    ]
    (tmp_path / "images").mkdir()
    for picture in pictures:
        (tmp_path / "images" / picture.name).write_bytes(picture.read_bytes())
    for name in ("pretrain", "val"):
        (tmp_path / f"multimodal_{name}_pairs.json").write_text(json.dumps(rows))
    out = tmp_path / "out"
    options = ["--paper", "--data", str(tmp_path), "--out", str(out), "--epochs", "1", "--batch", "2", "--float"]
    sizes = [
        "--size",
        "32",
        "--query-tokens",
        "6",
        "--document-tokens",
        "8",
        "--merge-layers",
        "0",
        "--match-layers",
        "1",
    ]
    ran = CliRunner().invoke(app, ["train", "fusion", *options, *sizes, "--rate", "1e-3"])
    assert ran.exit_code == 0, ran.output
    assert f"onnx:{out}" in ran.output
    recipe = torch.load(out / "run" / "checkpoint.pt", weights_only=True)["recipe"]
    assert [recipe[name] for name in ("size", "match", "rate", "queue")] == [32, 1, 1e-3, 9600]
    encoder = encoders.load(f"onnx:{out}")
    vectors = encoder.encode_documents([Document("d", "text 0", pictures[0])]).parts["image+text"]
    assert vectors.shape == (1, 384)
    assert float(np.linalg.norm(vectors)) == pytest.approx(1, abs=1e-4)
