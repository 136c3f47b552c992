"""Train ``mini``: two towers, one space. The loop is ``train``.

    loss = symmetric InfoNCE(image, caption)                       learnable temperature
         + hold · (1 − cos(text, its vector before training))      on captions and on other sentences
         + keep · KL(ImageNet logits before training ‖ now)        preserves the thousand classes

The target of InfoNCE is softened by the similarity of captions (``soft``): many show a dog on a beach. The result is
the running average of the weights. Everything is seeded; training resumes from a checkpoint.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train import checkpoint, noise, pairs, towers
from isthmus.train.towers import Pretrained, TrainableImageTower, TrainableTextTower


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniRecipe:
    """How ``mini`` is trained."""

    backbone: str = "lite2"
    size: int = 256  # pixels a side
    steps: int = 900
    batch: int = 512
    image_rate: float = 8e-4
    text_rate: float = 2e-4
    head_rate: float = 1e-3
    decay: float = 0.1
    hold: float = 2.0
    hold_sentences: float = 5.0
    keep: float = 2.0
    soft: float = 0.2
    soft_temperature: float = 0.05
    smallest_crop: float = 0.3
    average: float = 0.999
    drop: float = 0.4
    hidden: int = 1024
    length: int = 40
    seed: int = 0


CHECKPOINT_EVERY = 100  # steps

# The shipped weights are the mean of these two, which is better than either.
SHIPPED = (
    MiniRecipe(),
    MiniRecipe(steps=850, image_rate=1.2e-3, text_rate=3e-4, hold_sentences=8.0, keep=1.0, smallest_crop=0.25),
)


class Mini(nn.Module):
    """Both towers and the temperature."""

    def __init__(self, text: TrainableTextTower, image: TrainableImageTower) -> None:
        super().__init__()
        self.text, self.image = text, image
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.05)))


@dataclass(frozen=True, slots=True, eq=False)
class MiniLesson:
    """Training data on the device: photos, tokenised captions and sentences, and their vectors before training."""

    pixels: Tensor  # (n, 3, s, s) bytes
    captions: tuple[Tensor, Tensor]  # tokens and mask, (n · per_photo, length)
    before: Tensor  # (n · per_photo, d)
    sentences: tuple[Tensor, Tensor]
    sentences_before: Tensor
    per_photo: int


def begin(recipe: MiniRecipe, pretrained: Pretrained, device: str) -> tuple[Mini, Any]:
    """Make the towers from pre-trained weights, and the tokenizer of the text tower."""
    torch.manual_seed(recipe.seed)
    text = TrainableTextTower.load(pretrained.text)
    words = towers.tokenizer(pretrained.text, recipe.length)
    names = towers.encoded(text, towers.tokenized(words, [f"a photo of a {n}" for n in towers.class_names()]))
    image = TrainableImageTower.load(recipe, pretrained.image, names)
    return Mini(text, image).to(device), words


def prepare(model: Mini, words: Any, data: Path, limit: int | None, device: str) -> MiniLesson:
    """Read the photos, captions and sentences, and encode the texts before training."""
    photos = pairs.flickr8k(data / "flickr8k", "train", 256, limit)
    per_photo = min(map(len, photos.captions))
    texts = [caption for each in photos.captions for caption in each[:per_photo]]
    captions = towers.tokenized(words, texts, device)
    sentences = towers.tokenized(words, pairs.sentences(data / "docvqa", limit or 20_000) or texts, device)
    before, sentences_before = (towers.encoded(model.text, tokens) for tokens in (captions, sentences))
    return MiniLesson(photos.pixels.to(device), captions, before, sentences, sentences_before, per_photo)


def train(
    recipe: MiniRecipe,
    pretrained: Pretrained,
    data: Path,
    out: Path,
    *,
    device: str = "cpu",
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Mini:
    """Train and return the averaged model; write ``log.jsonl`` and a checkpoint to ``out``.

    ``limit`` is the maximum number of photos and sentences; ``progress`` is called with (steps done, all steps).
    """
    model, words = begin(recipe, pretrained, device)
    lesson = prepare(model, words, data, limit, device)
    frozen = copy.deepcopy(model.image).eval().requires_grad_(False)
    average = copy.deepcopy(model).requires_grad_(False)
    optimiser = torch.optim.AdamW(_groups(model, recipe), betas=(0.9, 0.98))
    rates = [group["lr"] for group in optimiser.param_groups]
    rng = torch.Generator(device).manual_seed(recipe.seed)
    out.mkdir(parents=True, exist_ok=True)
    step = _resume(out, model, average, optimiser, rng)
    while step < recipe.steps:
        for group, rate in zip(optimiser.param_groups, rates, strict=True):
            group["lr"] = rate * _schedule(step, recipe.steps)
        loss = batch_loss(model, frozen, lesson, recipe, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        step += 1
        _follow(average, model, min(recipe.average, step / (step + 10)))
        if step % CHECKPOINT_EVERY == 0 or step == recipe.steps:
            _log(out, step, loss, model)
            _save(out, step, model, average, optimiser, rng)
            if progress is not None:
                progress(step, recipe.steps)
    return average.eval()


def batch_loss(
    model: Mini, frozen: TrainableImageTower, lesson: MiniLesson, recipe: MiniRecipe, rng: torch.Generator
) -> Tensor:
    """Draw a batch (each photo with one of its captions, and as many sentences) and return its loss."""
    model.train()
    device = lesson.pixels.device
    rows = torch.randperm(len(lesson.pixels), device=device, generator=rng)[: recipe.batch]
    which = rows * lesson.per_photo + torch.randint(lesson.per_photo, rows.shape, device=device, generator=rng)
    others = torch.randint(len(lesson.sentences_before), rows.shape, device=device, generator=rng)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        x = pairs.augmented(lesson.pixels[rows], recipe.size, recipe.smallest_crop, rng)
        x = x.contiguous(memory_format=torch.channels_last)
        image, logits = model.image.both(x)
        text = model.text(lesson.captions[0][which], lesson.captions[1][which]).float()
        other = model.text(lesson.sentences[0][others], lesson.sentences[1][others]).float()
        with torch.no_grad():
            known = frozen.both(x)[1]
    before = lesson.before[which]
    loss: Tensor = (
        contrastive(image, text, model.log_scale, before, recipe)
        + recipe.hold * (1 - (text * before).sum(1)).mean()
        + recipe.hold_sentences * (1 - (other * lesson.sentences_before[others]).sum(1)).mean()
        + recipe.keep * kept(logits, known)
    )
    return loss


def mean_of(models: Sequence[Mini]) -> Mini:
    """Return the mean of the weights of models with the same start."""
    mean = copy.deepcopy(models[0])
    states = [model.state_dict() for model in models]
    mean.load_state_dict(
        {
            name: torch.stack([state[name] for state in states]).mean(0) if tensor.is_floating_point() else tensor
            for name, tensor in states[0].items()
        }
    )
    return mean


def contrastive(image: Tensor, text: Tensor, log_scale: Tensor, alike: Tensor, recipe: MiniRecipe) -> Tensor:
    """Symmetric InfoNCE; a share ``soft`` of the target goes to captions that were similar before training."""
    logits = log_scale.exp().clamp(max=100) * image @ text.T  # (n, n)
    target = torch.eye(len(logits), device=logits.device)
    if recipe.soft:
        target = (1 - recipe.soft) * target + recipe.soft * (alike @ alike.T / recipe.soft_temperature).softmax(1)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def kept(logits: Tensor, before: Tensor) -> Tensor:
    """KL from the ImageNet distribution before training to the one now."""
    return F.kl_div(logits.float().log_softmax(1), before.float().softmax(1), reduction="batchmean")


def _groups(model: Mini, recipe: MiniRecipe) -> list[dict[str, Any]]:
    """Each part has its own rate; vectors and scalars have no weight decay."""
    parts = [
        (list(model.image.backbone.parameters()), recipe.image_rate),
        (list(model.text.parameters()), recipe.text_rate),
        ([*model.image.head.parameters(), model.image.gain, model.log_scale], recipe.head_rate),
    ]
    return [
        {"params": [p for p in parameters if (p.ndim > 1) == decays], "lr": rate, "weight_decay": recipe.decay * decays}
        for parameters, rate in parts
        for decays in (True, False)
    ]


def _schedule(step: int, steps: int) -> float:
    """Warm up over the first 4%, then decay along a cosine."""
    warm = max(1, steps // 25)
    return (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


@torch.no_grad()
def _follow(average: nn.Module, model: nn.Module, share: float) -> None:
    """Move the average towards the model; counters and statistics too."""
    ours, theirs = average.state_dict(), model.state_dict()
    floats = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    torch._foreach_lerp_([ours[n] for n in floats], [theirs[n] for n in floats], 1 - share)


def _log(out: Path, step: int, loss: Tensor, model: Mini) -> None:
    row = {"step": step, "loss": round(loss.item(), 4), "scale": round(model.log_scale.exp().item(), 2)}
    checkpoint.log(out, row)


def _save(
    out: Path, step: int, model: Mini, average: Mini, optimiser: torch.optim.Optimizer, rng: torch.Generator
) -> None:
    state = {
        "step": step,
        "models": [model.state_dict(), average.state_dict()],
        "optimiser": optimiser.state_dict(),
        "rng": rng.get_state(),
        "noise": noise.state(),
    }
    checkpoint.save(out, state)


def _resume(out: Path, model: Mini, average: Mini, optimiser: torch.optim.Optimizer, rng: torch.Generator) -> int:
    saved = checkpoint.load(out, next(model.parameters()).device)
    if saved is None:
        return 0
    model.load_state_dict(saved["models"][0])
    average.load_state_dict(saved["models"][1])
    optimiser.load_state_dict(saved["optimiser"])
    rng.set_state(saved["rng"].cpu())
    noise.restore(saved["noise"])
    return int(saved["step"])
