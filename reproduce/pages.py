"""Scanned pages found by questions about them: as pictures, with the text that OCR reads, with their parsed text.

    python reproduce/pages.py --data DIR [--cache CACHE]         (needs docvqa/ and the extra align; half an hour on two
                                                                  cores, a few minutes from the cache)

The corpus is the half of DocVQA's pages that neither ``mini`` nor the settings of OCR have seen, indexed from a folder
of their files, and every question about them counts. *OCR* is ``isthmus index --ocr auto``. *Parsed text* is the text
that comes with DocVQA, in a sidecar of each page: what perfect OCR would reach. hit@3 is the share of questions whose
page is among the first three; 95% intervals are bootstrapped over pages, whose questions stay together.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tables import Row, arguments, compared

from isthmus import Collection, encoders
from isthmus.evaluate import values
from isthmus.search import Hit
from isthmus.train.data.pages import held_out

Run = dict[str, dict[str, float]]
SETTINGS = (("raw cosine", "none", False), ("auto", None, False), ("auto, hybrid", None, True))
MEASURES = ("hit@3", "nDCG@10")
RESAMPLES = 2000
PICTURES = "pictures"  # have no words to search by


def questions(data: Path) -> dict[str, tuple[str, str]]:
    """Return the questions about held-out pages: the page, and the words."""
    asked = json.loads((data / "docvqa" / "val_v1.0.json").read_text("utf-8"))["data"]
    rows = ((str(row["questionId"]), Path(row["image"]).stem, row["question"]) for row in asked)
    return {name: (page, text) for name, page, text in rows if held_out(page)}


def folder(data: Path, out: Path, *, sidecars: bool) -> Path:
    """Make a folder of the held-out pages, with or without their parsed texts."""
    out.mkdir()
    texts = json.loads((data / "docvqa" / "page_text.json").read_text("utf-8")) if sidecars else {}
    for path in sorted((data / "docvqa" / "img640").glob("*.webp")):
        if held_out(path.stem):
            (out / path.name).symlink_to(path.resolve())
            if text := texts.get(path.stem, "").replace("\0", "").strip():
                (out / f"{path.name}.txt").write_text(text, "utf-8")
    return out


def run_of(found: Sequence[Sequence[Hit]], names: Sequence[str]) -> Run:
    """Return the ranking of each question, by page."""
    pages = ({Path(hit.id).stem: -float(hit.rank) for hit in hits} for hits in found)
    return dict(zip(names, pages, strict=True))


def summary(scores: np.ndarray[tuple[int, ...], np.dtype[np.float64]], pages: Sequence[str]) -> tuple[float, ...]:
    """Return the mean over questions, and its interval over resampled pages."""
    names, place = np.unique(list(pages), return_inverse=True)
    sums, counts = np.bincount(place, scores), np.bincount(place)
    drawn = np.random.default_rng(0).integers(len(names), size=(RESAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return float(scores.mean()), *(float(edge) for edge in np.quantile(means, [0.025, 0.975]))


def measured(things: Collection, asked: dict[str, tuple[str, str]], what: str) -> list[Row]:
    """Search a collection in each setting; return a row for each."""
    qrels = {name: {page: 1} for name, (page, _) in asked.items()}
    print(f"{what}: {things.calibrate().fitted.spec}", file=sys.stderr)
    rows: list[Row] = []
    for setting, calibration, hybrid in SETTINGS[: 2 if what == PICTURES else 3]:
        words = [text for _, text in asked.values()]
        run = run_of(things.search_many(words, 10, hybrid=hybrid, calibration=calibration), list(asked))
        row: Row = {"pages as": what, "search": setting, "questions": str(len(asked))}
        for measure in MEASURES:
            found = values(measure, run, qrels)
            scores = np.array([found[name] for name in asked])
            mean, low, high = summary(scores, [page for page, _ in asked.values()])
            row |= {measure: mean, f"{measure} from": low, f"{measure} to": high}
        rows.append(row)
    return rows


def table(data: Path, cache: Path | None) -> list[Row]:
    """Index the pages in three ways, and search them."""
    asked = questions(data)
    encoder = encoders.load("mini", cache=None if cache is None else cache / "vectors")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        bare = folder(data, Path(scratch, "pages"), sidecars=False)
        parsed = folder(data, Path(scratch, "parsed"), sidecars=True)
        for what, path, ocr in ((PICTURES, bare, "never"), ("OCR", bare, "auto"), ("parsed text", parsed, "never")):
            with Collection.open(Path(scratch, f"{what}.isthmus"), encoder, follow=False) as things:
                report = things.index(path, ocr=ocr)
                print(f"{what}: {report}", file=sys.stderr)
                rows += measured(things, asked, what)
    return rows


if __name__ == "__main__":
    options = arguments(__doc__, {"cache": "where vectors and texts are kept; default: not kept"})
    if options.cache:
        os.environ["ISTHMUS_CACHE"] = options.cache
    found = table(options.data, Path(options.cache) if options.cache else None)
    raise SystemExit(compared("pages", found, options.write))
