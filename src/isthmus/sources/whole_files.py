"""Pages of one file as one document: its parts are the pages, and the metadata say the page of each part.

    manual.pdf#page=1, manual.pdf#page=2, …  ──▸  manual.pdf, part_pages = [1, 1, 2, 2, …]

A picture comes before the text of its page, so that a search pairs the two. A long file becomes several documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from isthmus import budget
from isthmus.documents import MAX_DOCUMENT_PARTS, Document, Part
from isthmus.kinds import TEXT
from isthmus.sources.base import Found

APART, TOGETHER = WAYS = ("apart", "together")  # each page is a document, or each file
PART_PAGES = "part_pages"  # metadata: the page of each part
MOST = MAX_DOCUMENT_PARTS // 3  # pages of a document: each has a picture, a text, and perhaps one that is read


def together(found: Iterable[Found]) -> Iterator[Found]:
    """Join the pages among the documents of one file; anything else passes through."""
    pages: list[Document] = []
    complete = True  # so far, all pages are in one document
    for one in found:
        if not isinstance(one, Document) or not _is_page(one):
            yield one
            continue
        if pages and (len(pages) == MOST or _length([*pages, one]) > budget.CHARACTERS):
            yield _joined(pages, whole=False)
            pages, complete = [], False
        pages.append(one)
    if pages:
        yield _joined(pages, whole=complete)


def _is_page(document: Document) -> bool:
    return isinstance(document.metadata.get("page"), int) and "#page=" in document.id


def _length(pages: Sequence[Document]) -> int:
    return sum(len(page.text or "") for page in pages)


def _joined(pages: Sequence[Document], *, whole: bool) -> Document:
    first, last = pages[0], pages[-1]
    name = first.id.rpartition("#page=")[0]
    parts: list[Part] = []
    numbers: list[int] = []
    for page in pages:
        own = sorted(page.parts, key=lambda part: part.kind == TEXT)
        parts += own
        numbers += [page.metadata["page"]] * len(own)
    metadata = {field: value for field, value in first.metadata.items() if field != "page"}
    span = f"#pages={first.metadata['page']}-{last.metadata['page']}"
    return Document(name if whole else f"{name}{span}", parts=parts, metadata=metadata | {PART_PAGES: numbers})
