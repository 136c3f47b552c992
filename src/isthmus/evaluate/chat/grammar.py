"""Sentences from templates: each ``{name}`` is replaced by a line of the list of that name, which may have slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from isthmus.registry import lookup

SLOT = re.compile(r"\{(\w+)\}")
DEPTH = 8  # lists inside lists

Fill = Callable[[np.random.Generator], str]


def expand(
    template: str, lists: Mapping[str, Sequence[str]], rng: np.random.Generator, filled: Mapping[str, Fill]
) -> str:
    """Replace the slots of a template until none of them names a list; ``filled`` slots are replaced at the end.

    >>> lists = {"hello": ["Hi {who}"], "who": ["all"]}
    >>> expand("{hello}, {claim}?", lists, np.random.default_rng(0), {"claim": lambda rng: "what is {who}"})
    'Hi all, what is {who}?'
    """
    known = {**lists, **dict.fromkeys(filled, ())}

    def line(slot: re.Match[str]) -> str:
        lines = lookup(known, slot[1], "list of lines")
        return lines[int(rng.integers(len(lines)))] if lines else slot[0]

    for _ in range(DEPTH):
        template = SLOT.sub(line, template)
    return SLOT.sub(lambda slot: filled[slot[1]](rng) if slot[1] in filled else slot[0], template)
