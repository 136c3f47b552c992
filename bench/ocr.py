"""The speed of reading pages: worker processes, one per core, beside the bare engine in one process.

    python bench/ocr.py [--pages 8]         (extra align)

Pages are drawn: 900 × 1200 pixels, 30 lines of the built-in bank. Both read the same files; decoding is included. They
alternate, because machines drift. The last line is what the test costs that decides what looks like a page, for a
collection whose encoder is not `mini`. Read the ratios.
"""

from __future__ import annotations

import argparse
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import rapidocr
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


def main(count: int) -> None:
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
        print(f"{name:<45} {count / took:6.2f} pages/s   {first / took:5.2f} ×")
    for pool in (one, several):
        pool.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pages", type=int, default=8, help="how many")
    main(parser.parse_args().pages)
