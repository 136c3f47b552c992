"""The speed of an encoder, with decoding and tokenising, relative to its bare ONNX model; and its cold start.

    python bench/encode.py

Texts are those of the built-in bank; photos are synthetic (500 × 375 JPEG, noise and gradients). Read the ratios.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from machine import seconds
from PIL import Image
from tokenizers import Tokenizer

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache

FOLDER = Path(encoders.__file__).parent / "mini"
COLD = "from isthmus import encoders; from isthmus.documents import Query; "
COLD += "encoders.load('mini').encode_queries([Query(text='a cat on a red sofa')])"


def session(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
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


def main(texts: int = 512, images: int = 128, batch: int = 32) -> None:
    encoder = encoders.load("mini", batch=batch, cache=MemoryCache(limit=0))
    bank_queries = [Query(text=text) for text in queries()[:texts]]
    pictures = [Document(id=str(i), image=picture) for i, picture in enumerate(photos(images))]
    text, image = session("text.onnx"), session("image.onnx")
    words = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    words.no_padding()
    lengths = np.sort([len(words.encode(q.text or "").ids) for q in bank_queries])
    tokens = [np.ones((batch, int(part.max())), dtype=np.int64) for part in np.array_split(lengths, texts // batch)]
    pixels = np.zeros((batch, 256, 256, 3), dtype=np.uint8)
    bare_text = seconds(lambda: [text.run(None, {"tokens": t, "mask": t}) for t in tokens])
    bare_image = seconds(lambda: [image.run(None, {"pixels": pixels}) for _ in range(images // batch)])
    with tempfile.TemporaryDirectory() as folder:
        whole_text, whole_image = (unquantised(name, Path(folder)) for name in ("text.onnx", "image.onnx"))
        float_text = seconds(lambda: [whole_text.run(None, {"tokens": t, "mask": t}) for t in tokens])
        float_image = seconds(lambda: [whole_image.run(None, {"pixels": pixels}) for _ in range(images // batch)])
    ours_text = seconds(lambda: encoder.encode_queries(bank_queries))
    ours_image = seconds(lambda: encoder.encode_documents(pictures))
    cold = seconds(lambda: subprocess.run([sys.executable, "-c", COLD], check=True))  # noqa: S603 - our own line
    print(f"texts   {texts / ours_text:8.0f}/s   {bare_text / ours_text:5.2f} of the bare model (tokenising included)")
    print(
        f"images  {images / ours_image:8.0f}/s   {bare_image / ours_image:5.2f} of the bare model (decoding included)"
    )
    ratios = f"{bare_text / float_text:.2f} (texts) and {bare_image / float_image:.2f} (images)"
    print(f"with float32 weights on disk the bare model runs at {ratios} of the shipped one's speed")
    print(f"cold start of process, model and one query: {cold:.2f} s")


if __name__ == "__main__":
    main()
