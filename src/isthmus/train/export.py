"""An encoder as files: ONNX models, the tokenizer, and the ``encoder.toml`` that describes them.

Weights are stored as 8-bit integers with one scale per output channel (small filters in 16 bits) and converted
to float32 when a session is created (a cast and a product of constants, which onnxruntime folds at load): the files
are a quarter of the size, the arithmetic stays float32, and a vector never depends on the batch it was computed in.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isthmus._optional import need
from isthmus.encoders.folder import DESCRIPTION, checksum
from isthmus.train.mini import Mini
from isthmus.train.onnx import write

SMALLEST = 2048  # weights with fewer numbers stay float32
SMALL_FILTER = 120_000  # filters with fewer numbers are stored in 16 bits
TOML = """# Written by isthmus.train.export; the checksums are verified when the encoder is loaded.
name = {name}
dim = {dim}
{tables}
[files]
{files}
"""
TEXT_TABLE = """
[text]
model = "text.onnx"
tokenizer = "tokenizer.json"
length = {length}
output = "vectors"
"""
IMAGE_TABLE = """
[image]
model = "image.onnx"
size = {size}
layout = "nhwc"
dtype = "uint8"
fit = "squash"
resample = "bicubic"
output = "vectors"
"""
FREE = {0: "n", 1: "t"}  # axes of tokens and mask: any number of texts and tokens


class _Pixels(nn.Module):
    """The image tower with bytes as input, ``(n, size, size, 3)``."""

    def __init__(self, image: nn.Module) -> None:
        super().__init__()
        self.image = image

    def forward(self, pixels: Tensor) -> Tensor:
        return self.image((pixels.permute(0, 3, 1, 2).float() - 127.0) / 128.0)  # type: ignore[no-any-return]


def export(model: Mini, tokenizer: Path, out: Path, *, name: str, size: int, length: int = 256) -> None:
    """Write the folder that ``isthmus.encoders.load("onnx:…")`` reads."""
    out.mkdir(parents=True, exist_ok=True)
    model = model.cpu().eval()
    vectors = {"vectors": {0: "n"}}
    text_onnx(model.text, out / "text.onnx")
    pixels = torch.zeros((2, size, size, 3), dtype=torch.uint8)
    write(_Pixels(model.image), (pixels,), out / "image.onnx", {"pixels": {0: "n"}}, vectors)
    shutil.copy(tokenizer, out / "tokenizer.json")
    for file in ("text.onnx", "image.onnx"):
        shrink(out / file)
    dim = int(model.state_dict()["image.names"].shape[1])
    describe(out, name, dim, TEXT_TABLE.format(length=length) + IMAGE_TABLE.format(size=size))


def describe(out: Path, name: str, dim: int, tables: str) -> None:
    """Write ``encoder.toml``, with the checksums of the models and the tokenizer in the folder."""
    files = [out / file for file in ("text.onnx", "image.onnx", "tokenizer.json") if (out / file).exists()]
    sums = "\n".join(f'"{file.name}" = "{checksum(file)}"' for file in files)
    (out / DESCRIPTION).write_text(TOML.format(name=json.dumps(name), dim=dim, tables=tables, files=sums), "utf-8")


def text_onnx(tower: nn.Module, path: Path) -> None:
    """Write a text tower that takes tokens and mask, ``(n, t)`` each."""
    tokens = torch.ones((2, 7), dtype=torch.long)
    write(tower, (tokens, tokens), path, {"tokens": FREE, "mask": FREE}, {"vectors": {0: "n"}})


def shrink(path: Path) -> None:
    """Replace the large float weights of an ONNX file by 8-bit integers, a scale, a cast and a product."""
    onnx = need("onnx", extra="train")
    model = onnx.load(str(path))
    graph = model.graph
    by_column = {node.input[1] for node in graph.node if node.op_type == "MatMul"}  # there a column is an output
    kept, nodes = [], []
    for tensor in graph.initializer:
        weight = onnx.numpy_helper.to_array(tensor)
        if weight.dtype != np.float32 or weight.ndim < 2 or weight.size < SMALLEST:
            kept.append(tensor)
            continue
        name, small, cast = tensor.name, f"{tensor.name}.small", f"{tensor.name}.cast"
        if weight.ndim == 4 and weight.size < SMALL_FILTER:  # early filters: few numbers, and all of them matter
            kept.append(onnx.numpy_helper.from_array(weight.astype(np.float16), small))
            nodes.append(onnx.helper.make_node("Cast", [small], [name], to=onnx.TensorProto.FLOAT))
            continue
        integers, scale = quantised(weight, axis=1 if name in by_column else 0)
        kept += [onnx.numpy_helper.from_array(integers, small), onnx.numpy_helper.from_array(scale, f"{name}.scale")]
        nodes.append(onnx.helper.make_node("Cast", [small], [cast], to=onnx.TensorProto.FLOAT))
        nodes.append(onnx.helper.make_node("Mul", [cast, f"{name}.scale"], [name]))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    rest = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *rest])
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def quantised(weight: Any, axis: int) -> tuple[Any, Any]:
    """Return 8-bit integers and one scale per slice along ``axis``: weight ≈ integers · scale.

    >>> integers, scale = quantised(np.array([[1.0, -0.5], [0.02, 0.01]], dtype=np.float32), axis=0)
    >>> integers.tolist(), bool(np.allclose(integers * scale, [[1.0, -0.5], [0.02, 0.01]], atol=0.004))
    ([[127, -64], [127, 63]], True)
    """
    others = tuple(i for i in range(weight.ndim) if i != axis)
    scale = np.maximum(np.abs(weight).max(axis=others, keepdims=True) / 127, 1e-12).astype(np.float32)
    return np.round(weight / scale).astype(np.int8), scale
