"""A parsed ``where`` as a condition of SQL on the documents ``d``.

``facts`` maps each name to the list of its values, so a value under a name is containment, which the GIN index finds,
and a range is a path that is tried on each document. Everything here is what postgres_fdw sends to another server.

>>> compiled(parse({"lang": "en"}))
Sql(text='d.facts @> %s::jsonb', values=('{"lang": ["en"]}',))
>>> compiled(parse({"not": {"year": {"gte": 2000}}})).text
'NOT (jsonb_path_exists(d.facts, %s::jsonpath, %s::jsonb))'
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from isthmus.errors import BadInput
from isthmus.storage.facts import Scalar, facts, readable
from isthmus.storage.where import (
    COLUMNS,
    VALUES,
    All,
    Compare,
    Condition,
    Either,
    Everything,
    Exists,
    Not,
    OneOf,
    parse,
)

SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
FEW = 16  # values that are looked up in the index, one by one; more are compared with each document's
SENT = 1_000  # values of a statement that is sent for each query, and to each shard; PostgreSQL takes 65,535 in all
WHOLE = 2.0**53  # from here on every float is a whole number
BEYOND = "1e400"  # stands for infinity, which JSON has not: larger than every float

__all__ = ["Sql", "compiled", "facts_json", "listed_json", "parse", "pushes"]


@dataclass(frozen=True, slots=True)
class Sql:
    """A condition of SQL, and the values of its marks."""

    text: str
    values: tuple[Any, ...] = ()


def compiled(condition: Condition) -> Sql:
    """Turn a condition into SQL."""
    found = _compiled(condition)
    if (count := len(found.values)) > VALUES:
        raise BadInput(
            f"The filter compares with {count:,} values; {VALUES:,} is the most. Search in several steps, or "
            "store what they have in common as metadata."
        )
    return found


def pushes(condition: Condition) -> bool:
    """Whether a condition is sent with a search; one with many values is looked up first, and its rows are sent."""
    return len(_compiled(condition).values) <= SENT


def _compiled(condition: Condition) -> Sql:
    match condition:
        case Everything():
            return Sql("TRUE")
        case OneOf(name, values):
            return _one_of(name, values)
        case Compare(name, operator, value):
            return _compared(name, SIGNS[operator], value)
        case Exists(name):
            return Sql("TRUE") if name in COLUMNS else Sql("d.facts ? %s", (_plain(name),))
        case Not(inner):
            found = _compiled(inner)
            return Sql(f"NOT ({found.text})", found.values)
        case All(several):
            return _joined(" AND ", several)
        case Either(several):
            return _joined(" OR ", several)


def _joined(word: str, several: Iterable[Condition]) -> Sql:
    found = [_compiled(one) for one in several]
    return Sql(word.join(f"({one.text})" for one in found), tuple(value for one in found for value in one.values))


def _one_of(name: str, values: tuple[Scalar, ...]) -> Sql:
    if name in COLUMNS:
        return Sql(f"d.{name} = ANY(%s)", ([_plain(str(value)) for value in values],))
    known = [_json(value) for value in values if value == value]  # NaN equals nothing
    if not known:
        return Sql("FALSE")
    if len(known) <= FEW:
        asked = tuple(f"{{{_json(name)}: [{value}]}}" for value in known)
        return Sql(" OR ".join(["d.facts @> %s::jsonb"] * len(asked)), asked)
    return _any(name, "@ == $value[*]", f"[{', '.join(known)}]")


def _compared(name: str, sign: str, value: Scalar) -> Sql:
    if value != value:
        return Sql("FALSE")
    if name in COLUMNS:
        return Sql(f"d.{name} {sign} %s", (_plain(value),)) if isinstance(value, str) else Sql("FALSE")
    return _any(name, f"@ {sign} $value", _json(value))


def _any(name: str, passes: str, value: str) -> Sql:
    """Return whether any value under a name passes; a document without the name has none."""
    path = f"$.{_json(name)}[*] ? ({passes})"
    return Sql("jsonb_path_exists(d.facts, %s::jsonpath, %s::jsonb)", (path, f'{{"value": {value}}}'))


def facts_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as it is filtered: every name with the list of its values.

    >>> facts_json({"year": "2021", "tags": ["a", "b"], "by": {"name": "Ada"}})
    '{"year": ["2021", 2021.0], "tags": ["a", "b"], "by.name": ["Ada"]}'
    """
    return listed_json(facts(metadata))


def listed_json(several: Iterable[tuple[str, Scalar]]) -> str:
    """Return facts, (name, value), as ``facts_json`` does."""
    by_name: dict[str, dict[str, None]] = {}
    for name, value in several:
        if value == value:
            by_name.setdefault(_json(name), {})[_json(value)] = None
    named = (f"{name}: [{', '.join(values)}]" for name, values in by_name.items())
    return f"{{{', '.join(named)}}}"


def _json(value: Scalar) -> str:
    """Write a value such that two are ordered as Python orders them."""
    if isinstance(value, str):
        return json.dumps(_plain(value))
    if isinstance(value, float) and not math.isfinite(value):
        return BEYOND if value > 0 else f"-{BEYOND}"
    if isinstance(value, float) and abs(value) >= WHOLE:
        return str(int(value))
    return json.dumps(value)


def _plain(text: str) -> str:
    """Return a text as PostgreSQL can hold it: the character 0 becomes its picture."""
    return readable(text).replace("\0", "\u2400")
