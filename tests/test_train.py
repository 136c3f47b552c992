"""Training ``mini`` and ``base``: the terms are what they say, and the command makes both on a CPU from a tiny set."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, CLIPVisionConfig, CLIPVisionModelWithProjection
from typer.testing import CliRunner

from isthmus import encoders
from isthmus.cli import app
from isthmus.documents import Document, Query
from isthmus.encoders import folder
from isthmus.encoders.projection import ClipProjection
from isthmus.errors import BadInput
from isthmus.train import augment, averaging, base, checkpoint, make, mini, pictures
from isthmus.train.base import BaseRecipe, contrastive
from isthmus.train.data import packs
from isthmus.train.data.packs import PackedPicture
from isthmus.train.frozen_clip import FrozenClip
from isthmus.train.mini import MiniRecipe, divergence
from isthmus.train.towers import class_names

WORDS = ["a", "photo", "of", "dog", "cat", "runs", "sits", "red", "blue", "ball", "on", "the", "grass", ",", "."]
BASE = BaseRecipe(steps=2, batch=8, views=2, sentences=4, passages=2, hidden=16, length=16, passage_length=32)
MINI = MiniRecipe(backbone="lite0", size=64, steps=2, batch=8, bank=8, hidden=16, length=16)


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


@pytest.fixture(scope="module")
def clip() -> FrozenClip:
    """A tower of CLIP's architecture: one layer, patches of 56 pixels."""
    torch.manual_seed(0)
    config = CLIPVisionConfig(
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        projection_dim=24,
        image_size=224,
        patch_size=56,
    )
    state = CLIPVisionModelWithProjection(config).state_dict()
    return FrozenClip.of({name: tensor.numpy() for name, tensor in state.items() if tensor.is_floating_point()})


