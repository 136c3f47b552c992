"""Queries made from a document: about its text, about its image, about both.

    text-related     a piece of the first sentences, from a subject to an object; it can be removed from the text
    image-related    a caption of the image, without names
    mixed            one of each, in either order

Reference: Hsieh et al., Mr. Right (2022, arXiv 2209.13764), on generated queries; docs/papers.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from isthmus.documents import Document, with_text
from isthmus.errors import BadInput
from isthmus.queries.captions import nameless
from isthmus.queries.filters import kept
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT, MadeQuery
from isthmus.queries.overlap import SHARED, copied
from isthmus.queries.parse import Parser, Sentence, Span, best
from isthmus.queries.phrases import content_words, phrase
from isthmus.queries.words import sentences
from isthmus.registry import lookup

SENTENCES = 3  # sentences from which a piece is taken
FEWEST, MOST = 3, 16  # words of a piece
READ = 20_000  # characters that are used of a text that stays whole
LEFT = 3  # content words that must remain when a piece is removed


def made(
    document: Document,
    caption: str | None = None,
    *,
    rng: np.random.Generator,
    kinds: Sequence[str] = KINDS,
    parser: Parser | None = None,
) -> list[MadeQuery]:
    """Return the queries of a document that pass the filters, at most one of each kind.

    The filters see the document without the piece that a query repeats (`without`). If a text is too short to lose a
    piece, or in an unsupported language, its query is some of its words (`phrases.phrase`) and nothing is removed.
    Without text and caption there is no query.

    >>> bridge = Document("b", "The old bridge crosses the river at Basel. It was built of red stone in 1225.", "b.jpg")
    >>> for query in made(bridge, "people walk over a stone bridge", rng=np.random.default_rng(0)):
    ...     print(f"{query.kind}: {query.text}")
    text-related: The old bridge crosses the river at Basel
    image-related: people walk over a stone bridge
    mixed: The old bridge crosses the river at Basel people walk over a stone bridge
    """
    for kind in kinds:
        lookup(dict.fromkeys(KINDS), kind, "kind of query")
    parser = parser or best()
    about_text = _about_text(document, rng, parser)
    about_image = MadeQuery(IMAGE, nameless(caption, parser), document.id) if caption and caption.strip() else None
    swap = rng.random() < 0.5  # always drawn, so that `kinds` does not change later draws
    fit = [query for query in (about_text, about_image) if query and _fit(query, document, parser)]
    if len(fit) == len((TEXT, IMAGE)):
        first, second = reversed(fit) if swap else fit
        both = replace(fit[0], kind=MIXED, text=f"{first.text} {second.text}")
        fit += [both] if _fit(both, document, parser) else []
    return [query for query in fit if query.kind in kinds]


def about(text: str, rng: np.random.Generator, parser: Parser | None = None) -> str | None:
    """Return a query about a text that stays whole, or None if it has no content words.

    A piece of any of its sentences, if it is short enough not to count as copied; otherwise some of its words.

    >>> about("A red fox sleeps in the snow.", np.random.default_rng(0))
    'A red fox sleeps in the snow'
    """
    parser = parser or best()
    said_in = list(sentences(text[:READ])) if parser.reads(text) else []
    if said_in:
        start, end = said_in[int(rng.integers(len(said_in)))]
        piece = _drawn(text, [parser.sentence(text, start, end)], rng, left=0)
        said = " ".join(text[piece[0] : piece[1]].split()) if piece else ""
        if said and not copied(said, text):
            return said
    said = phrase(text, rng) or ""
    return (_short(said) if copied(said, text) else said) or None


def without(document: Document, query: MadeQuery) -> Document:
    """Return the document without the piece of text that a query repeats; everything else stays.

    >>> fox = Document("d", "A red fox sleeps in the snow. It is cold in the north.")
    >>> without(fox, MadeQuery("text-related", "A red fox sleeps", "d", (0, 16))).text
    ' in the snow. It is cold in the north.'
    """
    if query.source_id != document.id:
        raise BadInput(f"The query was made from {query.source_id!r} and cannot be removed from {document.id!r}.")
    if query.removed is None:
        return document
    text = document.text or ""
    start, end = query.removed
    if " ".join(text[start:end].split()) not in query.text:
        raise BadInput(f"The text of {document.id!r} is not the one that the query was made from.")
    return replace(document, parts=with_text(document.parts, text[:start] + text[end:]))


def _fit(query: MadeQuery, document: Document, parser: Parser) -> bool:
    return bool(query.text) and kept(query, without(document, query), parser)


def _about_text(document: Document, rng: np.random.Generator, parser: Parser) -> MadeQuery | None:
    text = document.text or ""
    piece = _piece(text, rng, parser) if parser.reads(text) else None
    if piece is not None:
        start, end = piece
        return MadeQuery(TEXT, " ".join(text[start:end].split()), document.id, piece)
    said = _short(phrase(text, rng) or "")
    return MadeQuery(TEXT, said, document.id) if said else None


def _piece(text: str, rng: np.random.Generator, parser: Parser) -> Span | None:
    """Draw one clause of the first sentences; if there is none, one long noun phrase."""
    read = [parser.sentence(text, start, end) for start, end in islice(sentences(text), SENTENCES)]
    return _drawn(text, read, rng, LEFT)


def _drawn(text: str, read: Sequence[Sentence], rng: np.random.Generator, left: int) -> Span | None:
    for pieces in ([sentence.clauses for sentence in read], [sentence.phrases for sentence in read]):
        fit = [span for spans in pieces for span in spans if _can_go(text, span, left)]
        if fit:
            return fit[int(rng.integers(len(fit)))]
    return None


def _can_go(text: str, span: Span, left: int) -> bool:
    start, end = span
    rest = f"{text[max(0, start - 1_000) : start]} {text[end : end + 1_000]}"
    return FEWEST <= len(text[start:end].split()) <= MOST and len(content_words(rest)) >= left


def _short(said: str) -> str:
    """Cut words to a length that never counts as copied."""
    if len(said) <= SHARED:
        return said
    return said[: SHARED + 1].rsplit(" ", 1)[0][:SHARED]
