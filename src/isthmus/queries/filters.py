"""Which generated queries are usable.

copied     more than 40 characters and more than .6 of it are in its document in one piece
no noun    a query needs a noun and another content word
a name     an image-related query must describe what is visible; a name is not
"""

from __future__ import annotations

from collections.abc import Sequence

from isthmus.documents import Document
from isthmus.queries.kinds import IMAGE, MadeQuery
from isthmus.queries.overlap import copied
from isthmus.queries.parse import Parser, Word, best

NOUNS = frozenset({"NOUN", "PROPN"})
CONTENT = NOUNS | {"ADJ", "VERB", "NUM", "ADV"}


def kept(query: MadeQuery, document: Document, parser: Parser | None = None) -> bool:
    """Return whether a query is usable; pass the document as it will be searched.

    >>> kept(MadeQuery("text-related", "the red fox", "d"), Document("d", "A red fox sleeps."))
    True
    """
    return objection(query, document, parser) is None


def objection(query: MadeQuery, document: Document, parser: Parser | None = None) -> str | None:
    """Return what is wrong with a query, as listed above, or None."""
    if copied(query.text, document.text or ""):
        return "copied"
    parser = parser or best()
    if not parser.reads(query.text) and not parser.reads(document.text or ""):
        return None  # tags of an unknown language are meaningless
    words = parser.sentence(query.text).words
    if not says_something(words):
        return "no noun"
    return "a name" if query.kind == IMAGE and any(word.tag == "PROPN" for word in words) else None


def says_something(words: Sequence[Word]) -> bool:
    """Return whether there is a noun and another content word."""
    tags = [word.tag for word in words if word.text.isalnum() or len(word.text) > 1]
    return any(tag in NOUNS for tag in tags) and sum(tag in CONTENT for tag in tags) > 1
