"""What was tried: variants of the recipes of ``base`` and ``mini``, trained for a part of their steps, measured on dev.

    python reproduce/recipes.py --data DIR --packs PACKS [--only base|mini] [--device cuda] [--scale 1]
                (needs scifact/ and the packed sets without `coco-plain`; extra `train`; nine minutes on one GPU)

Each variant changes one setting of the recipe in ``isthmus.train``. ``base`` is trained for ``BASE_STEPS``, ``mini``
for ``MINI_STEPS``, so a row says which settings matter, not what the shipped files reach. Columns: text→image R@1 and
R@10 and image→text R@1 on Flickr8k's and COCO's dev photos; nDCG@10 of SciFact's training claims, abstracts cut
at 256 tokens; R@1 of a caption among the other captions of 1,000 photos (*paraphrase*). All students of ``mini``'s rows
learn from the same ``base``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tables import Row, arguments, compared
from torch import Tensor

from isthmus.train import augment, base, make, measure, mini, pictures, towers
from isthmus.train.base import Base, BaseRecipe
from isthmus.train.frozen_clip import FrozenClip
from isthmus.train.measure import TextRetrieval
from isthmus.train.mini import Mini, MiniRecipe
from isthmus.train.pictures import PictureSets
from isthmus.train.towers import Pretrained, TrainableTextTower

BASE_STEPS, MINI_STEPS = 300, 150
HELD = {"Flickr8k": "flickr8k dev", "COCO": "coco dev"}
SEEN = 250  # pictures at once
OPTIONS = {
    "packs": "folder of the packed sets",
    "only": "base or mini; default: both",
    "device": "default: cuda",
    "scale": "a factor of the steps and batches; below 1 for a trial run",
}
BASES: Mapping[str, dict[str, Any]] = {
    "base: the recipe": {},
    "base: linear projection": {"hidden": 0},
    "base: text space not held": {"hold": 0.0, "hold_sentences": 0.0},
    "base: held twice as hard": {"hold": 2.0, "hold_sentences": 10.0},
    "base: no soft targets": {"soft": 0.0},
    "base: no crops": {"views": 1},
}
MINIS: Mapping[str, dict[str, Any]] = {
    "mini: the recipe": {},
    "mini: captions alone": {"near": 0.0, "like": 0.0, "pairs": 1.0},
}


class Trials:
    """The data and the frozen tower that all trials share."""

    def __init__(self, data: Path, packs: Path, device: str, scale: float) -> None:
        self.device, self.scale, self.packs = device, scale, packs
        self.pretrained = Pretrained.installed("lite2")
        self.clip: FrozenClip = make.installed_clip().to(device)
        limit = None if scale >= 1 else 6  # pictures of each set, for a trial run
        self.sets: PictureSets = pictures.load(packs, device, limit=limit, report=_say)
        self.words = towers.tokenizer(self.pretrained.text, BaseRecipe().length)
        self.claims = TextRetrieval.beir(data / "scifact", "train", towers.tokenizer(self.pretrained.text, 256), device)

    def bases(self) -> Iterator[tuple[str, Base]]:
        """Train each variant of ``base``. Variants that see the same views share the frozen tower's features."""
        lessons: dict[int, base.BaseLesson] = {}
        texts = make.held_texts(self.packs)
        for name, changes in BASES.items():
            recipe = self.scaled(replace(BaseRecipe(), **changes), BASE_STEPS)
            model = base.begin(recipe, self.pretrained.text, self.clip, self.device)
            if recipe.views not in lessons:
                lessons[recipe.views] = base.prepare(
                    recipe, model, self.clip, self.sets.train, texts, self.pretrained.text, report=_say
                )
            with tempfile.TemporaryDirectory() as run:
                yield name, base.train(recipe, model, lessons[recipe.views], Path(run)).requires_grad_(False)

    def minis(self, taught: Base) -> Iterator[tuple[str, Mini]]:
        """Train each variant of ``mini`` as a student of the same ``base``."""
        for name, changes in MINIS.items():
            recipe = self.scaled(replace(MiniRecipe(), **changes), MINI_STEPS)
            model = mini.begin(recipe, taught, self.pretrained.text, self.pretrained.image, self.device)
            lesson = mini.prepare(recipe, taught, self.clip, self.sets.train, self.pretrained.text)
            with tempfile.TemporaryDirectory() as run:
                yield name, mini.train(recipe, model, lesson, Path(run))

    def scaled(self, recipe: Any, steps: int) -> Any:
        """Return the recipe with the steps of a trial."""
        if self.scale >= 1:
            return replace(recipe, steps=steps)
        return replace(recipe, steps=max(2, int(steps * self.scale)), batch=max(16, int(recipe.batch * self.scale)))

    def row(self, name: str, text: TrainableTextTower, vectors: Callable[[Tensor], Tensor]) -> Row:
        """Measure a model on dev."""
        out: Row = {"trial": name}
        for label, held in HELD.items():
            photos = self.sets.held[held]
            images = torch.cat([vectors(photos.pixels[i : i + SEEN]) for i in range(0, len(photos), SEEN)])
            found = measure.by_captions(photos, images, text, self.words)
            out |= {f"{label} {measured}": value for measured, value in found.items()}
        out["SciFact"] = self.claims.ndcg(text)
        out["paraphrase"] = self.paraphrases(text)
        _say(str(out))
        return out

    def paraphrases(self, text: TrainableTextTower) -> float:
        """Return how often the nearest other caption is one of the same photo (Flickr8k dev)."""
        held = self.sets.held["flickr8k dev"]
        own = [held.own(row)[:5] for row in range(len(held))]
        owner = torch.tensor([row for row, each in enumerate(own) for _ in each], device=self.device)
        tokens = towers.tokenized(self.words, [each for several in own for each in several])
        vectors = towers.encoded(text, tokens)
        similarity = (vectors @ vectors.T).fill_diagonal_(-1)
        return float((owner[similarity.argmax(1)] == owner).float().mean())


def seen_by_base(clip: FrozenClip, model: Base) -> Callable[[Tensor], Tensor]:
    """Return how ``base`` encodes pictures."""

    @torch.no_grad()
    def encode(pixels: Tensor) -> Tensor:
        vectors: Tensor = model.projection(clip(pixels.float()).float())
        return vectors

    return encode


def seen_by_mini(model: Mini, size: int) -> Callable[[Tensor], Tensor]:
    """Return how ``mini`` encodes pictures."""

    @torch.no_grad()
    def encode(pixels: Tensor) -> Tensor:
        vectors: Tensor = model.image(augment.resized(pixels, size))
        return vectors

    return encode


def trials(data: Path, packs: Path, only: str | None, device: str, scale: float) -> Iterator[Row]:
    """Train and measure every variant."""
    shared = Trials(data, packs, device, scale)
    taught: Base | None = None
    for name, model in shared.bases():
        taught = taught or model
        if only != "mini":
            yield shared.row(name, model.text, seen_by_base(shared.clip, model))
        else:
            break
    if only != "base" and taught is not None:
        for name, student in shared.minis(taught):
            yield shared.row(name, student.text, seen_by_mini(student, MiniRecipe().size))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    options = arguments(__doc__, OPTIONS)
    found = list(
        trials(
            options.data,
            Path(options.packs),
            options.only,
            options.device or "cuda",
            float(options.scale or 1),
        )
    )
    raise SystemExit(compared("recipes", found, options.write))
