"""What a server stores beside a vector, so that it can filter: metadata in a few fields of fixed names.

    facts        each (name, value) as one text: equal values of a list, a string and a number are equal texts
    names        the names that occur
    least, most  the smallest and the largest number under each name; a list passes ``gt`` if its largest member does

Names of metadata are anything, also ``a.b`` or ``[0]``, which servers read as paths; so a name becomes a key of plain
letters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.storage.facts import Scalar, readable
from isthmus.storage.where import COLUMNS, All, Compare, Condition, Either, Everything, Exists, Not, OneOf

EXACT = 2.0**53  # whole numbers below are the same as floats
LARGEST = 1.7976931348623157e308
VALUES = 4096  # values of a filter that are sent, at most


@dataclass(frozen=True, slots=True)
class Payload:
    """The metadata of one document, as a server stores them."""

    facts: list[str]
    names: list[str]
    least: dict[str, float]
    most: dict[str, float]

    @classmethod
    def of(cls, facts: Sequence[tuple[str, Scalar]]) -> Payload:
        """Return the fields of a document's metadata.

        >>> Payload.of([("year", 2021.0), ("year", "2021")]).facts
        ['["year","2021"]', '["year",2021]']
        """
        numbers: dict[str, list[float]] = {}
        for name, value in facts:
            if not isinstance(value, str):
                numbers.setdefault(key_of(name), []).append(_finite(value))
        return cls(
            sorted({fact(name, value) for name, value in facts}),
            sorted({key_of(name) for name, _ in facts}),
            {name: min(values) for name, values in numbers.items()},
            {name: max(values) for name, values in numbers.items()},
        )


def fact(name: str, value: Scalar) -> str:
    """Return a name and a value as one text; numbers that are equal are equal texts.

    >>> fact("year", 2021.0) == fact("year", 2021), fact("year", 2021) == fact("year", "2021")
    (True, False)
    """
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    return json.dumps([readable(name), plain], separators=(",", ":"))


def key_of(name: str) -> str:
    """Return a name as a key of letters and digits.

    >>> key_of("a.b")
    'n612e62'
    """
    return f"n{readable(name).encode().hex()}"


def pushes(condition: Condition) -> bool:
    """Whether these fields can answer a condition exactly: not ranges of texts, nor very long lists."""
    return _is_exact(condition) and _values(condition) <= VALUES


def _is_exact(condition: Condition) -> bool:
    match condition:
        case Compare(name, _, value):
            return name not in COLUMNS and not isinstance(value, str) and abs(value) < EXACT
        case Not(inner):
            return _is_exact(inner)
        case All(several) | Either(several):
            return all(map(_is_exact, several))
        case Everything() | OneOf() | Exists():
            return True


def _values(condition: Condition) -> int:
    match condition:
        case OneOf(_, values):
            return len(values)
        case Not(inner):
            return _values(inner)
        case All(several) | Either(several):
            return sum(map(_values, several))
        case _:
            return 1


def _finite(value: float) -> float:
    """Return a number that JSON has: an infinite one becomes the largest."""
    number = float(value)
    return number if math.isfinite(number) else math.copysign(LARGEST, number)
