"""The training data of ``mini``: photos with captions, and sentences that only preserve the text space."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus._optional import need


@dataclass(frozen=True)
class CaptionedPhotos:
    """Photos resized to squares, ``(n, 3, s, s)`` bytes, and the captions of each."""

    pixels: Tensor
    captions: list[list[str]]
    names: list[str]


def flickr8k(folder: Path, split: str, size: int, limit: int | None = None) -> CaptionedPhotos:
    """Read a split (``train``, ``dev``, ``test``) of Flickr8k: ``img224/``, the token file and the split's list."""
    captions: dict[str, list[str]] = {}
    for line in (folder / "Flickr8k.token.txt").read_text("utf-8").splitlines():
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition("#")[0], []).append(caption.strip())
    listed = (folder / f"Flickr_8k.{split}Images.txt").read_text("utf-8").split()
    names = [name for name in listed if name in captions][:limit]
    files = [folder / "img224" / f"{name.removesuffix('.jpg')}.webp" for name in names]
    return CaptionedPhotos(squares(files, size), [captions[name] for name in names], names)


def squares(files: Sequence[Path], size: int) -> Tensor:
    """Decode pictures and resize each to a square, ``(n, 3, size, size)`` bytes."""
    image = need("PIL.Image", extra="train")
    out = torch.empty((len(files), 3, size, size), dtype=torch.uint8)

    def read(i: int) -> None:
        with image.open(files[i]) as opened:
            rgb = opened.convert("RGB").resize((size, size), image.Resampling.BICUBIC)
        out[i] = torch.from_numpy(np.asarray(rgb).copy()).permute(2, 0, 1)

    with ThreadPoolExecutor() as pool:
        list(pool.map(read, range(len(files))))
    return out


def sentences(folder: Path | None, limit: int = 20_000) -> list[str]:
    """Read sentences that are not captions: the text and the questions of scanned pages (DocVQA)."""
    if folder is None or not (folder / "page_text.json").exists():
        return []
    pages = json.loads((folder / "page_text.json").read_text("utf-8")).values()
    found = [" ".join(s.split()) for page in pages for s in re.split(r"(?<=[.!?])\s+|\n\n", page)]
    questions = json.loads((folder / "val_v1.0.json").read_text("utf-8"))["data"]
    found += [item["question"] for item in questions]
    return [s for s in dict.fromkeys(found) if 20 <= len(s) <= 400][:limit]


def augmented(pixels: Tensor, size: int, smallest: float, rng: torch.Generator) -> Tensor:
    """Crop (keeping ``smallest``…1 of the area), flip and recolour a batch of bytes; return floats in −1…1."""
    n, device = len(pixels), pixels.device

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(n, *shape, device=device, generator=rng)

    area, stretch = uniform(smallest, 1.0), uniform(-0.25, 0.25).exp()
    width, height = (area * stretch).sqrt().clamp(max=1), (area / stretch).sqrt().clamp(max=1)
    x, y = uniform(-1, 1) * (1 - width), uniform(-1, 1) * (1 - height)
    flip = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    zero = torch.zeros_like(x)
    theta = torch.stack([torch.stack([width * flip, zero, x], 1), torch.stack([zero, height, y], 1)], 1)
    grid = F.affine_grid(theta, [n, 3, size, size], align_corners=False)
    out = F.grid_sample(pixels.float(), grid, align_corners=False, padding_mode="reflection")
    grey = out.mean(1, keepdim=True)
    out = grey + (out - grey) * uniform(0.6, 1.4, 1, 1, 1)  # saturation
    level = out.mean((1, 2, 3), keepdim=True)
    out = level + (out - level) * uniform(0.6, 1.4, 1, 1, 1)  # contrast
    out = out * uniform(0.7, 1.3, 1, 1, 1)  # brightness
    return normalised(out.clamp(0, 255))


def normalised(pixels: Tensor) -> Tensor:
    """Turn 0…255 into about −1…1, as the backbone was trained."""
    return (pixels.float() - 127.0) / 128.0


def resized(pixels: Tensor, size: int) -> Tensor:
    """Return whole pictures at ``size``, normalised."""
    if pixels.shape[-1] != size:
        pixels = F.interpolate(pixels.float(), size=(size, size), mode="bicubic", antialias=True).clamp(0, 255)
    return normalised(pixels)
