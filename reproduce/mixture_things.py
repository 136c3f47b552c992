"""Things with a picture, a text and texts to ask for them, from each data set; and texts without pictures."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mix_set import coco, pages

from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.train.data import drawings
from isthmus.train.data.packs import PackedPictures
from isthmus.train.data.wordnet import Nouns

WORDNET = Path("/usr/share/wordnet")
TAGS = slice(len(drawings.PATTERNS), len(drawings.PATTERNS) + 4)  # of the texts of a drawing


@dataclass(frozen=True)
class Thing:
    """A picture file, a text about the same, and other texts to ask with; things of one ``name`` are alike."""

    id: str
    picture: bytes
    text: str
    asked: Sequence[str]
    name: str = ""


@dataclass(frozen=True)
class Claims:
    """Abstracts by id, claims about some of them, and which abstracts are right for a claim."""

    abstracts: dict[str, str]
    claims: dict[str, str]
    qrels: dict[str, dict[str, int]]


def flickr(data: Path) -> list[Thing]:
    """Return Flickr8k's dev photos: the first caption is the text, the others ask."""
    found = flickr8k.split(BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME), "dev")
    return [Thing(Path(each.id).stem, each.image.read_bytes(), each.captions[0], each.captions[1:5]) for each in found]


def photos(packs: Path) -> list[Thing]:
    """Return COCO's test photos, in the same way."""
    found = coco(packs, "test")
    files = zip(found.names, found.captions, found.files(), strict=True)
    return [Thing(Path(name).stem, data, captions[0], captions[1:5]) for name, captions, data in files]


def scans(data: Path) -> list[Thing]:
    """Return the scanned pages that training never saw, with their parsed text and questions about them."""
    found = pages(data / "docvqa", test=True)
    return [Thing(page.name, page.image.read_bytes(), page.text, page.questions) for page in found]


def drawn(packs: Path, kinds: Iterable[str], half: int | None = None) -> list[Thing]:
    """Return drawings whose names training never saw, each picture once; ``half`` selects by the name.

    The text is the tags and the definition, without the name, which is what people ask with.
    """
    things: dict[bytes, Thing] = {}
    for kind in kinds:
        found = PackedPictures.open(packs / kind)
        for at, (texts, data) in enumerate(zip(found.captions, found.files(), strict=True)):
            name = texts[0]
            if drawings.held_out(name) and (half is None or zlib.crc32(name.encode()) % 2 == half):
                text = _described(name, texts)
                things.setdefault(data, Thing(f"{kind}-{at}", data, text, (name, texts[3]), name))
    return list(things.values())


def _described(name: str, texts: Sequence[str]) -> str:
    definition = [text.removeprefix(f"{name}: ") for text in texts if text.startswith(f"{name}: ")]
    tags = [text for text in texts[TAGS] if ": " not in text]
    return "; ".join(part for part in (", ".join(tags), *definition) if part)


def definitions(count: int, without: Iterable[str], rng: np.random.Generator) -> dict[str, str]:
    """Return definitions of nouns that are not among some names."""
    names = {name.lower() for name in without}
    synsets = [each for each in Nouns.read(WORDNET).synsets.values() if names.isdisjoint(map(str.lower, each.lemmas))]
    chosen = rng.choice(len(synsets), count, replace=False)
    return {f"definition-{at}": f"{synsets[at].lemmas[0]}: {synsets[at].gloss}" for at in chosen}


def claims(data: Path, split: str, abstracts: int, count: int, rng: np.random.Generator) -> Claims:
    """Return ``count`` claims of a split of SciFact, the right abstracts and others; the splits share no abstract."""
    read, other = (load(f"beir:scifact,{name}", data) for name in (split, "test" if split == "train" else "train"))
    judged_elsewhere = {name for judged in other.qrels.values() for name in judged}
    texts = {each.id: each.text or "" for each in read.documents if each.id not in judged_elsewhere}
    able = [each for each in read.questions if set(read.qrels[each.id]) <= texts.keys()]
    chosen = [able[at] for at in rng.choice(len(able), min(count, len(able)), replace=False)]
    qrels = {each.id: dict(read.qrels[each.id]) for each in chosen}
    right = list(dict.fromkeys(name for judged in qrels.values() for name in judged))
    judged_here = {name for judged in read.qrels.values() for name in judged}
    half = [name for name in texts if name not in judged_here and zlib.crc32(name.encode()) % 2 == (split == "test")]
    rest = [half[at] for at in rng.permutation(len(half))[: max(0, abstracts - len(right))]]
    return Claims(
        {name: texts[name] for name in [*right, *rest]},
        {each.id: each.query.text or "" for each in chosen},
        qrels,
    )
