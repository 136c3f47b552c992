"""Parsers: the words of a sentence with their parts of speech, and pieces that can become queries.

Embedded()               our tagger and chunks; English; nothing to install
SpacyParser("NAME")      a spaCy pipeline with a dependency parser (extra ``spacy``)
best()                   spaCy with en_core_web_sm if both are installed, otherwise Embedded
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from isthmus.queries.chunks import clauses, phrases
from isthmus.queries.lexicon import shipped
from isthmus.queries.tagger import CLOSED, codes, universal
from isthmus.queries.words import tokens

Span: TypeAlias = tuple[int, int]
MODEL = "en_core_web_sm"
READ = 600  # characters used to detect the language
KNOWN = 0.5  # minimum share of words in the lexicon for a text to be English


@dataclass(frozen=True, slots=True)
class Word:
    """A word, its universal part of speech (``NOUN``, ``PROPN``, ``VERB`` …), and its position."""

    text: str
    tag: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence: ``clauses`` run from a subject to an object, ``phrases`` are long noun phrases."""

    words: tuple[Word, ...]
    clauses: tuple[Span, ...] = ()
    phrases: tuple[Span, ...] = ()


class Parser(Protocol):
    """Whoever reads sentences."""

    def reads(self, text: str) -> bool:
        """Return whether the text is in a supported language."""
        ...

    def sentence(self, text: str, start: int = 0, end: int | None = None) -> Sentence:
        """Parse ``text[start:end]``; positions refer to ``text``."""
        ...


class Embedded:
    """Our tagger, and chunks of its tags instead of a dependency tree.

    >>> read = Embedded().sentence("The old bridge crosses the river at Basel.")
    >>> [(word.text, word.tag) for word in read.words][2:5]
    [('bridge', 'NOUN'), ('crosses', 'VERB'), ('the', 'DET')]
    >>> ["The old bridge crosses the river at Basel."[start:end] for start, end in read.clauses]
    ['The old bridge crosses the river at Basel']
    """

    def reads(self, text: str) -> bool:
        """Detect English: half of the words, without names and numbers, are in the lexicon.

        >>> [Embedded().reads(text) for text in ("The cat sleeps.", "Die Katze schläft auf dem Sofa.", "猫")]
        [True, False, False]
        """
        words = [token.text for token in tokens(text[:READ]) if token.text.isalpha()]
        plain = [word.lower() for word in words if word.islower() or word.lower() in CLOSED]
        if not plain:  # only names, in Latin letters
            return any(word.isascii() for word in words)
        return sum(word in CLOSED or word in shipped() for word in plain) >= KNOWN * len(plain)

    def sentence(self, text: str, start: int = 0, end: int | None = None) -> Sentence:
        """Read one sentence."""
        found = tokens(text, start, end)
        tags = codes(found)
        words = tuple(
            Word(token.text, universal(code), token.start, token.end) for token, code in zip(found, tags, strict=True)
        )
        small = [token.text.lower() for token in found]
        return Sentence(words, places(words, clauses(small, tags)), places(words, phrases(small, tags)))


@cache
def best() -> Parser:
    """Return the best parser that is installed, loaded once."""
    if find_spec("spacy") is not None and find_spec(MODEL) is not None:
        from isthmus.queries.spacy_parser import SpacyParser

        return SpacyParser(MODEL)
    return Embedded()


def places(words: tuple[Word, ...], found: list[Span]) -> tuple[Span, ...]:
    """Return the positions of pieces in the text, from their first and last (not included) words."""
    return tuple((words[first].start, words[last - 1].end) for first, last in found)
