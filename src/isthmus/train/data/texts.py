"""Texts that are not captions: they keep the text space where it was while captions move it.

Sentences and passages of scanned pages (those for training), questions about them, and WordNet's definitions.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path

from isthmus.train.data import pages
from isthmus.train.data.wordnet import Nouns

SHORTEST, LONGEST = 20, 400  # characters of a sentence
WINDOW, STRIDE = 90, 60  # words of a passage, and between the starts of two
TOGETHER = 5  # definitions in one passage
END = re.compile(r"(?<=[.!?])\s+|\n\n")


def sentences(folder: Path, nouns: Nouns) -> list[str]:
    """Return sentences and questions of the training pages, and definitions."""
    found = [" ".join(each.split()) for text in _pages(folder) for each in END.split(text)]
    asked = json.loads((folder / "val_v1.0.json").read_text("utf-8"))["data"]
    found += [row["question"] for row in asked if not pages.held_out(Path(row["image"]).stem)]
    return [each for each in dict.fromkeys([*found, *nouns.glosses()]) if SHORTEST <= len(each) <= LONGEST]


def passages(folder: Path, nouns: Nouns, seed: int = 0) -> list[str]:
    """Return windows of the pages' text, and groups of definitions."""
    windows = [window for text in _pages(folder) for window in windowed(text.split())]
    glosses = nouns.glosses()
    random.Random(seed).shuffle(glosses)  # noqa: S311 - an order, not a secret
    groups = [". ".join(glosses[at : at + TOGETHER]) for at in range(0, len(glosses), TOGETHER)]
    return [*windows, *groups]


def windowed(words: Sequence[str], window: int = WINDOW, stride: int = STRIDE) -> list[str]:
    """Return windows of words, the last one at the end.

    >>> windowed("a b c d e".split(), 3, 2), windowed(["a"], 3, 2)
    (['a b c', 'c d e'], [])
    """
    return [" ".join(words[at : at + window]) for at in range(0, max(0, len(words) - window // 2), stride)]


def _pages(folder: Path) -> list[str]:
    texts = json.loads((folder / "page_text.json").read_text("utf-8"))
    return [text for name, text in texts.items() if not pages.held_out(name)]
