"""The embedded lexicon: 53,000 English words, each with its most frequent part of speech.

Derived from the lexicon of Brill's tagger as textblob ships it (``LICENSES.md``), by
``python -m isthmus.train.lexicon``. `guess` uses suffixes for the rest.

    N noun            V verb, finite or plain          J adjective    I preposition     U number
    M noun or verb    W verb or noun                   B adverb       S conjunction     H interjection
    P name            G verb in -ing                   D determiner   C and, or, but    T to, not, 's
    R pronoun         E verb, past or participle       A auxiliary    X anything else   . mark
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from itertools import takewhile

FILE = "lexicon.xz"
NUMBER = re.compile(r"[$€£#]?\d[\d.,:/-]*(?:st|nd|rd|th|s|%)?|[ivxlcdm]{2,}\.?")
_ENDINGS = {
    "G": "ing",
    "E": "ed",
    "B": "ly",
    "V": "ize ise ify",
    "N": "ness ment ship ism ist ics",
    "J": "ous ful less able ible al ic ive ary ant ent ish est like ile",
}
BY_ENDING = {ending: code for code, endings in _ENDINGS.items() for ending in endings.split()}
COMPOUND = ("ed", "ing", "old", "like", "free", "style", "year")  # state-based, six-year
ENDINGS = sorted(BY_ENDING, key=len, reverse=True)


def guess(word: str) -> str:
    """Return the code of a lower-case word by its form.

    >>> [guess(word) for word in ("walked", "famous", "cat", "1990s", "state-based", "slowly")]
    ['E', 'J', 'N', 'U', 'J', 'B']
    """
    if NUMBER.fullmatch(word):
        return "U"
    if "-" in word:
        return "J" if word.endswith(COMPOUND) else guess(word.rpartition("-")[2] or word.strip("-"))
    return next((BY_ENDING[ending] for ending in ENDINGS if word.endswith(ending) and len(word) > len(ending) + 2), "N")


@cache
def shipped() -> Mapping[str, str]:
    """Return the lexicon, read once."""
    return unpacked((files("isthmus.queries") / FILE).read_bytes())


def packed(lexicon: Mapping[str, str]) -> bytes:
    """Pack a lexicon: by code, each word as the length of the prefix it shares with the previous one, and the rest.

    >>> unpacked(packed({"red": "J", "reddish": "J", "run": "W"}))
    {'red': 'J', 'reddish': 'J', 'run': 'W'}
    """
    lines = []
    for code in sorted(set(lexicon.values())):
        lines.append(f"={code}")
        before = ""
        for word in sorted(word for word, other in lexicon.items() if other == code):
            shared = min(
                25, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, word, strict=False)))
            )
            lines.append(chr(ord("A") + shared) + word[shared:])
            before = word
    return lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)


def unpacked(data: bytes) -> dict[str, str]:
    """Read what `packed` wrote."""
    lexicon, code, word = {}, "", ""
    for line in lzma.decompress(data).decode().split("\n"):
        if line[0] == "=":
            code, word = line[1:], ""
        else:
            word = word[: ord(line[0]) - ord("A")] + line[1:]
            lexicon[word] = code
    return lexicon
