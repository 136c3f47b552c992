"""Counts of the values of a field. The primary key of ``facts`` has them in order, so nothing is sorted to count."""

from __future__ import annotations

from isthmus.storage.facts import Scalar, readable
from isthmus.storage.sqlite.database import Database
from isthmus.storage.values import COUNTED, LONGEST, FieldValues, Range, field_values
from isthmus.storage.where import COLUMNS


def values(database: Database, name: str) -> FieldValues:
    """Return the values of a field; numbers come before texts in every comparison, so ``''`` parts them."""
    column, source, given = _source(name)
    short = f"(typeof({column}) != 'text' OR length(CAST({column} AS BLOB)) <= {LONGEST})"
    top = f"SELECT {column}, count(*) AS n {source} AND {short} GROUP BY {column} ORDER BY n DESC, {column}"
    with database.reading():
        counted: list[tuple[Scalar, int]] = database.all(f"{top} LIMIT {COUNTED}", *given)
        ends = [
            (
                database.one(f"SELECT min({column}) {source} AND {column} {side} ''", *given)[0],
                database.one(f"SELECT max({column}) {source} AND {column} {side} ''", *given)[0],
            )
            for side in ("<", ">=")
        ]
    numbers, texts = (_range(*each) for each in ends)
    return field_values(name, counted, numbers, texts)


def _source(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the column of a field, the table with a condition, and the values of its question marks."""
    if name in COLUMNS:
        return name, "FROM documents WHERE true", ()
    return "value", "FROM facts WHERE name = ?", (readable(name),)


def _range(low: Scalar | None, high: Scalar | None) -> Range | None:
    return None if low is None or high is None else (low, high)
