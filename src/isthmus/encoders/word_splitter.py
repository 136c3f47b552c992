"""Passages for tokenizers that do not say where their tokens are: a text is halved between words until it fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.encoders.texts import TextPassage

GAP = re.compile(r"\s(?=\S)")


@dataclass(frozen=True, slots=True, eq=False)
class WordSplitter:
    """Split texts into passages of at most ``length`` tokens, as ``tokens(text)`` counts them.

    A text that is too long is halved at the space nearest its middle, or in the middle of a single word. Passages do
    not overlap, and together they hold all words of the text; a piece of white space is none.

    >>> splitter = WordSplitter(lambda text: [len(word) for word in text.split()], 2)
    >>> [(one.start, one.end) for one in splitter.split(["one two three four"])[0]]
    [(0, 7), (7, 18)]
    """

    tokens: Callable[[str], Sequence[int]]  # with the special tokens around a passage
    length: int

    def split(self, texts: Sequence[str], prefix: str = "") -> list[list[TextPassage]]:
        """Return the passages of each text; ``prefix`` comes before every passage."""
        return [self._passages(text, 0, len(text), prefix) for text in texts]

    def _passages(self, text: str, start: int, end: int, prefix: str) -> list[TextPassage]:
        if not text[start:end].strip():
            return []
        tokens = self.tokens(prefix + text[start:end])
        if len(tokens) <= self.length or end - start < 2:
            cut = np.array(tokens[: self.length], dtype=np.int32)
            return [TextPassage(start, end, cut.tobytes())]
        middle = _middle(text, start, end)
        return [*self._passages(text, start, middle, prefix), *self._passages(text, middle, end, prefix)]


def _middle(text: str, start: int, end: int) -> int:
    half = (start + end) // 2
    spaces = [gap.start() for gap in GAP.finditer(text, start + 1, end)]
    return min(spaces, key=lambda at: abs(at - half), default=half)
