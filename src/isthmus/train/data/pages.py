"""Scanned pages (DocVQA) with texts that name their kind: a letter, a form, a table of numbers, a chart.

The kind comes from the words of the page and from the questions that people asked about it. Half of the documents is
kept for tests.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from isthmus.train.data.packs import PackedPicture, encoded

SIZE = 256
ANY = ("a scanned page", "a scanned document", "a page of text", "a black and white scan of a printed page")
KINDS: Mapping[str, tuple[re.Pattern[str], re.Pattern[str]]] = {  # texts: in the page, in the questions about it
    "a letter|a typed letter|a business letter": (
        re.compile(r"^\s*dear\b|sincerely|yours truly|kind regards", re.IGNORECASE | re.MULTILINE),
        re.compile(r"\bletter\b|salutation"),
    ),
    "a memo|an office memo|a memorandum": (
        re.compile(r"\bmemorandum\b|^\s*memo\b", re.IGNORECASE | re.MULTILINE),
        re.compile(r"\bmemo"),
    ),
    "a form|a filled form|a form with fields": (
        re.compile(
            r"(?:name|date|address|phone|signature)\s*:.*(?:name|date|address|phone|signature)\s*:",
            re.IGNORECASE | re.DOTALL,
        ),
        re.compile(r"\bform\b"),
    ),
    "a table of numbers|a table|rows and columns of numbers": (
        re.compile(r"^\s*table\s+[\divx]", re.IGNORECASE | re.MULTILINE),
        re.compile(r"\btable\b|\bcolumn\b|\brow\b"),
    ),
    "a chart|a graph|a plot of data": (
        re.compile(r"(?!)"),
        re.compile(r"\b(?:chart|graph|plot|x-axis|y-axis|x axis|y axis|bar)\b"),
    ),
    "an invoice|a bill|an invoice with amounts": (
        re.compile(r"\binvoice\b|amount due|\bremit\b", re.IGNORECASE),
        re.compile(r"\binvoice\b|\bbill\b|\breceipt\b"),
    ),
    "a handwritten page|a handwritten letter|handwriting": (
        re.compile(r"(?!)"),
        re.compile(r"hand ?written|handwriting"),
    ),
    "an advertisement|a printed advertisement": (re.compile(r"(?!)"), re.compile(r"\badvertis|\bad\b")),
    "a list of names|a list": (re.compile(r"list of", re.IGNORECASE), re.compile(r"\blist of\b")),
    "a schedule|an agenda": (
        re.compile(r"\bagenda\b|^\s*schedule\b", re.IGNORECASE | re.MULTILINE),
        re.compile(r"\bagenda\b|\bschedule\b"),
    ),
    "a diagram|a drawing with labels": (re.compile(r"(?!)"), re.compile(r"\bdiagram\b|\bfigure\b|flow ?chart")),
    "a newspaper article|a printed article": (re.compile(r"(?!)"), re.compile(r"\barticle\b|newspaper")),
    "a report|the cover of a report": (
        re.compile(r"\b(?:annual|progress|final|quarterly) report\b", re.IGNORECASE),
        re.compile(r"\breport\b"),
    ),
}
HEADING = 60  # characters


def held_out(name: str) -> bool:
    """Return whether a page is kept for tests: all pages of its document are."""
    document = Path(name).stem.rpartition("_")[0]
    return hashlib.sha256(document.encode()).digest()[0] % 2 == 1


def kinds(text: str, questions: Sequence[str]) -> list[str]:
    """Return the texts of the kinds a page belongs to.

    >>> kinds("Dear Sir, …", []), kinds("1 2 3", ["What is the title of the x-axis of the graph?"])
    (['a letter', 'a typed letter', 'a business letter'], ['a chart', 'a graph', 'a plot of data'])
    """
    asked = "\n".join(questions).lower()
    return [
        phrase
        for phrases, (printed, about) in KINDS.items()
        if printed.search(text) or about.search(asked)
        for phrase in phrases.split("|")
    ]


def pages(folder: Path) -> Iterator[PackedPicture]:
    """Yield the pages, each with texts about its kind, and its heading."""
    texts = json.loads((folder / "page_text.json").read_text("utf-8"))
    questions: dict[str, list[str]] = {}
    for row in json.loads((folder / "val_v1.0.json").read_text("utf-8"))["data"]:
        questions.setdefault(Path(row["image"]).stem, []).append(row["question"])
    for path in sorted((folder / "img640").glob("*.webp")):
        text = texts.get(path.stem, "")
        found = kinds(text, questions.get(path.stem, []))
        heading = " ".join(text.split())[:HEADING].rpartition(" ")[0]
        about = [f"a page that begins: {heading}"] if heading else []
        scans = [f"a scan of {phrase}" for phrase in found[::3]]
        yield PackedPicture(path.stem, encoded(path, SIZE), [*found, *scans, *about, *ANY])
