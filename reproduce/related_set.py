"""A set like Mr. Right's in which text and picture concern the same thing: photos with paragraphs, pages with scans.

    python reproduce/related_set.py --data DIR [--out OUT] [--full]
                                    (needs flickr8k/ and docvqa/; two minutes; with --full half an hour)

    photos    a photo of Flickr8k and a paragraph about it: its captions 1 to 3
    pages     a scanned page of DocVQA and the first ``LETTERS`` characters of its text

Queries that people wrote: caption 5 or a question (text-related), caption 4 or the kind of page (image-related), both
(mixed). Generated ones, as in the paper but for the captioner: a piece of the text, removed from the document
(``isthmus.queries``); the caption that is nearest to the photo by ``mini`` among first captions of other photos, or the
kind of page; both. Only people's queries about photos name one document each; the kind of a page names many.

Photos are split as Flickr8k's authors did, pages as ``fusion_mix.py`` has them. OUT (``out/related``) has the layout of
the Mr. Right benchmark, with ``group``:

    multimodal_pretrain_pairs.json    generated queries; with --full 5,000 photos and all training pages
    multimodal_finetune_pairs.json    people's queries; with --full 1,000 other photos and the same pages
    multimodal_val_pairs.json         people's queries, photos of dev and every fourth training page
    multimodal_documents.json         to be searched, with people's and generated queries in
    multimodal_test_queries.json, multimodal_auto_test_queries.json
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from mix_set import HELD, LETTERS, Page, pages
from right_set import NAMES, rng_of
from tables import Row as Counted
from tables import arguments, compared

from isthmus import encoders
from isthmus.documents import Document, Query
from isthmus.encoders.base import Encoder
from isthmus.evaluate.benchmarks import flickr8k
from isthmus.evaluate.benchmarks.captions import Captioned
from isthmus.evaluate.benchmarks.files import BenchmarkFolder
from isthmus.queries import Embedded, made, without
from isthmus.queries.captions import nameless
from isthmus.queries.kinds import IMAGE, MIXED, TEXT
from isthmus.train.data import pages as docvqa
from isthmus.types import Matrix

Row = dict[str, str]
GROUPS = ("photos", "pages")
SMALL = {"pretrain": (192, 64), "finetune": (64, 32), "val": (40, 20), "test": (300, 150)}
FULL = {"pretrain": (5_000, 1_000), "finetune": (1_000, 1_000), "val": (200, 60), "test": (300, 150)}
CAPTIONS = 2_000  # of other photos, from which the nearest is taken


@dataclass(frozen=True)
class Source:
    """A document before queries are made: its text, what people asked about text and image, a generated caption."""

    document: Document
    group: str
    asked: Mapping[str, str]
    caption: str


@dataclass(frozen=True)
class NearestCaption:
    """A captioner: the caption of another photo that is nearest to a photo."""

    encoder: Encoder
    captions: Sequence[str]
    owners: Sequence[str]
    vectors: Matrix  # (captions, d)

    @classmethod
    def of(cls, photos: Sequence[Captioned]) -> NearestCaption:
        """Encode the first captions of some photos."""
        encoder, some = encoders.load("mini"), photos[:CAPTIONS]
        captions = [nameless(sentence(photo.captions[0]), Embedded()) for photo in some]
        vectors = encoder.encode_queries([Query(caption) for caption in captions]).parts["text"]
        return cls(encoder, captions, [photo.id for photo in some], vectors)

    def caption(self, photos: Sequence[Captioned]) -> list[str]:
        """Return a caption for each photo."""
        seen = self.encoder.encode_documents([Document(photo.id, image=photo.image) for photo in photos])
        near = seen.parts["image"] @ self.vectors.T
        near[np.array([[owner == photo.id for owner in self.owners] for photo in photos])] = -1.0
        return [self.captions[int(at)] for at in near.argmax(axis=1)]


def sentence(caption: str) -> str:
    """Return a caption as a sentence.

    >>> sentence("A dog runs  .")
    'A dog runs.'
    """
    return " ".join(caption.split()).rstrip(" .") + "."


def of_photos(photos: Sequence[Captioned], captioner: NearestCaption) -> list[Source]:
    """Return photos with paragraphs about them."""
    found = []
    for photo, caption in zip(photos, captioner.caption(photos), strict=True):
        paragraph = " ".join(sentence(one) for one in photo.captions[:3])
        asked = {IMAGE: sentence(photo.captions[3])[:-1], TEXT: sentence(photo.captions[4])[:-1]}
        found.append(Source(Document(photo.id, paragraph, photo.image), "photos", asked, caption))
    return found


def of_pages(several: Sequence[Page]) -> list[Source]:
    """Return scanned pages with their text."""
    found = []
    for page in several:
        kind = f"a scan of {(docvqa.kinds(page.text, page.questions) or ['a printed page'])[0]}"
        asked = {TEXT: page.questions[0], IMAGE: kind}
        found.append(Source(Document(page.name, page.text[:LETTERS], page.image), "pages", asked, kind))
    return found


def row_of(source: Source, rng: np.random.Generator) -> tuple[Row, Row] | None:
    """Return a document with people's queries, and with generated ones; None if no piece of its text can be asked."""
    queries = {one.kind: one for one in made(source.document, source.caption, rng=rng, parser=Embedded())}
    swap = rng.random() < 0.5
    if TEXT not in queries:
        return None
    shown = without(source.document, queries[TEXT])
    document = {"id": source.document.id, "group": source.group, "doc_text": shown.text or ""}
    document["doc_image"] = Path(str(source.document.image)).name
    several = [dict(source.asked), {TEXT: queries[TEXT].text, IMAGE: source.caption.rstrip(".")}]
    for said in several:
        both = [said[TEXT], said[IMAGE]]
        said[MIXED] = " ".join(reversed(both) if swap else both)
    human, generated = ({**document, **{NAMES[kind]: said[kind] for kind in said}} for said in several)
    return human, generated


