"""A parsed ``where`` as one SQL query for rows of documents.

Nested conditions become common table expressions, one after another: SQLite's parser supports only a few
nested SELECTs.

>>> compiled(parse({"lang": "en"})).values
('lang', 'en')
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.errors import BadInput
from isthmus.storage.facts import Scalar, readable
from isthmus.storage.where import VALUES, All, Compare, Condition, Either, Everything, Exists, Not, OneOf, parse

SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
COLUMNS = {"id": "id", "modality": "modality"}
EVERY = "SELECT row FROM documents"
TERMS = 100  # conditions joined in one statement; SQLite's limit is 500
MANY = 1000  # values that are passed one by one; more are passed as one list
# A float as two integers, whose quotient is exact. SQLite guarantees only 15 digits of a decimal number.
RATIO = "CAST(json_extract(value, '$[0]') AS REAL) / json_extract(value, '$[1]')"

__all__ = ["Rows", "compiled", "parse"]


@dataclass(frozen=True, slots=True)
class Rows:
    """An SQL query for rows of documents, and the values of its question marks."""

    sql: str
    values: tuple[Scalar, ...] = ()


def compiled(condition: Condition) -> Rows:
    """Turn a condition into SQL."""
    tables = _Tables()
    return tables.whole(tables.rows(condition))


class _Tables:
    """The nested conditions of one filter, each a common table expression that later ones refer to."""

    def __init__(self) -> None:
        self.steps: list[Rows] = []

    def rows(self, condition: Condition) -> Rows:
        """Return the query for one condition."""
        match condition:
            case Everything():
                return Rows(EVERY)
            case OneOf(name, values):
                return self._joined("UNION", _one_of(name, values))
            case Compare(name, operator, value):
                kind = "= 'text'" if isinstance(value, str) else "!= 'text'"
                column = COLUMNS.get(name, "value")
                return Rows(f"{_from(name)} {SIGNS[operator]} ? AND typeof({column}) {kind}", (*_head(name), value))
            case Exists(name):
                everything = name in COLUMNS
                return (
                    Rows(EVERY)
                    if everything
                    else Rows("SELECT DISTINCT document FROM facts WHERE name = ?", _head(name))
                )
            case Not(inner):
                found = self.rows(inner)
                return self._named(Rows(f"{EVERY} EXCEPT SELECT * FROM ({found.sql})", found.values))
            case All(several):
                return self._joined("INTERSECT", [self.rows(one) for one in several])
            case Either(several):
                return self._joined("UNION", [self.rows(one) for one in several])

    def _named(self, rows: Rows) -> Rows:
        """Name a query, and return a short query for the same rows."""
        self.steps.append(rows)
        return Rows(f"SELECT row FROM c{len(self.steps) - 1}")

    def _joined(self, how: str, several: Sequence[Rows]) -> Rows:
        if len(several) == 1:
            return several[0]
        while len(several) > TERMS:
            some = [several[start : start + TERMS] for start in range(0, len(several), TERMS)]
            several = [self._joined(how, each) for each in some]
        sql = f" {how} ".join(f"SELECT * FROM ({one.sql})" for one in several)
        return self._named(Rows(sql, tuple(value for one in several for value in one.values)))

    def whole(self, last: Rows) -> Rows:
        """Return the query with its common table expressions."""
        values = tuple(value for step in [*self.steps, last] for value in step.values)
        if len(values) > VALUES:
            raise BadInput(
                f"The filter compares with {len(values):,} values; {VALUES:,} is the most. Search in several steps, or "
                "store what they have in common as metadata."
            )
        if not self.steps:
            return last
        named = ", ".join(f"c{number}(row) AS ({step.sql})" for number, step in enumerate(self.steps))
        return Rows(f"WITH {named} {last.sql}", values)


def _one_of(name: str, values: Sequence[Scalar]) -> list[Rows]:
    """Return the queries for rows with one of these values."""
    if len(values) <= MANY:
        return [_each(name, values)]
    plain = [value for value in values if _is_plain(value)]
    ratios = [value.as_integer_ratio() for value in values if isinstance(value, float) and _is_ratio(value)]
    rest = [value for value in values if not _is_plain(value) and not _is_ratio(value)]
    rows = [
        Rows(f"{_from(name)} IN (SELECT {column} FROM json_each(?))", (*_head(name), json.dumps(listed)))
        for column, listed in (("value", plain), (RATIO, ratios))
        if listed
    ]
    return [*rows, _each(name, rest)] if rest else rows


def _each(name: str, values: Sequence[Scalar]) -> Rows:
    return Rows(f"{_from(name)} IN ({','.join('?' * len(values))})", (*_head(name), *values))


def _is_plain(value: Scalar) -> bool:
    """Whether a value survives a round trip through JSON."""
    return isinstance(value, int) or (isinstance(value, str) and "\0" not in value)


def _is_ratio(value: Scalar) -> bool:
    """Whether a float is a quotient of two 64-bit integers, the second of which is always a power of two."""
    return isinstance(value, float) and (value == 0 or 2.0**-10 <= abs(value) < 2.0**63)


def _from(name: str) -> str:
    if name in COLUMNS:
        return f"SELECT row FROM documents WHERE {COLUMNS[name]}"
    return "SELECT document FROM facts WHERE name = ? AND value"


def _head(name: str) -> tuple[Scalar, ...]:
    return () if name in COLUMNS else (readable(name),)
