"""Haystack's filters as filters of a collection.

{"operator": "AND", "conditions": [{"field": "meta.lang", "operator": "==", "value": "en"}, …]}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from haystack.errors import FilterError

RANGES: Mapping[str, str] = MappingProxyType({">": "gt", ">=": "gte", "<": "lt", "<=": "lte"})
NOTHING: Mapping[str, Any] = MappingProxyType({"not": {}})  # no document passes


def where_of(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``where`` of a collection for a filter of Haystack."""
    if "field" in filters:
        return _comparison(filters)
    operator, conditions = _needed(filters, "operator"), _needed(filters, "conditions")
    several = [where_of(one) for one in conditions]
    if operator == "AND":
        return {"and": several}
    if operator == "OR":
        return {"or": several}
    if operator == "NOT":
        return {"not": {"and": several}}
    raise FilterError(f"The operator {operator!r} is unknown. Known: AND, OR, NOT.")


def _comparison(filters: Mapping[str, Any]) -> dict[str, Any]:
    field, operator, value = (_needed(filters, name) for name in ("field", "operator", "value"))
    name = str(field).removeprefix("meta.")
    if operator in RANGES:
        return _range(name, operator, value)
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"The operator {operator!r} takes a list, not {value!r}.")
        return _is(name, value) if operator == "in" else {"not": _is(name, value)}
    if operator in ("==", "!="):
        there = _is(name, [value])
        return there if operator == "==" else {"not": there}
    raise FilterError(f"The operator {operator!r} is unknown. Known: ==, !=, {', '.join(RANGES)}, in, not in.")


def _is(name: str, values: list[Any]) -> dict[str, Any]:
    """Return a filter of documents with one of these values; None means that there is none."""
    known = [value for value in values if value is not None]
    absent: list[dict[str, Any]] = [{"not": {name: {"exists": True}}}] if None in values else []
    present: list[dict[str, Any]] = [{name: {"in": known}}] if known else []
    return {"or": [*present, *absent]}


def _range(name: str, operator: str, value: Any) -> dict[str, Any]:
    if value is None:
        return dict(NOTHING)
    if isinstance(value, datetime):
        value = value.isoformat()
    if isinstance(value, list) or (isinstance(value, str) and not _is_date(value)):
        raise FilterError(f"The operator {operator!r} takes a number or a date in ISO format, not {value!r}.")
    return {name: {RANGES[operator]: value}}


def _is_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _needed(filters: Mapping[str, Any], name: str) -> Any:
    if name not in filters:
        raise FilterError(f"The filter {dict(filters)!r} has no {name!r}.")
    return filters[name]
