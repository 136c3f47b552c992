"""RandAugment and random crops of a batch of pictures, on the device.

    pixels → a random crop of at least ``smallest`` of the area, resized → ``operations`` random operations → −1…1

Each picture draws its operations from the fourteen of the paper, each with the same strength 0…10. Pictures that drew
the same operation are changed together.

Reference: Cubuk et al., RandAugment (2020), Section 3. Deviation: rotation, shear and translation are resampled
bilinearly and fill with grey; the direction is drawn for each picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from isthmus.train.augment import cropped, normalised

STRONGEST = 10.0
FILL = 127.0


def rand_augmented(
    pixels: Tensor, size: int, smallest: float, operations: tuple[int, float], rng: torch.Generator
) -> Tensor:
    """Crop and change bytes ``(n, 3, s, s)``; return floats ``(n, 3, size, size)`` in −1…1.

    ``operations`` are their number and their strength.
    """
    count, strength = operations
    with torch.autocast(pixels.device.type, enabled=False):  # levels need float32
        out = cropped(pixels, size, smallest, rng).clamp(0, 255)
        for _ in range(count):
            chosen = torch.randint(len(OPERATIONS), (len(out),), generator=rng, device=out.device)
            sign = torch.randint(2, (len(out),), generator=rng, device=out.device) * 2.0 - 1.0
            out = changed(out, chosen, sign * strength / STRONGEST)
        return normalised(out)


def changed(pixels: Tensor, chosen: Tensor, amount: Tensor) -> Tensor:
    """Apply to each picture its operation; ``amount`` is the strength in −1…1, ``(n,)``."""
    out = pixels.clone()
    for number, operation in enumerate(OPERATIONS.values()):
        rows = (chosen == number).nonzero()[:, 0]
        if len(rows):
            out[rows] = operation(pixels[rows], amount[rows]).clamp(0, 255)
    return out


def _moved(pixels: Tensor, matrix: Tensor) -> Tensor:
    """Resample with an affine map ``(n, 2, 3)``; what comes from outside is grey."""
    grid = F.affine_grid(matrix, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels - FILL, grid, align_corners=False) + FILL


def _affine(rows: tuple[tuple[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def _rotate(pixels: Tensor, amount: Tensor) -> Tensor:
    angle = amount * math.pi / 6  # at most 30 degrees
    zero = torch.zeros_like(angle)
    return _moved(pixels, _affine(((angle.cos(), -angle.sin(), zero), (angle.sin(), angle.cos(), zero))))


def _slide(x: float, y: float, shear: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a translation by ``x`` and ``y`` of the side, or a shear, at the full strength."""

    def moved(pixels: Tensor, amount: Tensor) -> Tensor:
        zero, one = torch.zeros_like(amount), torch.ones_like(amount)
        if shear:
            return _moved(pixels, _affine(((one, x * shear * amount, zero), (y * shear * amount, one, zero))))
        return _moved(pixels, _affine(((one, zero, 2 * x * amount), (zero, one, 2 * y * amount))))

    return moved


def _blend(reference: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a change of the distance to a reference picture, by a factor of 1 ± .9."""

    def blended(pixels: Tensor, amount: Tensor) -> Tensor:
        other = reference(pixels)
        return other + (pixels - other) * (1 + 0.9 * amount)[:, None, None, None]

    return blended


def _grey(pixels: Tensor) -> Tensor:
    weights = torch.tensor([0.299, 0.587, 0.114], device=pixels.device)
    return torch.einsum("nchw,c->nhw", pixels, weights)[:, None].expand_as(pixels)


def _smooth(pixels: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(pixels, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def _auto_contrast(pixels: Tensor, _: Tensor) -> Tensor:
    low, high = pixels.amin(dim=(2, 3), keepdim=True), pixels.amax(dim=(2, 3), keepdim=True)
    return torch.where(high > low, (pixels - low) / (high - low).clamp_min(1e-6) * 255, pixels)


def _equalize(pixels: Tensor, _: Tensor) -> Tensor:
    """Spread the levels of each channel evenly: a pixel becomes the share of pixels that are not brighter."""
    flat = pixels.flatten(2).round().long().clamp(0, 255)  # (n, 3, s · s)
    counts = torch.zeros(*flat.shape[:2], 256, device=pixels.device).scatter_add_(
        2, flat, torch.ones_like(flat).float()
    )
    levels = counts.cumsum(dim=2) / flat.shape[2]
    return (levels.gather(2, flat) * 255).reshape(pixels.shape)


def _solarize(pixels: Tensor, amount: Tensor) -> Tensor:
    limit = 255 * (1 - amount.abs())[:, None, None, None]
    return torch.where(pixels >= limit, 255 - pixels, pixels)


def _posterize(pixels: Tensor, amount: Tensor) -> Tensor:
    step = 2.0 ** (4 * amount.abs()).round()[:, None, None, None]  # drop up to four bits
    return (pixels / step).floor() * step


OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "identity": lambda pixels, _: pixels,
    "auto-contrast": _auto_contrast,
    "equalize": _equalize,
    "rotate": _rotate,
    "solarize": _solarize,
    "color": _blend(_grey),
    "posterize": _posterize,
    "contrast": _blend(lambda pixels: _grey(pixels).mean(dim=(1, 2, 3), keepdim=True).expand_as(pixels)),
    "brightness": _blend(torch.zeros_like),
    "sharpness": _blend(_smooth),
    "shear-x": _slide(1, 0, 0.3),
    "shear-y": _slide(0, 1, 0.3),
    "translate-x": _slide(0.3, 0, 0),
    "translate-y": _slide(0, 0.3, 0),
}
