"""``isthmus export-encoder``: write an encoder of torch as an ``onnx:`` folder, which runs without torch.

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

from isthmus import encoders
from isthmus._optional import need
from isthmus.atomic import replacing_folder
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.encoders.folder import DESCRIPTION
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadFile, BadInput
from isthmus.train.export import FREE, describe
from isthmus.train.exportable import ExportableImages, ExportableText, exportable_images, exportable_text
from isthmus.train.onnx import write

FAMILIES = ("hf", "st", "open_clip")
NEAR = 1e-4  # the largest difference of a vector's numbers
PROBES = ("a cat on a red sofa", "dog", "the house and the tree " * 40)
SIDES = ((1, 1), (1, 1.5), (2, 1))  # heights and widths of the pictures that are compared, in sizes of the model's
TEXT_TABLE = """
[text]
model = "text.onnx"
tokenizer = "tokenizer.json"
length = {length}
pad = {pad}
query = {query}
document = {document}
output = "vectors"
"""
IMAGE_TABLE = """
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
    kind, _, rest = name.partition(":")
    if kind not in FAMILIES or not rest:
        raise BadInput(
            f"{name!r} cannot be exported: write an encoder of torch with towers for texts and pictures, "
            f"{', '.join(f'{each}:NAME' for each in FAMILIES)}."
        )
    if out.exists() and not (out / DESCRIPTION).exists():
        raise BadInput(f"{out} exists and is not an encoder's folder. Name a new folder.")
    encoder = encoders.load(name)
    if not isinstance(encoder, TowerEncoder) or encoder.text is None:
        raise BadInput(f"{name!r} cannot be exported: it has no towers, but one model for texts and pictures together.")
    try:
        text = exportable_text(encoder.text)
        image = None if encoder.image is None else exportable_images(encoder.image)
    except BadInput as error:
        raise BadInput(f"{name!r} cannot be exported: {error}.") from None
    with replacing_folder(out) as folder:
        tables = _write_text(text, folder) + ("" if image is None else _write_images(image, folder))
        describe(folder, Path(rest).name, encoder.dim, tables)
        _compare(encoder, encoders.load(f"onnx:{folder}"), None if image is None else image.recipe.frame.size)
    return encoders.load(f"onnx:{out}")


def _write_text(text: ExportableText, folder: Path) -> str:
    """Write the model and the tokenizer, and return what ``encoder.toml`` says of them."""
    (passage,) = text.splitter.split(["a"])[0]
    tokens = torch.tensor(np.stack([passage.tokens] * 2), dtype=torch.long)
    given = (tokens, torch.ones_like(tokens))
    write(text.graph, given, folder / "text.onnx", {"tokens": FREE, "mask": FREE}, {"vectors": {0: "n"}})
    text.splitter.tokenizer.save(str(folder / "tokenizer.json"))
    return TEXT_TABLE.format(
        length=text.splitter.length, pad=text.pad, query=json.dumps(text.query), document=json.dumps(text.document)
    )


def _write_images(image: ExportableImages, folder: Path) -> str:
    """Write the model, and return what ``encoder.toml`` says of it."""
    recipe = image.recipe
    pixels = torch.zeros((2, 3, recipe.frame.size, recipe.frame.size))
    write(image.graph, (pixels,), folder / "image.onnx", {"pixels": {0: "n"}}, {"vectors": {0: "n"}})
    return IMAGE_TABLE.format(
        size=recipe.frame.size,
        fit=recipe.frame.fit,
        resample=recipe.frame.resample,
        mean=json.dumps(list(recipe.mean)),
        std=json.dumps(list(recipe.std)),
    )


def _compare(encoder: Encoder, exported: Encoder, size: int | None) -> None:
    """Raise if the vectors of a few texts and pictures differ, as queries or as documents.

    A text that is divided at other places has other vectors: `open_clip:` halves texts, as its tokenizer does not say
    where tokens are.
    """
    rng = np.random.default_rng(0)
    sides = [] if size is None else [(round(high * size), round(wide * size), 3) for high, wide in SIDES]
    pictures: list[Any] = [rng.integers(0, 255, size=each, dtype=np.uint8) for each in sides]
    texts = [text for text in PROBES if encoder.split(text) == exported.split(text)]
    asked: Sequence[str | Query] = [*texts, *(Query(image=picture) for picture in pictures)]
    documents = [Document(id=str(at), text=text) for at, text in enumerate(texts)]
    several = [
        (encoder.encode_queries(asked), exported.encode_queries(asked)),
        (encoder.encode_documents(documents), exported.encode_documents(documents)),
    ]
    for one, other in several:
        for part, matrix in one.parts.items():
            apart = float(np.abs(matrix - other.parts[part]).max())
            if apart > NEAR:
                raise BadFile(
                    f"The exported {part} tower gives other vectors (by {apart:.1e}). Nothing was written; use the "
                    "encoder itself, and report this with the model's name."
                )
