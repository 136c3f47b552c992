"""A tiny CLIP image tower with random weights: Hugging Face's model, its folder, and a quantised ONNX file of it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

from isthmus.encoders.vit import MEAN, STD

SIZE, EMBEDDING = 32, 24


def model() -> Any:
    torch.manual_seed(0)
    config = CLIPVisionConfig(
        hidden_size=128,  # two heads of 64
        intermediate_size=96,
        projection_dim=EMBEDDING,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=SIZE,
        patch_size=8,
        hidden_act="quick_gelu",
    )
    made = CLIPVisionModelWithProjection(config).eval()
    with torch.no_grad():
        for weight in made.parameters():  # the initial values are so small that nothing depends on the picture
            weight.add_(torch.randn_like(weight) * 0.1)
    return made


def weights(made: Any) -> dict[str, NDArray[np.float32]]:
    state = made.state_dict()
    return {name: array.numpy() for name, array in state.items() if not name.endswith("position_ids")}


def embeddings(made: Any, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return what Hugging Face's model makes of pictures, (n, size, size, 3)."""
    ready = torch.from_numpy((pixels.astype(np.float32) / 255 - MEAN) / STD).float().permute(0, 3, 1, 2)
    with torch.no_grad():
        found: NDArray[np.float32] = made(ready).image_embeds.numpy()
    return found


class Exported(torch.nn.Module):
    """The module whose names in the file are those of the published one."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.vision_model, self.visual_projection = made.vision_model, made.visual_projection

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        pooled = self.vision_model(pixel_values).pooler_output
        embedded: torch.Tensor = self.visual_projection(pooled)
        return embedded


def write_quantized(made: Any, folder: Path) -> Path:
    """Export the model and quantise its linear layers, as the published file was made."""
    whole, path = folder / "clip.onnx", folder / "clip.int8.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older exporter, whose names the published file has, is deprecated
        torch.onnx.export(
            Exported(made).eval(),
            (torch.zeros(1, 3, SIZE, SIZE),),
            str(whole),
            input_names=["pixel_values"],
            output_names=["image_embeds"],
            dynamic_axes={"pixel_values": {0: "batch"}},
            opset_version=14,
            dynamo=False,
        )
    quantize_dynamic(whole, path, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"])
    return path
