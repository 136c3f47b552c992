"""``isthmus export-encoder``: write an ``hf:`` encoder as an ``onnx:`` folder, which runs without torch.

The text tower becomes a model of tokens and mask, the image tower one of pixels; the tokenizer goes with them. Weights
stay float32. The folder is loaded and compared with the encoder before it takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isthmus import encoders
from isthmus._optional import need
from isthmus.atomic import replacing_folder
from isthmus.documents import Query
from isthmus.encoders import Encoder
from isthmus.encoders.folder import DESCRIPTION
from isthmus.encoders.hf_towers import HfImages, HfText
from isthmus.encoders.texts import Splitter
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile, BadInput
from isthmus.train.export import FREE, describe
from isthmus.train.onnx import write

RESAMPLES = ("lanczos", "bilinear", "bicubic")  # those that encoder.toml knows
NEAR = 1e-4  # the largest difference of a vector's numbers
PROBES = ("a cat on a red sofa", "dog", "the house and the tree " * 40)
TABLES = """
[text]
model = "text.onnx"
tokenizer = "tokenizer.json"
length = {length}
pad = {pad}
output = "vectors"

[image]
model = "image.onnx"
size = {size}
layout = "nchw"
dtype = "float32"
mean = {mean}
std = {std}
fit = "{fit}"
resample = "{resample}"
output = "vectors"
"""


def export_encoder(name: str, out: Path) -> Encoder:
    """Write an encoder as a folder for ``onnx:``, and return it as loaded from there."""
    need("onnx", extra="train")
    if not name.startswith("hf:"):
        raise BadInput(f"{name!r} cannot be exported: write hf:NAME_OR_PATH, a CLIP-like model of transformers.")
    if out.exists() and not (out / DESCRIPTION).exists():
        raise BadInput(f"{out} exists and is not an encoder's folder. Name a new folder.")
    encoder = encoders.load(name)
    if not isinstance(encoder, TowerEncoder):
        raise BadInput(f"{name!r} has no towers that could be exported.")
    text, image = encoder.text, encoder.image
    if not isinstance(text, HfText) or not isinstance(image, HfImages):
        raise BadInput(f"{name!r} has no towers that could be exported.")
    tables = _tables(text, image, name)
    with replacing_folder(out) as folder:
        _write(text, image, tables["size"], folder)
        describe(folder, _plain_name(name), encoder.dim, TABLES.format(**tables))
        _compare(encoder, encoders.load(f"onnx:{folder}"), int(tables["size"]))
    return encoders.load(f"onnx:{out}")


def _plain_name(name: str) -> str:
    return Path(name.removeprefix("hf:")).name


def _tables(text: HfText, image: HfImages, name: str) -> dict[str, Any]:
    """Return what ``encoder.toml`` says; refuse what it cannot say."""
    if not isinstance(text.splitter, Splitter) or text.left:
        raise BadInput(f"{name!r} cannot be exported: its tokenizer has no tokenizer.json, or pads on the left.")
    recipe = image.recipe
    if recipe is None or recipe.frame.resample not in RESAMPLES or abs(recipe.factor - 1 / 255) > 1e-9:
        raise BadInput(f"{name!r} cannot be exported: encoder.toml cannot describe how it prepares pictures.")
    return {
        "length": text.splitter.length,
        "pad": text.pad,
        "size": recipe.frame.size,
        "fit": recipe.frame.fit,
        "resample": recipe.frame.resample,
        "mean": json.dumps(list(recipe.mean)),
        "std": json.dumps(list(recipe.std)),
    }


class _TextGraph(nn.Module):
    """The text tower: tokens and mask, ``(n, t)`` each."""

    def __init__(self, text: HfText) -> None:
        super().__init__()
        self.model, self.how, self.pad = text.model.model, text.architecture, text.pad
        self.length = text.splitter.length

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        tokens = torch.where(mask.bool(), tokens, torch.full_like(tokens, self.pad))
        if self.how.pad_to_length:
            more = torch.full((tokens.shape[0], self.length - tokens.shape[1]), self.pad, dtype=torch.long)
            tokens = torch.cat([tokens, more], dim=1)
        inputs = {"input_ids": tokens} | ({"attention_mask": mask} if self.how.masked else {})
        return self.how.text(self.model, inputs)  # type: ignore[no-any-return]


class _ImageGraph(nn.Module):
    """The image tower: pixels, ``(n, 3, size, size)``."""

    def __init__(self, image: HfImages) -> None:
        super().__init__()
        self.model, self.how = image.model.model, image.architecture

    def forward(self, pixels: Tensor) -> Tensor:
        return self.how.image(self.model, {"pixel_values": pixels})  # type: ignore[no-any-return]


def _write(text: HfText, image: HfImages, size: int, folder: Path) -> None:
    if not isinstance(text.splitter, Splitter):
        raise BadInput("The tokenizer has no tokenizer.json.")
    (passage,) = text.splitter.split(["a"])[0]
    tokens = torch.tensor(np.stack([passage.tokens] * 2), dtype=torch.long)
    vectors = {"vectors": {0: "n"}}
    write(
        _TextGraph(text),
        (tokens, torch.ones_like(tokens)),
        folder / "text.onnx",
        {"tokens": FREE, "mask": FREE},
        vectors,
    )
    write(_ImageGraph(image), (torch.zeros((2, 3, size, size)),), folder / "image.onnx", {"pixels": {0: "n"}}, vectors)
    text.splitter.tokenizer.save(str(folder / "tokenizer.json"))


def _compare(encoder: Encoder, exported: Encoder, size: int) -> None:
    """Raise if the vectors of a few texts and pictures differ."""
    rng = np.random.default_rng(0)
    shapes = [(size, size, 3), (size, size + size // 2, 3), (2 * size, size, 3)]
    pictures = [rng.integers(0, 255, size=shape, dtype=np.uint8) for shape in shapes]
    asked: Sequence[str | Query] = [*PROBES, *(Query(image=picture) for picture in pictures)]
    one, other = encoder.encode_queries(asked), exported.encode_queries(asked)
    for part, matrix in one.parts.items():
        apart = float(np.abs(matrix - other.parts[part]).max())
        if apart > NEAR:
            raise BadFile(
                f"The exported {part} tower gives other vectors (by {apart:.1e}). Nothing was written; use the encoder "
                "itself, and report this with the model's name."
            )
