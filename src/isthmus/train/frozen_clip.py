"""CLIP's image tower in torch: the frozen half of ``base``, and the teacher of ``mini``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus.encoders.clip_torch import vision_model

SIZE = 224
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


class FrozenClip(nn.Module):
    """Pixels in 0…255, ``(n, 3, 224, 224)``, to unit vectors; without gradients."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model.eval().requires_grad_(False)
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", 255 * torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", 255 * torch.tensor(STD).view(3, 1, 1), persistent=False)

    @classmethod
    def of(cls, weights: Mapping[str, NDArray[np.floating]]) -> FrozenClip:
        """Make the tower from weights with transformers' names."""
        return cls(vision_model(weights))

    @torch.no_grad()
    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures."""
        half = pixels.device.type == "cuda"
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=half):
            out = self.model(pixel_values=(pixels.float() - self.mean) / self.std).image_embeds
        return F.normalize(out.float(), dim=1)

    def features(self, pixels: Tensor, batch: int = 512) -> Tensor:
        """Encode many pictures in batches."""
        return torch.cat([self(pixels[i : i + batch]) for i in range(0, len(pixels), batch)])
