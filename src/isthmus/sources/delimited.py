"""CSV and TSV: a header, then one document per row. Values are strings; the delimiter is a comma, semicolon or tab."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import count, islice
from typing import TextIO, cast

from isthmus.budget import COLUMNS, ROW_CHARACTERS, ROW_LINES, mebibytes
from isthmus.errors import BadInput
from isthmus.sources.base import Found, SkippedInput
from isthmus.sources.files import File
from isthmus.sources.jsonl import REST_LEFT, is_text, line_passed, loads, text_lines
from isthmus.sources.rows import FIELDS, VECTORS, Table
from isthmus.sources.text import convert

DELIMITERS = ",;\t"
QUOTED = re.compile(r'(?:[^"]+|"")*+"?')  # after the opening quote
FIELD = {sign: re.compile(rf'(?:"{QUOTED.pattern})?[^{sign}]*+(?:({sign})|$)') for sign in DELIMITERS}
JSON_COLUMNS = {"metadata", "vectors", "vector", *VECTORS}


def read(file: File, delimiters: str = DELIMITERS) -> Iterator[Found]:
    """Yield each row as a document; a broken row is skipped."""
    table = Table(file, "row")
    # one limit for the whole process; only ever raised
    csv.field_size_limit(max(ROW_CHARACTERS, csv.field_size_limit()))
    with text_lines(file, newline="") as stream:
        lines = Lines(stream, delimiters)
        rows = csv.reader(lines, delimiter=lines.delimiter, strict=True)
        header = _header(rows)
        for number in count(1):
            try:
                lines.new_row()
                row = next(rows, None)
                if row is None:
                    return
                if row:
                    yield table.found(_fields(header, row, file), number)
            except RestLeft as error:
                yield table.skipped(number, str(error))
                yield SkippedInput(file.name, f"{REST_LEFT}: row {number} has no end")
                return
            except (csv.Error, BadInput) as error:
                yield table.skipped(number, f"is broken: {error}" if isinstance(error, csv.Error) else str(error))


read_tabs = partial(read, delimiters="\t")


def delimiter_of(line: str, delimiters: str = DELIMITERS) -> str:
    r"""Return the most frequent delimiter of the header, outside quotes; a comma if it has none.

    >>> delimiter_of("id;text"), delimiter_of("id\ttext"), delimiter_of('"a;b;c",text'), delimiter_of("text")
    (';', '\t', ',', ',')
    """
    bare = re.sub(r'"[^"]*"', "", line)
    return max(delimiters, key=bare.count)


def fields_of(line: str, delimiter: str, most: int, *, inside: bool = False) -> int:
    """Count the delimiters of a line outside quotes, up to a few more than ``most``.

    ``inside``: the line begins inside quotes. For a short line the count is an upper bound.

    >>> fields_of("a,b,c", ",", 9), fields_of('a,"b,c"', ",", 0), fields_of('b,c",d', ",", 0, inside=True)
    (2, 1, 1)
    """
    start = 0
    if inside and '"' not in line:
        return 0
    if inside:
        start = cast("re.Match[str]", QUOTED.match(line)).end()
    elif line.count(delimiter) <= most // 10:
        return line.count(delimiter)
    found = FIELD[delimiter].finditer(line, start)
    return sum(1 for each in islice(found, most + 2) if each[1])


class RestLeft(BadInput):
    """A row without an end within the limits: its line is too long, or quotes stay open over too many lines."""


class Lines:
    """The lines of a table, limited per row, so that an unclosed quote does not swallow the rest."""

    def __init__(self, stream: TextIO, delimiters: str = DELIMITERS) -> None:
        first = stream.readline(ROW_CHARACTERS + 1)
        self.delimiter = delimiter_of(first, delimiters)
        self._stream = stream
        self._waiting = first
        self._read = self._lines = self._fields = 0

    def new_row(self) -> None:
        """Reset the count."""
        self._read = self._lines = self._fields = 0

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        line, self._waiting = self._waiting or self._stream.readline(ROW_CHARACTERS + 1), ""
        if not line:
            raise StopIteration
        inside, self._read, self._lines = self._read > 0, self._read + len(line), self._lines + 1
        if self._read > ROW_CHARACTERS:
            why = f"is longer than {mebibytes(ROW_CHARACTERS)}"
            inside = inside or (not line.endswith("\n") and not line_passed(self._stream))
        elif self._lines > ROW_LINES:
            why = f"has more than {ROW_LINES:,} lines"
        else:
            self._fields += fields_of(line, self.delimiter, COLUMNS, inside=inside)
            if self._fields <= COLUMNS:
                return line
            why = f"has more than {COLUMNS:,} columns"
        raise (RestLeft if inside else BadInput)(why)


def _header(rows: Iterator[list[str]]) -> list[str]:
    try:
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise BadInput(f"has a malformed header: {error}") from None
    if not set(header) & set(FIELDS):
        known = f"{', '.join(FIELDS[:-1])} or {FIELDS[-1]}"
        raise BadInput(f"has no column called {known}. Rename the one that holds the text, in the first line")
    if len(set(header)) < len(header):
        raise BadInput("has two columns of the same name. Rename one of them")
    return header


def _fields(header: list[str], row: list[str], file: File) -> dict[str, object]:
    if len(row) != len(header):
        raise BadInput(f"has {len(row)} fields where the header has {len(header)}")
    if not all(is_text(value) for value in row):
        raise BadInput(f"is not UTF-8. {convert('WINDOWS-1252', file.name)}")
    named = {name: value or None for name, value in zip(header, row, strict=True)}
    return {name: loads(value) if value and name in JSON_COLUMNS else value for name, value in named.items()}
