"""Web pages: the text a reader would see, the title first.

The parser runs in a process of its own (``isthmus.isolated``): a page that takes too long to parse is skipped.
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
TAG = re.compile(rb"<(/?)(?:div|span|b|i|em|strong|font|a|section|ul|ol|table|blockquote)\b", re.IGNORECASE)
DEEPEST = 10_000  # open elements; the time to parse grows with their square
WORKER = Worker("html")


def read(file: File) -> Iterator[Found]:
    """Give a page as one text document."""
    require(MODULE, extra="html")
    data = read_bytes(file)
    if depth(data) > DEEPEST:
        raise BadInput(f"nests elements more than {DEEPEST:,} deep. It is malformed, perhaps on purpose")
    page = _decoded(data, file.name).encode("utf-8", "replace")
    title, visible = (blob.decode() for blob in WORKER.ask({}, [page]).blobs)
    text = "\n".join(piece for piece in (title, visible) if piece)
    if not text:
        raise BadInput("is empty: it shows no text")
    problem = too_long(text)
    if problem is not None:
        raise BadInput(problem)
    yield Document(id=file.name, text=text, metadata=file.facts | ({"title": title} if title else {}))


def depth(data: bytes) -> int:
    """Return how deep elements that must be closed are nested, at most.

    >>> depth(b"<div><p>one<p>two<div></div></div>")
    2
    """
    deepest = now = 0
    for tag in TAG.finditer(data):
        now = max(0, now - 1) if tag[1] else now + 1
        deepest = max(deepest, now)
    return deepest


def _decoded(data: bytes, name: str) -> str:
    """Decode by the mark, else as UTF-8, else by the encoding that the page names."""
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
