"""Chats in many styles: letters, posts, lists, logs, mail threads, tickets, dictation.

A style is data: templates of whole messages (``grammar``), the habits of the writer (``habits``), and the lists of
lines of its file. The styles of ``train.toml``, ``dev.toml`` and ``test.toml`` share no line and no name, so that a
model can be chosen by styles that it never saw, and measured on others that nobody looked at.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from isthmus.errors import BadInput
from isthmus.evaluate.chat.base import Chat, alike
from isthmus.evaluate.chat.grammar import expand
from isthmus.evaluate.chat.habits import HABITS, MEANT, Habit
from isthmus.registry import lookup

Group = Literal["train", "dev", "test"]
FOLDER = Path(__file__).parent / "styles"
GROUPS: Mapping[str, str] = {name: f"{name}.toml" for name in ("train", "dev", "test")}
MOST = 99_999


@dataclass(frozen=True, slots=True)
class Style:
    """How a writer writes: templates of messages and screens, habits, and the lines that fill the templates."""

    name: str
    messages: tuple[str, ...]
    screens: tuple[str, ...]
    habits: tuple[str, ...]
    hidden: float | None  # share of the words that are only on the screenshot, if the style says so
    lists: Mapping[str, tuple[str, ...]]


@cache
def styles(group: Group) -> tuple[Style, ...]:
    """Return the styles of a group.

    >>> [style.name for style in styles("test")]
    ['mail_thread', 'ticket', 'dictation', 'board']
    """
    read = tomllib.loads((FOLDER / lookup(GROUPS, group, "group of styles")).read_text("utf-8"))
    lists = {name: tuple(lines) for name, lines in read["lists"].items()}
    return tuple(
        Style(
            name,
            tuple(each["messages"]),
            lists["screens"],
            tuple(habit for habit in each.get("habits", ()) if lookup(HABITS, habit, "habit") is not None),
            each.get("hidden"),
            lists,
        )
        for name, each in read["styles"].items()
    )


def styled(
    claims: Mapping[str, str],
    several: Sequence[Style],
    *,
    seed: int = 0,
    hidden: float = 0.5,
    free: Sequence[str] = (),
    habit: Habit | None = None,
) -> list[Chat]:
    """Turn each claim into a chat, in one of the styles at random.

    ``hidden`` is the share of content words that are only on the screenshot. ``free`` are sentences of other texts,
    which some styles put between their own. ``habit`` is one that all writers have.

    >>> (chat,) = styled({"c": "Tea prevents colds."}, [style for style in styles("test") if style.name == "ticket"])
    >>> "Tea" in chat.text, "prevents" in chat.text, "colds" in chat.text, "Tea" in chat.screen
    (False, True, True, True)
    """
    if not 0 <= hidden <= 1:
        raise BadInput(f"hidden is the share of words on the screenshot and must be from 0 to 1, not {hidden}.")
    made = []
    for row, (name, claim) in enumerate(claims.items()):
        rng = np.random.default_rng([seed, row])
        style = several[int(rng.integers(len(several)))]
        shown, kept = sides(claim, hidden if style.hidden is None else style.hidden, rng)
        message, screen = _written(style, shown, kept, free, rng)
        for change in (*(HABITS[each] for each in style.habits), *([habit] if habit else [])):
            message = change(message, rng)
        made.append(Chat(name, claim, message.replace(MEANT, "").strip(), _lines(screen)))
    return made


def _written(
    style: Style, shown: Sequence[str], hidden: Sequence[str], free: Sequence[str], rng: np.random.Generator
) -> tuple[str, str]:
    """Return a message and a screen; the words that are asked for are marked."""
    middle = int(rng.integers(1, len(shown))) if len(shown) > 1 else len(shown)
    filled = {
        "claim": lambda _: _meant(shown),
        "first": lambda _: _meant(shown[:middle]),
        "rest": lambda _: _meant(shown[middle:]),
        "hidden": lambda _: _meant(hidden),
        "free": lambda rng: _one(free, rng) if free else "",
        "digits": lambda rng: str(int(rng.integers(1, 10 ** int(rng.integers(1, 6))))),
    }
    message = expand(_one(style.messages, rng), style.lists, rng, filled)
    return message, expand(_one(style.screens, rng), style.lists, rng, filled) if hidden else ""


def _lines(screen: str) -> tuple[str, ...]:
    lines = [line.strip() for line in screen.replace(MEANT, "").splitlines()]
    return tuple(line for line in lines if line)


def sides(claim: str, share: float, rng: np.random.Generator) -> tuple[list[str], list[str]]:
    """Return the words of the message and of the screenshot: at random, or one half of the claim on each side."""
    words = claim.rstrip(" .").split()
    groups = alike(words)
    count = int(len(groups) * share)
    chosen = rng.permutation(len(groups))[:count]
    if rng.random() < 0.5:  # a run of words that begins somewhere
        start = int(rng.integers(max(1, len(groups) - count + 1)))
        chosen = np.arange(len(groups))[start : start + count]
    hidden = {place for group in chosen for place in groups[group]}
    return (
        [word for place, word in enumerate(words) if place not in hidden],
        [words[place] for place in sorted(hidden)],
    )


def _meant(words: Sequence[str]) -> str:
    return " ".join(f"{MEANT}{word}" for word in words)


def _one(of: Sequence[str], rng: np.random.Generator) -> str:
    return of[int(rng.integers(len(of)))]
