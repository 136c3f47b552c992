"""Train ``mini``: a small image tower that learns to give ``base``'s vectors, for any photo.

    loss = near · (1 − cos(student, base))                                the same crop, seen by both
         + like · KL(softmax(base · T/τ) ‖ softmax(student · T/τ))        T: texts of the batch and a bank of others
         + pairs · InfoNCE(student, caption)                              pictures with texts
         + keep · KL(ImageNet logits before training ‖ now)               preserves the thousand classes

The text tower is ``base``'s, frozen: all text vectors are computed once. Pictures without captions are learned from as
well. The result is the running average of the weights. Everything is seeded; training resumes from a checkpoint.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.train import augment, pictures, towers
from isthmus.train.averaging import train_averaged
from isthmus.train.base import Base, contrastive
from isthmus.train.fixed_shapes import fixed_shapes
from isthmus.train.frozen_clip import SIZE, FrozenClip
from isthmus.train.pictures import PLAIN, PictureSet
from isthmus.train.towers import TrainableImageTower, TrainableTextTower


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniRecipe:
    """How ``mini``'s image tower is trained."""

    backbone: str = "lite2"
    size: int = 256  # pixels a side
    steps: int = 1511
    batch: int = 1024
    image_rate: float = 1.5e-3
    head_rate: float = 2e-3
    decay: float = 0.05
    near: float = 4.0
    like: float = 1.0
    pairs: float = 0.5
    keep: float = 0.2
    scale: float = 30.0  # 1/τ of the comparison with texts
    bank: int = 4096  # texts beside those of the batch
    soft: float = 0.1
    soft_temperature: float = 0.05
    smallest_crop: float = 0.3
    average: float = 0.999
    drop: float = 0.1
    hidden: int = 1536
    length: int = 32  # tokens of a caption
    seed: int = 0
    shares: Mapping[str, float] = field(
        default_factory=lambda: {
            "coco": 0.40,
            "flickr8k": 0.10,
            "clipart": 0.045,
            "stamps": 0.01,
            "emoji": 0.03,
            "pages": 0.015,
            PLAIN: 0.40,
        }
    )


CHECKPOINT_EVERY = 200  # steps


class Mini(nn.Module):
    """Both towers; only the image tower is trained."""

    def __init__(self, text: TrainableTextTower, image: TrainableImageTower) -> None:
        super().__init__()
        self.text, self.image = text, image


@dataclass(frozen=True, slots=True, eq=False)
class Teacher:
    """``base``, frozen: pixels in 0…255 to unit vectors in the text space."""

    clip: FrozenClip
    base: Base

    @torch.no_grad()
    def __call__(self, pixels: Tensor) -> Tensor:
        """Encode pictures of any size."""
        small = F.interpolate(pixels, size=(SIZE, SIZE), mode="bilinear", antialias=True, align_corners=False)
        vectors: Tensor = self.base.projection(self.clip(small))
        return vectors


@dataclass(frozen=True, slots=True, eq=False)
class MiniLesson:
    """The training data: pictures, the vectors of their texts, and a bank of texts."""

    sets: Mapping[str, PictureSet]
    texts: Mapping[str, Tensor]  # (n_texts, d)
    bank: Tensor
    teacher: Teacher


