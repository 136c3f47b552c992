"""CLIP's image tower in torch: the frozen half of ``base``, and the teacher of ``mini``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from isthmus._optional import need

SIZE = 224
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
HEAD = 64  # width of an attention head, in every CLIP


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
        library = need("transformers", extra="train")
        patches = weights["vision_model.embeddings.patch_embedding.weight"]  # (width, 3, patch, patch)
        positions = len(weights["vision_model.embeddings.position_embedding.weight"])
        width, patch = patches.shape[0], patches.shape[-1]
        config = library.CLIPVisionConfig(
            hidden_size=width,
            intermediate_size=weights["vision_model.encoder.layers.0.mlp.fc1.weight"].shape[0],
            num_hidden_layers=1 + max(int(name.split(".")[3]) for name in weights if ".layers." in name),
            num_attention_heads=max(1, width // HEAD),
            projection_dim=weights["visual_projection.weight"].shape[0],
            image_size=round((positions - 1) ** 0.5) * patch,
            patch_size=patch,
            hidden_act="quick_gelu",
        )
        model = library.CLIPVisionModelWithProjection(config)
        state = {name: torch.from_numpy(np.array(array, np.float32)) for name, array in weights.items()}
        missing = [name for name in model.state_dict() if name not in state and "position_ids" not in name]
        if missing:
            raise ValueError(f"the weights lack {missing[0]}")
        model.load_state_dict(state, strict=False)
        return cls(model)

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
