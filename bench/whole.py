"""A whole collection: the speed of indexing relative to the encoder, and its cold start.

    python bench/whole.py [--only index cold] [--photos 256]

Photos are synthetic (500 × 375 JPEG). Read the ratios, not the seconds. `bench/engines.py` compares with other stores.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from encode import photos, session
from machine import seconds

from isthmus import Collection, Document, encoders
from isthmus.encoders.cache import MemoryCache


def index(count: int) -> None:
    """Index a folder of photos, compared with the encoder alone and with the bare image model on decoded pixels."""
    encoder = encoders.load("mini", cache=MemoryCache(limit=0))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "photos")
        folder.mkdir()
        for number, data in enumerate(photos(count)):
            (folder / f"{number:05}.jpg").write_bytes(data)
        pictures = [Document(path.name, image=path) for path in folder.iterdir()]
        model, pixels = session("image.onnx"), np.random.default_rng(0).integers(0, 255, (32, 256, 256, 3), np.uint8)
        name = model.get_inputs()[0].name
        bare, alone, ours = [], [], []
        for turn in range(3):  # in turns, because machines drift
            bare.append(seconds(lambda: model.run(None, {name: pixels})) / len(pixels))
            alone.append(seconds(lambda: encoder.encode_documents(pictures), 1) / count)
            with Collection.open(Path(scratch, f"{turn}.isthmus"), encoder, follow=False) as things:
                ours.append(seconds(lambda: things.index(folder), 1) / count)
    best = min(ours)
    shares = f"{min(alone) / best:.0%} of the encoder, {min(bare) / best:.0%} of its bare model"
    print(f"index: {1 / best:.0f} photos/s: {shares}")


def cold() -> None:
    """Search from a new process, its files in the page cache."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "a.isthmus")
        with Collection.open(place) as things:
            things.add(
                Document(str(n), f"note {n} about {word}") for n, word in enumerate(["cats", "tea", "snow"] * 700)
            )
            things.calibrate("center+nnn(k=16)+standardize")
        command = [sys.executable, "-m", "isthmus.cli", "search", "a cat", "--in", str(place)]
        taken = seconds(lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603 - our own
        imported = seconds(lambda: subprocess.run([sys.executable, "-c", "import isthmus"], check=True))
        bare = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    print(f"cold: isthmus search {taken:.2f} s (2,100 documents); import isthmus {imported - bare:.3f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=("index", "cold"), default=("index", "cold"))
    parser.add_argument("--photos", type=int, default=256)
    options = parser.parse_args()
    if "index" in options.only:
        index(options.photos)
    if "cold" in options.only:
        cold()
