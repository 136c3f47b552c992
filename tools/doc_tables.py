"""Write the numbers of reproduce/expected into the tables of the documentation.

    make tables              write them, and list the pages that changed
    make reproduce-list      list the tables and figures of the papers, each with its command

A table belongs to the file whose columns include its own and whose rows include its rows: a row is found by its first
cells, up to the first column of numbers. A table shows some of the rows; if ``<!-- all of NAME.csv -->`` stands above
it, it shows all, and new ones are added. Rows that no file has are left as they are; tests/test_tables.py finds them.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXPECTED = ROOT / "reproduce" / "expected"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TABLE = re.compile(
    r"(?:<!-- all of (?P<name>\w+)\.csv -->\n\n)?(?P<head>\|.*\n\|[ :|-]+\|\n)(?P<body>(?:\|.*(?:\n|$))+)"
)
NUMBER = re.compile(r"[-−+]?\d*\.\d+")
Cells = list[str]


def cells(line: str) -> Cells:
    """Split a line of a table.

    >>> cells("| a | 0.5 |")
    ['a', '0.5']
    """
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@dataclass(frozen=True)
class Expected:
    """A file of expected values."""

    name: str
    columns: Cells
    rows: list[Cells]

    @classmethod
    def read(cls, path: Path) -> Expected:
        """Read a file."""
        with path.open(newline="") as file:
            columns, *rows = list(csv.reader(file))
        return cls(path.stem, columns, rows)

    def shown(self, header: Sequence[str]) -> list[Cells]:
        """Return the rows with the columns of a header."""
        places = [self.columns.index(name) for name in header]
        return [[row[place] for place in places] for row in self.rows]

    def keyed(self, header: Sequence[str]) -> dict[tuple[str, ...], Cells]:
        """Return these rows by the cells before their first column of numbers."""
        rows = self.shown(header)
        numeric = [all(NUMBER.fullmatch(row[at]) or not row[at] for row in rows) for at in range(len(header))]
        size = max(1, numeric.index(True) if any(numeric) else len(header))
        return {tuple(row[:size]): row for row in rows}


@dataclass(frozen=True)
class Shown:
    """A table of a page; ``name``: the file that it shows all rows of."""

    header: Cells
    rows: list[Cells]
    name: str | None

    @property
    def numbers(self) -> int:
        """How many cells start with a number that has decimals."""
        return sum(bool(NUMBER.match(cell)) for row in self.rows for cell in row)

    def source(self, files: Sequence[Expected]) -> Expected | None:
        """Return the file that the table belongs to: the one that has all of its rows, or most of them."""
        possible = [each for each in files if set(self.header) <= set(each.columns) and self.name in (None, each.name)]
        found = [(self.found(each), each) for each in possible]
        count, best = max(found, key=lambda pair: pair[0], default=(0, None))
        return best if count or self.name else None

    def found(self, file: Expected) -> int:
        """Return how many rows of the table the file has, by their first cells."""
        keyed = file.keyed(self.header)
        size = len(next(iter(keyed), ()))
        return sum(tuple(row[:size]) in keyed for row in self.rows)

    def renewed(self, file: Expected) -> list[Cells]:
        """Return the rows with the numbers of the file."""
        keyed = file.keyed(self.header)
        size = len(next(iter(keyed), ()))
        return file.shown(self.header) if self.name else [keyed.get(tuple(row[:size]), row) for row in self.rows]


def tables(text: str) -> list[Shown]:
    """Return the tables of a page."""
    return [_table(match) for match in TABLE.finditer(text)]


def expected() -> list[Expected]:
    """Read all files of expected values."""
    return [Expected.read(path) for path in sorted(EXPECTED.glob("*.csv"))]


def renewed(text: str, files: Sequence[Expected]) -> str:
    """Return a page whose tables have the numbers of the files."""

    def replace(match: re.Match[str]) -> str:
        table = _table(match)
        file = table.source(files)
        if file is None:
            return match.group()
        body = "".join(f"| {' | '.join(row)} |\n" for row in table.renewed(file))
        return match.group().removesuffix(match["body"]) + (body if match["body"].endswith("\n") else body[:-1])

    return TABLE.sub(replace, text)


def _table(match: re.Match[str]) -> Shown:
    return Shown(
        cells(match["head"].splitlines()[0]), [cells(row) for row in match["body"].splitlines()], match["name"]
    )


def repeated(page: Path) -> list[Cells]:
    """Return the rows of a paper's page that name its tables and figures."""
    return [row for table in tables(page.read_text()) if table.header[0] == "in the paper" for row in table.rows]


def main(arguments: Sequence[str]) -> None:
    """Write the tables, or list what the papers' pages repeat."""
    if "--list" in arguments:
        for page in sorted((ROOT / "docs" / "papers").glob("*.md")):
            print(page.read_text().splitlines()[0].removeprefix("# "))
            for name, command, _, missing in repeated(page):
                print(f"  {name:<50} {command.replace('`', '') or f'not here: {missing}'}")
        return
    files = expected()
    for page in PAGES:
        before = page.read_text()
        if (after := renewed(before, files)) != before:
            page.write_text(after)
            print(f"changed {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
