"""COCO and Flickr30k as Karpathy split them.

    DIR/dataset_coco.json          DIR/val2014/…, or DIR/images/val2014/…
    DIR/dataset_flickr30k.json     DIR/flickr30k-images/…, or DIR/images/…

Both are ``{"images": [{"filename", "split", "imgid", "sentences": [{"raw"}, …]}, …]}``; COCO's have ``filepath``
too, the folder of the photo. The test split is searched (5,000 photos of COCO, 1,000 of Flickr30k) with five captions
each; ``to-texts`` searches for captions with photos. The val split provides references; with ``train`` a random fifth
of the training split does (of COCO with ``restval``), as in Chowdhury et al., Nearest Neighbor Normalization (2024),
§3.1: ``flickr30k:train``, ``flickr30k:to-texts,train``. Reference: Karpathy & Fei-Fei, Deep Visual-Semantic Alignments,
CVPR 2015.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from isthmus.errors import BadFile
from isthmus.evaluate.benchmarks.base import Benchmark
from isthmus.evaluate.benchmarks.captions import DIRECTIONS, Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, listed
from isthmus.registry import lookup

SPLITS = "https://cs.stanford.edu/people/karpathy/deepimagesent/"
HOMES = {
    "coco": f"{SPLITS} (the photos from https://cocodataset.org)",
    "flickr30k": f"{SPLITS} (the photos from https://shannon.cs.illinois.edu/DenotationGraph/)",
}
TRAIN = "train"
FOLDERS = {
    "coco": ("val2014", "images/val2014"),
    "flickr30k": ("flickr30k-images", "flickr30k_images", "images"),
}


def load(name: str, data: Path, words: Sequence[str]) -> Benchmark:
    """Read one of the two, in a direction and with the references that the words say."""
    for word in words:
        lookup({**DIRECTIONS, TRAIN: None}, word, f"variant of {name}")
    direction = DIRECTIONS[next((word for word in words if word in DIRECTIONS), "to-images")]
    folder = BenchmarkFolder(data, name, HOMES[name])
    path = folder.file(f"dataset_{name}.json")
    photos = folder.file(*FOLDERS[name])
    splits: dict[str, list[Captioned]] = {}
    for number, row in enumerate(listed(path, "images"), 1):
        try:
            where = photos.parent / row["filepath"] if "filepath" in row else photos
            captions = [sentence["raw"].strip() for sentence in row["sentences"]]
            splits.setdefault(row["split"], []).append(Captioned(row["filename"], where / row["filename"], captions))
        except (KeyError, TypeError) as error:
            raise BadFile(f"{path}: photo {number} does not have Karpathy's layout: {error}.") from None
    other = _fifth([*splits.get(TRAIN, []), *splits.get("restval", [])]) if TRAIN in words else splits.get("val", [])
    return direction(":".join([name, ",".join(words)] if words else [name]), splits.get("test", []), other)


def _fifth(photos: Sequence[Captioned]) -> list[Captioned]:
    """Draw a fifth of the photos, at least one, and keep their order."""
    chosen = np.random.default_rng(0).permutation(len(photos))[: math.ceil(len(photos) / 5)]
    return [photos[row] for row in sorted(chosen.tolist())]


coco = partial(load, "coco")
flickr30k = partial(load, "flickr30k")
