"""Counts words: a picture with enough words beside it is not read."""

from __future__ import annotations

import re

ENOUGH = 20  # words beside a picture, such as a text layer or a transcript: it is not read
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana, Chinese characters.
UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def word_count(text: str) -> int:
    """Return how many words a text has: runs of characters with at least two letters or digits.

    In scripts without spaces two characters count as a word.

    >>> word_count("Dear Sir, — 8"), word_count("2 O'clock"), word_count("今日は天気がいい。")
    (2, 1, 4)
    """
    words = (word for word in text.split() if sum(char.isalnum() for char in word) > 1)
    return sum(max(1, len(UNSPACED.findall(word)) // 2) for word in words)
