"""In the worker: the text and the picture of a PDF page, by pdfium."""

from __future__ import annotations

import os
from io import BytesIO
from typing import Any

from isthmus._optional import need
from isthmus.budget import MIB
from isthmus.errors import BadFile
from isthmus.files import open_regular
from isthmus.isolated.open_files import OpenFiles
from isthmus.ocr.words import ENOUGH, word_count

pdfium: Any = need("pypdfium2", extra="pdf")
need("PIL.Image", extra="pdf").init()  # load Pillow's plugins before the memory is limited

SIDE = 1024  # pixels of a page's longest side
SCAN_SIDE = 1600  # of a page with few words, which may be read (``isthmus.ocr``)
QUALITY = 85  # of its JPEG
WHOLE = 64 * MIB  # a larger file is not read into memory
documents: OpenFiles[Any] = OpenFiles()


def answer(request: dict[str, Any], _: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the number of pages of a file, or the text and the picture of one; ``close`` closes the file."""
    number = request["reading"]
    if request.get("close"):
        documents.drop(number)
        return None, []
    document = documents.get(number, lambda: _open(request["path"]))
    if "page" not in request:
        return {"pages": len(document)}, []
    try:
        text, picture = _look(document[request["page"] - 1])
    except (pdfium.PdfiumError, ValueError, ArithmeticError, OSError) as error:
        return {"problem": str(error)}, []
    return {"text": text}, [picture]


def _open(path: str) -> Any:
    file = open_regular(path)
    small = os.fstat(file.fileno()).st_size <= WHOLE
    try:
        # pdfium reads a few bytes at a time, which is slow through a Python file
        return pdfium.PdfDocument(file.read(WHOLE) if small else file, autoclose=True)
    except pdfium.PdfiumError as error:
        file.close()
        if "assword" in str(error) or "ecurity" in str(error):
            raise BadFile("is encrypted. Save it without a password, for instance: qpdf --decrypt IN OUT") from None
        raise BadFile(f"is not a PDF, or damaged: {error}") from None


def _look(page: Any) -> tuple[str, bytes]:
    """Return the text of a page, and its picture as a JPEG."""
    try:
        width, height = page.get_size()
        words = page.get_textpage()
        try:
            text: str = words.get_text_range()
        finally:
            words.close()
        side = SIDE if word_count(text) >= ENOUGH else SCAN_SIDE
        bitmap = page.render(scale=side / max(width, height))
        try:
            jpeg = BytesIO()
            bitmap.to_pil().convert("RGB").save(jpeg, "JPEG", quality=QUALITY)
        finally:
            bitmap.close()
    finally:
        page.close()
    return text, jpeg.getvalue()
