"""``where``: which documents may be found, by their metadata, as one SQL statement.

    {"lang": "en"}                                   equal; several names must all hold
    {"year": {"gte": 2000, "lt": 2010}}              ranges: gt, gte, lt, lte
    {"lang": ["en", "de"]}  {"lang": {"in": […]}}    one of
    {"lang": {"not": "en"}} {"not": {"lang": "en"}}  all but these; documents without the name count as 'not'
    {"or": [{…}, {…}]}      {"and": [{…}, {…}]}      either, both
    {"lang": {"exists": true}}                       has the name at all

A list in the metadata holds if one of its members does; inner names are joined by dots (``author.name``). Numbers
compare with numbers and strings with strings; a string that is plainly a number (``"2021"``) is both. ``id`` and
``modality`` are names, too. A filter may be nested 64 levels deep, and hold 5,000 conditions and 30,000 values.

Nested conditions become common table expressions, one after another: SQLite's parser has room for only a few SELECTs
inside one another.

>>> compiled({"lang": "en"}).values
('lang', 'en')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from isthmus.errors import BadInput, shown
from isthmus.registry import lookup
from isthmus.search.facts import Scalar, readable, scalar

RANGES = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
COLUMNS = {"id": "id", "modality": "modality"}
EVERY = "SELECT row FROM documents"
TERMS = 100  # conditions that are joined at once: SQLite takes 500
MANY = 1000  # values that are handed over one by one; more go as one list
DEEPEST = 64  # levels of conditions inside one another
CONDITIONS = 5_000
VALUES = 30_000  # handed over one by one; SQLite takes 32,766


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL query for rows of documents, and the values of its question marks."""

    sql: str
    values: tuple[Scalar, ...] = ()


class _Tables:
    """The nested conditions of one filter, each a common table expression that later ones name."""

    def __init__(self) -> None:
        self.steps: list[Condition] = []
        self.conditions = 0

    def name(self, condition: Condition) -> Condition:
        """Give a condition a name, and return a short query for the same rows."""
        self.steps.append(condition)
        return Condition(f"SELECT row FROM c{len(self.steps) - 1}")

    def count(self) -> None:
        """Count one more condition."""
        self.conditions += 1
        if self.conditions > CONDITIONS:
            raise BadInput(f"The filter has more than {CONDITIONS:,} conditions. Use 'in' with a list of values.")

    def whole(self, last: Condition) -> Condition:
        """Return the query with the expressions before it."""
        values = tuple(value for step in [*self.steps, last] for value in step.values)
        if len(values) > VALUES:
            raise BadInput(
                f"The filter compares with {len(values):,} values; {VALUES:,} is the most. Search in several steps, or "
                "store what they have in common as metadata."
            )
        if not self.steps:
            return last
        named = ", ".join(f"c{number}(row) AS ({step.sql})" for number, step in enumerate(self.steps))
        return Condition(f"WITH {named} {last.sql}", values)


def compiled(where: Mapping[str, Any]) -> Condition:
    """Turn a filter into SQL, or say what cannot be read."""
    tables = _Tables()
    return tables.whole(_all_of(where, tables, DEEPEST))


def _all_of(where: Mapping[str, Any], tables: _Tables, deep: int) -> Condition:
    if not isinstance(where, Mapping):
        raise BadInput(f"where is a {type(where).__name__}; write where={{'lang': 'en'}}.")
    if not deep:
        raise BadInput(f"The filter is nested more than {DEEPEST} levels deep. Make it flatter.")
    if not where:
        return Condition(EVERY)
    for name in where:
        if not isinstance(name, str):
            raise BadInput(f"The filter has a name that is a {type(name).__name__}, {shown(name)}. Names are strings.")
    return _joined("INTERSECT", [_named(name, value, tables, deep - 1) for name, value in where.items()], tables)


def _named(name: str, value: Any, tables: _Tables, deep: int) -> Condition:
    word = name.removeprefix("$")
    if word in ("and", "or") and isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise BadInput(f"{name!r} needs at least one condition.")
        several = [_all_of(each, tables, deep) for each in value]
        return _joined("INTERSECT" if word == "and" else "UNION", several, tables)
    if word == "not" and isinstance(value, Mapping):
        return _but(_all_of(value, tables, deep), tables)
    if not isinstance(value, Mapping):
        return _one_of(name, value if isinstance(value, list | tuple | set) else [value], tables, deep)
    if not value:
        raise BadInput(f"The filter of {name!r} is empty. Known: {', '.join(sorted(OPERATORS))}.")
    if not deep:
        raise BadInput(f"The filter is nested more than {DEEPEST} levels deep. Make it flatter.")
    several = [_operated(name, operator, asked, tables, deep - 1) for operator, asked in value.items()]
    return _joined("INTERSECT", several, tables)


