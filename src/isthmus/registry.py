"""Look up names in tables, with suggestions for unknown names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from isthmus.errors import UnknownName, shown

Thing = TypeVar("Thing")


def lookup(table: Mapping[str, Thing], name: str, kind: str) -> Thing:
    """Return ``table[name]``, or raise an error that suggests the nearest known name.

    >>> lookup({"center": 1, "nnn": 2}, "nnn", "calibration")
    2
    >>> lookup({"center": 1, "nnn": 2}, "centre", "calibration")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No calibration is called 'centre'. Did you mean 'center'?
    """
    if not isinstance(name, str):
        raise UnknownName(f"The name of a {kind} is a string, not {shown(name)}. {suggestion('', table)}")
    if name in table:
        return table[name]
    raise UnknownName(f"No {kind} is called {shown(name)}. {suggestion(name, table)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, or list them all.

    >>> suggestion("alhpa", ["alpha", "k"])
    "Did you mean 'alpha'?"
    >>> suggestion("zzz", ["alpha", "k"])
    'Known: alpha, k.'
    >>> suggestion("NNN", ["alpha", "nnn"])
    "Did you mean 'nnn'?"
    """
    names = sorted(known)
    lower = {known_name.lower(): known_name for known_name in names}
    near = get_close_matches(name.lower(), lower, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {lower[near[0]]!r}?"
    return f"Known: {', '.join(names)}." if names else "None are known."
