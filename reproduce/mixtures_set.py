"""Build the benchmark of mixtures: corpora that differ in what is text and what is picture (docs/evaluate.md).

    python reproduce/mixtures_set.py --data DIR --packs PACKS [--out OUT]
                       (needs flickr8k/, scifact/, docvqa/, packed COCO and drawings, WordNet; a minute)

In OUT (``out/mixtures``) each mixture has a folder that ``isthmus evaluate mixtures:NAME --data OUT`` reads. A thing is
a text, a picture, both in one document, or *apart*: a picture and a text in two documents. Texts to ask with are not in
the documents. A picture to ask with is a crop of 70 to 90% of the area, compressed again; one in four is the identical
file. The document with the same picture has grade 2, or the text if there is none; other texts about the thing, and
things of the same name, have grade 1. For a question in words all documents of the thing have grade 2.

``mini`` was trained on no photo, page or name of a drawing here; WordNet's definitions it has seen, as texts. Only
mixtures named ``-dev`` are for designing methods.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mixture_things as source
import numpy as np
from mixture_things import Thing
from PIL import Image
from tables import Row, arguments, compared

SEED = 17
TEXT, IMAGE, BOTH, APART = "text", "image", "image+text", "apart"
EVEN = (TEXT, IMAGE, BOTH, BOTH, APART)  # in turn: as many texts as pictures as documents of both
PHOTOS = (IMAGE, IMAGE, BOTH)
QUESTIONS: Mapping[str, int] = {TEXT: 75, IMAGE: 38, BOTH: 37}  # of each kind of thing, at most
IDENTICAL = 4  # one in so many pictures to ask with is the same file
AREA = (0.7, 0.9)  # of a crop
QUALITY = (40, 80)  # of a crop, as JPEG


@dataclass(frozen=True)
class Mixture:
    """Things and the kinds they take in turn; texts beside them, and questions about these."""

    things: Sequence[Thing]
    kinds: Sequence[str] = EVEN
    texts: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    qrels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Placed:
    """A thing as documents of the corpus: what kind it took."""

    thing: Thing
    kind: str

    def documents(self) -> Iterator[tuple[str, bool, bool]]:
        """Yield the id of each document, and whether it has the text and the picture."""
        name = self.thing.id
        if self.kind == APART:
            yield from ((f"{name}#image", False, True), (f"{name}#text", True, False))
        else:
            yield name, self.kind != IMAGE, self.kind != TEXT


class Folder:
    """The folder of a mixture: pictures are written as they come, the tables at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.documents: list[dict[str, str]] = []
        self.queries: list[dict[str, str]] = []
        self.qrels: list[tuple[str, str, int]] = []
        (path / "images").mkdir(parents=True, exist_ok=True)

    def picture(self, name: str, data: bytes) -> str:
        """Write a picture; return its path in the folder."""
        inside = f"images/{name.replace('/', '_')}"
        (self.path / inside).write_bytes(data)
        return inside

    def ask(self, query: Mapping[str, str], judged: Mapping[str, int]) -> None:
        """Add a question."""
        name = f"q{len(self.queries)}"
        self.queries.append({"id": name, **query})
        self.qrels += [(name, document, grade) for document, grade in judged.items()]

    def close(self) -> None:
        """Write the tables."""
        for name, several in (("documents", self.documents), ("queries", self.queries)):
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in several)
            (self.path / f"{name}.jsonl").write_text(text, "utf-8")
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in self.qrels)]
        (self.path / "qrels.tsv").write_text("\n".join(lines) + "\n", "utf-8")


def place(mixture: Mixture, rng: np.random.Generator) -> list[Placed]:
    """Give the things their kinds in turn, in random order; a thing without a text is a picture."""
    things = [mixture.things[at] for at in rng.permutation(len(mixture.things))]
    kinds = [mixture.kinds[at % len(mixture.kinds)] for at in range(len(things))]
    return [Placed(thing, kind if thing.text else IMAGE) for thing, kind in zip(things, kinds, strict=True)]


def grades(asked: str, placed: Placed, alike: Sequence[Placed]) -> dict[str, int]:
    """Return the grade of each right document of a question about a thing."""
    others = {name: 1 for other in alike for name, _, _ in other.documents()}
    equal = asked == TEXT or placed.kind == TEXT  # no better document than the text
    own = {name: 2 if pictured or equal else 1 for name, _, pictured in placed.documents()}
    return others | own


