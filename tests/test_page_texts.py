"""Text in pictures: what looks like a page is read, once, and marked as read."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw
from typer.testing import CliRunner

from isthmus import Collection, Document
from isthmus.cli import app
from isthmus.documents import Text
from isthmus.errors import MissingExtra, UnknownName
from isthmus.kinds import Image as ImagePart
from isthmus.ocr import engine
from isthmus.ocr.page import bands
from isthmus.ocr.words import ENOUGH
from isthmus.search import Indexed, page_texts
from isthmus.search.page_test import page_test
from scans import LETTER, page, photo, png

reads = pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs isthmus[align]")


@pytest.fixture
def things(tiny: str, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things.isthmus", tiny, calibration="none", threads=1) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    made.mkdir()
    page().save(made / "letter.png")
    photo().save(made / "sea.png")
    (made / "note.txt").write_text("a cat on the sofa")
    return made


def test_pages_look_like_pages_and_photos_icons_and_damaged_files_do_not() -> None:
    short = page(("a wooden table", "four chairs", "one lamp", "two carpets", "a mirror"))
    dark = Image.fromarray(255 - np.asarray(page()))
    pages = [page(), short, dark, page(turn=1)]
    others = [photo(), photo(1), Image.new("RGB", (64, 64), "red")]
    found = page_test(None).pages([*map(png, pages), *map(png, others), b"no picture"])
    assert found.tolist() == [True] * 4 + [False] * 4


def test_a_long_picture_is_cut_between_its_lines() -> None:
    tall = np.full((900, 100, 3), 255, np.uint8)
    tall[::40, ::2] = 0  # lines of dots
    cut = list(bands(tall))
    assert sum(len(band) for band in cut) == 900
    assert len(cut) > 3
    assert all(len(band) <= 200 for band in cut)
    assert sum(len(band) for band in bands(np.zeros((9, 1, 3), np.uint8))) == 9


def test_a_text_without_spaces_beside_a_picture_counts_as_words() -> None:
    layer = "東京都の図書館は午前九時から午後八時まで開いています。本は二週間借りられます。予約もできます。"
    several = [Document(name, parts=[ImagePart("a.png"), Text(text)]) for name, text in (("a", layer), ("b", "東京"))]
    told = [list(page_texts._candidates(one, page_texts.AUTO)) for one in several]
    assert told == [[], [0]]


@reads
def test_a_page_becomes_a_picture_with_text_that_is_marked_as_read(things: Collection, folder: Path) -> None:
    report = things.index(folder)
    assert (report.added, report.skipped, report.pages.read) == (3, [], 1)
    letter = things.get("letter.png")
    assert letter.modality == "image+text"
    assert "harbour bridge" in (letter.text or "")
    assert letter.metadata["ocr_parts"] == [1]
    assert things.get("sea.png").modality == "image"
    assert "ocr_parts" not in things.get("note.txt").metadata
    found = {hit.id: hit for hit in things.search("the harbour bridge", hybrid=True)}
    assert found["letter.png"].passage is not None
    assert found["letter.png"].passage.from_picture
    assert found["note.txt"].passage is not None
    assert not found["note.txt"].passage.from_picture


@reads
def test_what_was_read_is_not_read_again(things: Collection, folder: Path, tiny: str, tmp_path: Path) -> None:
    things.index(folder)
    again = things.index(folder)
    assert (again.unchanged, again.pages.read) == (3, 0)
    (folder / "letter.png").rename(folder / "copy.png")
    moved = things.index(folder)
    assert (moved.added, moved.removed, moved.pages.cached, moved.pages.seconds) == (1, 1, 1, 0.0)
    with Collection.open(tmp_path / "second.isthmus", tiny, calibration="none") as second:
        assert second.index(folder).pages.cached == 1


@reads
def test_after_an_interruption_the_next_run_does_not_read_what_was_read(
    things: Collection, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
    page(("Notice", "The library is closed", "until the first of May"), (320, 240)).save(folder / "notice.png")

    def interrupt(report: Indexed) -> None:
        if report.pages.read:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        things.index(folder, progress=interrupt)
    assert len(things) == 0
    kept = len(list((tmp_path / "cache").rglob("*.json")))
    assert kept
    report = things.index(folder)
    assert (report.added, report.pages.read, report.pages.cached) == (4, 2, kept)


@reads
def test_another_mode_looks_at_the_pictures_again(things: Collection, folder: Path) -> None:
    things.index(folder, ocr="never")
    assert things.get("letter.png").modality == "image"
    assert things.index(folder).updated == 1
    assert things.get("letter.png").modality == "image+text"
    assert things.index(folder, ocr="never").updated == 1
    assert things.get("letter.png").modality == "image"


@reads
def test_pages_on_their_side_and_upside_down_are_read_upright(things: Collection) -> None:
    lines = ("Opening hours", "Monday to Friday", "from nine to five")
    documents = [Document(str(turn), image=png(page(lines, (320, 240), turn))) for turn in (1, 2)]
    things.add(documents, ocr="always")
    assert [things.get(str(turn)).text for turn in (1, 2)] == ["\n".join(lines)] * 2


@reads
def test_documents_added_in_python_are_read_only_when_told(things: Collection) -> None:
    scan = png(page(("a wooden table", "four chairs", "one lamp", "two carpets", "a mirror")))
    things.add([Document("plain", image=scan)])
    assert things.get("plain").modality == "image"
    captioned = Document("told", parts=[Text("the inventory"), ImagePart(scan)])
    things.add([captioned], ocr="auto")
    assert [part.kind for part in things.get("told").parts] == ["text", "image", "text"]
    assert things.get("told").metadata == {"ocr_parts": [2]}
    things.add([Document("full", "word " * ENOUGH, scan)], ocr="auto")
    assert things.get("full").metadata == {}
    with pytest.raises(UnknownName, match="Did you mean 'always'"):
        things.add([], ocr="alway")


@reads
def test_a_new_picture_takes_the_text_read_from_the_old_one_with_it(things: Collection) -> None:
    things.add([Document("a", image=png(page()))], ocr="auto")
    things.update("a", metadata={"lang": "en"})
    assert things.get("a").modality == "image+text"
    things.update(Document("a", image=png(photo())))
    assert things.get("a").modality == "image"
    assert things.get("a").metadata == {"lang": "en"}


@reads
def test_a_damaged_page_is_listed_and_the_others_are_read(things: Collection, folder: Path) -> None:
    whole = (folder / "letter.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    report = things.index(folder)
    assert [one.id for one in report.skipped] == ["cut.png"]
    assert report.pages.read == 1


@reads
def test_a_page_that_takes_too_long_is_kept_as_a_picture_and_listed(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus.budget.OCR_SECONDS", 1e-9)
    done = things.add(
        [Document("slow", image=png(page(("never read", "before now", "by any", "one of us"))))], ocr="auto"
    )
    assert done.added == ("slow",)
    assert "its text was not read" in done.skipped[0].why
    assert things.get("slow").modality == "image"


FRAGILE = """
import importlib, os, sys
from pathlib import Path

