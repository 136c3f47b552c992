"""In the worker: the text that a web page shows, by Lexbor's parser."""

from __future__ import annotations

from typing import Any

from isthmus._optional import need

parser: Any = need("selectolax.lexbor", extra="html").LexborHTMLParser

UNSEEN = ["script", "style", "noscript", "template", "head", "svg", "iframe"]
BLOCKS = (
    "address,article,aside,blockquote,br,caption,dd,div,dl,dt,figcaption,figure,footer,form,h1,h2,h3,h4,h5,h6,header,"
    "hr,legend,li,main,nav,ol,option,p,pre,section,table,td,th,tr,ul"
)


def answer(_: dict[str, Any], blobs: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the title of a page, given as UTF-8, and the text that it shows."""
    page = parser(blobs[0].decode())
    head = page.css_first("title")
    title = " ".join(head.text().split()) if head else ""
    return {}, [title.encode("utf-8", "replace"), _visible(page).encode("utf-8", "replace")]


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
