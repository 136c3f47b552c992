"""Find photos that show almost the same as another, by their thumbnails.

A thumbnail is the photo at 12 × 12 in grey, minus its mean, at length 1. Two photos of one burst, or one photo at two
qualities, have a cosine above .95; two photos of similar scenes rarely do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SIDE = 12
ALIKE = 0.95


@torch.no_grad()
def thumbnails(pixels: Tensor, batch: int = 1024) -> Tensor:
    """Return the thumbnails of ``(n, 3, s, s)`` bytes, ``(n, 144)``."""
    parts = [
        F.interpolate(pixels[i : i + batch].float().mean(1, keepdim=True), size=(SIDE, SIDE), mode="area").flatten(1)
        for i in range(0, len(pixels), batch)
    ]
    small = torch.cat(parts) if parts else pixels.new_zeros((0, SIDE * SIDE), dtype=torch.float32)
    return F.normalize(small - small.mean(1, keepdim=True), dim=1)


@torch.no_grad()
def near(candidates: Tensor, held: Tensor, alike: float = ALIKE, batch: int = 8192) -> Tensor:
    """Return which of the candidates' thumbnails are almost one of the held ones, or its mirror image: ``(n,)``."""
    mirrored = held.view(-1, SIDE, SIDE).flip(2).reshape(len(held), -1)
    both = torch.cat([held, mirrored])
    parts = [(candidates[i : i + batch] @ both.T).amax(1) > alike for i in range(0, len(candidates), batch)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.bool)
