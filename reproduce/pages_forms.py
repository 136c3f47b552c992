"""PDF files, page by page and as one document, and screenshots: found by questions after OCR. A small sample.

    python reproduce/pages_forms.py --data DIR [--cache CACHE]    (needs docvqa/, scifact/; extras align, pdf, plot)

60 pages of DocVQA that neither ``mini`` nor the settings of OCR have seen, as pictures and as six PDF files of ten
scanned pages, and every question about them; 40 drawn screens with other fonts and layouts than those of the design,
each asked by its first eight words. *found*: the share of questions whose page is among the first three hits; for
``--pages together`` a hit is a file, and its page is the one it names. *file*: the share whose file is among the first
three.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from drawn_screens import screens_and_words
from pages import questions
from PIL import Image
from tables import Row, arguments, compared

from isthmus import Collection, encoders
from isthmus.encoders import Encoder
from isthmus.search import Hit

PAGES, OF_A_FILE, SCREENS, WORDS, AMONG = 60, 10, 40, 8, 3
SETTINGS = (("auto", False), ("auto, hybrid", True))
Place = tuple[str, int]  # a file, and a page of it: 0 for a picture
Asked = dict[str, Place]  # question → where its answer is


def pictures(data: Path, names: list[str], out: Path) -> Mapping[str, Place]:
    """Make a folder of pages as pictures; return the place of each."""
    out.mkdir()
    for name in names:
        (out / f"{name}.webp").symlink_to((data / "docvqa" / "img640" / f"{name}.webp").resolve())
    return {name: (f"{name}.webp", 0) for name in names}


def files(data: Path, names: list[str], out: Path) -> Mapping[str, Place]:
    """Make a folder of scanned PDF files; return the place of each page."""
    out.mkdir()
    places: dict[str, Place] = {}
    for first in range(0, len(names), OF_A_FILE):
        some = names[first : first + OF_A_FILE]
        scans = [Image.open(data / "docvqa" / "img640" / f"{name}.webp").convert("RGB") for name in some]
        scans[0].save(out / f"{first}.pdf", "PDF", save_all=True, append_images=scans[1:], resolution=75)
        places |= {name: (f"{first}.pdf", page) for page, name in enumerate(some, 1)}
    return places


def drawn(data: Path, out: Path) -> Asked:
    """Make a folder of screens; return their first words and the place of each."""
    out.mkdir()
    asked: Asked = {}
    for at, (picture, words) in enumerate(screens_and_words(data, "held-out", SCREENS, 2)):
        (out / f"{at}.png").write_bytes(picture)
        asked[" ".join(words[:WORDS])] = (f"{at}.png", 0)
    return asked


def place(hit: Hit) -> Place:
    """Return the file of a hit, and its page."""
    return hit.id.partition("#")[0], hit.page or 0


def measured(folder: Path, asked: Asked, encoder: Encoder, pages: str, ocr: str) -> list[Row]:
    """Index a folder, ask, and return a row for each setting."""
    rows: list[Row] = []
    with Collection.open(":memory:", encoder, follow=False) as things:
        report = things.index(folder, ocr=ocr, pages=pages)
        for setting, hybrid in SETTINGS[: 1 if ocr == "never" else 2]:
            found = [[place(hit) for hit in hits] for hits in things.search_many([*asked], AMONG, hybrid=hybrid)]
            pairs = list(zip(found, asked.values(), strict=True))
            right = sum(answer in hits for hits, answer in pairs) / len(asked)
            near = sum(answer[0] in {file for file, _ in hits} for hits, answer in pairs) / len(asked)
            row: Row = {"search": setting, "documents": str(len(things)), "read": str(report.pages.read)}
            rows.append(row | {"questions": str(len(asked)), "found": right, "file": near})
    return rows


def table(data: Path, cache: Path | None) -> list[Row]:
    encoder = encoders.load("mini", cache=None if cache is None else cache / "vectors")
    known = questions(data)
    names = sorted({page for page, _ in known.values()})[:PAGES]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        webp, pdf = Path(scratch, "pictures"), Path(scratch, "files")
        where = {webp: pictures(data, names, webp), pdf: files(data, names, pdf)}
        of = {
            folder: {text: places[page] for page, text in known.values() if page in places}
            for folder, places in where.items()
        }
        screens = Path(scratch, "screens")
        of[screens] = drawn(data, screens)
        for what, folder, pages, ocr in (
            ("pictures of pages, OCR", webp, "apart", "auto"),
            ("PDF, each page a document", pdf, "apart", "auto"),
            ("PDF, --pages together", pdf, "together", "auto"),
            ("screens as pictures", screens, "apart", "never"),
            ("screens, OCR", screens, "apart", "auto"),
        ):
            rows += [{"indexed as": what, **row} for row in measured(folder, of[folder], encoder, pages, ocr)]
    return rows


if __name__ == "__main__":
    options = arguments(__doc__, {"cache": "where vectors and texts are kept; default: not kept"})
    if options.cache:
        os.environ["ISTHMUS_CACHE"] = options.cache
    found = table(options.data, Path(options.cache) if options.cache else None)
    raise SystemExit(compared("pages_forms", found, options.write))
