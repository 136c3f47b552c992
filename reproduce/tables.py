"""Tables of results, printed and compared with their expected values."""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Mapping
from pathlib import Path

Row = dict[str, str | float]

# Raw cosine, the usual merges, and the published methods one by one: the baselines of every comparison.
SINGLE = (
    "none",
    "minmax",
    "zscore",
    "rrf",
    "center",
    "dn",
    "standardize",
    "nnn(k=16)",
    "qbnorm",
    "dbnorm",
)
EXPECTED = Path(__file__).parent / "expected"
TOLERANCE = 0.005  # of a share or a measure; ranks may differ by one
ROUNDED = 0.11  # for values written with one decimal


def arguments(
    doc: str | None, more: Mapping[str, str] | None = None, flags: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """Parse the options of every script here, and ``more`` and ``flags`` of its own: names and help texts."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    given = os.environ.get("ISTHMUS_DATA")
    parser.add_argument("--data", type=Path, default=given and Path(given), help="the data folder")
    parser.add_argument("--write", action="store_true", help="store the results as the expected ones")
    for name, what in (more or {}).items():
        parser.add_argument(f"--{name}", help=what)
    for name, what in (flags or {}).items():
        parser.add_argument(f"--{name}", action="store_true", help=what)
    options = parser.parse_args()
    if options.data is None or not options.data.is_dir():
        parser.error("needs the data folder: --data DIR or ISTHMUS_DATA=DIR; see reproduce/README.md for its contents")
    if "packs" in (more or {}):
        options.packs = options.packs or os.environ.get("ISTHMUS_PACKS")
        built = "mixtures" in (more or {}) and Path(options.mixtures or "out/mixtures").is_dir()
        if not (options.packs or built):
            print(f"{parser.prog}: skipped, it needs --packs PACKS or ISTHMUS_PACKS=PACKS; see reproduce/README.md")
            raise SystemExit(0)
    return options


def compared(name: str, rows: list[Row], write: bool) -> int:
    """Print the rows as a Markdown table; return 1 if a number differs from its expected value."""
    path = EXPECTED / f"{name}.csv"
    columns = list(rows[0])
    print("| " + " | ".join(columns) + " |")
    print("| " + " | ".join("---" if i == 0 else "---:" for i in range(len(columns))) + " |")
    for row in rows:
        print("| " + " | ".join(_cell(value) for value in row.values()) + " |")
    if write:
        path.parent.mkdir(exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([_cell(value) for value in row.values()] for row in rows)
        return 0
    if not path.exists():
        print(f"\nno values to compare with yet: --write makes {path.name}", file=sys.stderr)
        return 0
    with path.open(newline="") as file:
        expected = list(csv.DictReader(file))
    if len(rows) != len(expected):
        print(f"\n{len(rows)} rows, expected {len(expected)} ({path.name})", file=sys.stderr)
        return 1
    if new := set(columns) ^ set(expected[0]):
        print(f"\nother columns than expected: {', '.join(sorted(new))} ({path.name})", file=sys.stderr)
        return 1
    wrong = [
        f"{row[columns[0]]}: {column} is {_cell(row[column])}, expected {before[column]}"
        for row, before in zip(rows, expected, strict=True)
        for column in columns
        if not _same(column, row[column], before[column])
    ]
    print(
        "\n".join(["", *wrong]) if wrong else f"\nas expected ({path.name})", file=sys.stderr if wrong else sys.stdout
    )
    return 1 if wrong else 0


def _cell(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.1f}" if value > 1 else f"{value:.3f}"


def _same(column: str, value: str | float, expected: str) -> bool:
    if isinstance(value, str):
        return value == expected
    if not expected:  # was not stored
        return True
    if "rank" in column:
        return abs(value - float(expected)) <= 1
    return abs(value - float(expected)) <= (ROUNDED if value > 1 else TOLERANCE)
