"""``where``: a filter of documents by their metadata, as a small tree that each engine compiles.

    {"lang": "en"}                                   equal; several names must all hold
    {"year": {"gte": 2000, "lt": 2010}}              ranges: gt, gte, lt, lte
    {"lang": ["en", "de"]}  {"lang": {"in": […]}}    one of
    {"lang": {"not": "en"}} {"not": {"lang": "en"}}  all but these; documents without the name count as 'not'
    {"or": [{…}, {…}]}      {"and": [{…}, {…}]}      either, both
    {"lang": {"exists": true}}                       has the name at all

A list in the metadata matches if one of its members does; inner names are joined by dots (``author.name``). Numbers
compare with numbers and strings with strings; a string that looks like a number (``"2021"``) is both. ``id`` and
``modality`` are names, too. A filter may be nested 64 levels deep, and hold 5,000 conditions and 30,000 values; a list
of more than 1,000 values counts as one.

>>> parse({"lang": "en"})
OneOf(name='lang', values=('en',))
>>> parse({"or": [{"lang": "en"}, {"year": {"gte": 2000}}]})
Either(conditions=(OneOf(name='lang', values=('en',)), Compare(name='year', operator='gte', value=2000)))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from isthmus.errors import BadInput, shown
from isthmus.registry import lookup
from isthmus.storage.facts import Scalar, scalar

RANGES = ("gt", "gte", "lt", "lte")
COLUMNS = ("id", "modality")  # names that every document has, and that are not metadata
DEEPEST = 64  # levels of conditions inside one another
CONDITIONS = 5_000
VALUES = 30_000  # values that are passed one by one; a long list is passed as one


@dataclass(frozen=True, slots=True)
class Everything:
    """Every document."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """Documents that have one of these values under a name."""

    name: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Documents with a value under a name that is greater or less: ``gt``, ``gte``, ``lt``, ``lte``."""

    name: str
    operator: str
    value: Scalar


@dataclass(frozen=True, slots=True)
class Exists:
    """Documents that have a name at all."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """Documents that do not pass a condition."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class All:
    """Documents that pass every condition."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Documents that pass at least one condition."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Everything | OneOf | Compare | Exists | Not | All | Either


def parse(where: Mapping[str, Any]) -> Condition:
    """Parse a filter, or raise an error."""
    return _Parser().all_of(where, DEEPEST)


class _Parser:
    """Reads one filter, and counts its conditions and values."""

    def __init__(self) -> None:
        self.conditions = 0

    def all_of(self, where: Mapping[str, Any], deep: int) -> Condition:
        """Read names that must all hold."""
        if not isinstance(where, Mapping):
            raise BadInput(f"where is a {type(where).__name__}; write where={{'lang': 'en'}}.")
        if not deep:
            raise _too_deep()
        if not where:
            return Everything()
        for name in where:
            if not isinstance(name, str):
                kind = type(name).__name__
                raise BadInput(f"The filter has a name that is a {kind}, {shown(name)}. Names are strings.")
        return _joined(All, [self._named(name, value, deep - 1) for name, value in where.items()])

    def _named(self, name: str, value: Any, deep: int) -> Condition:
        word = name.removeprefix("$")
        if word in ("and", "or") and isinstance(value, Sequence) and not isinstance(value, str):
            if not value:
                raise BadInput(f"{name!r} needs at least one condition.")
            return _joined(All if word == "and" else Either, [self.all_of(each, deep) for each in value])
        if word == "not" and isinstance(value, Mapping):
            return Not(self.all_of(value, deep))
        if not isinstance(value, Mapping):
            return self.one_of(name, value if isinstance(value, list | tuple | set) else [value])
        if not value:
            raise BadInput(f"The filter of {name!r} is empty. Known: {', '.join(sorted(OPERATORS))}.")
        if not deep:
            raise _too_deep()
        return _joined(All, [self._operated(name, str(word), operand, deep - 1) for word, operand in value.items()])

    def _operated(self, name: str, operator: str, operand: Any, deep: int) -> Condition:
        return lookup(OPERATORS, operator.removeprefix("$"), "operator of a filter")(self, name, operand, deep)

    def one_of(self, name: str, several: Any) -> Condition:
        """Parse a list of values; None means that the name does not exist."""
        self._count()
        if isinstance(several, str) or not isinstance(several, list | tuple | set):
            raise BadInput(f"'in' takes a list of values for {name!r}, not {shown(several)}.")
        found = OneOf(name, tuple(self._comparable(name, one) for one in several if one is not None))
        if all(one is not None for one in several):
            return found
        missing = Not(Exists(name))
        return Either((found, missing)) if found.values else missing

    def compare(self, name: str, operator: str, operand: Any) -> Condition:
        """Read a range."""
        self._count()
        return Compare(name, operator, self._comparable(name, operand))

    def differs(self, name: str, operand: Any, deep: int) -> Condition:
        """Parse a negation."""
        if isinstance(operand, Mapping):
            return Not(self._named(name, operand, deep))
        return Not(self.one_of(name, operand if isinstance(operand, list | tuple | set) else [operand]))

    def exists(self, name: str, operand: Any) -> Condition:
        """Parse whether a name must exist."""
        self._count()
        if not isinstance(operand, int) or operand not in (0, 1):
            raise BadInput(f"'exists' is true or false for {name!r}, not {shown(operand)}.")
        return Exists(name) if operand else Not(Exists(name))

    def _count(self) -> None:
        self.conditions += 1
        if self.conditions > CONDITIONS:
            raise BadInput(f"The filter has more than {CONDITIONS:,} conditions. Use 'in' with a list of values.")

    def _comparable(self, name: str, value: Any) -> Scalar:
        plain = scalar(value)
        if plain is None:
            raise BadInput(
                f"{name!r} cannot be compared with {shown(value)}. Compare with a string, a number, true or false."
            )
        return plain


Operator: TypeAlias = Callable[[_Parser, str, Any, int], Condition]


def _range(operator: str) -> Operator:
    return lambda parser, name, operand, _: parser.compare(name, operator, operand)


OPERATORS: Mapping[str, Operator] = {
    "eq": lambda parser, name, operand, _: parser.one_of(name, [operand]),
    "ne": lambda parser, name, operand, deep: parser.differs(name, operand, deep),
    "not": lambda parser, name, operand, deep: parser.differs(name, operand, deep),
    "in": lambda parser, name, operand, _: parser.one_of(name, operand),
    "exists": lambda parser, name, operand, _: parser.exists(name, operand),
    **{word: _range(word) for word in RANGES},
}


def _joined(how: type[All] | type[Either], conditions: Sequence[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else how(tuple(conditions))


def _too_deep() -> BadInput:
    return BadInput(f"The filter is nested more than {DEEPEST} levels deep. Make it flatter.")
