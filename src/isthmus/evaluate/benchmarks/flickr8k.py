"""Flickr8k: 8,000 photos with five captions each.

    DIR/Flickr8k.token.txt         photo.jpg#0 ⇥ a caption
    DIR/Flickr_8k.testImages.txt   DIR/Flickr_8k.devImages.txt
    DIR/Flicker8k_Dataset/…        or images/, or img224/ (small copies in WebP)

The test split is searched, the dev split provides references. Reference: Hodosh, Young & Hockenmaier, JAIR 47, 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from isthmus.evaluate.benchmarks.base import Benchmark
from isthmus.evaluate.benchmarks.captions import DIRECTIONS, Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder, lines
from isthmus.registry import lookup

HOME = "https://hockenmaier.cs.illinois.edu/8k-pictures.html"
FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images", "img224")
ENDINGS = {"img224": ".webp"}


def load(data: Path, words: Sequence[str]) -> Benchmark:
    """Read the test split; ``to-texts`` searches for captions with photos."""
    direction = lookup(DIRECTIONS, words[0] if words else "to-images", "direction of flickr8k")
    folder = BenchmarkFolder(data, "flickr8k", HOME)
    if (inner := folder.inside("flickr8k")).path.is_dir():
        folder = inner
    return direction(":".join(["flickr8k", *words]), split(folder, "test"), split(folder, "dev"))


def split(folder: BenchmarkFolder, name: str) -> list[Captioned]:
    """Read a split: ``train``, ``dev`` or ``test``; photos without captions are left out."""
    captions: dict[str, list[str]] = {}
    for line in lines(folder.file("Flickr8k.token.txt")):
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition("#")[0], []).append(caption.strip())
    photos = folder.file(*FOLDERS)
    ending = ENDINGS.get(photos.name)
    names = [line.strip() for line in lines(folder.file(f"Flickr_8k.{name}Images.txt"))]
    return [
        Captioned(photo, photos / (Path(photo).with_suffix(ending) if ending else photo), captions[photo])
        for photo in names
        if photo in captions
    ]
