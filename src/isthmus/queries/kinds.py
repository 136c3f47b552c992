"""The three kinds of queries, and a generated query with its origin."""

from __future__ import annotations

from dataclasses import dataclass

TEXT, IMAGE, MIXED = "text-related", "image-related", "mixed"
KINDS = (TEXT, IMAGE, MIXED)  # as the Mr. Right benchmark calls them


@dataclass(frozen=True, slots=True)
class MadeQuery:
    """A query made from a document.

    ``removed`` is the piece of the document's text that it repeats, ``text[start:end]``; None if it repeats none.
    """

    kind: str
    text: str
    source_id: str
    removed: tuple[int, int] | None = None