here = Path(__file__).parent
del sys.modules["rapidocr"]
sys.path.remove(str(here))
real = importlib.import_module("rapidocr")
whole = real.RapidOCR.__call__


def read(self, pixels, *args, **more):
    (here / f"{os.getpid()}.pid").touch()
    if pixels[0, 0].tolist() == [0, 0, 255]:  # BGR
        os.abort()
    return whole(self, pixels, *args, **more)


real.RapidOCR.__call__ = read
"""


@reads
def test_a_page_that_crashes_the_engine_ends_one_of_two_workers_and_the_rest_is_read(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is the real one, which ends its process at a page with a red corner."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "rapidocr.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(tmp_path / "engine")
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pages").mkdir()
    for number in range(6):
        page((f"Letter number {number}", "to the town hall"), (320, 160)).save(tmp_path / "pages" / f"{number}.png")
    bad = page(("Opening hours", "from nine to five"), (320, 160))
    bad.putpixel((0, 0), (255, 0, 0))
    bad.save(tmp_path / "pages" / "0-bad.png")
    with Collection.open(tmp_path / "c", tiny, calibration="none", threads=2) as things:
        report = things.index(tmp_path / "pages", ocr="always")
        assert (report.added, report.pages.read) == (7, 6)
        (skipped,) = report.skipped
        assert skipped.id == "0-bad.png"
        assert "its text was not read, only the picture was indexed" in skipped.why
        assert "crashed the process that reads it" in skipped.why
        assert things.get("0-bad.png").modality == "image"
        texts = [things.get(f"{number}.png").text for number in range(6)]
    assert texts == [f"Letter number {number}\nto the town hall" for number in range(6)]
    assert len(list((tmp_path / "engine").glob("*.pid"))) == 3  # two, and the one that took the place of the dead


@reads
def test_a_table_of_contents_and_a_page_with_a_figure_are_pages_like_any_other(
    things: Collection, tmp_path: Path
) -> None:
    contents = page(("Contents", "1 The harbour . . . . . 3", "2 The bridge . . . . . 17", "Index . . . . . . . . 90"))
    figure = page((*LETTER[1:7], "", "", "", "", "Figure 4: visitors per year"))
    pen = ImageDraw.Draw(figure)
    for bar in range(5):
        pen.rectangle((60 + 60 * bar, 440 - 20 * bar, 100 + 60 * bar, 480), fill="steelblue")
    (tmp_path / "pages").mkdir()
    for name, made in (("letter", page()), ("contents", contents), ("figure", figure)):
        made.save(tmp_path / "pages" / f"{name}.png")
    report = things.index(tmp_path / "pages")
    assert (report.added, report.skipped, report.pages.read) == (3, [], 3)
    found = {document.id: document for document in things}
    assert {(document.modality, tuple(sorted(document.metadata))) for document in found.values()} == {
        ("image+text", tuple(sorted(found["letter.png"].metadata)))
    }
    assert "The bridge" in (found["contents.png"].text or "")
    assert "Figure 4: visitors per year" in (found["figure.png"].text or "")
    assert things.search("visitors per year", k=1, hybrid=True)[0].id == "figure.png"
    assert things.search("contents index", k=1, hybrid=True)[0].id == "contents.png"


def test_without_the_extra_pages_are_counted_and_the_command_says_what_to_install(
    folder: Path, tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MODULE", "no_such_module")
    into = str(tmp_path / "other.isthmus")
    run = CliRunner().invoke(app, ["index", str(folder), "--into", into, "--encoder", tiny])
    assert run.exit_code == 0
    assert "1 picture looks like a page; its text is not read: pip install 'isthmus[align]'" in run.output
    again = CliRunner().invoke(app, ["index", str(folder), "--into", into, "--ocr", "always"])
    assert isinstance(again.exception, MissingExtra) or again.exit_code == 1
    monkeypatch.undo()
    if engine.is_installed():
        monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path / "cache"))
        run = CliRunner().invoke(app, ["index", str(folder), "--into", into, "--json"])
        assert json.loads(run.stdout)["pages"]["read"] == 1
        found = CliRunner().invoke(app, ["search", "harbour bridge", "--in", into, "--explain", "--hybrid"])
        assert "[read] " in found.output
        assert "its text was read from the picture" in found.output


def test_doctor_says_whether_pictures_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MODULE", "no_such_module")
    run = CliRunner().invoke(app, ["doctor"])
    assert "text in pictures is not read (pip install 'isthmus[align]')" in run.output


def test_an_unknown_mode_is_refused(folder: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke(app, ["index", str(folder), "--into", str(tmp_path / "a.isthmus"), "--ocr", "maybe"])
    assert run.exit_code == 2
    assert "--ocr takes auto, never, always" in run.output
