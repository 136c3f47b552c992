"""Metadata as facts: one (name, value) pair per scalar, for filters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

import numpy as np

from isthmus.budget import METADATA_BYTES, METADATA_FACTS, METADATA_VALUES, too_much_metadata
from isthmus.errors import BadInput

Scalar: TypeAlias = str | int | float
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,9})?")  # no leading zeros: those are codes
LARGEST = 2**63 - 1  # of SQLite's whole numbers
DEEPEST = 64  # levels of objects and lists inside one another


def facts(metadata: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    """Yield each scalar by name: inner names are joined by dots, each member of a list is a value of its own.

    A string that looks like a number is a number as well: tables often contain only strings.

    >>> list(facts({"year": "2021", "code": "007"}))
    [('year', '2021'), ('year', 2021.0), ('code', '007')]
    >>> sorted(facts({"lang": "en", "tags": ["a", "b"], "by": {"name": "Ada"}, "draft": True, "note": None}))
    [('by.name', 'Ada'), ('draft', 1), ('lang', 'en'), ('tags', 'a'), ('tags', 'b')]
    """
    for name, value in metadata.items():
        if isinstance(value, Mapping):
            yield from facts(value, f"{prefix}{name}.")
        else:
            several = value if isinstance(value, list | tuple) else [value]
            for one in several:
                plain = scalar(one)
                if plain is not None:
                    yield readable(f"{prefix}{name}"), plain
                if isinstance(plain, str) and NUMBER.fullmatch(plain):
                    yield readable(f"{prefix}{name}"), float(plain)


def scalar(value: object) -> Scalar | None:
    """Return a value as the store compares it; None if it cannot be compared.

    >>> scalar(True), scalar("en"), scalar({"a": 1})
    (1, 'en', None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if abs(value) <= LARGEST else _rounded(value)
    if isinstance(value, str):
        return readable(value)
    return value if isinstance(value, float) else None


def _rounded(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def readable(text: str) -> str:
    """Replace each half of a surrogate pair by a question mark: it cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def as_json(metadata: Mapping[str, Any], whose: str) -> str:
    """Write metadata as JSON; raise an error if a value is not JSON, is nested too deep, or there is too much of it."""
    deep = next((name for name, value in metadata.items() if too_deep(value, DEEPEST - 1)), None)
    if deep is not None:
        raise BadInput(
            f"{whose} has metadata nested more than {DEEPEST} levels deep: {str(deep)[:80]!r}. Make it flatter, or "
            "store it as a string."
        )
    if sum(1 for _ in islice(_values(metadata), METADATA_VALUES + 1)) > METADATA_VALUES:
        raise BadInput(f"{whose} {too_much_metadata()}.")
    try:
        written = json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = next((name for name, value in metadata.items() if not _is_json(value)), "")
        raise BadInput(
            f"{whose} has metadata that is not JSON: {wrong!r} ({error}). Use strings, numbers, true, false, null, and "
            "lists and objects of them."
        ) from None
    if len(written) > METADATA_BYTES or sum(1 for _ in islice(facts(metadata), METADATA_FACTS + 1)) > METADATA_FACTS:
        raise BadInput(f"{whose} {too_much_metadata()}.")
    return written


def too_deep(value: object, most: int) -> bool:
    """Whether objects and lists are nested more than ``most`` levels deep; not recursive, so any depth is safe.

    >>> too_deep({"a": [1]}, 2), too_deep({"a": [[1]]}, 2), too_deep("a", 0)
    (False, True, False)
    """
    level = [value] if _is_container(value) else []
    for _ in range(most):
        inner = islice(chain.from_iterable(map(_members, level)), METADATA_VALUES)  # more are rejected by their number
        level = list({id(one): one for one in inner if _is_container(one)}.values())  # cycles stay small
        if not level:
            return False
    return bool(level)


def _values(value: Any) -> Iterator[object]:
    """Yield every value inside a value, however often it occurs."""
    for inner in _members(value):
        yield inner
        if _is_container(inner):
            yield from _values(inner)


def _is_container(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _members(value: Any) -> Iterable[object]:
    return value.values() if isinstance(value, Mapping) else value


def _is_json(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
