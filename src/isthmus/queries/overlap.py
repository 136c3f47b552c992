"""How much of a query is copied from a text.

A common piece longer than L exists if and only if one of the query's windows of L + 1 characters is in the text, and
Python finds a window in a text at the speed of memory. There is no table of |query| × |text|: a text of 100,000
characters takes milliseconds.
"""

from __future__ import annotations

import re
from bisect import bisect_left

SHARED = 40  # letters
SHARE = 0.6  # of the query
SPACE = re.compile(r"\s+")


def longest_shared(query: str, text: str) -> int:
    r"""Return the length of the longest common substring, with any white space as one space.

    >>> longest_shared("a red fox sleeps", "The red fox\n sleeps here")
    15
    """
    query, text = SPACE.sub(" ", query), SPACE.sub(" ", text)
    return bisect_left(range(1, len(query) + 1), True, key=lambda length: not _has(query, text, length))


def copied(query: str, text: str) -> bool:
    """Return whether more than 40 characters, and more than .6 of the query, are in the text in one piece.

    Reference: the filter of Mr. Right's generated queries (Hsieh et al. 2022).

    >>> copied("a red fox sleeps", "a red fox sleeps"), copied("a red fox sleeps " * 4, "a red fox sleeps " * 5)
    (False, True)
    """
    query, text = SPACE.sub(" ", query), SPACE.sub(" ", text)
    return _has(query, text, max(SHARED, int(SHARE * len(query) + 1e-9)) + 1)


def _has(query: str, text: str, length: int) -> bool:
    """Look for any window of the query; first for blocks half as long, one of which every window contains."""
    half = (length + 1) // 2
    if not any(query[start : start + half] in text for start in range(0, len(query) - half + 1, half)):
        return False
    return any(query[start : start + length] in text for start in range(len(query) - length + 1))