def _operated(name: str, operator: object, asked: Any, tables: _Tables, deep: int) -> Condition:
    return lookup(OPERATORS, str(operator).removeprefix("$"), "operator of a filter")(name, asked, tables, deep)


def _one_of(name: str, several: Any, tables: _Tables, _: int = 0) -> Condition:
    tables.count()
    if isinstance(several, str) or not isinstance(several, list | tuple | set):
        raise BadInput(f"'in' takes a list of values for {name!r}, not {shown(several)}.")
    values = [_comparable(name, one) for one in several if one is not None]
    found = Condition(f"{_from(name)} IN ({','.join('?' * len(values))})", (*_head(name), *values))
    if len(values) > MANY and not any(isinstance(value, float) or "\0" in str(value) for value in values):
        found = Condition(f"{_from(name)} IN (SELECT value FROM json_each(?))", (*_head(name), json.dumps(values)))
    if all(one is not None for one in several):
        return found
    missing = _exists(name, False, tables)
    return _joined("UNION", [found, missing], tables) if values else missing


def _ranged(sign: str) -> Operator:
    def condition(name: str, asked: Any, tables: _Tables, _: int) -> Condition:
        tables.count()
        value = _comparable(name, asked)
        kind = "= 'text'" if isinstance(value, str) else "!= 'text'"
        column = COLUMNS.get(name, "value")
        return Condition(f"{_from(name)} {sign} ? AND typeof({column}) {kind}", (*_head(name), value))

    return condition


def _not(name: str, asked: Any, tables: _Tables, deep: int) -> Condition:
    if isinstance(asked, Mapping):
        return _but(_named(name, asked, tables, deep), tables)
    several = asked if isinstance(asked, list | tuple | set) else [asked]
    return _but(_one_of(name, several, tables), tables)


def _exists(name: str, asked: Any, tables: _Tables, _: int = 0) -> Condition:
    tables.count()
    if not isinstance(asked, int) or asked not in (0, 1):
        raise BadInput(f"'exists' is true or false for {name!r}, not {shown(asked)}.")
    if name in COLUMNS:
        there = Condition(EVERY)
    else:
        there = Condition("SELECT DISTINCT document FROM facts WHERE name = ?", _head(name))
    return there if asked else _but(there, tables)


Operator: TypeAlias = Callable[[str, Any, _Tables, int], Condition]

OPERATORS: Mapping[str, Operator] = {
    "eq": lambda name, asked, tables, _: _one_of(name, [asked], tables),
    "ne": _not,
    "not": _not,
    "in": _one_of,
    "exists": _exists,
    **{word: _ranged(sign) for word, sign in RANGES.items()},
}


def _from(name: str) -> str:
    if name in COLUMNS:
        return f"SELECT row FROM documents WHERE {COLUMNS[name]}"
    return "SELECT document FROM facts WHERE name = ? AND value"


def _head(name: str) -> tuple[Scalar, ...]:
    return () if name in COLUMNS else (readable(name),)


def _comparable(name: str, value: Any) -> Scalar:
    plain = scalar(value)
    if plain is None:
        raise BadInput(
            f"{name!r} cannot be compared with {shown(value)}. Compare with a string, a number, true or false."
        )
    return plain


def _but(condition: Condition, tables: _Tables) -> Condition:
    return tables.name(Condition(f"{EVERY} EXCEPT SELECT * FROM ({condition.sql})", condition.values))


def _joined(how: str, conditions: Sequence[Condition], tables: _Tables) -> Condition:
    if len(conditions) == 1:
        return conditions[0]
    while len(conditions) > TERMS:
        some = [conditions[start : start + TERMS] for start in range(0, len(conditions), TERMS)]
        conditions = [_joined(how, several, tables) for several in some]
    sql = f" {how} ".join(f"SELECT * FROM ({condition.sql})" for condition in conditions)
    return tables.name(Condition(sql, tuple(value for condition in conditions for value in condition.values)))
