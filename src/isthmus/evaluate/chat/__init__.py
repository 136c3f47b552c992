"""Clean questions become what people send: a screenshot, and a paragraph of chat around the rest of the words.

    claim ──half of its content words──▸ a screenshot, among what else is on a screen
          ──the other words──▸ a message: greeting, tangents, the words, a vague ask

A retriever that knew what was meant would find what the claim finds. Everything is drawn from a seed. A word that a
claim says twice stands on one side both times; only the talk around it may happen to say it as well. That talk comes
from ``train.toml`` or ``test.toml``, which share no line, so that what is learned on one has to hold for the other.
"""

from __future__ import annotations

import io
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from isthmus.errors import BadInput
from isthmus.queries.phrases import content_words
from isthmus.registry import lookup

Split = Literal["train", "test"]
SPLITS: Mapping[str, str] = {"train": "train.toml", "test": "test.toml"}
FEWEST = 25  # words of noise in a message
WIDTH = 640  # of a screenshot, in pixels
LINE = 30
SIZE = 18  # of its letters
INK, PAPER, BAR = (34, 34, 40), (250, 250, 248), (222, 226, 232)


@dataclass(frozen=True, slots=True)
class Chat:
    """A claim as somebody sends it: a message, and what stands on the screenshot beside it, line by line."""

    id: str
    claim: str
    text: str
    lines: tuple[str, ...]

    @property
    def screen(self) -> str:
        """What a perfect reader would read on the screenshot."""
        return "\n".join(self.lines)

    @property
    def image(self) -> bytes:
        """The screenshot as a PNG, the same for the same lines."""
        return drawn(self.lines)


def chats(
    claims: Mapping[str, str], *, split: Split, seed: int = 0, hidden: float = 0.5, tangents: Sequence[str] = ()
) -> list[Chat]:
    """Make a chat of each claim, with that share of its content words on the screenshot alone.

    ``tangents`` are said too, as often as those of the split.

    >>> (chat,) = chats({"c1": "Vitamin D deficiency raises the risk of asthma attacks."}, split="test")
    >>> [word in chat.text for word in ("Vitamin", "deficiency", "raises", "risk", "asthma", "attacks")]
    [True, True, False, False, True, False]
    >>> [word in chat.screen for word in ("Vitamin", "deficiency", "raises", "risk", "asthma", "attacks")]
    [False, False, True, True, False, True]
    """
    if not 0 <= hidden <= 1:
        raise BadInput(f"hidden is {hidden}; it is the share of words on the screenshot, from 0 to 1.")
    parts = _parts(split)
    return [
        _chat(name, claim, hidden, _with(parts, tangents, rng), rng)
        for row, (name, claim) in enumerate(claims.items())
        for rng in [np.random.default_rng([seed, row])]
    ]


def _with(
    parts: Mapping[str, Sequence[str]], tangents: Sequence[str], rng: np.random.Generator
) -> Mapping[str, Sequence[str]]:
    if not tangents:
        return parts
    some = [tangents[place] for place in rng.integers(len(tangents), size=len(parts["tangents"]))]
    return {**parts, "tangents": [*parts["tangents"], *some]}


def _chat(name: str, claim: str, share: float, parts: Mapping[str, Sequence[str]], rng: np.random.Generator) -> Chat:
    words = claim.split()
    groups = _alike(words)
    chosen = rng.permutation(len(groups))[: int(len(groups) * share)]
    hidden = {place for group in chosen for place in groups[group]}
    shown = " ".join(word for place, word in enumerate(words) if place not in hidden).rstrip(".")
    text = " ".join(_message(shown, parts, rng))
    return Chat(name, claim, text, _screen([words[place].rstrip(".") for place in sorted(hidden)], parts, rng))


def _alike(words: Sequence[str]) -> list[list[int]]:
    """Return the places of content words; those that say the same word are together.

    >>> _alike("Mice and rats: rats bite mice/voles".split())
    [[2, 3], [4], [0, 5]]
    """
    groups: list[tuple[set[str], list[int]]] = []
    for place, word in enumerate(words):
        if said := {part.lower() for part in content_words(word)}:
            same = [group for group in groups if group[0] & said]
            groups = [group for group in groups if not group[0] & said]
            groups.append((said.union(*(parts for parts, _ in same)), [*(at for _, ats in same for at in ats), place]))
    return [places for _, places in groups]


def _message(shown: str, parts: Mapping[str, Sequence[str]], rng: np.random.Generator) -> Iterator[str]:
    """Yield the sentences of a message, tangents until there is noise enough."""
    greeting, hedge, ask = (_one(parts[kind], rng) for kind in ("greetings", "hedges", "asks"))
    tangents = [parts["tangents"][place] for place in rng.permutation(len(parts["tangents"]))]
    count = 1 + int(rng.integers(3))
    while count < len(tangents) and len(" ".join([greeting, *tangents[:count], hedge, ask]).split()) < FEWEST + 1:
        count += 1
    before = int(rng.integers(count + 1))
    yield from (greeting, *tangents[:before], hedge.replace("{}", shown), *tangents[before:count], ask)


def _screen(hidden: Sequence[str], parts: Mapping[str, Sequence[str]], rng: np.random.Generator) -> tuple[str, ...]:
    """Put the hidden words, in their order, among what else is on a screen."""
    clock = f"{int(rng.integers(24)):02d}:{int(rng.integers(60)):02d}"
    title = f"{_one(parts['apps'], rng)} {clock} {int(rng.integers(5, 100))}%"
    around = [parts["lines"][place] for place in rng.permutation(len(parts["lines"]))[: int(rng.integers(1, 4))]]
    before = int(rng.integers(len(around) + 1))
    body = [" ".join(hidden)] if hidden else []
    return (title, _one(parts["menus"], rng), *around[:before], *body, *around[before:], _one(parts["buttons"], rng))


def drawn(lines: Sequence[str]) -> bytes:
    """Draw a window: a title bar, a row of menus, lines, a row of buttons."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(SIZE)
    rows = [
        (bar, row)
        for place, line in enumerate(lines)
        for row in _wrapped(line)
        for bar in [place in (0, len(lines) - 1)]
    ]
    page = Image.new("RGB", (WIDTH, LINE * len(rows) + LINE), PAPER)
    pen = ImageDraw.Draw(page)
    for place, (bar, row) in enumerate(rows):
        top = LINE // 2 + place * LINE
        if bar:
            pen.rectangle((0, top - 4, WIDTH, top + LINE - 4), fill=BAR)
        pen.text((20, top), row, fill=INK, font=font)
    written = io.BytesIO()
    page.save(written, "PNG")
    return written.getvalue()


def _wrapped(line: str) -> list[str]:
    """Break a line between words, and a word only where it is longer than a line; about 60 letters go on one."""
    return re.findall(r"\S.{0,58}\S(?=\s|$)|\S{1,60}", line) or [""]


@cache
def _parts(split: Split) -> Mapping[str, tuple[str, ...]]:
    read = tomllib.loads((Path(__file__).parent / lookup(SPLITS, split, "split of chats")).read_text("utf-8"))
    return {name: tuple(lines) for name, lines in read.items()}


def _one(of: Sequence[str], rng: np.random.Generator) -> str:
    return of[int(rng.integers(len(of)))]
