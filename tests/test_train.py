"""Training ``mini``: its terms are what they say, and the command makes an encoder on a CPU from a tiny set."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel
from typer.testing import CliRunner

from isthmus import encoders
from isthmus.cli import app
from isthmus.documents import Document, Query
from isthmus.errors import BadInput
from isthmus.train import mini, pairs
from isthmus.train.mini import MiniRecipe, contrastive, kept
from isthmus.train.towers import Pretrained, class_names

WORDS = ["a", "photo", "of", "dog", "cat", "runs", "sits", "red", "blue", "ball", "on", "the", "grass", ",", "."]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Random weights of the real architectures, small: what the pre-trained ones look like."""
    folder = tmp_path_factory.mktemp("weights")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder / "text")
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", None, [("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "text" / "tokenizer.json"))
    torch.save(EfficientNet.from_name("efficientnet-lite0").state_dict(), folder / "lite0.pt")
    return folder / "text", folder / "lite0.pt"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A Flickr8k of eight photos."""
    folder = tmp_path / "data" / "flickr8k"
    (folder / "img224").mkdir(parents=True)
    rng = np.random.default_rng(0)
    lines = []
    for i in range(8):
        Image.fromarray(rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(folder / "img224" / f"p{i}.webp")
        lines += [f"p{i}.jpg#{c}\ta {rng.choice(WORDS[4:8])} {rng.choice(WORDS[8:])} ." for c in range(5)]
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines))
    (folder / "Flickr_8k.trainImages.txt").write_text("\n".join(f"p{i}.jpg" for i in range(8)))
    return folder.parent


def test_the_command_trains_on_a_cpu_writes_an_encoder_and_resumes(weights: tuple[Path, Path], data: Path) -> None:
    out = data / "made"
    options = ["--device", "cpu", "--steps", "2", "--batch", "4", "--size", "64", "--limit", "8", "--backbone", "lite0"]
    paths = ["--data", data, "--out", out, "--text-weights", weights[0], "--image-weights", weights[1]]
    command = ["train", "mini", *options, *map(str, paths)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    log = (out / "runs" / "0" / "log.jsonl").read_text()
    assert [json.loads(line)["step"] for line in log.splitlines()] == [2]
    encoder = encoders.load(f"onnx:{out}")
    photo = data / "flickr8k" / "img224" / "p0.webp"
    documents = encoder.encode_documents([Document(id="a", text="a dog runs .", image=photo)])
    for part in ("text", "image"):
        assert np.linalg.norm(documents.parts[part], axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode_queries([Query(text="a cat")]).dim == 32
    again = CliRunner().invoke(app, command, catch_exceptions=False)  # resumes at the end: nothing is left to do
    assert again.exit_code == 0
    assert (out / "runs" / "0" / "log.jsonl").read_text() == log


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    weights: tuple[Path, Path], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = MiniRecipe(backbone="lite0", size=64, steps=4, batch=4)
    pretrained = Pretrained(*weights)
    straight = mini.train(recipe, pretrained, data, data / "straight")
    monkeypatch.setattr(mini, "CHECKPOINT_EVERY", 2)
    original, calls = mini.batch_loss, iter(range(99))

    def interrupted(*given: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(mini, "batch_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        mini.train(recipe, pretrained, data, data / "halting")
    monkeypatch.setattr(mini, "batch_loss", original)
    steps: list[int] = []
    resumed = mini.train(
        recipe, pretrained, data, data / "halting", progress=lambda step, total: steps.append(step + total)
    )
    assert steps == [8]  # only the second half was left
    for name, tensor in straight.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], tensor)


def test_a_folder_without_the_data_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Pass --data"):
        CliRunner().invoke(app, ["train", "mini", "--data", str(tmp_path)], catch_exceptions=False)


def test_info_nce_of_uniform_similarities_is_the_logarithm_of_the_batch() -> None:
    same = torch.nn.functional.normalize(torch.ones(7, 5), dim=1)
    for soft in (0.0, 0.3):
        loss = contrastive(same, same, torch.tensor(2.0), same, MiniRecipe(soft=soft))
        assert loss.item() == pytest.approx(math.log(7), abs=1e-5)


def test_info_nce_is_low_when_each_photo_is_nearest_to_its_own_caption() -> None:
    own = torch.eye(6)
    right = contrastive(own, own, torch.tensor(4.0), own, MiniRecipe(soft=0.0))
    wrong = contrastive(own, own.roll(1, 0), torch.tensor(4.0), own, MiniRecipe(soft=0.0))
    assert right.item() < 0.01 < 10 < wrong.item()


def test_a_backbone_that_has_not_changed_costs_nothing_to_keep() -> None:
    logits = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    assert kept(logits, logits).item() == pytest.approx(0, abs=1e-6)
    assert kept(logits, logits.flip(1)).item() > 0.1


def test_augmented_photos_keep_their_shape_and_range_and_follow_the_seed() -> None:
    pixels = torch.randint(0, 256, (3, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    one, two = (pairs.augmented(pixels, 32, 0.3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert one.shape == (3, 3, 32, 32)
    assert torch.equal(one, two)
    assert one.abs().max() <= 1.0
    assert pairs.resized(pixels, 32).shape == (3, 3, 32, 32)


def test_there_are_a_thousand_class_names() -> None:
    names = class_names()
    assert len(names) == 1000
    assert names[0].startswith("tench")
    assert all(names)
