"""Text to sentences and words, with the position of each, so that a query knows its origin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

LONGEST = 2_000  # characters of a sentence: tables and lists have no full stops
NOT_THE_END = """
al approx bros ca capt cf co col corp dept dr ed eds etc e.g fig figs gen gov i.e inc jr lt ltd mr mrs ms mt nr p pp
ph.d prof ref rep rev sen sgt sr st u.k u.n u.s viz vol vs
"""
ABBREVIATIONS = frozenset(NOT_THE_END.split())
STOP = re.compile(r"[.!?]+[\"'”’)\]]*\s+|[。！？]+\s*|\n\s*\n|\n(?=\s*[-*#•|])")
WORD = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # U.S.
    r"|[$€£#]?\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th|s|%)?(?!\w)"  # 1,000.5  1990s  12th
    r"|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b"
    r"|[^\W_](?:(?!n['’]t\b)[^\W_]|(?<!n)['’](?!(?:s|re|ve|ll|d|m)\b)(?=[^\W_])|[-](?=[^\W_]))*"
    r"|[^\w\s]|_"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a punctuation mark, and its position: ``text[start:end]``."""

    text: str
    start: int
    end: int


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each sentence, one by one, so that the first ones of a long text are cheap.

    >>> text = "Dr. Smith came in 1990. He left!  Why?"
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Smith came in 1990.', 'He left!', 'Why?']
    """
    start = 0
    for stop in STOP.finditer(text):
        if not _abbreviated(text, start, stop):
            yield from _pieces(text, start, stop.end())
            start = stop.end()
    yield from _pieces(text, start, len(text))


def tokens(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    """Return the words and marks of ``text[start:end]``.

    >>> [token.text for token in tokens("The dog's ball isn't 1,000 years old.")]
    ['The', 'dog', "'s", 'ball', 'is', "n't", '1,000', 'years', 'old', '.']
    """
    found = WORD.finditer(text, start, len(text) if end is None else end)
    return [Token(match.group(), match.start(), match.end()) for match in found]


def _abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    """Return whether a full stop ends an abbreviation or an initial, or precedes a lower-case letter."""
    if stop.group()[0] != ".":
        return False
    before = text[max(start, stop.start() - 12) : stop.start()].split()
    word = before[-1].lstrip("([\"'“‘").lower() if before else ""
    following = text[stop.end() : stop.end() + 1]
    return word in ABBREVIATIONS or (len(word) == 1 and word.isalpha()) or following.islower()


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    cuts = [*range(start, end, LONGEST), end]
    for left, right in pairwise(cuts):
        piece = text[left:right]
        if kept := piece.strip():
            first = left + piece.index(kept[0])
            yield first, first + len(kept)
