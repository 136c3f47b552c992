"""Export a torch module as an ONNX file."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

Axes = Mapping[str, Mapping[int, str]]


def write(module: nn.Module, example: tuple[Tensor, ...], path: Path, inputs: Axes, outputs: Axes) -> None:
    """Trace the module with an example; the named axes of inputs and outputs may have any length."""
    with warnings.catch_warnings():  # the exporter warns of its own constants
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            example,
            str(path),
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={**inputs, **outputs},
            opset_version=17,
            dynamo=False,
        )
