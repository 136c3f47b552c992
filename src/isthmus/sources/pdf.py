"""PDF: every page is a document, its text and its picture.

pdfium runs in a worker process (``isthmus.isolated``): a page that takes too long or too much memory is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

from isthmus import budget
from isthmus._optional import require
from isthmus.documents import Document
from isthmus.files import open_regular
from isthmus.isolated.worker import RanAway, Worker
from isthmus.sources.base import Found, SkippedInput
from isthmus.sources.files import File

MODULE = "pypdfium2"
GIVE_UP = 20  # pages in a row that cannot be read: a damaged file may claim a million
UNWRITTEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")  # marks of hyphens, and noise
WORKER = Worker("pdf")
_numbers = count()


def read(file: File) -> Iterator[Found]:
    """Yield each page as a document; only pages that cannot be read are skipped."""
    require(MODULE, extra="pdf")
    with open_regular(file.path):  # with our permissions, which a worker that started earlier may not have
        pass
    request = {"reading": str(next(_numbers)), "path": file.path}
    try:
        pages: int = WORKER.ask(request).body["pages"]
        failed = ran_away = 0
        for number in range(1, pages + 1):
            try:
                found = _page(request, file, number, pages)
            except RanAway as error:
                ran_away += 1
                found = SkippedInput(f"{file.name}, page {number}", str(error))
            yield found
            failed = failed + 1 if isinstance(found, SkippedInput) else 0
            if (failed == GIVE_UP or ran_away == budget.RUNAWAYS) and number < pages:
                count = GIVE_UP if failed == GIVE_UP else ran_away
                yield SkippedInput(
                    file.name, f"is damaged: after {count} such pages, the last {pages - number} were skipped"
                )
                return
    finally:
        WORKER.drop(request["reading"])


def _page(request: dict[str, str], file: File, number: int, pages: int) -> Found:
    where = f"{file.name}, page {number}"
    answer = WORKER.ask({**request, "page": number})
    if "problem" in answer.body:
        return SkippedInput(where, f"cannot be read: {answer.body['problem']}")
    text = UNWRITTEN.sub("", answer.body["text"].replace("\r\n", "\n")).strip() or None
    too_long = budget.too_long(text)
    if too_long is not None:
        return SkippedInput(where, too_long)
    return Document(
        id=f"{file.name}#page={number}",
        text=text,
        image=answer.blobs[0],
        metadata=file.facts | {"page": number, "pages": pages},
    )
