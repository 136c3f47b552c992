"""Random crops, flips and colours of a batch of pictures, on the device; and pixels as the backbone reads them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def augmented(pixels: Tensor, size: int, smallest: float, rng: torch.Generator) -> Tensor:
    """Crop (keeping ``smallest``…1 of the area), flip and recolour a batch of bytes; return floats in −1…1."""

    def uniform(low: float, high: float) -> Tensor:
        return _uniform(low, high, (len(pixels), 1, 1, 1), rng)

    out = cropped(pixels, size, smallest, rng, mirror=True)
    grey = out.mean(1, keepdim=True)
    out = grey + (out - grey) * uniform(0.6, 1.4)  # saturation
    level = out.mean((1, 2, 3), keepdim=True)
    out = level + (out - level) * uniform(0.6, 1.4)  # contrast
    out = out * uniform(0.7, 1.3)  # brightness
    return normalised(out.clamp(0, 255))


def cropped(pixels: Tensor, size: int, smallest: float, rng: torch.Generator, *, mirror: bool = False) -> Tensor:
    """Return random crops of ``smallest``…1 of the area, as floats ``(n, 3, size, size)``; ``mirror``: half of them."""
    n = len(pixels)

    def uniform(low: float, high: float) -> Tensor:
        return _uniform(low, high, (n,), rng)

    area, stretch = uniform(smallest, 1.0), uniform(-0.25, 0.25).exp()
    width, height = (area * stretch).sqrt().clamp(max=1), (area / stretch).sqrt().clamp(max=1)
    x, y = uniform(-1, 1) * (1 - width), uniform(-1, 1) * (1 - height)
    flip = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0) if mirror else torch.ones_like(x)
    zero = torch.zeros_like(x)
    theta = torch.stack([torch.stack([width * flip, zero, x], 1), torch.stack([zero, height, y], 1)], 1)
    grid = F.affine_grid(theta, [n, 3, size, size], align_corners=False)
    return F.grid_sample(pixels.float(), grid, align_corners=False, padding_mode="reflection")


def normalised(pixels: Tensor) -> Tensor:
    """Turn 0…255 into about −1…1, as the backbone was trained."""
    return (pixels.float() - 127.0) / 128.0


def resized(pixels: Tensor, size: int) -> Tensor:
    """Return whole pictures at ``size``, normalised."""
    if pixels.shape[-1] != size:
        pixels = F.interpolate(pixels.float(), size=(size, size), mode="bicubic", antialias=True).clamp(0, 255)
    return normalised(pixels)


def bytes_of(pixels: Tensor) -> Tensor:
    """Turn −1…1 back into 0…255."""
    return pixels * 128.0 + 127.0


def _uniform(low: float, high: float, shape: tuple[int, ...], rng: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, device=rng.device, generator=rng)
