"""spaCy as a parser: clauses from its dependency tree.

A clause runs from the left edge of a verb's subject to the right edge of its object, complement or first
prepositional phrase; a phrase is a noun's subtree. A pipeline that tags but does not parse is chunked like the
embedded tagger's sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.queries.chunks import clauses, phrases
from isthmus.queries.parse import MODEL, Sentence, Span, Word, places
from isthmus.queries.tagger import UNIVERSAL

SUBJECTS = ("nsubj", "nsubjpass", "nsubj:pass", "csubj")
OBJECTS = ("dobj", "obj", "attr", "acomp", "oprd", "prep", "agent", "obl", "pobj")
NOUNS = ("NOUN", "PROPN")
CODES = {tag: code for code, tag in reversed(UNIVERSAL.items())}  # NOUN is N, VERB is V


class SpacyParser:
    """A spaCy pipeline: the name of an installed one, or one that is loaded already.

    Get the English one with ``pip install 'isthmus[spacy]'`` and ``python -m spacy download en_core_web_sm``.
    """

    def __init__(self, pipeline: str | Any = MODEL) -> None:
        self.pipeline = _loaded(pipeline) if isinstance(pipeline, str) else pipeline

    def reads(self, text: str) -> bool:
        """The pipeline determines the language: accept anything with letters."""
        return any(letter.isalpha() for letter in text)

    def sentence(self, text: str, start: int = 0, end: int | None = None) -> Sentence:
        """Read one sentence."""
        found = [token for token in self.pipeline(text[start:end]) if not token.is_space]
        if found and not any(token.pos_ for token in found):
            raise BadInput("This spaCy pipeline has no parts of speech. Use one with a tagger, such as en_core_web_sm.")
        words = tuple(
            Word(token.text, token.pos_ or "X", start + token.idx, start + token.idx + len(token.text))
            for token in found
        )
        if any(token.dep_ for token in found):
            return Sentence(words, tuple(_clauses(found, start)), tuple(_phrases(found, start)))
        small, codes = [word.text.lower() for word in words], [CODES.get(word.tag, "X") for word in words]
        return Sentence(words, places(words, clauses(small, codes)), places(words, phrases(small, codes)))


def _loaded(name: str) -> Any:
    spacy = need("spacy", extra="spacy")
    try:
        return spacy.load(name)
    except OSError:
        raise BadInput(f"spaCy has no pipeline {name!r}. Install it with: python -m spacy download {name}") from None


def _clauses(found: Sequence[Any], start: int) -> Iterator[Span]:
    for verb in found:
        subjects = [token for token in verb.children if token.dep_ in SUBJECTS and token.pos_ in NOUNS]
        objects = [token for token in verb.children if token.dep_ in OBJECTS and token.i > verb.i]
        if subjects and objects and subjects[0].i < verb.i:
            yield _span(subjects[0].left_edge, objects[0].right_edge, start)


def _phrases(found: Sequence[Any], start: int) -> Iterator[Span]:
    for noun in found:
        if noun.pos_ in NOUNS and noun.dep_ not in ("compound", "flat", "appos"):
            yield _span(noun.left_edge, noun.right_edge, start)


def _span(first: Any, last: Any, start: int) -> Span:
    return start + first.idx, start + last.idx + len(last.text)
