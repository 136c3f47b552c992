"""The speed of the embedded encoders, decoding and tokenising included, relative to their bare ONNX models; cold start.

    python bench/encode.py                    (`base` only where CLIP's image tower is found: docs/encoders.md)
    python bench/encode.py --device cuda      (`base` on a GPU, in float32 and in bfloat16)

Texts are those of the built-in bank; photos are synthetic (500 × 375 JPEG, noise and gradients). Encoder and bare model
alternate, because machines drift. Read the ratios. Of texts, the processor time on one thread is compared as well.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from machine import seconds, share, work_share
from PIL import Image
from tokenizers import Tokenizer

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.base import Settings
from isthmus.encoders.cache import MemoryCache
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.clip_torch import TorchClip
from isthmus.encoders.locations import EMBEDDED
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.vit import build
from isthmus.errors import MissingExtra

FOLDER = EMBEDDED["mini"]
COLD = "from isthmus import encoders; from isthmus.documents import Query; "
COLD += "encoders.load('mini').encode_queries([Query(text='a cat on a red sofa')])"


def session(name: str, threads: int | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or os.cpu_count() or 1
    return onnxruntime.InferenceSession(str(FOLDER / name), options)


def unquantised(name: str, folder: Path) -> onnxruntime.InferenceSession:
    """Write the model with its weights converted back to float32, and open it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / name)
    onnxruntime.InferenceSession(str(FOLDER / name), options)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    return onnxruntime.InferenceSession(str(folder / name), options)


def photos(n: int) -> list[bytes]:
    rng = np.random.default_rng(0)
    made = []
    for _ in range(n):
        small = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize(
            (500, 375), Image.Resampling.BICUBIC
        )
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=90)
        made.append(buffer.getvalue())
    return made


def bare_texts(texts: list[Query], batch: int, threads: int | None = None) -> Callable[[], object]:
    """Return a run of the text model on tensors of the texts' lengths."""
    model, words = session("text.onnx", threads), Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    words.no_padding()
    lengths = np.sort([len(words.encode(query.text or "").ids) for query in texts])
    parts = np.array_split(lengths, len(texts) // batch)
    tokens = [np.ones((batch, int(part.max())), dtype=np.int64) for part in parts]
    return lambda: [model.run(None, {"tokens": each, "mask": each}) for each in tokens]


def bare_images(model: onnxruntime.InferenceSession, images: int, batch: int) -> Callable[[], object]:
    """Return a run of an image model on empty pictures."""
    size = model.get_inputs()[0].shape[1]
    pixels = np.zeros((batch, size, size, 3), dtype=np.uint8)
    return lambda: [model.run(None, {"pixels": pixels}) for _ in range(images // batch)]


def compare(name: str, image: onnxruntime.InferenceSession, images: int, *, texts: int = 512, batch: int = 32) -> None:
    """Print the rates of an encoder and its shares of the bare models' speed."""
    encoder = encoders.load(name, batch=batch, cache=MemoryCache(limit=0))
    asked = [Query(text=text) for text in queries()[:texts]]
    pictures = [Document(id=str(i), image=picture) for i, picture in enumerate(photos(images))]
    encoder.encode_documents(pictures[:1])  # base reads its tower when it is first used
    part, taken = share(bare_texts(asked, batch), lambda: encoder.encode_queries(asked), 5)
    print(f"{name}: {texts / taken:.0f} texts a second, {part:.2f} of the bare model (tokenising included)")
    alone = encoders.load(name, batch=batch, threads=1, cache=MemoryCache(limit=0))
    part = work_share(bare_texts(asked, batch, 1), lambda: alone.encode_queries(asked))
    print(f"{name}: texts take {1 / part:.2f} of the bare model's processor time, on one thread")
    part, taken = share(bare_images(image, images, batch), lambda: encoder.encode_documents(pictures), 5)
    print(f"{name}: {images / taken:.1f} photos a second, {part:.2f} of the bare model (decoding included)")


def base_image() -> onnxruntime.InferenceSession:
    """Build the image model of `base`, the projection included."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    path = EMBEDDED["base"] / "projection.npz"
    projection = ClipProjection.from_bytes(path.read_bytes(), path)
    return onnxruntime.InferenceSession(build(find_clip().read(), projection), options)


def compare_on_gpu(device: str, precision: str, *, images: int = 2048, batch: int = 256) -> None:
    """Print the rate of `base`'s pictures on a GPU, and its share of the bare model's on tensors of the device."""
    import torch

    encoder = encoders.load("base", device=device, precision=precision, batch=batch, cache=MemoryCache(limit=0))
    pictures = [Document(id=str(i), image=picture) for i, picture in enumerate(photos(images))]
    encoder.encode_documents(pictures[:batch])
    path = EMBEDDED["base"] / "projection.npz"
    projection = ClipProjection.from_bytes(path.read_bytes(), path)
    bare = TorchClip.of(find_clip().read(), projection, Settings(precision=precision), device).model
    pixels = torch.zeros((batch, 3, 224, 224), device=device, dtype=bare.dtype)

    def run() -> None:
        with torch.inference_mode():
            for _ in range(images // batch):
                found = bare(pixel_values=pixels).image_embeds
            found.cpu()

    part, taken = share(run, lambda: encoder.encode_documents(pictures), 3)
    print(
        f"base, {precision}: {images / taken:.0f} photos a second on {device}, {part:.2f} of the bare model's speed "
        f"(decoding included, {os.cpu_count()} cores)",
        flush=True,
    )


def main(device: str) -> None:
    if device != "cpu":
        for precision in ("full", "half"):
            compare_on_gpu(device, precision)
        return
    compare("mini", session("image.onnx"), 128)
    try:
        compare("base", base_image(), 32)
    except MissingExtra as missing:
        print(missing)
    with tempfile.TemporaryDirectory() as folder:
        for file, given in (
            ("text.onnx", dict.fromkeys(("tokens", "mask"), np.ones((32, 16), np.int64))),
            ("image.onnx", {"pixels": np.zeros((32, 256, 256, 3), np.uint8)}),
        ):
            shipped, whole = session(file), unquantised(file, Path(folder))
            part, _ = share(partial(shipped.run, None, given), partial(whole.run, None, given), 5)
            print(f"{file}: with float32 weights on disk the model runs at {part:.2f} of its speed")
    cold = seconds(lambda: subprocess.run([sys.executable, "-c", COLD], check=True))  # noqa: S603 - our own line
    print(f"cold start of process, model and one query: {cold:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    main(parser.parse_args().device)