def picture(rng: np.random.Generator, name: str, captions: int) -> PackedPicture:
    """Return noise with a few captions."""
    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(out, "WEBP", lossless=True)
    texts = [f"a {rng.choice(WORDS[4:8])} {rng.choice(WORDS[8:])} ." for _ in range(captions)]
    return PackedPicture(name, out.getvalue(), texts)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Packed sets of a few pictures: with captions, without, and for dev."""
    rng, folder = np.random.default_rng(0), tmp_path / "packs"
    packs.write(folder / "coco", [picture(rng, f"c{i}.jpg", 2) for i in range(6)])
    splits = ["train"] * 6 + ["dev"] * 3
    packs.write(folder / "flickr8k", [picture(rng, f"{split}/f{i}.jpg", 5) for i, split in enumerate(splits)])
    packs.write(folder / "coco-plain", [picture(rng, f"p{i}.jpg", 0) for i in range(5)])
    (folder / "sentences.json").write_text(json.dumps(["the dog sits on the grass .", "a cat runs ,"] * 4))
    return folder


def test_training_writes_both_encoders_on_one_text_tower_and_resumes(
    weights: tuple[Path, Path], clip: FrozenClip, data: Path, tmp_path: Path
) -> None:
    def run() -> None:
        make.make_mini(data, tmp_path / "out", device="cpu", weights=weights, recipes=(BASE, MINI), clip=clip)

    run()
    logs = [tmp_path / "out" / "runs" / name / "log.jsonl" for name in ("base", "mini")]
    written = [log.read_text() for log in logs]
    assert [[json.loads(line)["step"] for line in log.splitlines()] for log in written] == [[2], [2]]
    encoder = encoders.load(f"onnx:{tmp_path / 'out' / 'mini'}")
    image = np.zeros((30, 40, 3), dtype=np.uint8)
    documents = encoder.encode_documents([Document(id="a", text="a dog runs .", image=image)])
    for part in ("text", "image"):
        assert np.linalg.norm(documents.parts[part], axis=1) == pytest.approx(1, abs=1e-5)
    assert encoder.encode_queries([Query(text="a cat")]).dim == 32
    projection = tmp_path / "out" / "base" / "projection.npz"
    assert ClipProjection.from_bytes(projection.read_bytes(), projection).dim == 32
    described = folder.describe(projection.parent)
    assert described.owner.folder == tmp_path / "out" / "base" / "../mini"  # texts of both are read by the new tower
    assert described.owner.identities["text"] == folder.describe(tmp_path / "out" / "mini").identities["text"]
    run()  # resumes at the end: nothing is left to do
    assert [log.read_text() for log in logs] == written
    others = (replace(BASE, steps=3), MINI), (BASE, replace(MINI, batch=16))
    for recipes, said in zip(others, ("steps [(]2, now 3", "batch [(]8, now 16"), strict=True):
        with pytest.raises(BadInput, match=said):
            make.make_mini(data, tmp_path / "out", device="cpu", weights=weights, recipes=recipes, clip=clip)


def test_an_interrupted_run_goes_on_as_if_nothing_had_happened(
    weights: tuple[Path, Path], clip: FrozenClip, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = pictures.load(data, "cpu")
    taught = base.begin(BASE, weights[0], clip, "cpu").eval()
    recipe = MiniRecipe(backbone="lite0", size=64, steps=4, batch=8, bank=8, hidden=16)
    lesson = mini.prepare(recipe, taught, clip, sets.train, weights[0])

    def run(out: str, steps: list[int] | None = None) -> mini.Mini:
        model = mini.begin(recipe, taught, *weights, "cpu")
        follow = (lambda step, total: steps.append(step + total)) if steps is not None else None
        return mini.train(recipe, model, lesson, tmp_path / out, progress=follow)

    straight = run("straight")
    monkeypatch.setattr(mini, "CHECKPOINT_EVERY", 2)
    original, calls = mini.batch_terms, iter(range(99))

    def interrupted(*given: Any) -> Any:
        if next(calls) == 3:
            raise KeyboardInterrupt
        return original(*given)

    monkeypatch.setattr(mini, "batch_terms", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("halting")
    monkeypatch.setattr(mini, "batch_terms", original)
    steps: list[int] = []
    resumed = run("halting", steps)
    assert steps[-1] == 8
    assert min(steps) > 6  # only the second half was left
    for name, tensor in straight.image.state_dict().items():
        torch.testing.assert_close(resumed.image.state_dict()[name], tensor)


def test_a_slow_training_keeps_checkpoints_by_the_clock_and_tells_its_speed(
    weights: tuple[Path, Path], clip: FrozenClip, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = base.begin(BASE, weights[0], clip, "cpu")
    lesson = base.prepare(BASE, model, clip, pictures.load(data, "cpu").train, (["a dog ."], []), weights[0])
    monkeypatch.setattr(averaging, "SAVED", 0.0)
    monkeypatch.setattr(averaging, "TOLD", 0.0)
    saved: list[int | None] = []

    def look(step: int, steps: int) -> None:
        kept = checkpoint.load(tmp_path)
        saved.append(None if kept is None else int(kept["step"]))
        assert steps == BASE.steps

    base.train(BASE, model, lesson, tmp_path, progress=look)
    assert saved == [1, 2]
    assert [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [2]


def test_what_is_frozen_does_not_change_and_what_is_trained_does(
    weights: tuple[Path, Path], clip: FrozenClip, data: Path, tmp_path: Path
) -> None:
    before = {name: tensor.clone() for name, tensor in clip.state_dict().items()}
    model = base.begin(BASE, weights[0], clip, "cpu")
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    lesson = base.prepare(BASE, model, clip, pictures.load(data, "cpu").train, (["a dog ."], []), weights[0])
    trained = base.train(BASE, model, lesson, tmp_path / "run").state_dict()
    assert all(torch.equal(before[name], tensor) for name, tensor in clip.state_dict().items())
    moved = {name.split(".")[0] for name, tensor in trained.items() if not torch.equal(start[name], tensor)}
    assert moved == {"text", "projection", "log_scale"}


def test_pictures_almost_like_a_held_one_are_left_out_of_training(data: Path) -> None:
    original = packs.PackedPictures.open(data / "flickr8k").select(lambda name: name.startswith("dev/"))
    copies = [PackedPicture(f"copy{i}.jpg", each, ["a dog"]) for i, each in enumerate(original.files())]
    rng = np.random.default_rng(1)
    packs.write(data / "coco", [*copies, picture(rng, "new.jpg", 1)])
    sets = pictures.load(data, "cpu")
    assert sets.left_out == 3
    assert len(sets.train["coco"]) == 1
    assert sets.train["coco"].own(0) == packs.PackedPictures.open(data / "coco").captions[3]


def test_a_folder_without_the_data_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"Pack them: python -m isthmus\.train\.data"):
        pictures.load(tmp_path, "cpu")


def test_only_one_kind_of_pretrained_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="or neither"):
        CliRunner().invoke(
            app, ["train", "mini", "--data", str(tmp_path), "--text-weights", "x"], catch_exceptions=False
        )


def test_info_nce_of_uniform_similarities_is_the_logarithm_of_the_batch() -> None:
    same = torch.nn.functional.normalize(torch.ones(7, 5), dim=1)
    for soft in (0.0, 0.3):
        loss = contrastive(same, same, torch.tensor(2.0), same, soft, 0.05)
        assert loss.item() == pytest.approx(math.log(7), abs=1e-5)


def test_info_nce_is_low_when_each_photo_is_nearest_to_its_own_caption() -> None:
    own = torch.eye(6)
    right = contrastive(own, own, torch.tensor(4.0), own, 0.0, 0.05)
    wrong = contrastive(own, own.roll(1, 0), torch.tensor(4.0), own, 0.0, 0.05)
    assert right.item() < 0.01 < 10 < wrong.item()


def test_a_student_like_its_teacher_costs_nothing() -> None:
    logits = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    assert divergence(logits, logits).item() == pytest.approx(0, abs=1e-6)
    assert divergence(logits, logits.flip(1)).item() > 0.1


def test_augmented_photos_keep_their_shape_and_range_and_follow_the_seed() -> None:
    pixels = torch.randint(0, 256, (3, 3, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    one, two = (augment.augmented(pixels, 32, 0.3, torch.Generator().manual_seed(1)) for _ in range(2))
    assert one.shape == (3, 3, 32, 32)
    assert torch.equal(one, two)
    assert one.abs().max() <= 1.0
    torch.testing.assert_close(augment.bytes_of(augment.normalised(pixels)), pixels.float())
    assert augment.resized(pixels, 32).shape == (3, 3, 32, 32)


def test_there_are_a_thousand_class_names() -> None:
    names = class_names()
    assert len(names) == 1000
    assert names[0].startswith("tench")
    assert all(names)