def prepare(
    recipe: MiniRecipe, base: Base, clip: FrozenClip, sets: Mapping[str, PictureSet], folder: Path
) -> MiniLesson:
    """Encode every text once; ``folder`` holds the tokenizer."""
    device = str(next(base.parameters()).device)
    words = towers.tokenizer(folder, recipe.length)
    sets = {name: each for name, each in sets.items() if name in recipe.shares}
    tokens = pictures.tokenized(sets, words, device)
    texts = {name: towers.encoded(base.text, each).half() for name, each in tokens.items() if sets[name].texts}
    bank = torch.cat([texts[name][:: max(1, len(texts[name]) // 40_000)] for name in texts])
    return MiniLesson(sets, texts, bank, Teacher(clip, base))


def begin(recipe: MiniRecipe, base: Base, folder: Path, weights: Path, device: str) -> Mini:
    """Make the student from ImageNet weights; its anchor has the class names in ``base``'s text space."""
    torch.manual_seed(recipe.seed)
    words = towers.tokenizer(folder, recipe.length)
    names = towers.encoded(base.text, towers.tokenized(words, [f"a photo of a {n}" for n in towers.class_names()]))
    image = TrainableImageTower.load(recipe, weights, names.cpu())
    return Mini(base.text, image).to(device)


def train(
    recipe: MiniRecipe,
    model: Mini,
    lesson: MiniLesson,
    out: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Mini:
    """Train and return the averaged model; write ``log.jsonl`` and a checkpoint to ``out``, and resume from it."""
    device = next(model.parameters()).device
    student = model.image
    if device.type == "cuda":  # faster there, and much slower on a CPU
        student = student.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    frozen = copy.deepcopy(student).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(_groups(student, recipe), betas=(0.9, 0.98))

    def loss(rng: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        terms = batch_terms(student, frozen, lesson, recipe, rng)
        return weighed(terms, recipe), terms

    with fixed_shapes(device):
        average = train_averaged(student, optimiser, loss, recipe, out, every=CHECKPOINT_EVERY, progress=progress)
    return Mini(model.text, average)


def weighed(terms: Mapping[str, Tensor], recipe: MiniRecipe) -> Tensor:
    """Return the weighted sum of the terms of the loss."""
    weights = {"near": recipe.near, "like": recipe.like, "pairs": recipe.pairs, "keep": recipe.keep}
    return torch.stack([weights[name] * term for name, term in terms.items()]).sum()


def batch_terms(
    student: TrainableImageTower,
    frozen: TrainableImageTower,
    lesson: MiniLesson,
    recipe: MiniRecipe,
    rng: torch.Generator,
) -> dict[str, Tensor]:
    """Draw a batch of fixed composition and return the terms of its loss."""
    device = next(student.parameters()).device
    counts = pictures.shares(list(lesson.sets), recipe.shares, recipe.batch)
    counts = dict(sorted(counts.items(), key=lambda each: each[0] not in lesson.texts))  # those with texts first
    pixels, texts = [], []
    for name, number in counts.items():
        held = lesson.sets[name]
        rows = torch.randint(len(held), (number,), device=device, generator=rng)
        pixels.append(held.pixels[rows])
        if name in lesson.texts:
            texts.append(lesson.texts[name][held.text_of(rows, rng)])
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        x = augment.augmented(torch.cat(pixels), recipe.size, recipe.smallest_crop, rng)
        if device.type == "cuda":
            x = x.contiguous(memory_format=torch.channels_last)
        image, logits = student.both(x)
        with torch.no_grad():
            known = frozen.both(x)[1]
    right = lesson.teacher(augment.bytes_of(x))
    caption = torch.cat(texts).float()
    others = lesson.bank[torch.randint(len(lesson.bank), (recipe.bank,), device=device, generator=rng)].float()
    bank = torch.cat([caption, others])
    scale = torch.tensor(recipe.scale, device=device).log()
    return {
        "near": (1 - (image * right).sum(1)).mean(),
        "like": divergence(recipe.scale * image @ bank.T, recipe.scale * right @ bank.T),
        "pairs": contrastive(image[: len(caption)], caption, scale, caption, recipe.soft, recipe.soft_temperature),
        "keep": divergence(logits, known),
    }


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """KL from the distribution that is wanted to the one there is, the mean over rows."""
    return F.kl_div(logits.float().log_softmax(1), wanted.float().softmax(1), reduction="batchmean")


def _groups(student: TrainableImageTower, recipe: MiniRecipe) -> list[dict[str, Any]]:
    """The backbone and the rest have their own rates; vectors and scalars have no weight decay."""
    split = [
        (list(student.backbone.parameters()), recipe.image_rate),
        ([*student.head.parameters(), student.gain], recipe.head_rate),
    ]
    return [
        {"params": [p for p in parameters if (p.ndim > 1) == decays], "lr": rate, "weight_decay": recipe.decay * decays}
        for parameters, rate in split
        for decays in (True, False)
    ]
