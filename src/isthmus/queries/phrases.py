"""A simple query about a text: some of the content words of one of its sentences, in their order.

Used for short and non-English texts: not natural language, only plausible words.
"""

from __future__ import annotations

import re

import numpy as np

SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n+")
WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
MOST = 8  # words in a query
SHORT = 3  # minimum content words of a sentence
KEPT = 0.5  # share of the words, at random: users do not know the exact words
STOP_WORDS = """
a about above after again all also am an and any are as at be because been before being below between both but
by can could did do does doing down during each few for from further had has have having he her here hers him
his how i if in into is it its itself just me more most my no nor not now of off on once only or other our out
over own same she should so some such than that the their them then there these they this those through to too
under until up very was we were what when where which while who whom why will with would you your
"""
STOP = frozenset(STOP_WORDS.split())


def phrase(text: str, rng: np.random.Generator) -> str | None:
    """Return a query about ``text``, or None if it has no content words.

    >>> phrase("It is cold. A small red fox sleeps in the deep snow.", np.random.default_rng(0))
    'red fox sleeps'
    """
    sentences = [content_words(sentence) for sentence in SENTENCE.split(text[:20_000])]
    long_enough = [words for words in sentences if len(words) >= SHORT] or [words for words in sentences if words]
    if not long_enough:
        return None
    words = long_enough[int(rng.integers(len(long_enough)))]
    first = int(rng.integers(max(1, len(words) - MOST + 1)))
    words = words[first : first + MOST]
    kept = [word for word in words if rng.random() < KEPT]
    return " ".join(kept if len(kept) >= min(2, len(words)) else words)


def content_words(sentence: str) -> list[str]:
    """Return the content words.

    >>> content_words("The dog's ball is in the river")
    ["dog's", 'ball', 'river']
    """
    return [word for word in WORD.findall(sentence) if word.lower() not in STOP and (len(word) > 1 or word.isdigit())]
