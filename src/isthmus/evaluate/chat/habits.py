"""Habits of writers: functions from a message to the same message as such a writer types it.

The words that are asked for begin with ``MEANT``, so that a habit can leave them alone: a typing error in them would
make another query. Spaces and line breaks are words of the list too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

MEANT = "\ue000"  # of the private use area: no text has it
Habit = Callable[[str, np.random.Generator], str]
TYPOS = 0.12  # share of the words
HESITATIONS = 0.12
SHORTER = {
    "you": "u", "your": "ur", "please": "pls", "thanks": "thx", "are": "r", "because": "cuz", "people": "ppl",
    "to": "2", "for": "4", "and": "n", "question": "q", "about": "abt", "with": "w/", "tonight": "2nite",
}  # fmt: skip
LEFT_OUT = frozenset(["a", "an", "the", "is", "am", "are", "to"])
UMS = ("um", "uh", "like", "er", "you know", "hmm")


def lower(text: str, _: np.random.Generator) -> str:
    """No capitals."""
    return text.lower()


def upper(text: str, _: np.random.Generator) -> str:
    """Capitals only."""
    return text.upper()


def dots(text: str, _: np.random.Generator) -> str:
    """Dots instead of the ends of sentences."""
    return re.sub(r"[.!?](\s|$)", r" ...\1", text)


def unpunctuated(text: str, _: np.random.Generator) -> str:
    """No punctuation and no lines, as a machine writes down speech."""
    return " ".join(re.sub(r"(?<!\w)[^\w\s\ue000]+|[^\w\s]+(?!\w)", "", text).split())


def articles(text: str, _: np.random.Generator) -> str:
    """Articles and small verbs are left out, as speakers of other languages do."""
    return others(text, lambda word: "" if word.lower() in LEFT_OUT else word)


def texting(text: str, _: np.random.Generator) -> str:
    """Short forms of a phone's keyboard."""
    return others(text, lambda word: SHORTER.get(word.lower(), word))


def typos(text: str, rng: np.random.Generator) -> str:
    """Letters that are doubled, left out or exchanged."""
    return others(text, lambda word: _mistyped(word, rng) if rng.random() < TYPOS else word)


def hesitating(text: str, rng: np.random.Generator) -> str:
    """Sounds between words, also between those that are asked for."""
    words = [
        f"{UMS[int(rng.integers(len(UMS)))]} {word}" if word.strip() and rng.random() < HESITATIONS else word
        for word in re.split(r"(\s+)", text)
    ]
    return "".join(words)


HABITS: Mapping[str, Habit] = MappingProxyType(
    {each.__name__: each for each in (lower, upper, dots, unpunctuated, articles, texting, typos, hesitating)}
)


def others(text: str, change: Callable[[str], str]) -> str:
    """Change the words that are not asked for."""
    return "".join(
        word if not word.strip() or word.startswith(MEANT) else change(word) for word in re.split(r"(\s+)", text)
    )


def _mistyped(word: str, rng: np.random.Generator) -> str:
    if len(word) < 4 or not word.isalpha():
        return word
    at = int(rng.integers(1, len(word) - 1))
    kind = int(rng.integers(3))
    if kind == 0:
        return word[:at] + word[at] + word[at:]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
