"""The text that a web page shows, by Lexbor's parser: in the worker, except for pages that cannot take long."""

from __future__ import annotations

import re
from typing import Any

from isthmus._optional import need
from isthmus.errors import BadInput

parser: Any = need("selectolax.lexbor", extra="html").LexborHTMLParser

TAG = re.compile(rb"<(/?)(?:div|span|b|i|em|strong|font|a|section|ul|ol|table|blockquote)\b", re.IGNORECASE)
DEEPEST = 10_000  # open elements; the time to parse grows with their square

UNSEEN = ["script", "style", "noscript", "template", "head", "svg", "iframe"]
BLOCKS = (
    "address,article,aside,blockquote,br,caption,dd,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,h4,h5,h6,header,"
    "hr,legend,li,main,nav,ol,option,p,pre,section,table,td,th,tr,ul"
)


def answer(_: dict[str, Any], blobs: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the title of a page, given as UTF-8, and the text that it shows."""
    return {}, [piece.encode("utf-8", "replace") for piece in shown(blobs[0])]


def shown(data: bytes) -> tuple[str, str]:
    """Return the title of a page, given as UTF-8, and the text that it shows.

    >>> shown(b"<title>Cats</title><p>Two <b>cats</b>.<p hidden>three")
    ('Cats', 'Two cats.')
    """
    if too_deep(data):
        raise BadInput(f"nests elements more than {DEEPEST:,} deep. It is malformed")
    page = parser(data.decode())
    head = page.css_first("title")
    title = " ".join(head.text().split()) if head else ""
    return title, _visible(page)


def too_deep(data: bytes, most: int = DEEPEST) -> bool:
    """Whether elements that must be closed are nested more than ``most`` deep.

    >>> page = b"<div><p>one<p>two<div></div></div>"
    >>> too_deep(page, 1), too_deep(page, 2)
    (True, False)
    """
    if data.count(b"<") <= most:
        return False
    now = 0
    for tag in TAG.finditer(data):
        now = max(0, now - 1) if tag[1] else now + 1
        if now > most:
            return True
    return False


def _visible(page: Any) -> str:
    body = page.body
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
