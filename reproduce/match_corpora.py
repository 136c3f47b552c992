"""The corpora on which the prior of P(match) is learned: mixtures, and collections of one modality or few documents.

Beside the three mixtures for design (``mixtures_set.py``), from the same things: photos alone, captions alone, emoji
alone, abstracts alone, the scanned pages of the half for training, and collections of about ten documents. None has a
document or a question of the held-out mixtures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import mixture_things as source
import numpy as np
from mix_set import pages
from mixture_things import Thing
from mixtures_set import EVEN, IMAGE, MIXTURES, SEED, TEXT, Mixture, write

SMALL = 8  # things in a small collection
SEVERAL = 8  # small collections of each kind
PHOTOS, CLAIMS, EMOJI, PAGES = "photos", "claims", "emoji", "pages"

Make = Callable[[Path, Path, np.random.Generator], Mixture]


@dataclass(frozen=True)
class Design:
    """A corpus: how it is made, and from which sources; two that share a source share documents."""

    make: Make
    sources: frozenset[str]


def _scans(data: Path) -> list[Thing]:
    found = pages(data / "docvqa", test=False)
    return [Thing(page.name, page.image.read_bytes(), page.text, page.questions) for page in found]


def _emoji(packs: Path) -> list[Thing]:
    return source.drawn(packs, ["emoji"], half=0)


def _some(things: Sequence[Thing], rng: np.random.Generator) -> list[Thing]:
    return [things[at] for at in rng.permutation(len(things))[:SMALL]]


def _abstracts(data: Path, count: int, asked: int, rng: np.random.Generator) -> Mixture:
    found = source.claims(data, "train", count, asked, rng)
    return Mixture([], texts=found.abstracts, claims=found.claims, qrels=found.qrels)


_LARGE: Mapping[str, Design] = {
    "photos-dev": Design(MIXTURES["photos-dev"], frozenset({PHOTOS})),
    "claims-dev": Design(MIXTURES["claims-dev"], frozenset({PHOTOS, CLAIMS})),
    "emoji-dev": Design(MIXTURES["emoji-dev"], frozenset({EMOJI})),
    "photos-alone": Design(lambda data, _, __: Mixture(source.flickr(data), (IMAGE,)), frozenset({PHOTOS})),
    "captions-alone": Design(lambda data, _, __: Mixture(source.flickr(data), (TEXT,)), frozenset({PHOTOS})),
    "abstracts-alone": Design(lambda data, _, rng: _abstracts(data, 500, 200, rng), frozenset({CLAIMS})),
    "emoji-alone": Design(lambda _, packs, __: Mixture(_emoji(packs), (IMAGE,)), frozenset({EMOJI})),
    "pages-train": Design(lambda data, _, __: Mixture(_scans(data), EVEN), frozenset({PAGES})),
}
_SMALL: Mapping[str, Design] = {
    "photos": Design(lambda data, _, rng: Mixture(_some(source.flickr(data), rng)), frozenset({PHOTOS})),
    "emoji": Design(lambda _, packs, rng: Mixture(_some(_emoji(packs), rng)), frozenset({EMOJI})),
    "abstracts": Design(lambda data, _, rng: _abstracts(data, SMALL, SMALL, rng), frozenset({CLAIMS})),
}
DESIGNS: Mapping[str, Design] = {
    **_LARGE,
    **{f"small-{name}-{at}": design for name, design in _SMALL.items() for at in range(SEVERAL)},
}


def build(data: Path, packs: Path, out: Path) -> None:
    """Write the corpora that are not there yet, each in a folder as ``isthmus evaluate mixtures:NAME`` reads it."""
    for name, design in DESIGNS.items():
        if not (out / name / "qrels.tsv").exists():
            rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
            write(out / name, design.make(data, packs, rng), rng)