def crop(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a random crop of a picture, compressed again."""
    with Image.open(io.BytesIO(data)) as opened:
        rgba = opened.convert("RGBA")
    flat = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    side = float(np.sqrt(rng.uniform(*AREA)))
    width, height = (max(1, round(side * full)) for full in flat.size)
    left, top = (int(rng.integers(full - part + 1)) for full, part in zip(flat.size, (width, height), strict=True))
    out = io.BytesIO()
    flat.crop((left, top, left + width, top + height)).save(out, "JPEG", quality=int(rng.integers(*QUALITY)))
    return out.getvalue()


def write(path: Path, mixture: Mixture, rng: np.random.Generator) -> Folder:
    """Write a mixture into its folder."""
    folder = Folder(path)
    placed = place(mixture, rng)
    files = _documents(folder, placed)
    folder.documents += [{"id": name, "text": text} for name, text in mixture.texts.items()]
    for claim, text in mixture.claims.items():
        folder.ask({"text": text}, mixture.qrels[claim])
    by_name: dict[str, list[Placed]] = {}
    for each in placed:
        by_name.setdefault(each.thing.name or each.thing.id, []).append(each)
    for asked, count in QUESTIONS.items():
        for kind in dict.fromkeys(mixture.kinds):
            able = [each for each in placed if each.kind == kind]
            for at, row in enumerate(rng.permutation(len(able))[:count]):
                each = able[row]
                same = files.get(each.thing.id) if at % IDENTICAL == 0 else None
                alike = [one for one in by_name[each.thing.name or each.thing.id] if one is not each]
                folder.ask(_query(folder, asked, each.thing, same, rng), grades(asked, each, alike))
    folder.close()
    return folder


def _documents(folder: Folder, placed: Sequence[Placed]) -> dict[str, str]:
    """Add the documents of things; return the picture file of each thing that has one."""
    files: dict[str, str] = {}
    for each in placed:
        for name, has_text, has_picture in each.documents():
            row = {"id": name} | ({"text": each.thing.text} if has_text else {})
            if has_picture:
                row["image"] = files[each.thing.id] = folder.picture(f"{each.thing.id}.webp", each.thing.picture)
            folder.documents.append(row)
    return files


def _query(folder: Folder, asked: str, thing: Thing, same: str | None, rng: np.random.Generator) -> dict[str, str]:
    query = {}
    if asked != IMAGE:
        query["text"] = thing.asked[int(rng.integers(len(thing.asked)))]
    if asked != TEXT:
        query["image"] = same or folder.picture(f"q{len(folder.queries)}.jpg", crop(thing.picture, rng))
    return query


def _claims(things: Sequence[Thing], data: Path, split: str, rng: np.random.Generator) -> Mixture:
    """Mix abstracts, and claims about them, with 365 photos and 183 captioned photos."""
    found = source.claims(data, split, 1500, 200, rng)
    some = [things[at] for at in rng.permutation(len(things))[:548]]
    return Mixture(some, PHOTOS, found.abstracts, found.claims, found.qrels)


def _named(things: Sequence[Thing], count: int, rng: np.random.Generator) -> Mixture:
    """Mix named drawings with definitions of other words."""
    return Mixture(things, texts=source.definitions(count, [thing.name for thing in things], rng))


def _drawings(packs: Path) -> list[Thing]:
    """Return clip art and stamps without the names of ``emoji-dev``."""
    seen = {thing.name for thing in source.drawn(packs, ["emoji"], half=0)}
    return [thing for thing in source.drawn(packs, ["clipart", "stamps"]) if thing.name not in seen]


def _folder(data: Path, packs: Path, rng: np.random.Generator) -> Mixture:
    """Mix some of everything, as in a person's folder: abstracts, pages, photos, emoji, definitions."""
    several = source.photos(packs), source.scans(data), source.drawn(packs, ["emoji"], half=1)
    things = [group[at] for group in several for at in rng.permutation(len(group))[:250]]
    found = source.claims(data, "test", 500, 100, rng)
    others = source.definitions(250, [thing.name for thing in things], rng)
    return Mixture(things, texts=found.abstracts | others, claims=found.claims, qrels=found.qrels)


Make = Callable[[Path, Path, np.random.Generator], Mixture]

MIXTURES: Mapping[str, Make] = {
    "photos-dev": lambda data, _packs, _rng: Mixture(source.flickr(data)),
    "claims-dev": lambda data, _packs, rng: _claims(source.flickr(data), data, "train", rng),
    "emoji-dev": lambda _data, packs, rng: _named(source.drawn(packs, ["emoji"], half=0), 500, rng),
    "coco": lambda _data, packs, _rng: Mixture(source.photos(packs)),
    "claims-coco": lambda data, packs, rng: _claims(source.photos(packs), data, "test", rng),
    "drawings": lambda _data, packs, rng: _named(_drawings(packs), 500, rng),
    "folder": _folder,
    "pages": lambda data, _packs, _rng: Mixture(source.scans(data)),
}


def build(data: Path, packs: Path, out: Path) -> list[Row]:
    """Write all mixtures; return what each holds."""
    rows: list[Row] = []
    for name, make in MIXTURES.items():
        rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
        folder = write(out / name, make(data, packs, rng), rng)
        documents, queries = (
            {kind: sum(_modality(row) == kind for row in several) for kind in (TEXT, IMAGE, BOTH)}
            for several in (folder.documents, folder.queries)
        )
        rows.append({"mixture": name, **_counts("", documents), **_counts("asked by ", queries)})
    return rows


def _modality(row: Mapping[str, str]) -> str:
    return "+".join(part for part in (IMAGE, TEXT) if part in row)


def _counts(prefix: str, counted: Mapping[str, int]) -> Row:
    return {f"{prefix}{kind}": str(count) for kind, count in counted.items()}


if __name__ == "__main__":
    more = {"packs": "packed photos and drawings", "out": "default: out/mixtures"}
    options = arguments(__doc__, more)
    made = build(options.data, Path(options.packs), Path(options.out or "out/mixtures"))
    raise SystemExit(compared("mixtures_set", made, options.write))
