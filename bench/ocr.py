"""The speed of reading pages: worker processes, one per core, beside the bare engine in one process.

    python bench/ocr.py [--pages 8] [--photos FOLDER]         (extra align)

Pages are drawn: 900 × 1200 pixels, 30 lines of the built-in bank. Both read the same files; decoding is included. They
alternate, because machines drift. Read the ratios. The last lines are about the test that decides what looks like a
page: what it costs, for a collection whose encoder is not `mini`, and how often it is wrong, on the drawn pages and on
photos (synthetic ones, or the pictures of ``--photos FOLDER``).
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import rapidocr
from encode import photos
from machine import seconds
from PIL import Image, ImageDraw, ImageFont

from isthmus import encoders
from isthmus.encoders.bank import queries
from isthmus.encoders.cache import MemoryCache
from isthmus.ocr.pool import OcrPool
from isthmus.search.page_test import PageTest

LINES, SIZE = 30, (900, 1200)


def drawn(count: int) -> list[bytes]:
    """Draw pages of text, as PNG."""
    words, made = queries(), []
    for at in range(count):
        paper = Image.new("RGB", SIZE, "white")
        for row in range(LINES):
            line = ", ".join(words[(at * LINES + row) * 3 % 3000 :][:3])[:70]
            ImageDraw.Draw(paper).text((60, 60 + 36 * row), line, "black", ImageFont.load_default(size=20))
        out = io.BytesIO()
        paper.save(out, "PNG")
        made.append(out.getvalue())
    return made


def bare(files: list[bytes], threads: int) -> Callable[[], object]:
    """Return a run of rapidocr itself over the files, one after another."""
    settings = {"Global.log_level": "critical", "EngineConfig.onnxruntime.intra_op_num_threads": threads}
    engine: Any = rapidocr.RapidOCR(params=settings)

    def run() -> None:
        for data in files:
            with Image.open(io.BytesIO(data)) as opened:
                engine(np.ascontiguousarray(np.asarray(opened.convert("RGB"))[:, :, ::-1]))

    return run


def pooled(files: list[bytes], pool: OcrPool) -> Callable[[], object]:
    """Return a run of the pool over the files."""

    def run() -> None:
        with ThreadPoolExecutor(pool.size) as threads:
            list(threads.map(lambda data: pool.lines(data, "a page"), files))

    return run


def mistakes(test: PageTest, pages: list[bytes], others: list[bytes]) -> str:
    """Say how many pages the test misses, and how many photos it takes for pages."""
    missed = sum(not found for found in test.pages(pages))
    wrong = sum(bool(found) for found in test.pages(others))
    share = (missed + wrong) / max(1, len(pages) + len(others))
    return f"{share:.3f} wrong: {missed} of {len(pages)} pages missed, {wrong} of {len(others)} photos taken for pages"


def pictures(folder: Path | None, count: int) -> list[bytes]:
    """Return the bytes of pictures of a folder, or of synthetic photos."""
    if folder is None:
        return photos(count)
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    return [path.read_bytes() for path in files[:count]]


def main(count: int, folder: Path | None) -> None:
    cores = os.cpu_count() or 1
    files = drawn(count)
    one, several = OcrPool(1), OcrPool(cores)
    test = PageTest(encoders.load("mini", cache=MemoryCache(limit=0)))
    runs = {
        f"rapidocr in one process, {cores} threads": bare(files, cores),
        "rapidocr in one process, one thread": bare(files, 1),
        "one worker": pooled(files, one),
        f"{cores} workers": pooled(files, several),
        "test whether they are pages": lambda: test.pages(files),
    }
    for run in (pooled(files[:1], one), pooled(files[:cores], several)):
        run()  # loads the models
    taken = {name: seconds(run, 2) for name, run in runs.items()}
    first = next(iter(taken.values()))
    for name, took in taken.items():
        print(f"{name:<45} {took / count:7.3f} s a page   {first / took:5.2f} ×")
    print(f"{'the test':<45} {mistakes(test, files, pictures(folder, max(64, count)))}")
    for pool in (one, several):
        pool.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=8, help="how many")
    parser.add_argument("--photos", type=Path, default=None, help="a folder of pictures that are no pages")
    given = parser.parse_args()
    main(given.pages, given.photos)
