"""CLIP's image tower and the projection on torch: for a GPU that onnxruntime does not run on.

onnxruntime uses a GPU only if ``onnxruntime-gpu`` is installed in its place. Where torch is installed and sees the GPU,
``base`` runs its image tower there instead; its text tower is small and stays on the processor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.encoders.base import Settings
from isthmus.encoders.clip import ClipTower
from isthmus.encoders.images import Frame, Pixels
from isthmus.encoders.once import Pending
from isthmus.encoders.picture_recipe import PictureRecipe, tensor_of
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.torch_models import BatchLimit, fetched_later, in_precision
from isthmus.encoders.vit import MEAN, STD
from isthmus.types import Matrix

EXTRA = "hf"
HEAD = 64  # width of an attention head, in every CLIP


def vision_model(weights: Mapping[str, NDArray[np.floating]]) -> Any:
    """Return transformers' model with weights of its names, for inference."""
    torch, library = need("torch", extra=EXTRA), need("transformers", extra=EXTRA)
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
    return model.eval().requires_grad_(False)


@dataclass(frozen=True, slots=True, eq=False)
class TorchClip:
    """The tower and the projection on a device: pictures to vectors of isthmus's space."""

    model: Any
    projection: Mapping[str, Any]  # tensors on the device
    levels: Any  # slope and offset of the pixels' bytes, on the device
    limit: BatchLimit

    @classmethod
    def of(cls, clip: ClipTower, projection: ClipProjection, settings: Settings, device: str) -> TorchClip:
        """Move the weights to a device, in the precision of the settings."""
        torch = need("torch", extra=EXTRA)
        model = vision_model({name: clip.array(name) for name in clip.weights})
        arrays = {"weight": projection.weight, "bias": projection.bias}
        if (hidden := projection.hidden) is not None:
            arrays |= {"hidden_weight": hidden.weight, "hidden_bias": hidden.bias, "out_weight": hidden.out}
        held = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
        recipe = PictureRecipe(frame=Frame(clip.size, "squash", "bicubic"), factor=1 / 255, mean=MEAN, std=STD)
        running = in_precision(model, settings.precision, device)
        return cls(running, held, recipe.levels(device), BatchLimit(settings.batch_size))

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.launch(pixels)()

    def launch(self, pixels: Sequence[Pixels]) -> Pending:
        """Start to encode, in batches that fit into the memory of the device."""
        return self.limit.launch(self._launch, pixels)

    def _launch(self, pixels: Sequence[Pixels]) -> Pending:
        torch = need("torch", extra=EXTRA)
        with torch.inference_mode():
            embedded = self.model(pixel_values=tensor_of(pixels, self.levels).to(self.model.dtype)).image_embeds
            return fetched_later(self._projected(torch.nn.functional.normalize(embedded.float(), dim=1)))

    def _projected(self, features: Any) -> Any:
        """W c + b + W₂ gelu(W₁ c + b₁), unit length."""
        functional, held = need("torch.nn.functional", extra=EXTRA), self.projection
        out = functional.linear(features, held["weight"], held["bias"])
        if "out_weight" in held:
            hidden = functional.gelu(functional.linear(features, held["hidden_weight"], held["hidden_bias"]))
            out = out + functional.linear(hidden, held["out_weight"])
        return functional.normalize(out, dim=1)
