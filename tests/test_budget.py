"""No file costs more than the budget: each is skipped with its reason, and the next one is read."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import pytest

import hostile
from attacks import budgets
from damage import pdf
from isthmus import budget, encoders
from isthmus.documents import Document
from isthmus.encoders import texts
from isthmus.errors import BadInput
from isthmus.isolated import frames
from isthmus.isolated.worker import RanAway, Worker
from isthmus.sources.files import File
from isthmus.sources.pdf import WORKER
from isthmus.sources.pdf import read as pages
from test_sources import read, write

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit of memory is Linux's")


@LINUX
def test_files_made_to_fill_the_memory_or_to_take_forever_are_skipped_with_their_reason(
    tmp_path: Path, tiny: str
) -> None:
    folders = budgets.made(sorted(set(hostile.FILES) - hostile.SLOW), tmp_path / "files")
    (tmp_path / "work").mkdir()
    found = dict(budgets.outcomes(folders, tiny, tmp_path / "work", seconds=0.5))
    assert list(found) == list(folders)
    assert {name: outcome.failure for name, outcome in found.items() if outcome.failure} == {}
    for name, outcome in found.items():
        assert outcome.documents == 0, name
        assert outcome.reasons, name
        assert all(outcome.reasons), name


@LINUX
def test_a_file_that_costs_more_than_its_budget_ends_the_process_and_the_next_one_is_indexed(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    write(tmp_path, {"a/a.txt": "🐈" + "a cat " * 11 * 10**6, "b/b.txt": "a cat"})  # four bytes for each character
    (tmp_path / "work").mkdir()
    monkeypatch.setattr(budgets, "MEMORY", 200 * 2**20)
    folders = {name: tmp_path / name for name in ("a", "b")}
    found = dict(budgets.outcomes(folders, tiny, tmp_path / "work", seconds=1.0))
    assert "MemoryError" in found["a"].failure
    assert found["b"] == budgets.Outcome(1, [])


def pixels(data: bytes, mebibytes: int) -> str:
    """Decode a picture in a process that may take so much memory beyond what it has."""
    code = (
        "import resource, sys; from pathlib import Path; from isthmus.encoders import images; from PIL import Image\n"
        "import numpy as np; Image.init(); frame = images.Frame(8)\n"
        "images.read(np.zeros((2, 2), dtype=np.uint16), frame); data = sys.stdin.buffer.read()\n"
        "size = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.RLIMIT_AS, (size + {mebibytes} * 2**20,) * 2)\n"
        "print(images.read(data, frame).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, timeout=120)
    return done.stdout.decode() or done.stderr.decode()


@LINUX
@pytest.mark.parametrize(("depth", "colour", "size"), [(16, 0, 2), (8, 6, 4), (8, 4, 2)])
def test_a_picture_takes_little_more_than_two_copies_of_its_pixels(depth: int, colour: int, size: int) -> None:
    copy = 4 * 3000 * 3000 / 2**20  # Pillow has four bytes for a pixel
    assert pixels(hostile.png(3000, 3000, depth, colour, size), int(2.8 * copy)) == "(8, 8, 3)\n"


def test_a_picture_with_tiles_larger_than_the_budget_is_refused(tmp_path: Path) -> None:
    from isthmus.encoders import images
    from isthmus.errors import BadImage

    hostile.wide_tile_tiff(tmp_path)
    with pytest.raises(BadImage, match="has tiles of 40000 × 40000 pixels"):
        images.read(tmp_path / "a.tif", images.Frame(8))


def test_a_jpeg_with_very_many_scans_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from isthmus.encoders import images
    from isthmus.errors import BadImage
    from isthmus.isolated import picture

    out = BytesIO()
    Image.new("RGB", (64, 64)).save(out, "JPEG", progressive=True)
    images.read(out.getvalue(), images.Frame(8))
    monkeypatch.setattr(picture, "SCAN_PIXELS", 64 * 64)
    with pytest.raises(BadImage, match="scans, which take minutes"):
        images.read(out.getvalue(), images.Frame(8))


@pytest.mark.parametrize(("kind", "side"), [("WEBP", 90), ("JPEG2000", 80), ("QOI", 30), ("PNG", 100)])
def test_a_decoder_that_takes_more_memory_or_time_has_a_smaller_budget_of_pixels(
    kind: str, side: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    from isthmus.encoders import images
    from isthmus.errors import BadImage

    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100 * 100)
    for pixels, refused in ((side // 5, False), (side + 1, True)):
        out = BytesIO()
        Image.new("RGB", (pixels, pixels), "red").save(out, kind)
        if refused:
            with pytest.raises(BadImage, match=r"and the budget|too many pixels"):
                images.read(out.getvalue(), images.Frame(8))
        else:
            images.read(out.getvalue(), images.Frame(8))


def test_a_page_that_runs_away_is_skipped_alone_and_two_end_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "SECONDS", 0.5)
    hostile.recursive_pdf(tmp_path, (hostile.GOOD, hostile.ENDLESS, hostile.GOOD, hostile.ENDLESS, hostile.GOOD))
    documents, skipped = read(write(tmp_path, {"b.pdf": pdf(["next"])}))
    assert list(documents) == ["a.pdf#page=1", "a.pdf#page=3", "b.pdf#page=1"]
    assert set(skipped) == {"a.pdf, page 2", "a.pdf, page 4", "a.pdf"}
    assert "after 2 such pages, the last 1 were skipped" in skipped["a.pdf"]


def test_a_worker_that_was_killed_is_replaced(tmp_path: Path) -> None:
    write(tmp_path, {"a.pdf": pdf(["one"])})
    read(tmp_path)
    assert WORKER._process is not None
    WORKER._process.kill()
    WORKER._process.wait()
    assert list(read(tmp_path)[0]) == ["a.pdf#page=1"]


@LINUX
def test_a_worker_that_has_kept_much_memory_is_replaced_and_nothing_is_skipped(tmp_path: Path) -> None:
    """Whole files of 60 MiB each stay open in the worker; together they are more than it may hold."""
    whole = pdf(["one", "two"])
    open_ones = []
    for i in range(6):
        (tmp_path / str(i)).mkdir()
        (tmp_path / str(i) / "a.pdf").write_bytes(whole)
        with (tmp_path / str(i) / "a.pdf").open("r+b") as file:  # a hole in front of the end, which has the table
            end = file.read()
            file.truncate(60 * 2**20)
            file.seek(60 * 2**20)
            file.write(end[end.rindex(b"startxref") :])
        open_ones.append(pages(File.at(str(tmp_path / str(i) / "a.pdf"), "a.pdf")))
    first = [next(reading) for reading in open_ones]
    second = [next(reading) for reading in open_ones]
    assert [found for found in first + second if not isinstance(found, Document)] == []
    assert [found.text for found in first + second if isinstance(found, Document)] == ["one"] * 6 + ["two"] * 6


def test_a_request_that_takes_too_long_says_so_and_one_that_fails_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker("html")
    try:
        with pytest.raises(BadInput, match="cannot be read: IndexError"):
            worker.ask({})
        assert worker.ask({}, [b"<p>x"]).blobs == [b"", b"x"]
        monkeypatch.setattr(budget, "SECONDS", 0.2)
        attributes = " ".join(f"a{i}=1" for i in range(300_000))
        with pytest.raises(RanAway, match=r"takes more than 0\.2 seconds to read"):
            worker.ask({}, [f"<p {attributes}>".encode()])
        monkeypatch.undo()
        assert worker.ask({}, [b"<p>y"]).blobs == [b"", b"y"]
    finally:
        worker.close()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waiting for another's child takes Linux")
@pytest.mark.parametrize("busy", [False, True])
def test_no_worker_outlives_the_process_that_started_it(busy: bool, tmp_path: Path) -> None:
    """Killed between two requests, or in the middle of one."""
    hostile.attributes_html(tmp_path)
    code = (
        "import os, signal, sys; from isthmus.isolated import frames; from isthmus.sources import html\n"
        f"html.WORKER.ask({{}}, [b'<p>x']); page = open({str(tmp_path / 'a.html')!r}, 'rb').read()\n"
        f"if {busy}: frames.write(html.WORKER._process.stdin, {{'seconds': 0.5}}, [page])\n"
        "print(html.WORKER._process.pid, flush=True); sys.stdin.readline(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        worker = os.pidfd_open(int(parent.stdout.readline()))
        parent.stdin.write(b"\n")
        parent.stdin.flush()
        assert parent.wait(timeout=60) == -signal.SIGKILL
    try:
        assert select.select([worker], [], [], 60)[0], "the worker is still there"
    finally:
        os.close(worker)


def test_a_message_larger_than_it_may_be_is_refused_before_it_is_read() -> None:
    claims = frames.LENGTH.pack(2**60) + b"{}"
    with pytest.raises(EOFError, match="the limit is"):
        frames.read(BytesIO(claims), 1000)


def test_a_text_too_long_for_one_document_is_refused_by_every_way_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str
) -> None:
    monkeypatch.setattr(budget, "CHARACTERS", 1000)
    long = "a cat " * 200
    files: dict[str, str | bytes] = {
        "b.html": f"<p>{long}",
        "c.jsonl": json.dumps({"text": long}),
        "d.csv": f"text\n{long}\n",
        "e.json": json.dumps([{"text": long}, {"text": "short"}]),
        "f.txt": long,
    }
    documents, skipped = read(write(tmp_path, files))
    assert list(documents) == ["e.json#row=2"]
    assert len(skipped) == 5
    assert all("at most. Split it" in why for why in skipped.values())
    encoder = encoders.load(tiny)
    refused: list[str] = []
    given = [Document(id="a", text=long), Document(id="b", text="a cat")]
    _, owner = encoder.encode_passages(given, skip=lambda row, error: refused.append(str(error)))
    assert owner.tolist() == [1]
    assert "one document holds 1,000 at most" in refused[0]


def test_a_long_text_has_the_passages_that_it_has_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, encoder: encoders.Encoder
) -> None:
    text = "the cat sits on a red sofa\n\n  and 猫犬 runs, runs. " * 50
    whole = encoder.split(text)
    monkeypatch.setattr(texts, "AT_ONCE", 100)
    assert encoder.split(text) == whole
    assert encoder.split("猫" * 500) == [(at, min(500, at + 10)) for at in range(0, 500, 10)]
