"""PDF: every page is a document, its text and its picture.

pdfium must not be called from two threads at once, so each call is made under one lock; nothing is held between pages
but the open file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from threading import RLock
from typing import Any

from isthmus._optional import need
from isthmus.documents import Document
from isthmus.errors import BadFile
from isthmus.sources.base import Found, Skipped
from isthmus.sources.files import File
from isthmus.sources.text import read_bytes

MODULE = "pypdfium2"
SIDE = 1024  # pixels of a page's longest side
QUALITY = 85  # of its JPEG
GIVE_UP = 20  # pages in a row that cannot be read: a damaged file may claim a million
PDFIUM = RLock()  # re-entrant: a document that is dropped may be closed while another is read, by the same thread
UNWRITABLE = re.compile("[\ud800-\udfff]")
UNWRITTEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # marks of hyphens, and noise


def read(file: File) -> Iterator[Found]:
    """Give each page as a document; a page that cannot be read is skipped alone."""
    pdfium = need(MODULE, extra="pdf")
    document = _open(pdfium, file)
    try:
        with PDFIUM:
            pages = len(document)
        failed = 0
        for number in range(1, pages + 1):
            found = _page(pdfium, document, file, number, pages)
            yield found
            failed = failed + 1 if isinstance(found, Skipped) else 0
            if failed == GIVE_UP and number < pages:
                yield Skipped(file.name, f"is damaged: after {GIVE_UP} such pages, the last {pages - number} were left")
                return
    finally:
        with PDFIUM:
            document.close()


def _open(pdfium: Any, file: File) -> Any:
    with Path(file.path).open("rb"):  # says why it may not be opened, which pdfium does not
        pass
    # pdfium takes UTF-8 for a name, so that a file called otherwise is read here
    given = Path(file.path) if not UNWRITABLE.search(file.path) else read_bytes(file, 2**30)
    try:
        with PDFIUM:
            return pdfium.PdfDocument(given)
    except pdfium.PdfiumError as error:
        if "assword" in str(error) or "ecurity" in str(error):
            raise BadFile("is encrypted. Save it without a password, for instance: qpdf --decrypt IN OUT") from None
        raise BadFile(f"is not a PDF, or damaged: {error}") from None


def _page(pdfium: Any, document: Any, file: File, number: int, pages: int) -> Found:
    try:
        with PDFIUM:
            text, picture = _look(document[number - 1])
    except MemoryError:
        raise
    except (pdfium.PdfiumError, ValueError, ArithmeticError, OSError) as error:
        return Skipped(f"{file.name}, page {number}", f"cannot be read: {error}")
    return Document(
        id=f"{file.name}#page={number}",
        text=UNWRITTEN.sub("", text.replace("\r\n", "\n")).strip() or None,
        image=picture,
        metadata=file.facts | {"page": number, "pages": pages},
    )


def _look(page: Any) -> tuple[str, bytes]:
    """Return the text of a page, and its picture as a JPEG."""
    try:
        width, height = page.get_size()
        words = page.get_textpage()
        try:
            text: str = words.get_text_range()
        finally:
            words.close()
        bitmap = page.render(scale=SIDE / max(width, height))
        try:
            jpeg = BytesIO()
            bitmap.to_pil().convert("RGB").save(jpeg, "JPEG", quality=QUALITY)
        finally:
            bitmap.close()
    finally:
        page.close()
    return text, jpeg.getvalue()
