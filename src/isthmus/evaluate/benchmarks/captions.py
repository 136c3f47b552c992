"""Shared by COCO, Flickr30k and Flickr8k: photos with five captions each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isthmus.documents import Document, Query
from isthmus.evaluate.benchmarks.base import Benchmark, Question

CAPTIONS = 5  # of a photo; the few more that COCO has are left out, as is usual


@dataclass(frozen=True)
class Captioned:
    """A photo and its captions."""

    id: str
    image: Path
    captions: Sequence[str]


def captions_to_photos(name: str, test: Sequence[Captioned], other: Sequence[Captioned]) -> Benchmark:
    """Search for each photo with each of its captions; the other split provides references."""
    return Benchmark(
        name,
        [Document(photo.id, image=photo.image) for photo in test],
        [Question(key, Query(caption)) for photo in test for key, caption in _captions(photo)],
        {key: {photo.id: 1} for photo in test for key, _ in _captions(photo)},
        [(Query(caption), photo.id) for photo in other for _, caption in _captions(photo)],
        [Document(photo.id, image=photo.image) for photo in other],
    )


def photos_to_captions(name: str, test: Sequence[Captioned], other: Sequence[Captioned]) -> Benchmark:
    """Search for the five captions of each photo with the photo; the other split provides references."""
    return Benchmark(
        name,
        [Document(key, caption) for photo in test for key, caption in _captions(photo)],
        [Question(photo.id, Query(image=photo.image)) for photo in test],
        {photo.id: dict.fromkeys((key for key, _ in _captions(photo)), 1) for photo in test},
        [(Query(image=photo.image), next(key for key, _ in _captions(photo))) for photo in other],
        [Document(key, caption) for photo in other for key, caption in _captions(photo)],
    )


DIRECTIONS = {"to-images": captions_to_photos, "to-texts": photos_to_captions}


def _captions(photo: Captioned) -> list[tuple[str, str]]:
    return [(f"{photo.id}#{number}", caption) for number, caption in enumerate(photo.captions[:CAPTIONS])]
