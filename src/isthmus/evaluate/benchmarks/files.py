"""Files of a benchmark: find them by name, and read them row by row."""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isthmus.errors import BadFile, BadInput
from isthmus.sources import parquet

Row = Mapping[str, Any]


@dataclass(frozen=True)
class BenchmarkFolder:
    """The folder of a benchmark, its name, and the home page of its files."""

    path: Path
    name: str
    home: str

    def find(self, *names: str) -> Path | None:
        """Return the first of these files or folders that exists."""
        return next((self.path / name for name in names if (self.path / name).exists()), None)

    def file(self, *names: str) -> Path:
        """Return the first of these that exists, or raise an error with its name and origin."""
        if (found := self.find(*names)) is not None:
            return found
        others = f" (or {', '.join(names[1:])})" if len(names) > 1 else ""
        raise BadInput(
            f"{self.name} needs {self.path / names[0]}{others}, which does not exist. Download it from {self.home}."
        )

    def inside(self, name: str) -> BenchmarkFolder:
        """Return a folder inside this folder."""
        return BenchmarkFolder(self.path / name, self.name, self.home)


def rows(path: Path, *needs: str) -> Iterator[Row]:
    """Read rows of JSON Lines (gzipped or not), a JSON list, a TSV table, or Parquet; each has the needed columns."""
    for number, row in enumerate(_rows(path), 1):
        if not isinstance(row, Mapping):
            raise BadFile(f"{path}: row {number} is not an object. Download the file again.")
        if missing := [name for name in needs if name not in row]:
            raise BadFile(f"{path}: row {number} has no {missing[0]!r}; it has {', '.join(map(str, row))}.")
        yield row


def content(path: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (ValueError, OSError) as error:
        raise BadFile(f"{path} is not JSON, or truncated: {error}. Download it again.") from None


def listed(path: Path, name: str) -> list[Any]:
    """Return the list of that name in a JSON file."""
    held = content(path)
    if not isinstance(held, Mapping) or not isinstance(held.get(name), list):
        raise BadFile(f"{path} has no list {name!r}. It is not the file of the benchmark.")
    found: list[Any] = held[name]
    return found


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not, that are not blank."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
            for line in stream:
                if not line.isspace():
                    yield line.rstrip("\n")
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise BadFile(f"{path} cannot be read: {error}. Download it again.") from None


def judgements(path: Path, query: str, document: str) -> dict[str, dict[str, int]]:
    """Read qrels from a table with these two columns and ``score``."""
    judged: dict[str, dict[str, int]] = {}
    for row in rows(path, query, document, "score"):
        judged.setdefault(str(row[query]), {})[str(row[document])] = relevance(row["score"], path)
    return judged


def relevance(value: Any, path: Path) -> int:
    """Return a judgement as a whole number."""
    try:
        return int(value)
    except (TypeError, ValueError):
        raise BadFile(f"{path}: a judgement must be a whole number, not {value!r}.") from None


def words(text: object) -> str | None:
    """Return a stripped text, or None if it is empty.

    >>> words(" a cat "), words("  "), words(None)
    ('a cat', None, None)
    """
    return (str(text).strip() or None) if text is not None else None


def picture(value: Any, folder: Path) -> Path | bytes | None:
    """Return a picture: a path in a folder, or the bytes in a table."""
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value or None
    return folder / str(value) if value else None


def _rows(path: Path) -> Iterator[Any]:
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        yield from parquet.rows(str(path))
    elif kind == "tsv":
        yield from csv.DictReader(lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    elif kind == "json":
        held = content(path)
        if not isinstance(held, list):
            raise BadFile(f"{path} is JSON, but not a list. It is not the file of the benchmark.")
        yield from held
    else:
        for number, line in enumerate(lines(path), 1):
            try:
                yield json.loads(line)
            except ValueError as error:
                raise BadFile(f"{path}: line {number} is not JSON: {error}. Download the file again.") from None
