"""Train ``base``: a text tower and a projection to the frozen image tower of CLIP (locked-image tuning).

    image   → CLIP ViT-B/16, frozen → projection → unit        text → MiniLM → mean of the token vectors → unit

    loss = symmetric InfoNCE(projected image, text)            learnable temperature, soft targets
         + hold · (1 − cos(text, its vector before training))  on captions, on sentences, on passages

The frozen tower sees every picture a few times (whole, and in crops) before the training; after that only the text
tower runs. The text space is held, so the tower stays a sentence encoder. Reference: Zhai et al., LiT, CVPR 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train import augment, pictures, towers
from isthmus.train.averaging import train_averaged
from isthmus.train.frozen_clip import FrozenClip
from isthmus.train.pictures import PictureSet
from isthmus.train.towers import TrainableTextTower

SEEN = 512  # pictures at once


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRecipe:
    """How ``base`` is trained."""

    steps: int = 2000
    batch: int = 2048
    views: int = 5  # of each picture: whole, and crops
    smallest_crop: float = 0.5
    text_rate: float = 2e-4
    head_rate: float = 1e-3
    decay: float = 0.05
    hold: float = 1.0
    hold_sentences: float = 5.0
    sentences: int = 768  # of a batch
    passages: int = 96
    soft: float = 0.1
    soft_temperature: float = 0.05
    average: float = 0.998
    length: int = 32  # tokens of a caption
    passage_length: int = 128
    hidden: int = 1024  # of the projection; 0: linear
    seed: int = 0
    shares: Mapping[str, float] = field(
        default_factory=lambda: {
            "coco": 0.68,
            "flickr8k": 0.20,
            "clipart": 0.06,
            "stamps": 0.015,
            "emoji": 0.03,
            "pages": 0.015,
        }
    )


class TrainableProjection(nn.Module):
    """CLIP's vectors in the text space: W·c + b, and a hidden layer beside it."""

    def __init__(self, inputs: int, outputs: int, hidden: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.hidden = nn.Linear(inputs, hidden) if hidden else None
        self.out = nn.Linear(hidden, outputs, bias=False) if hidden else None
        if self.out is not None:
            nn.init.zeros_(self.out.weight)

    def forward(self, features: Tensor) -> Tensor:
        """Project ``(n, 512)`` unit vectors to ``(n, 384)`` unit vectors."""
        out = self.linear(features)
        if self.hidden is not None and self.out is not None:
            out = out + self.out(F.gelu(self.hidden(features)))
        return F.normalize(out.float(), dim=1)

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return the weights with the names of ``encoders.projection``."""
        named = {"weight": self.linear.weight, "bias": self.linear.bias}
        if self.hidden is not None and self.out is not None:
            hidden = {"hidden_weight": self.hidden.weight, "hidden_bias": self.hidden.bias}
            named |= {**hidden, "out_weight": self.out.weight}
        return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}


class Base(nn.Module):
    """What is trained: the text tower, the projection and the temperature."""

    def __init__(self, text: TrainableTextTower, projection: TrainableProjection) -> None:
        super().__init__()
        self.text, self.projection = text, projection
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.05)))


@dataclass(frozen=True, slots=True, eq=False)
class BaseLesson:
    """The training data: features of each set's pictures, tokens of texts, and the texts' vectors before training."""

    sets: Mapping[str, PictureSet]
    features: Mapping[str, Tensor]  # (n, views, 512)
    tokens: Mapping[str, tuple[Tensor, Tensor]]
    before: Mapping[str, Tensor]
    held: Sequence[tuple[tuple[Tensor, Tensor], Tensor, int]]  # sentences and passages: tokens, vectors, per batch


def prepare(
    recipe: BaseRecipe,
    model: Base,
    clip: FrozenClip,
    sets: Mapping[str, PictureSet],
    texts: tuple[Sequence[str], Sequence[str]],
    folder: Path,
    *,
    report: Callable[[str], object] = str,
) -> BaseLesson:
    """Run the frozen tower over every view, and encode the texts before training."""
    device = next(model.parameters()).device
    words, long = (towers.tokenizer(folder, length) for length in (recipe.length, recipe.passage_length))
    rng = torch.Generator(device).manual_seed(recipe.seed)
    sets = {name: each for name, each in sets.items() if name in recipe.shares}
    features = {}
    for name, each in sets.items():
        features[name] = torch.stack(
            [_seen(clip, each.pixels, view, recipe, rng) for view in range(recipe.views)], dim=1
        ).half()
        report(f"{name}: {len(each):,} pictures seen {recipe.views} times")
    tokens = pictures.tokenized(sets, words, str(device))
    before = {name: towers.encoded(model.text, each).half() for name, each in tokens.items()}
    held = []
    for several, tokenizer, number in zip(texts, (words, long), (recipe.sentences, recipe.passages), strict=True):
        if several and number:
            encoded = towers.tokenized(tokenizer, several, str(device))
            held.append((encoded, towers.encoded(model.text, encoded).half(), number))
    return BaseLesson(sets, features, tokens, before, held)


def _seen(clip: FrozenClip, pixels: Tensor, view: int, recipe: BaseRecipe, rng: torch.Generator) -> Tensor:
    if view == 0:
        return clip.features(pixels)
    side = int(pixels.shape[-1])
    parts = [
        clip(augment.bytes_of(augment.augmented(pixels[i : i + SEEN], side, recipe.smallest_crop, rng)))
        for i in range(0, len(pixels), SEEN)
    ]
    return torch.cat(parts)


def train(
    recipe: BaseRecipe,
    model: Base,
    lesson: BaseLesson,
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
    every: int = 250,
) -> Base:
    """Train and return the averaged model; write ``log.jsonl`` and a checkpoint to ``out``, and resume from it."""
    groups = [
        {"params": list(model.text.parameters()), "lr": recipe.text_rate},
        {"params": [*model.projection.parameters(), model.log_scale], "lr": recipe.head_rate},
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=recipe.decay)

    def loss(rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        value = batch_loss(model, lesson, recipe, rng)
        return value, {"loss": value, "scale": model.log_scale.exp()}

    return train_averaged(model, optimiser, loss, recipe, out, every=every, progress=progress)


def batch_loss(model: Base, lesson: BaseLesson, recipe: BaseRecipe, rng: torch.Generator) -> Tensor:
    """Draw a batch of fixed composition and return its loss."""
    device = next(model.parameters()).device
    counts = pictures.shares(list(lesson.sets), recipe.shares, recipe.batch)
    seen, ids, masks, before = [], [], [], []
    for name, number in counts.items():
        rows, texts = lesson.sets[name].draw(rng, number)
        views = torch.randint(recipe.views, rows.shape, device=device, generator=rng)
        seen.append(lesson.features[name][rows, views])
        ids.append(lesson.tokens[name][0][texts])
        masks.append(lesson.tokens[name][1][texts])
        before.append(lesson.before[name][texts])
    known = torch.cat(before).float()
    loss = torch.zeros((), device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        image = model.projection(torch.cat(seen).float())
        text = model.text(torch.cat(ids), torch.cat(masks)).float()
        for tokens, vectors, number in lesson.held:
            rows = torch.randint(len(vectors), (number,), device=device, generator=rng)
            other = model.text(tokens[0][rows], tokens[1][rows]).float()
            loss = loss + recipe.hold_sentences / len(lesson.held) * (1 - (other * vectors[rows].float()).sum(1)).mean()
    loss = loss + contrastive(image, text, model.log_scale, known, recipe.soft, recipe.soft_temperature)
    whole: Tensor = loss + recipe.hold * (1 - (text * known).sum(1)).mean()
    return whole


def contrastive(
    image: Tensor, text: Tensor, log_scale: Tensor, alike: Tensor, soft: float, temperature: float
) -> Tensor:
    """Symmetric InfoNCE; a share ``soft`` of the target goes to texts that were similar before training."""
    logits = log_scale.exp().clamp(max=100) * image @ text.T  # (n, n)
    target = torch.eye(len(logits), device=logits.device)
    if soft:
        target = (1 - soft) * target + soft * (alike @ alike.T / temperature).softmax(1)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def begin(recipe: BaseRecipe, text: Path, clip: FrozenClip, device: str) -> Base:
    """Make the model from a sentence encoder's folder."""
    torch.manual_seed(recipe.seed)
    tower = TrainableTextTower.load(text)
    inputs = int(clip.model.visual_projection.out_features)  # type: ignore[union-attr, arg-type]
    outputs = int(tower.bert.config.hidden_size)  # type: ignore[union-attr, arg-type]
    return Base(tower, TrainableProjection(inputs, outputs, recipe.hidden)).to(device)
