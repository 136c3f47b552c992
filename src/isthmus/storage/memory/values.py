"""Counts of the values of a field, in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isthmus.storage.facts import Scalar
from isthmus.storage.memory.engine import Contents
from isthmus.storage.memory.filters import held_values
from isthmus.storage.values import COUNTED, LONGEST, FieldValues, Range, field_values


def values(contents: Contents, name: str) -> FieldValues:
    """Return the values of a field."""
    counts = Counter(value for held in contents.documents.values() for value in set(held_values(held, name)))
    listed = [(value, count) for value, count in counts.items() if _is_short(value)]
    listed.sort(key=lambda one: (-one[1], isinstance(one[0], str), one[0]))
    numbers = _range([value for value in counts if not isinstance(value, str)])
    texts = _range([value for value in counts if isinstance(value, str)])
    return field_values(name, listed[:COUNTED], numbers, texts)


def _is_short(value: Scalar) -> bool:
    return not isinstance(value, str) or len(value.encode()) <= LONGEST


def _range(several: Sequence[Scalar]) -> Range | None:
    return (min(several), max(several)) if several else None  # numbers alone, or texts alone
