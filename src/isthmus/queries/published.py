"""Mr. Right's own generator: the query about a text is what follows the verb of the title in the first sentence.

    The 2/4th Battalion was an infantry battalion of the Australian Army that was raised for service in 1939.
    └──── title ──────┘     └──────────────── query ────────────────────┘

An encyclopaedia's article begins with its title and says what the thing is; other texts often do not. The snippet is
the noun phrase after the verb (nouns and adjectives, Section 3.1), or, if none follows, all words to the next comma. It
is removed from the text. Nothing is drawn: a document has one such query.

Reference: Hsieh et al., Mr. Right (2022), Section 3.1 and Appendix B.2. Deviations: the verb is not found by a
dependency tree (spaCy's, en_core_web_lg): it is the first one after the title that is not in parentheses or in a phrase
between commas. A document without a title has the words before its first verb as its subject. The mixed query has the
text's words first, as the paper's examples do. The paper captions with BLIP; here captions are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from isthmus.documents import Document
from isthmus.queries.captions import nameless
from isthmus.queries.kinds import IMAGE, KINDS, MIXED, TEXT, MadeQuery
from isthmus.queries.parse import Parser, Sentence, Span, Word, best
from isthmus.queries.words import sentences
from isthmus.registry import lookup

VERBS = frozenset({"VERB", "AUX"})
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
TITLE = "title"  # the metadata that names the title


def published(
    document: Document,
    caption: str | None = None,
    *,
    rng: np.random.Generator | None = None,  # noqa: ARG001 - see below
    kinds: Sequence[str] = KINDS,
    parser: Parser | None = None,
) -> list[MadeQuery]:
    """Return the queries of a document as Mr. Right generates them, at most one of each kind.

    The title is the metadata ``title``. ``rng`` is not used: it makes this a drop-in for ``made``.

    >>> text = "Borani, a starter, is a yogurt-based appetizer with spinach. It is also popular in Iran."
    >>> for query in published(Document("b", text, "b.jpg", {"title": "Borani"}), "a bowl with a spoon in it"):
    ...     print(f"{query.kind}: {query.text}")
    text-related: a yogurt-based appetizer with spinach
    image-related: a bowl with a spoon in it
    mixed: a yogurt-based appetizer with spinach a bowl with a spoon in it
    """
    for kind in kinds:
        lookup(dict.fromkeys(KINDS), kind, "kind of query")
    parser = parser or best()
    text = document.text or ""
    found: list[MadeQuery] = []
    if span := after_verb(text, str(document.metadata.get(TITLE) or ""), parser):
        found.append(MadeQuery(TEXT, " ".join(text[slice(*span)].split()), document.id, span))
    if caption and caption.strip():
        found.append(MadeQuery(IMAGE, nameless(caption, parser), document.id))
    if len(found) == len((TEXT, IMAGE)):
        found.append(replace(found[0], kind=MIXED, text=f"{found[0].text} {found[1].text}"))
    return [query for query in found if query.kind in kinds]


def after_verb(text: str, title: str, parser: Parser) -> Span | None:
    """Return where the snippet after the title's verb is in the first sentence; None if there is no verb or snippet.

    >>> from isthmus.queries.parse import Embedded
    >>> text = "The Rhine (German: Rhein) is one of the major rivers in Europe."
    >>> text[slice(*after_verb(text, "Rhine", Embedded()))]
    'one of the major rivers in Europe'
    """
    first = next(sentences(text), None)
    if first is None or not parser.reads(text):
        return None
    read = parser.sentence(text, *first)
    verb = _verb(read.words, _end_of_title(text, title, first))
    if verb is None:
        return None
    rest = read.words[verb + 1 :]
    while rest and rest[0].tag in VERBS:  # was built, has been
        rest = rest[1:]
    return _snippet(read, rest)


def _end_of_title(text: str, title: str, first: Span) -> int:
    """Return where the title ends in the first sentence; its start if the title is not there."""
    at = text.lower().find(title.lower(), *first) if title else -1
    return first[0] if at < 0 else at + len(title)


def _verb(words: Sequence[Word], begin: int) -> int | None:
    """Return the first verb after a position, outside parentheses and phrases between commas."""
    depth, apart = 0, False
    for at, word in enumerate(words):
        if word.start < begin:
            continue
        depth += (word.text in OPENING) - (word.text in CLOSING)
        if word.text == "," and not depth:
            apart = not apart and any(later.text == "," for later in words[at + 1 :])
        elif word.tag in VERBS and not depth and not apart:
            return at
    return None


def _snippet(read: Sentence, rest: Sequence[Word]) -> Span | None:
    """Return the noun phrase that the words begin with, or all of them to the next mark."""
    if not rest:
        return None
    phrases = [span for span in read.phrases if span[0] == rest[0].start]
    if phrases:
        return max(phrases, key=lambda span: span[1])
    ends = [at for at, word in enumerate(rest) if word.tag == "PUNCT"]
    words = rest[: ends[0]] if ends else rest
    return (words[0].start, words[-1].end) if words else None
