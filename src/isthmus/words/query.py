"""The words of a query, and their maximum BM25 score."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

TOKENS = "porter unicode61 remove_diacritics 2"  # FTS5's: words of any language; English ones by their stem
WORD = re.compile(r"\w+")
MOST = 256  # words of a query that are looked up: a long message with its captions
K1 = 1.2  # FTS5's own


def query_words(text: str) -> list[str]:
    """Return the different words of a query, in their order.

    >>> query_words("A cat, a CAT & a dog!")
    ['a', 'cat', 'dog']
    """
    return list(dict.fromkeys(word.lower() for word in WORD.findall(text)))[:MOST]


def attainable(total: int, counts: Iterable[int]) -> float:
    """Return the upper limit of a BM25 score: every word of the query, many times.

    ``total`` is the number of documents, ``counts`` how many of them have each word.

    >>> round(attainable(100, [1, 50]), 3)
    9.228
    """
    return sum(max(float(np.log((total - n + 0.5) / (n + 0.5))), 1e-6) * (K1 + 1) for n in counts)
