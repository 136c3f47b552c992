"""Turn clean queries into realistic input: a screenshot, and a chat message with the rest of the words.

    claim ──half of its content words──▸ a screenshot, among other things on a screen
          ──the other words──▸ a message: greeting, tangents, the words, a vague question

An ideal retriever would find the same as for the claim. Everything is seeded. A word that occurs twice in a claim is on
one side both times; only the surrounding chatter may contain it by accident. The chatter comes from ``train.toml`` or
``test.toml``, which share no line, so that a model must generalise from one to the other.

``styled`` writes claims in other styles (``styles``): letters, posts, lists, logs; mail threads, tickets, dictation.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from isthmus.errors import BadInput
from isthmus.evaluate.chat.base import Chat, alike, drawn
from isthmus.evaluate.chat.styles import Group, Style, styled, styles
from isthmus.registry import lookup

__all__ = ["SPLITS", "Chat", "Group", "Split", "Style", "chats", "drawn", "styled", "styles"]

Split = Literal["train", "test"]
SPLITS: Mapping[str, str] = {"train": "train.toml", "test": "test.toml"}
FEWEST = 25  # words of noise in a message


def chats(
    claims: Mapping[str, str], *, split: Split, seed: int = 0, hidden: float = 0.5, tangents: Sequence[str] = ()
) -> list[Chat]:
    """Turn each claim into a chat; ``hidden`` is the share of content words that are only on the screenshot.

    ``tangents`` are used in addition to those of the split, equally often.

    >>> (chat,) = chats({"c1": "Vitamin D deficiency raises the risk of asthma attacks."}, split="test")
    >>> [word in chat.text for word in ("Vitamin", "deficiency", "raises", "risk", "asthma", "attacks")]
    [True, True, False, False, True, False]
    >>> [word in chat.screen for word in ("Vitamin", "deficiency", "raises", "risk", "asthma", "attacks")]
    [False, False, True, True, False, True]
    """
    if not 0 <= hidden <= 1:
        raise BadInput(f"hidden is the share of words on the screenshot and must be from 0 to 1, not {hidden}.")
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
    groups = alike(words)
    chosen = rng.permutation(len(groups))[: int(len(groups) * share)]
    hidden = {place for group in chosen for place in groups[group]}
    shown = " ".join(word for place, word in enumerate(words) if place not in hidden).rstrip(".")
    text = " ".join(_message(shown, parts, rng))
    return Chat(name, claim, text, _screen([words[place].rstrip(".") for place in sorted(hidden)], parts, rng))


def _message(shown: str, parts: Mapping[str, Sequence[str]], rng: np.random.Generator) -> Iterator[str]:
    """Yield the sentences of a message, with tangents until there is enough noise."""
    greeting, hedge, ask = (_one(parts[kind], rng) for kind in ("greetings", "hedges", "asks"))
    tangents = [parts["tangents"][place] for place in rng.permutation(len(parts["tangents"]))]
    count = 1 + int(rng.integers(3))
    while count < len(tangents) and len(" ".join([greeting, *tangents[:count], hedge, ask]).split()) < FEWEST + 1:
        count += 1
    before = int(rng.integers(count + 1))
    yield from (greeting, *tangents[:before], hedge.replace("{}", shown), *tangents[before:count], ask)


def _screen(hidden: Sequence[str], parts: Mapping[str, Sequence[str]], rng: np.random.Generator) -> tuple[str, ...]:
    """Put the hidden words, in order, among other things on a screen."""
    clock = f"{int(rng.integers(24)):02d}:{int(rng.integers(60)):02d}"
    title = f"{_one(parts['apps'], rng)} {clock} {int(rng.integers(5, 100))}%"
    around = [parts["lines"][place] for place in rng.permutation(len(parts["lines"]))[: int(rng.integers(1, 4))]]
    before = int(rng.integers(len(around) + 1))
    body = [" ".join(hidden)] if hidden else []
    return (title, _one(parts["menus"], rng), *around[:before], *body, *around[before:], _one(parts["buttons"], rng))


@cache
def _parts(split: Split) -> Mapping[str, tuple[str, ...]]:
    read = tomllib.loads((Path(__file__).parent / lookup(SPLITS, split, "split of chats")).read_text("utf-8"))
    return {name: tuple(lines) for name, lines in read.items()}


def _one(of: Sequence[str], rng: np.random.Generator) -> str:
    return of[int(rng.integers(len(of)))]
