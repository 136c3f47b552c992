"""Counts of the values of a field, from the lists of ``facts``."""

from __future__ import annotations

import json

from isthmus.storage.facts import readable
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.values import COUNTED, LONGEST, FieldValues, Range, field_values
from isthmus.storage.where import COLUMNS

# ``number`` is NULL for a text, ``said`` for a number: 5 and 5.0 are one number in two spellings.
OF_FACTS = """
WITH listed AS (
  SELECT DISTINCT row, value FROM documents, jsonb_array_elements(facts -> %s) AS value
), each AS (
  SELECT value, CASE WHEN jsonb_typeof(value) <> 'number' THEN value #>> '{}' END AS said,
    CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::float8 END AS number FROM listed
)
"""
TOP = f"""
SELECT value::text, count(*) AS n FROM each WHERE number IS NOT NULL OR octet_length(said) <= {LONGEST}
GROUP BY value, said, number ORDER BY n DESC, number NULLS LAST, said COLLATE "C" LIMIT {COUNTED}
"""
ENDS = """
SELECT min(number), max(number), min(said COLLATE "C") FILTER (WHERE number IS NULL),
  max(said COLLATE "C") FILTER (WHERE number IS NULL) FROM each
"""


def values(database: PostgresDatabase, name: str) -> FieldValues:
    """Return the values of a field; this reads every value of it."""
    if name in COLUMNS:
        source = (
            f"WITH each AS (SELECT to_jsonb({name}) AS value, {name} AS said, NULL::float8 AS number FROM documents)"
        )
        given: tuple[str, ...] = ()
    else:
        source, given = OF_FACTS, (readable(name),)
    with database.reading():
        counted = [(json.loads(value), count) for value, count in database.all(source + TOP, *given)]
        low, high, first, last = database.one(source + ENDS, *given)
    return field_values(name, counted, _range(low, high), _range(first, last))


def _range(low: float | str | None, high: float | str | None) -> Range | None:
    return None if low is None or high is None else (low, high)
