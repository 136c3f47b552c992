"""COCO's photos: which are for training, which for choosing (dev) and which for the test.

The photos and captions are packed by the script that comes with the captions: ``coco`` holds the photos with captions,
``coco-plain`` those without. The lists of 1,000 photos for dev and for test, each with five captions, are in the
package. Photos that look almost like one of them are left out of training (``duplicates``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib import resources

SPLITS = ("dev", "test")
PER_PHOTO = 5  # captions of the photos in dev and test


def listed(split: str) -> list[str]:
    """Return the names of the photos of dev or test."""
    return resources.files("isthmus.train.data").joinpath(f"coco_{split}.txt").read_text("utf-8").split()


def drawn(names: Sequence[str], captions: Sequence[Sequence[str]], count: int, seed: int = 0) -> dict[str, list[str]]:
    """Draw dev and test from the photos with five captions; this made the lists."""
    eligible = sorted(name for name, each in zip(names, captions, strict=True) if len(each) >= PER_PHOTO)
    picked = random.Random(seed).sample(eligible, count * len(SPLITS))  # noqa: S311 - a sample, not a secret
    return {split: sorted(picked[at * count : (at + 1) * count]) for at, split in enumerate(SPLITS)}
