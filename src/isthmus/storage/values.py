"""The values of a field: the most frequent with how many documents have each, and the range of its numbers and dates.

An engine counts; ``field_values`` makes the same of the counts of every engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from isthmus.storage.facts import NUMBER, Scalar

LISTED = 100  # values of a field, at most
COUNTED = 2 * LISTED + 1  # that an engine returns: of a text that looks like a number, there is the number, too
LONGEST = 200  # bytes of a text that is listed
DATE = re.compile(r"\d{4}-\d\d(-\d\d([T ].*)?)?")

Range: TypeAlias = tuple[Scalar, Scalar]


class ValueCount(NamedTuple):
    """A value, and how many documents have it."""

    value: Scalar
    documents: int


@dataclass(frozen=True, slots=True)
class FieldValues:
    """What documents have under a name: the most frequent values, whether there are more, and ranges.

    Values are as filters compare them: true and false are 1 and 0, and a text that looks like a number is the number.
    """

    name: str
    top: tuple[ValueCount, ...] = ()
    more: bool = False
    numbers: tuple[float, float] | None = None  # the smallest and the largest
    dates: tuple[str, str] | None = None  # the first and the last; None unless both are dates, as in 2024-05-31

    def first(self, count: int) -> FieldValues:
        """Return the same with at most ``count`` values."""
        more = self.more or len(self.top) > count
        return FieldValues(self.name, self.top[:count], more, self.numbers, self.dates)


def field_values(
    name: str, counted: Sequence[tuple[Scalar, int]], numbers: Range | None, texts: Range | None
) -> FieldValues:
    """Return the values of a field from the counts of an engine, most frequent first, and its two ranges.

    >>> field_values("year", [(2021.0, 2), ("2021", 2), (1999.0, 1)], (1999.0, 2021.0), ("2021", "2021")).top
    (ValueCount(value=2021, documents=2), ValueCount(value=1999, documents=1))
    """
    kept = [ValueCount(_short(value), count) for value, count in counted if not _reads_as_number(value)]
    dated = texts is not None and all(DATE.fullmatch(str(end)) for end in texts)
    return FieldValues(
        name,
        tuple(kept[:LISTED]),
        len(kept) > LISTED or len(counted) >= COUNTED,
        None if numbers is None else (_number(numbers[0]), _number(numbers[1])),
        (str(texts[0]), str(texts[1])) if dated and texts is not None else None,
    )


def _reads_as_number(value: Scalar) -> bool:
    return isinstance(value, str) and NUMBER.fullmatch(value) is not None


def _short(value: Scalar) -> Scalar:
    """Return a whole number as one: engines differ in what they make of 5 and 5.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _number(value: Scalar) -> float:
    short = _short(value)
    return short if isinstance(short, int) else float(short)
