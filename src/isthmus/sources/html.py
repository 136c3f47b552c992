"""Web pages: the visible text, the title first.

A page that could take long to parse is parsed in a worker process (``isthmus.isolated``), and skipped if it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from isthmus._optional import require
from isthmus.budget import TEXT_BYTES, too_long
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.isolated.worker import Worker
from isthmus.sources.base import Found
from isthmus.sources.files import File
from isthmus.sources.text import decode, mark_of, read_bytes

MODULE = "selectolax"
CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""")
FORMATTING = re.compile(rb"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)\b", re.IGNORECASE)
# Limits for parsing in this process. The worst pages take about 0.5 s and 200 MB with tags, 1.7 s with attributes.
SMALL = 128 * 1024  # bytes; an attribute is compared with every other one of its tag
FEW_TAGS = 8_000  # a tag is compared with every open element
FEW_COPIES = 500_000  # every paragraph may open each formatting element again
WORKER = Worker("html")


def read(file: File) -> Iterator[Found]:
    """Yield a page as one text document."""
    require(MODULE, extra="html")
    data = read_bytes(file)
    page = _decoded(data, file.name).encode("utf-8", "replace")
    title, visible = _shown(page)
    text = "\n".join(piece for piece in (title, visible) if piece)
    if not text:
        raise BadInput("is empty: it shows no text")
    problem = too_long(text)
    if problem is not None:
        raise BadInput(problem)
    yield Document(id=file.name, text=text, metadata=file.facts | ({"title": title} if title else {}))


def is_harmless(page: bytes) -> bool:
    """Whether a page, as UTF-8, is small enough to be parsed quickly, whatever it contains.

    >>> is_harmless(b"<p>text"), is_harmless(b"<p>text" * 10_000)
    (True, False)
    """
    tags = page.count(b"<")
    if len(page) > SMALL or tags > FEW_TAGS:
        return False
    return tags * sum(1 for _ in FORMATTING.finditer(page)) <= FEW_COPIES


def _shown(page: bytes) -> tuple[str, str]:
    if is_harmless(page):
        from isthmus.isolated.html import shown

        return shown(page)
    title, visible = WORKER.ask({}, [page]).blobs
    return title.decode(), visible.decode()


def _decoded(data: bytes, name: str) -> str:
    """Decode by the byte order mark, otherwise as UTF-8, otherwise by the encoding that the page names."""
    try:
        return decode(data, name, characters=TEXT_BYTES)
    except BadInput:
        said = CHARSET.search(data[:2048])
        if said is None or mark_of(data)[0]:
            raise
        try:
            return data.decode(said[1].decode("ascii"))
        except (LookupError, UnicodeError):
            pass
        raise
