"""Training sets on the device: pictures as bytes, and the tokens of their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isthmus.errors import BadInput
from isthmus.train import towers
from isthmus.train.data import coco, drawings, duplicates, pages
from isthmus.train.data.packs import PackedPictures

SIZE = 224  # pixels a side, in memory
MOVED = 4096  # pictures that go to the device at once
CAPTIONED = ("coco", "flickr8k", "clipart", "stamps", "emoji", "pages")
PLAIN = "coco-plain"  # photos without captions


@dataclass(frozen=True, slots=True, eq=False)
class PictureSet:
    """Pictures and their texts; picture ``i`` has the texts ``first[i] … first[i] + count[i] − 1``."""

    pixels: Tensor  # (n, 3, SIZE, SIZE) bytes
    texts: list[str]
    first: Tensor  # (n,)
    count: Tensor  # (n,)

    @classmethod
    def of(cls, pictures: PackedPictures, device: str) -> PictureSet:
        """Decode pictures and move them to the device, a part at a time: it is the faster one at turning them."""
        decoded = torch.from_numpy(pictures.pixels(SIZE))
        pixels = torch.empty((len(pictures), 3, SIZE, SIZE), dtype=torch.uint8, device=device)
        for start in range(0, len(pictures), MOVED):
            pixels[start : start + MOVED] = decoded[start : start + MOVED].to(device).permute(0, 3, 1, 2)
        count = torch.tensor([len(each) for each in pictures.captions], device=device)
        return cls(pixels, [text for each in pictures.captions for text in each], count.cumsum(0) - count, count)

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.pixels)

    def keep(self, rows: Tensor) -> PictureSet:
        """Return some of the pictures, with all texts."""
        return PictureSet(self.pixels[rows], self.texts, self.first[rows], self.count[rows])

    def own(self, row: int) -> list[str]:
        """Return the texts of a picture."""
        first = int(self.first[row])
        return self.texts[first : first + int(self.count[row])]

    def draw(self, rng: torch.Generator, number: int) -> tuple[Tensor, Tensor]:
        """Draw pictures, and one text of each: their rows, and the rows of the texts."""
        rows = torch.randint(len(self), (number,), device=self.pixels.device, generator=rng)
        return rows, self.text_of(rows, rng)

    def text_of(self, rows: Tensor, rng: torch.Generator) -> Tensor:
        """Draw a text of each of some pictures."""
        chance = torch.rand(rows.shape, device=rows.device, generator=rng)
        return self.first[rows] + (chance * self.count[rows]).long()


@dataclass(frozen=True, slots=True, eq=False)
class PictureSets:
    """Everything that is trained on, and what is measured on."""

    train: Mapping[str, PictureSet]
    held: Mapping[str, PictureSet]  # "flickr8k dev", "coco test", …
    left_out: int  # training photos that are almost one of the held ones


def load(folder: Path, device: str, *, limit: int | None = None, report: Callable[[str], object] = str) -> PictureSets:
    """Read the packed sets of a folder; photos almost like a photo of dev or test are left out of training."""
    train: dict[str, PictureSet] = {}
    held: dict[str, PictureSet] = {}
    for name in (*CAPTIONED, PLAIN):
        if not (folder / name).exists():
            continue
        packed = PackedPictures.open(folder / name)
        for split, keep in _splits(name, packed).items():
            chosen = packed.select(keep, limit)
            if len(chosen):
                report(f"{name} {split}: {len(chosen):,} pictures")
                (train if split == "train" else held)[name if split == "train" else f"{name} {split}"] = PictureSet.of(
                    chosen, device
                )
    if not train:
        raise BadInput(
            f"{folder} holds none of the sets {', '.join((*CAPTIONED, PLAIN))}. Pack them: python -m isthmus.train.data"
        )
    kept, left_out = _apart(train, held)
    return PictureSets(kept, held, left_out)


def _splits(name: str, packed: PackedPictures) -> dict[str, Callable[[str], bool]]:
    if name == PLAIN:
        return {"train": lambda _: True}
    if name == "flickr8k":
        return {split: lambda key, split=split: key.startswith(f"{split}/") for split in ("train", "dev", "test")}  # type: ignore[misc]
    if name == "coco":
        lists = {split: frozenset(coco.listed(split)) for split in coco.SPLITS}
        taken = frozenset().union(*lists.values())
        return {"train": lambda key: key not in taken, **{s: each.__contains__ for s, each in lists.items()}}
    if name == "pages":
        return {"train": lambda key: not pages.held_out(key), "test": pages.held_out}
    title = {key: texts[0] for key, texts in zip(packed.names, packed.captions, strict=True)}
    return {
        "train": lambda key: not drawings.held_out(title[key]),
        "test": lambda key: drawings.held_out(title[key]),
    }


def _apart(train: Mapping[str, PictureSet], held: Mapping[str, PictureSet]) -> tuple[dict[str, PictureSet], int]:
    """Leave out training photos that are almost a held one; drawings and pages are split by name instead."""
    photos = [each for name, each in held.items() if name.startswith(("coco", "flickr8k"))]
    if not photos:
        return dict(train), 0
    seen = torch.cat([duplicates.thumbnails(each.pixels) for each in photos])
    kept, left_out = {}, 0
    for name, each in train.items():
        if name in ("coco", "flickr8k", PLAIN):
            same = duplicates.near(duplicates.thumbnails(each.pixels), seen)
            left_out += int(same.sum())
            kept[name] = each.keep((~same).nonzero()[:, 0])
        else:
            kept[name] = each
    return kept, left_out


def tokenized(sets: Mapping[str, PictureSet], words: Any, device: str) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the tokens and the mask of each set's texts."""
    return {name: towers.tokenized(words, each.texts or [""], device) for name, each in sets.items()}


def shares(sets: Sequence[str], wanted: Mapping[str, float], batch: int) -> dict[str, int]:
    """Return how many pictures of each set a batch has: always the same numbers, so shapes never change.

    >>> shares(["coco", "emoji"], {"coco": 3.0, "emoji": 1.0, "pages": 1.0}, 8)
    {'coco': 6, 'emoji': 2}
    """
    total = sum(wanted[name] for name in sets)
    counts = {name: int(batch * wanted[name] / total) for name in sets}
    largest = max(counts, key=lambda name: counts[name])
    counts[largest] += batch - sum(counts.values())
    return counts
