"""Results as rows, and their output formats: text for a terminal, Markdown, CSV, JSON.

CSV and JSON hold one row per number, with exactly the fields of ``Row``, and can be read back. Text and Markdown are
for people: a table for each benchmark, encoder and measure, with calibrations in rows and slices in columns.

>>> rows = [Row("mix", "mini", "none", "nDCG@10", "overall", 0.587, 0.571, 0.603)]
>>> print(as_text(rows))
mix, mini: nDCG@10
calibration  overall
none         0.587 [0.571, 0.603]
>>> from_json(as_json(rows)) == rows
True
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from isthmus.errors import BadFile
from isthmus.registry import lookup


@dataclass(frozen=True, slots=True)
class Row:
    """One number, its 95% interval, and what was measured."""

    benchmark: str
    encoder: str
    calibration: str
    measure: str
    slice: str
    value: float
    low: float
    high: float


FIELDS = tuple(field.name for field in fields(Row))
NUMBERS = ("value", "low", "high")


def as_text(rows: Iterable[Row]) -> str:
    """Write aligned columns for a terminal."""
    return "\n\n".join(_aligned(title, lines) for title, lines in _tables(rows))


def as_markdown(rows: Iterable[Row]) -> str:
    """Write Markdown tables."""
    return "\n\n".join(_marked(title, lines) for title, lines in _tables(rows))


def as_csv(rows: Iterable[Row]) -> str:
    """Write a header line and a line for each row, numbers in full precision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return out.getvalue()


def as_json(rows: Iterable[Row]) -> str:
    """Write a list of objects, one per row."""
    return json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1, allow_nan=False)


def from_csv(text: str) -> list[Row]:
    """Read what ``as_csv`` wrote."""
    reader = csv.DictReader(io.StringIO(text))
    return [_row(number, given) for number, given in enumerate(reader, start=1)]


def from_json(text: str) -> list[Row]:
    """Read what ``as_json`` wrote."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise BadFile(f"This is not JSON: {error}.") from None
    if not isinstance(given, list):
        raise BadFile("Results are a list of rows.")
    return [_row(number, row) for number, row in enumerate(given, start=1)]


FORMS: Mapping[str, Callable[[Iterable[Row]], str]] = {
    "text": as_text,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def render(rows: Iterable[Row], form: str = "text") -> str:
    """Write rows in one of ``FORMS``."""
    return lookup(FORMS, form, "form of a table")(rows)


def mean_rows(rows: Iterable[Row], name: str) -> list[Row]:
    """Return the mean of each slice over the benchmarks that have it, under the benchmark ``name``.

    The benchmarks are independent samples, so the distances of an interval's ends from its mean add as squares.

    >>> one, two = (Row(name, "mini", "none", "nDCG@10", "overall", 0.5, 0.47, 0.53) for name in "ab")
    >>> [round(number, 3) for number in (lambda row: (row.value, row.low, row.high))(*mean_rows([one, two], "mean"))]
    [0.5, 0.479, 0.521]
    """
    groups: dict[tuple[str, str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.encoder, row.calibration, row.measure, row.slice), []).append(row)
    out = []
    for key, group in groups.items():
        value = sum(row.value for row in group) / len(group)
        below = math.hypot(*(row.value - row.low for row in group)) / len(group)
        above = math.hypot(*(row.high - row.value for row in group)) / len(group)
        out.append(Row(name, *key, value, value - below, value + above))
    return out


def _row(number: int, given: Any) -> Row:
    if not isinstance(given, dict) or set(given) != set(FIELDS):
        raise BadFile(f"Row {number} must have exactly the fields {', '.join(FIELDS)}.")
    try:
        names = [str(given[name]) for name in FIELDS if name not in NUMBERS]
        return Row(*names, *(float(given[name]) for name in NUMBERS))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BadFile(f"Row {number}: {', '.join(NUMBERS)} must be numbers.") from None


def _tables(rows: Iterable[Row]) -> list[tuple[str, list[list[str]]]]:
    """Return a title and lines of cells, the first a header, for each benchmark, encoder and measure."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.benchmark, row.encoder, row.measure), []).append(row)
    return [
        (f"{', '.join(filter(None, (benchmark, encoder))) or 'results'}: {measure}", _lines(group))
        for (benchmark, encoder, measure), group in groups.items()
    ]


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    columns = list(dict.fromkeys(row.slice for row in rows))
    cells: dict[str, dict[str, str]] = {}
    for row in rows:
        cells.setdefault(row.calibration, {})[row.slice] = f"{row.value:.3f} [{row.low:.3f}, {row.high:.3f}]"
    body = [[name, *(of.get(column, "") for column in columns)] for name, of in cells.items()]
    return [["calibration", *columns], *body]


def _aligned(title: str, lines: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join([title, *(line.rstrip() for line in padded)])


def _marked(title: str, lines: list[list[str]]) -> str:
    names, *body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    rule = "| --- |" + " ---: |" * (len(lines[0]) - 1)
    return "\n".join([f"**{title}**", "", names, rule, *body])