def build(data: Path, out: Path, *, full: bool = False) -> list[Counted]:
    """Write the set; return the number of rows of each file."""
    folder = BenchmarkFolder(data / "flickr8k", "flickr8k", flickr8k.HOME)
    photos = {name: flickr8k.split(folder, name) for name in ("train", "dev", "test")}
    scans = {test: pages(data / "docvqa", test=test) for test in (False, True)}
    held = [zlib.crc32(page.name.encode()) % HELD == 0 for page in scans[False]]
    learned, kept = (
        [page for page, out in zip(scans[False], held, strict=True) if out == one] for one in (False, True)
    )
    sizes, captioner = FULL if full else SMALL, NearestCaption.of(photos["train"])
    some = {
        "pretrain": photos["train"],
        "finetune": photos["train"][-1000:],
        "val": photos["dev"],
        "test": photos["test"],
    }
    sheets = {"pretrain": learned, "finetune": learned[::-1], "val": kept, "test": scans[True]}
    files: dict[str, list[Row]] = {}
    for stage, (photo_count, page_count) in sizes.items():
        sources = [*of_photos(some[stage][:photo_count], captioner), *of_pages(sheets[stage][:page_count])]
        rng = rng_of(f"related {stage}")
        rows = [row for source in sources if (row := row_of(source, rng))]
        files[stage] = [generated if stage == "pretrain" else human for human, generated in rows]
        if stage == "test":
            files["auto_test"] = [generated for _, generated in rows]
    _write(out, files)
    shown = [photo.image for several in photos.values() for photo in several]
    shown += [page.image for several in scans.values() for page in several]
    _link(out / "images", shown)
    return [
        {"file": name, "group": group, "rows": sum(row["group"] == group for row in rows)}
        for name, rows in files.items()
        for group in GROUPS
    ]


def _write(out: Path, files: Mapping[str, Sequence[Row]]) -> None:
    """Write the files in the benchmark's layout."""
    out.mkdir(parents=True, exist_ok=True)
    named = {f"{stage}_pairs": files[stage] for stage in ("pretrain", "finetune", "val")}
    queries = frozenset(NAMES.values())
    named["documents"] = [{key: row[key] for key in row if key not in queries} for row in files["test"]]
    for name in ("test", "auto_test"):
        named[f"{name}_queries"] = [{key: row[key] for key in ("id", *sorted(queries))} for row in files[name]]
    for name, rows in named.items():
        (out / f"multimodal_{name}.json").write_text(json.dumps(rows, indent=0), "utf-8")


def _link(folder: Path, pictures: Sequence[Path]) -> None:
    folder.mkdir(exist_ok=True)
    for picture in pictures:
        place = folder / Path(str(picture)).name
        if not place.exists():
            place.symlink_to(Path(str(picture)).resolve())


if __name__ == "__main__":
    options = arguments(__doc__, {"out": "the output folder; default: out/related"}, {"full": "for training on a GPU"})
    found = build(options.data, Path(options.out or "out/related"), full=options.full)
    raise SystemExit(compared("related_set_full" if options.full else "related_set", found, options.write))
