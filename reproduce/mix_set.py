"""A mixed data set for ``isthmus train fusion``: captioned photos, pages with their text, photos with unrelated texts.

    python reproduce/mix_set.py --data DIR --packs PACKS [--out OUT]
                                            (needs scifact/, flickr8k/, docvqa/ and COCO's photos, packed; a minute)

No text or picture of the test sets (``fusion_mix.py``) occurs, and no photo that ``mini`` was trained on: photos are
those of the dev lists of COCO and of Flickr8k. Texts are cut to ``LETTERS`` characters. In OUT (``out/mix``), laid out
as in Mr. Right's benchmark:

    captioned    caption 1 and its photo; asked by the captions 2 and 3, and both (``related``: words are about both)
    unrelated    an abstract of SciFact, or the text of a page, and a photo; as in ``right_set.py``
    pages        a page's text and its scan; asked by a question about the text and by its kind ("a scan of a letter")

    multimodal_pretrain_pairs.json    1,250 rows for training
    multimodal_val_pairs.json         150 rows of every fourth photo and page, held out

It is small, so that two cores train on it in twenty minutes.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from right_set import ASKED, Row, rng_of, split_of
from right_set import rows as unrelated
from tables import Row as Counted
from tables import arguments, compared

from isthmus.documents import Document
from isthmus.evaluate.benchmarks import flickr8k, load
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.train.data import pages as docvqa
from isthmus.train.data.coco import listed
from isthmus.train.data.packs import PackedPictures

GROUPS = ("captioned", "unrelated", "pages")
LETTERS = 400  # of a text
HELD = 4  # every so many photos and pages are held out
ROWS = {"pretrain": {"captioned": 300, "unrelated": 800, "pages": 150}, "val": dict.fromkeys(GROUPS, 50)}


@dataclass(frozen=True)
class Page:
    """A scanned page, its text, and questions that people asked about it."""

    name: str
    text: str
    questions: Sequence[str]
    image: Path


def pages(folder: Path, *, test: bool) -> list[Page]:
    """Return the pages with text and questions: of the half that is kept for tests, or of the other."""
    texts = json.loads((folder / "page_text.json").read_text("utf-8"))
    asked: dict[str, list[str]] = {}
    for row in json.loads((folder / "val_v1.0.json").read_text("utf-8"))["data"]:
        asked.setdefault(Path(row["image"]).stem, []).append(row["question"])
    found = [Page(name, texts.get(name, "").strip(), asked[name], folder / f"img640/{name}.webp") for name in asked]
    return [
        page for page in sorted(found, key=lambda one: one.name) if page.text and docvqa.held_out(page.name) == test
    ]


def coco(packs: Path, split: str) -> PackedPictures:
    """Return COCO's photos of the list ``dev`` or ``test``."""
    return PackedPictures.open(packs / "coco").select(frozenset(listed(split)).__contains__)


def captioned(photos: Sequence[Captioned]) -> Iterator[Row]:
    """Make a document of each photo and its first caption."""
    for photo in photos:
        first, about_image, about_text = photo.captions[:3]
        asked = {"query_img": about_image, "query_text": about_text}
        document = {"doc_text": first, "doc_image": Path(str(photo.image)).name, "image_id": photo.id}
        yield {"id": f"c-{photo.id}", **document, **asked}


def scanned(several: Sequence[Page]) -> Iterator[Row]:
    """Make a document of each page whose kind is known; pages of one kind have one ``image_id``."""
    for page in several:
        kinds = docvqa.kinds(page.text, page.questions)
        if kinds:
            asked = {"query_text": page.questions[0], "query_img": f"a scan of {kinds[0]}"}
            document = {"doc_text": page.text[:LETTERS], "doc_image": page.image.name, "image_id": kinds[0]}
            yield {"id": page.name, "text_id": page.name, **document, **asked}


def build(data: Path, packs: Path, out: Path) -> list[Counted]:
    """Write the set; return the number of rows of each group."""
    (out / "images").mkdir(parents=True, exist_ok=True)
    photos = [*_unpacked(coco(packs, "dev"), out / "images"), *_linked(data / "flickr8k", out / "images")]
    scans = pages(data / "docvqa", test=False)
    for page in scans:
        _link(page.image, out / "images" / page.image.name)
    abstracts = {"train": [], "dev": []}  # type: dict[str, list[Document]]
    for document in load("beir:scifact", data).documents:
        if (split := split_of(document.id)) in abstracts:
            abstracts[split].append(Document(document.id, (document.text or "")[:LETTERS]))
    counted: list[Counted] = []
    for stage, split in (("pretrain", "train"), ("val", "dev")):
        some, sheets = _part(photos, stage), _part(scans, stage)
        texts = [*abstracts[split], *(Document(page.name, page.text[:LETTERS]) for page in sheets)]
        rng = rng_of(f"mix {stage}")
        texts, some = ([several[at] for at in rng.permutation(len(several))] for several in (texts, some))
        groups: dict[str, list[dict[str, object]]] = {
            "captioned": [{**row, "related": True} for row in captioned(some[::-1])],
            "unrelated": [{**row} for row in unrelated(some, texts, ASKED, rng)],
            "pages": [{**row} for row in scanned(sheets)],
        }
        groups = {group: several[: ROWS[stage][group]] for group, several in groups.items()}
        rows = [{**row, "group": group} for group, several in groups.items() for row in several]
        (out / f"multimodal_{stage}_pairs.json").write_text(json.dumps(rows, indent=0), "utf-8")
        counted += [{"file": stage, "group": group, "rows": len(several)} for group, several in groups.items()]
    return counted


def _part(several: Sequence, stage: str) -> list:  # type: ignore[type-arg]
    held = [zlib.crc32(str(getattr(one, "id", getattr(one, "name", ""))).encode()) % HELD == 0 for one in several]
    return [one for one, out in zip(several, held, strict=True) if out == (stage == "val")]


def _unpacked(photos: PackedPictures, images: Path) -> Iterator[Captioned]:
    for name, captions, content in zip(photos.names, photos.captions, photos.files(), strict=True):
        path = images / f"coco-{Path(name).stem}.webp"
        path.write_bytes(content)
        yield Captioned(path.stem, path, tuple(captions[:5]))


def _linked(folder: Path, images: Path) -> Iterator[Captioned]:
    for photo in flickr8k.split(BenchmarkFolder(folder, "flickr8k", flickr8k.HOME), "dev"):
        _link(Path(str(photo.image)), images / Path(str(photo.image)).name)
        yield photo


def _link(source: Path, place: Path) -> None:
    if not place.exists():
        place.symlink_to(source.resolve())


if __name__ == "__main__":
    options = arguments(__doc__, {"out": "the output folder; default: out/mix", "packs": "COCO's photos, packed"})
    found = build(options.data, Path(options.packs), Path(options.out or "out/mix"))
    raise SystemExit(compared("mix_set", found, options.write))
