"""COCO and Flickr30k as Karpathy split them.

    DIR/dataset_coco.json          DIR/val2014/…, or DIR/images/val2014/…
    DIR/dataset_flickr30k.json     DIR/flickr30k-images/…, or DIR/images/…

Both are ``{"images": [{"filename", "split", "imgid", "sentences": [{"raw"}, …]}, …]}``; COCO's have ``filepath``
too, the folder of the photo. The test split is searched (5,000 photos of COCO, 1,000 of Flickr30k) with five captions
each; the val split provides references. Reference: Karpathy & Fei-Fei, Deep Visual-Semantic Alignments, CVPR 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

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
FOLDERS = {
    "coco": ("val2014", "images/val2014"),
    "flickr30k": ("flickr30k-images", "flickr30k_images", "images"),
}


def load(name: str, data: Path, words: Sequence[str]) -> Benchmark:
    """Read one of the two; ``to-texts`` searches for captions with photos."""
    direction = lookup(DIRECTIONS, words[0] if words else "to-images", f"direction of {name}")
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
    return direction(":".join([name, *words]), splits.get("test", []), splits.get("val", []))


coco = partial(load, "coco")
flickr30k = partial(load, "flickr30k")
