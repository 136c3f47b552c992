"""A model's own image processing in few passes: one resize while reading, then bytes, normalised on the device.

    file ──▸ decode and resize to S × S bytes, on threads ──▸ one copy to the device ──▸ (x / 255 − mean) / std there

Most image processors of transformers resize, cut out the middle, and normalise. Computed one by one in NumPy this costs
several times as much as decoding a JPEG. ``recipe_of`` reads the settings of a processor, and returns None unless the
result agrees with that of the processor itself; such models use their processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.encoders.images import Fit, Frame, Pixels, read

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers
PROBES = ((37, 53), (61, 24))  # heights and widths of pictures on which both ways are compared
CLOSE = 1e-4  # between normalised pixels; one step of a byte is about 0.015


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRecipe:
    """How pictures become the input of a model."""

    frame: Frame
    factor: float  # of the bytes
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def levels(self, device: Any) -> Any:
        """Return slope and offset of each channel's bytes, ``(2, 1, 3, 1, 1)``, on the model's device.

        They are made once: a copy of a few numbers from ordinary memory waits for all that the GPU has to do.
        """
        torch = need("torch", extra="hf")
        std = torch.tensor(self.std)
        both = torch.stack([self.factor / std, -torch.tensor(self.mean) / std])
        return both.view(2, 1, 3, 1, 1).to(device)


def tensor_of(pixels: Sequence[Pixels], levels: Any) -> Any:
    """Return the input of a model in float32, ``(n, 3, S, S)``, on the device of ``levels``."""
    torch = need("torch", extra="hf")
    shape = (len(pixels), *pixels[0].shape)
    held = torch.empty(shape, dtype=torch.uint8, pin_memory=levels.is_cuda)  # pinned: copied while the model runs
    np.stack(pixels, out=held.numpy())
    there = held.to(levels.device, non_blocking=True).permute(0, 3, 1, 2).float()  # (n, 3, S, S)
    return (there * levels[0] + levels[1]).contiguous()


def recipe_of(processor: Any) -> PictureRecipe | None:
    """Return the recipe of an image processor; None where it does something else."""
    described = processor.to_dict()
    frame = _frame(described)
    if frame is None or not (described.get("do_rescale") and described.get("do_normalize")):
        return None
    mean, std = (tuple(map(float, described[name])) for name in ("image_mean", "image_std"))
    if len(mean) != 3 or len(std) != 3:
        return None
    found = PictureRecipe(frame=frame, factor=float(described["rescale_factor"]), mean=mean, std=std)
    return found if _agrees(found, processor) else None


def _frame(described: Mapping[str, Any]) -> Frame | None:
    size, crop = dict(described.get("size") or {}), dict(described.get("crop_size") or {})
    resample = RESAMPLING.get(int(described.get("resample") or 0))
    cut = described.get("do_center_crop") and crop.get("height") == crop.get("width")
    fit: Fit = "cover"
    side = size.get("shortest_edge")
    if set(size) == {"height", "width"} and size["height"] == size["width"]:
        fit, side = "squash", size["height"]
        cut = not described.get("do_center_crop") or (cut and crop.get("height") == side)
    elif cut:
        cut = crop.get("height") == side
    if not described.get("do_resize") or not cut or not isinstance(side, int) or resample is None:
        return None
    return Frame(side, fit, resample)


def _agrees(recipe: PictureRecipe, processor: Any) -> bool:
    for shape in PROBES:
        probe = np.random.default_rng(0).integers(0, 255, size=(*shape, 3), dtype=np.uint8)
        right = processor(images=[probe], input_data_format="channels_last", return_tensors="np")
        ours = tensor_of([read(probe, recipe.frame)], recipe.levels("cpu")).numpy()
        if set(right) != {"pixel_values"} or right["pixel_values"].shape != ours.shape:
            return False
        if np.abs(right["pixel_values"] - ours).max() > CLOSE:
            return False
    return True
