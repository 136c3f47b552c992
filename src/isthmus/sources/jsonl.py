"""JSON Lines, one object per line; and JSON files with a list of objects, or one object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import count
from typing import Any, TextIO

from isthmus.budget import JSON_BYTES, ROW_CHARACTERS, ROW_SKIPPED, TEXT_BYTES, mebibytes
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.sources.base import Found, SkippedInput
from isthmus.sources.files import File
from isthmus.sources.rows import Table
from isthmus.sources.text import convert, mark_of, read_text

REST_LEFT = "was read in part, and the rest was skipped"
NO_TEXT = re.compile("[\udc80-\udcff]")
VALUE_BYTES = {"{": 232, "[": 88, ",": 64}  # maximum bytes of an object, a list, and one more value in either


def read(file: File) -> Iterator[Found]:
    """Yield each line as a document; malformed lines are skipped, blank ones ignored."""
    table = Table(file, "line")
    with text_lines(file) as stream:
        for number in count(1):
            line = stream.readline(ROW_CHARACTERS + 1)
            if not line:
                return
            if len(line) > ROW_CHARACTERS:
                yield table.skipped(number, f"is longer than {mebibytes(ROW_CHARACTERS)}")
                if not line_passed(stream):
                    yield SkippedInput(file.name, f"{REST_LEFT}: line {number} has no end")
                    return
            elif not line.isspace():
                yield _found(table, line, number)


def line_passed(stream: TextIO) -> bool:
    """Read to the end of a line that is too long; return whether it was found within the limit."""
    passed = 0
    while passed < ROW_SKIPPED:
        rest = stream.readline(ROW_CHARACTERS)
        passed += len(rest)
        if not rest or rest.endswith("\n"):
            return True
    return False


def read_json(file: File) -> Iterator[Found]:
    """Yield each object of a list, or the single object, as a document."""
    table = Table(file, "row")
    content = loads(read_text(file, characters=TEXT_BYTES))
    rows = [content] if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadInput("is JSON, but neither an object nor a list of objects: there are no rows to read")
    for number, row in enumerate(rows, 1):
        yield table.found(row, number)


def loads(text: str) -> Any:
    """Parse JSON; non-finite numbers become null.

    A list of empty lists takes 20 times as much memory as its text, so the values are counted first.
    """
    if sum(text.count(sign) * size for sign, size in VALUE_BYTES.items()) > JSON_BYTES:
        raise BadInput(f"is JSON with so many values that they may take more than {mebibytes(JSON_BYTES)}. Split it")
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except ValueError as error:
        raise BadInput(f"is not JSON: {error}") from None
    except RecursionError:
        raise BadInput("is JSON that is nested too deeply") from None


@contextmanager
def text_lines(file: File, newline: str = "\n") -> Iterator[TextIO]:
    """Open a table; invalid bytes become surrogates, which are detected line by line."""
    with open_regular(file.path) as binary:
        head = binary.peek(4096)[:4096]
        mark, encoding = mark_of(head)
        if b"\0" in head and not encoding.startswith("utf-16") and not encoding.startswith("utf-32"):
            raise BadInput(f"is not text: byte {head.index(0)} is NUL. {convert('UTF-16LE', file.name)}")
        with TextIOWrapper(binary, encoding=encoding, errors="surrogateescape", newline=newline) as stream:
            stream.read(1 if mark else 0)
            yield stream


def is_text(line: str) -> bool:
    """Return whether every byte of a line was valid."""
    return line.isascii() or not NO_TEXT.search(line)


def _found(table: Table, line: str, number: int) -> Found:
    if not is_text(line):
        return table.skipped(number, f"is not UTF-8. {convert('WINDOWS-1252', table.file.name)}")
    try:
        row = loads(line)
    except BadInput as error:
        return table.skipped(number, str(error))
    return table.found(row, number)
