"""PDF pages: a text layer, or what is read from a scan; each a document, or all of one file."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from damage import pdf
from isthmus import Collection, Document
from isthmus.cli import app
from isthmus.errors import UnknownName
from isthmus.sources.base import Found
from isthmus.sources.whole_files import MOST, together
from scans import page

needs = [name for name in ("rapidocr", "pypdfium2") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(needs), reason="needs isthmus[align,pdf]")

STAMP = ("Received", "14 May 1968", "Archive of the town", "Box 7 of 12")


def scanned(*pages: Image.Image) -> bytes:
    """Return a PDF whose pages are pictures."""
    out = io.BytesIO()
    pages[0].save(out, "PDF", save_all=True, append_images=pages[1:])
    return out.getvalue()


@pytest.fixture
def things(tiny: str, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things.isthmus", tiny, calibration="none", threads=1) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    words = " ".join(["a cat on the sofa and a dog"] * 5)
    (made / "typed.pdf").write_bytes(pdf([words, f"{words} in the house"]))
    blank = Image.new("RGB", (300, 400), "white")
    (made / "scan.pdf").write_bytes(scanned(page(STAMP, (320, 260)), blank))
    (made / "locked.pdf").write_bytes(pdf(["secret"], encrypted=True))
    (made / "torn.pdf").write_bytes(pdf(["one"])[:60])
    return made


def test_scanned_pages_are_read_typed_ones_are_not_and_a_blank_one_stays_a_picture(
    things: Collection, folder: Path
) -> None:
    report = things.index(folder)
    assert report.pages.read == 1
    assert {one.id for one in report.skipped} == {"locked.pdf", "torn.pdf"}
    typed, scan, blank = (things.get(name) for name in ("typed.pdf#page=2", "scan.pdf#page=1", "scan.pdf#page=2"))
    assert typed.modality == "image+text"
    assert "ocr_parts" not in typed.metadata
    assert "Archive of the town" in (scan.text or "")
    assert scan.metadata["ocr_parts"] == [1]
    assert blank.modality == "image"
    first = things.search("Archive of the town", hybrid=True, k=4)
    assert {hit.id: hit.page for hit in first}["scan.pdf#page=1"] == 1


def test_a_file_can_be_one_document_whose_hits_say_the_page(things: Collection, folder: Path) -> None:
    things.index(folder)
    report = things.index(folder, pages="together")
    assert (report.added, report.removed) == (2, 4)
    assert set(things.ids()) == {"typed.pdf", "scan.pdf"}
    scan = things.get("scan.pdf")
    assert [part.kind for part in scan.parts] == ["image", "text", "image"]
    assert scan.metadata["part_pages"] == [1, 1, 2]
    assert scan.metadata["ocr_parts"] == [1]
    found = {hit.id: hit for hit in things.search("a cat on the sofa and a dog in the house")}
    assert found["typed.pdf"].page in (1, 2)
    passage = found["typed.pdf"].passage
    assert passage is not None
    assert things.get("typed.pdf").metadata["part_pages"][passage.part] == found["typed.pdf"].page
    assert things.index(folder, pages="together").unchanged == 2
    with pytest.raises(UnknownName, match="Did you mean 'together'"):
        things.index(folder, pages="togeter")


def test_the_command_shows_the_page_of_a_file(folder: Path, tiny: str, tmp_path: Path) -> None:
    into = str(tmp_path / "files.isthmus")
    run = CliRunner().invoke(app, ["index", str(folder), "--into", into, "--encoder", tiny, "--pages", "together"])
    assert run.exit_code == 3
    found = CliRunner().invoke(app, ["search", "town archive box", "--in", into, "--hybrid"])
    assert "p. 1: [read]" in found.output
    wrong = CliRunner().invoke(app, ["index", str(folder), "--into", into, "--pages", "joined"])
    assert wrong.exit_code == 2
    assert "--pages takes apart, together, not joined" in wrong.output


def test_a_long_file_becomes_several_documents() -> None:
    count = MOST + 2
    numbers = range(1, count + 1)
    pages: list[Found] = [Document(f"a.pdf#page={at}", f"page {at}", b"picture", {"page": at}) for at in numbers]
    several = list(together(pages))
    assert [one.id for one in several if isinstance(one, Document)] == [
        f"a.pdf#pages=1-{MOST}",
        f"a.pdf#pages={MOST + 1}-{count}",
    ]
    other = Document("b.txt", "no page")
    assert list(together([other])) == [other]
