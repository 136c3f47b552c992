"""CSV and TSV: a header, then a document a row. Values are strings; the delimiter is a comma, semicolon or tab."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import TextIO

from isthmus.errors import BadInput
from isthmus.sources.base import Found
from isthmus.sources.files import File
from isthmus.sources.jsonl import is_text, loads, text_lines
from isthmus.sources.rows import FIELDS, VECTORS, Table
from isthmus.sources.text import LIMIT, convert

DELIMITERS = ",;\t"
JSON_COLUMNS = {"metadata", "vectors", "vector", *VECTORS}


def read(file: File, delimiters: str = DELIMITERS) -> Iterator[Found]:
    """Give each row as a document; a broken one is skipped."""
    table = Table(file, "row")
    csv.field_size_limit(max(LIMIT, csv.field_size_limit()))  # one number for the whole process; only ever raised
    with text_lines(file, newline="") as stream:
        first = stream.readline(LIMIT + 1)
        rows = csv.reader(_lines(first, stream), delimiter=delimiter_of(first, delimiters), strict=True)
        header = _header(rows)
        for number in count(1):
            try:
                row = next(rows, None)
                if row is None:
                    return
                if row:
                    yield table.found(_fields(header, row, file), number)
            except (csv.Error, BadInput) as error:
                yield table.skipped(number, f"is broken: {error}" if isinstance(error, csv.Error) else str(error))


read_tabs = partial(read, delimiters="\t")


def delimiter_of(line: str, delimiters: str = DELIMITERS) -> str:
    r"""Return the delimiter that the header has most of, outside quotes; a comma when it has none.

    >>> delimiter_of("id;text"), delimiter_of("id\ttext"), delimiter_of('"a;b;c",text'), delimiter_of("text")
    (';', '\t', ',', ',')
    """
    bare = re.sub(r'"[^"]*"', "", line)
    return max(delimiters, key=bare.count)


def _lines(first: str, stream: TextIO) -> Iterator[str]:
    """Give lines, long ones in pieces: a file without line ends does not fill the memory."""
    yield first
    while line := stream.readline(LIMIT + 1):
        yield line


def _header(rows: Iterator[list[str]]) -> list[str]:
    try:
        header = [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise BadInput(f"has a header that is broken: {error}") from None
    if not set(header) & set(FIELDS):
        known = f"{', '.join(FIELDS[:-1])} or {FIELDS[-1]}"
        raise BadInput(f"has no column called {known}. Rename the one that holds the text, in the first line")
    if len(set(header)) < len(header):
        raise BadInput("names a column twice in its first line. Rename one")
    return header


def _fields(header: list[str], row: list[str], file: File) -> dict[str, object]:
    if len(row) != len(header):
        raise BadInput(f"has {len(row)} fields where the header has {len(header)}")
    if not all(is_text(value) for value in row):
        raise BadInput(f"is not UTF-8. {convert('WINDOWS-1252', file.name)}")
    named = {name: value or None for name, value in zip(header, row, strict=True)}
    return {name: loads(value) if value and name in JSON_COLUMNS else value for name, value in named.items()}
