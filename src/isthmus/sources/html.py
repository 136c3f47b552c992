"""Web pages: the text a reader would see, the title first."""

from __future__ import annotations

import re
from collections.abc import Iterator

from isthmus._optional import need
from isthmus.documents import Document
from isthmus.errors import BadInput
from isthmus.sources.base import Found
from isthmus.sources.files import File
from isthmus.sources.text import decode, mark_of, read_bytes

MODULE = "selectolax"
UNSEEN = ["script", "style", "noscript", "template", "head", "svg", "iframe"]
BLOCKS = (
    "address,article,aside,blockquote,br,caption,dd,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,h4,h5,h6,header,"
    "hr,legend,li,main,nav,ol,option,p,pre,section,table,td,th,tr,ul"
)
CHARSET = re.compile(rb"""(?:charset|encoding)\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""")
TAG = re.compile(rb"<(/?)(?:div|span|b|i|em|strong|font|a|section|ul|ol|table|blockquote)\b", re.IGNORECASE)
DEEPEST = 10_000  # open elements; the time to parse grows with their square


def read(file: File) -> Iterator[Found]:
    """Give a page as one text document."""
    need(MODULE, extra="html")
    parser = need("selectolax.lexbor", extra="html").LexborHTMLParser
    data = read_bytes(file)
    if depth(data) > DEEPEST:
        raise BadInput(f"nests elements more than {DEEPEST:,} deep. It is broken, or made to be")
    page = parser(_decoded(data, file.name))
    head = page.css_first("title")
    title = " ".join(head.text().split()) if head else ""
    text = "\n".join(piece for piece in (title, _visible(page)) if piece)
    if not text:
        raise BadInput("is empty: it shows no text")
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
        return decode(data, name)
    except BadInput:
        said = CHARSET.search(data[:2048])
        if said is None or mark_of(data)[0]:
            raise
        try:
            return data.decode(said[1].decode("ascii"))
        except (LookupError, UnicodeError):
            pass
        raise


def _visible(page: object) -> str:
    body = page.body  # type: ignore[attr-defined]
    if body is None:
        return ""
    body.strip_tags(UNSEEN)
    for hidden in body.css("[hidden]"):
        hidden.decompose()
    for block in body.css(BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    lines = (" ".join(line.split()) for line in body.text().splitlines())
    return "\n".join(line for line in lines if line)
