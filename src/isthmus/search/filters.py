"""``where``: which documents may be found, by their metadata, as one SQL statement.

    {"lang": "en"}                                   equal; several names must all hold
    {"year": {"gte": 2000, "lt": 2010}}              ranges: gt, gte, lt, lte
    {"lang": ["en", "de"]}  {"lang": {"in": […]}}    one of
    {"lang": {"not": "en"}} {"not": {"lang": "en"}}  all but these; documents without the name count as 'not'
    {"or": [{…}, {…}]}      {"and": [{…}, {…}]}      either, both
    {"lang": {"exists": true}}                       has the name at all

A list in the metadata holds if one of its members does; inner names are joined by dots (``author.name``). Numbers
compare with numbers and strings with strings; a string that is plainly a number (``"2021"``) is both. ``id`` and
``modality`` are names, too.

>>> compiled({"lang": "en"}).values
('lang', 'en')
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.search.facts import Scalar, readable, scalar

RANGES = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
COLUMNS = {"id": "id", "modality": "modality"}
EVERY = "SELECT row FROM documents"
TERMS = 100  # conditions that are joined at once: SQLite takes 500
MANY = 1000  # values that are handed over one by one; more go as one list


@dataclass(frozen=True, slots=True)
class Condition:
    """An SQL query for rows of documents, and the values of its question marks."""

    sql: str
    values: tuple[Scalar, ...] = ()


def compiled(where: Mapping[str, Any]) -> Condition:
    """Turn a filter into SQL, or say what cannot be read."""
    if not isinstance(where, Mapping):
        raise BadInput(f"where is a {type(where).__name__}; write where={{'lang': 'en'}}.")
    if not where:
        return Condition(EVERY)
    return _joined("INTERSECT", [_named(str(name), value) for name, value in where.items()])


def _named(name: str, value: Any) -> Condition:
    word = name.removeprefix("$")
    if word in ("and", "or") and isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise BadInput(f"{name!r} needs at least one condition.")
        return _joined("INTERSECT" if word == "and" else "UNION", [compiled(each) for each in value])
    if word == "not" and isinstance(value, Mapping):
        return _but(compiled(value))
    if not isinstance(value, Mapping):
        return _one_of(name, value if isinstance(value, list | tuple | set) else [value])
    if not value:
        raise BadInput(f"The filter of {name!r} is empty. Known: {', '.join(sorted(OPERATORS))}.")
    return _joined("INTERSECT", [_operated(name, str(operator), asked) for operator, asked in value.items()])


def _operated(name: str, operator: str, asked: Any) -> Condition:
    return lookup(OPERATORS, operator.removeprefix("$"), "operator of a filter")(name, asked)


def _one_of(name: str, several: Any) -> Condition:
    if isinstance(several, str) or not isinstance(several, list | tuple | set):
        raise BadInput(f"'in' takes a list of values for {name!r}, not {several!r}.")
    values = [_comparable(name, one) for one in several if one is not None]
    found = Condition(f"{_from(name)} IN ({','.join('?' * len(values))})", (*_head(name), *values))
    if len(values) > MANY and not any(isinstance(value, float) or "\0" in str(value) for value in values):
        found = Condition(f"{_from(name)} IN (SELECT value FROM json_each(?))", (*_head(name), json.dumps(values)))
    if None not in several:
        return found
    return _joined("UNION", [found, _but(_exists(name, True))]) if values else _but(_exists(name, True))


def _ranged(sign: str) -> Callable[[str, Any], Condition]:
    def condition(name: str, asked: Any) -> Condition:
        value = _comparable(name, asked)
        kind = "= 'text'" if isinstance(value, str) else "!= 'text'"
        column = COLUMNS.get(name, "value")
        return Condition(f"{_from(name)} {sign} ? AND typeof({column}) {kind}", (*_head(name), value))

    return condition


def _not(name: str, asked: Any) -> Condition:
    if isinstance(asked, Mapping):
        return _but(_named(name, asked))
    return _but(_one_of(name, asked if isinstance(asked, list | tuple | set) else [asked]))


def _exists(name: str, asked: Any) -> Condition:
    if name in COLUMNS:
        there = Condition(EVERY)
    else:
        there = Condition("SELECT DISTINCT document FROM facts WHERE name = ?", _head(name))
    return there if asked else _but(there)


OPERATORS: Mapping[str, Callable[[str, Any], Condition]] = {
    "eq": lambda name, asked: _one_of(name, [asked]),
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
        raise BadInput(f"{name!r} cannot be compared with {value!r}. Compare with a string, a number, true or false.")
    return plain


def _but(condition: Condition) -> Condition:
    return Condition(f"{EVERY} EXCEPT SELECT * FROM ({condition.sql})", condition.values)


def _joined(how: str, conditions: Sequence[Condition]) -> Condition:
    while len(conditions) > TERMS:
        some = [conditions[start : start + TERMS] for start in range(0, len(conditions), TERMS)]
        conditions = [_joined(how, several) for several in some]
    sql = f" {how} ".join(f"SELECT * FROM ({condition.sql})" for condition in conditions)
    return Condition(sql, tuple(value for condition in conditions for value in condition.values))
