"""Text in pictures of documents: what a picture that looks like a page says is added as a text after it.

    Document(parts=[Image("scan.png")])  ──▸  Document(parts=[Image("scan.png"), Text("Dear Sir …")],
                                                       metadata={"ocr_parts": [1]})

``ocr_parts`` has the numbers of the parts that were read, so that they are not shown as the author's own words.
Pictures are read in worker processes, as many as there are cores, and the texts are cached by the picture's content.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias, TypeVar

from isthmus._optional import require
from isthmus.documents import MAX_DOCUMENT_PARTS, Document
from isthmus.encoders import Encoder
from isthmus.encoders.images import file_bytes, in_order, source_name
from isthmus.encoders.locations import user_cache
from isthmus.errors import BadImage
from isthmus.kinds import IMAGE, TEXT, Part, Text, atoms, stored
from isthmus.ocr import engine
from isthmus.ocr.cache import FOLDER, TextCache, text_key
from isthmus.ocr.pool import OcrPool
from isthmus.ocr.words import ENOUGH, word_count
from isthmus.registry import lookup
from isthmus.search.page_test import PageTest, page_test
from isthmus.sources.whole_files import PART_PAGES

AUTO, NEVER, ALWAYS = MODES = ("auto", "never", "always")
OCR_PARTS = "ocr_parts"  # metadata: the numbers of the parts that were read from pictures
FEWEST = 3  # words of a page; a photo that was taken for one often has a speck or two
AHEAD = 4  # documents per worker that are made ready before they are needed
TOGETHER = 16  # documents whose pictures are tested at once
PDF = "pdf"  # the type of a file whose pictures are pages
RULES = 1  # raise it when other pictures are read: files are then looked at again

Wanted: TypeAlias = frozenset[int]  # the numbers of the parts to read
NONE: Wanted = frozenset()
Item = TypeVar("Item")
Done = TypeVar("Done")


@dataclass(slots=True)
class PageCounts:
    """What was done about text in pictures."""

    read: int = 0  # pictures whose text was added
    cached: int = 0  # of these, how many had been read before
    unread: int = 0  # pictures that look like pages while the extra that reads them is not installed
    seconds: float = 0.0  # of reading, over all processes


@dataclass(slots=True, eq=False)
class PageTexts:
    """Adds the text in pictures to documents; ``encoder`` is what will encode them. Close it after use."""

    mode: str
    encoder: Callable[[], Encoder] | None
    counts: PageCounts = field(default_factory=PageCounts)
    threads: int | None = None
    cache: TextCache = field(default_factory=lambda: TextCache(user_cache() / FOLDER))
    _pool: OcrPool | None = None
    _test: PageTest | None = None
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        lookup({mode: mode for mode in MODES}, self.mode, "value of ocr")
        if self.mode == ALWAYS:
            require(engine.MODULE, extra=engine.EXTRA)
        if self.encoder is None:  # a collection of vectors cannot encode what is read
            self.mode = NEVER

    @property
    def stamp(self) -> str:
        """What to add to the stamp of a file with pictures, so that it is read again under another mode."""
        if self.mode == NEVER:
            return ""
        return f"\nocr {self.mode} {RULES}{'' if engine.is_installed() else ' missing'}"

    def in_order(self, task: Callable[[Item, Wanted], Done], items: Iterable[Item]) -> Iterator[Done]:
        """Run a task on items, with the pictures to read of those that are documents; results keep their order.

        It runs on as many threads as there are processes that read.
        """
        if self.mode == NEVER:
            return (task(item, NONE) for item in items)
        return in_order(lambda pair: task(*pair), self._marked(items), workers=self._size, ahead=AHEAD * self._size)

    def _marked(self, items: Iterable[Item]) -> Iterator[tuple[Item, Wanted]]:
        """Yield items with the numbers of the pictures that are to be read; those of several are tested together."""
        source = iter(items)
        while some := list(islice(source, TOGETHER)):
            sure = [_candidates(item, self.mode) if isinstance(item, Document) else {} for item in some]
            doubtful = [(at, number) for at, each in enumerate(sure) for number, is_page in each.items() if not is_page]
            contents = [some[at].parts[number].content for at, number in doubtful]  # type: ignore[attr-defined]
            pages = self._tested().pages(contents).tolist() if contents else []
            for (at, number), is_page in zip(doubtful, pages, strict=True):
                sure[at][number] = is_page
            for item, each in zip(some, sure, strict=True):
                yield item, frozenset(number for number, is_page in each.items() if is_page)

    def added(self, document: Document, wanted: Wanted) -> tuple[Document, list[str]]:
        """Return a document with the text of the pictures that are wanted, and why some could not be read."""
        if not wanted or not self._reads_text():
            return document, []
        parts: list[tuple[Part, int, bool]] = []  # with the page, and whether it was read
        problems: list[str] = []
        for number, (part, page) in enumerate(zip(document.parts, _pages(document), strict=True)):
            parts.append((part, page, False))
            text = self._text(part.content, problems) if number in wanted else ""
            if text and len(document.parts) + sum(read for _, _, read in parts) < MAX_DOCUMENT_PARTS:
                parts.append((Text(text), page, True))
        return _with_parts(document, parts), problems

    def _text(self, image: Any, problems: list[str]) -> str:
        """Return the text in a picture; empty where there is none, or it cannot be read."""
        if not engine.is_installed():
            self._count(unread=1)
            return ""
        try:
            data = file_bytes(image)
            if data is None:
                kept = stored(IMAGE).keep(image)  # pixels in memory become a PNG
                data = kept if isinstance(kept, bytes) else b""
            text = "\n".join(self._lines(data, source_name(image)))
        except BadImage as error:
            problems.append(f"its text was not read, only the picture was indexed: {error}")
            return ""
        if self.mode == AUTO and word_count(text) < FEWEST:
            return ""
        self._count(read=bool(text))
        return text

    def _lines(self, data: bytes, name: str) -> list[str]:
        key = text_key(data)
        known = self.cache.get(key)
        if known is not None:
            self._count(cached=1)
            return known
        began = time.monotonic()
        lines = self._loaded().lines(data, name)
        self.cache.put(key, lines)
        self._count(seconds=time.monotonic() - began)
        return lines

    def _reads_text(self) -> bool:
        """Whether the encoder takes documents of picture and text."""
        modalities = self.encoder().modalities if self.encoder is not None else ()
        return any(set(atoms(modality)) >= {IMAGE, TEXT} for modality in modalities)

    def _count(self, *, read: int = 0, cached: int = 0, unread: int = 0, seconds: float = 0.0) -> None:
        with self._lock:
            self.counts.read += read
            self.counts.cached += cached
            self.counts.unread += unread
            self.counts.seconds += seconds

    @property
    def _size(self) -> int:
        return self.threads or os.cpu_count() or 1

    def _tested(self) -> PageTest:
        if self._test is None:
            self._test = page_test(self.encoder() if self.encoder is not None else None)
        return self._test

    def _loaded(self) -> OcrPool:
        with self._lock:
            if self._pool is None:
                self._pool = OcrPool(self._size)
            return self._pool

    def close(self) -> None:
        """Stop the processes."""
        if self._pool is not None:
            self._pool.close()


def read_parts(metadata: Mapping[str, Any]) -> frozenset[int]:
    """Return the numbers of the parts of a document that were read from pictures."""
    found = metadata.get(OCR_PARTS)
    return frozenset(at for at in found if isinstance(at, int)) if isinstance(found, list) else frozenset()


def page_of(metadata: Mapping[str, Any], parts: Iterable[int]) -> int | None:
    """Return the page of a document that matched, by the numbers of the parts that did; None where it has no pages.

    >>> page_of({"page": 3, "pages": 9}, [0]), page_of({"part_pages": [1, 1, 2, 2]}, [2, 3]), page_of({}, [0])
    (3, 2, None)
    """
    pages = metadata.get(PART_PAGES)
    found: object = metadata.get("page")
    if isinstance(pages, list):
        found = next((pages[part] for part in parts if part < len(pages)), None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def without_read_parts(document: Document) -> Document:
    """Return a document without the texts that were read from its pictures."""
    read = read_parts(document.metadata)
    if not read:
        return document
    kept = [number for number in range(len(document.parts)) if number not in read]
    metadata = {name: value for name, value in document.metadata.items() if name != OCR_PARTS}
    pages = metadata.get(PART_PAGES)
    if isinstance(pages, list):
        metadata[PART_PAGES] = [pages[number] for number in kept if number < len(pages)]
    return Document.restored(document.id, [document.parts[number] for number in kept], metadata, document.vectors)


def _pages(document: Document) -> list[int]:
    """Return the page of each part; 0 where there are no pages."""
    pages = document.metadata.get(PART_PAGES)
    if isinstance(pages, list) and len(pages) == len(document.parts):
        return pages
    return [0] * len(document.parts)


def _candidates(document: Document, mode: str) -> dict[int, bool]:
    """Return the numbers of the pictures that may be read, and whether they are to be read without a test."""
    if OCR_PARTS in document.metadata:
        return {}
    pages = _pages(document)
    words = dict.fromkeys(pages, 0)
    for part, page in zip(document.parts, pages, strict=True):
        words[page] += word_count(part.content) if part.kind == TEXT else 0
    sure = mode == ALWAYS or document.metadata.get("type") == PDF
    return {
        number: sure
        for number, (part, page) in enumerate(zip(document.parts, pages, strict=True))
        if part.kind == IMAGE and (mode == ALWAYS or words[page] < ENOUGH)
    }


def _with_parts(document: Document, parts: list[tuple[Part, int, bool]]) -> Document:
    read = [number for number, (_, _, was_read) in enumerate(parts) if was_read]
    if not read:
        return document
    metadata = {**document.metadata, OCR_PARTS: read}
    if PART_PAGES in metadata:
        metadata[PART_PAGES] = [page for _, page, _ in parts]
    return Document.restored(document.id, [part for part, _, _ in parts], metadata, document.vectors)
