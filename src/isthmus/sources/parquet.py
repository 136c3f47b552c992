"""Parquet, a few rows at a time; columns of vectors never become Python numbers.

pyarrow runs in a worker process (``isthmus.isolated``): a file that takes too much time or memory is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count as numbers
from typing import Any

import numpy as np

from isthmus._optional import require
from isthmus.files import open_regular
from isthmus.isolated.frames import Message
from isthmus.isolated.worker import Worker
from isthmus.sources.base import Found
from isthmus.sources.files import File
from isthmus.sources.rows import VECTORS, Table

MODULE = "pyarrow"
WORKER = Worker("parquet")
_numbers = numbers()


def read(file: File) -> Iterator[Found]:
    """Yield each row as a document."""
    table = Table(file, "row")
    for number, row in enumerate(rows(file.path), 1):
        yield table.found(row, number)


def rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Read the rows of a Parquet file, a few at a time."""
    _check(path)
    request = {"reading": str(next(_numbers)), "path": path, "vectors": ["vector", *VECTORS]}
    given = 0
    try:
        while batch := _unpacked(WORKER.ask({**request, "first": given})):
            given += len(batch)
            yield from batch
    finally:
        WORKER.drop(request["reading"])


def count(path: str) -> int:
    """Return the number of rows of a Parquet file."""
    _check(path)
    reading = str(next(_numbers))
    try:
        return int(WORKER.ask({"reading": reading, "path": path}).body["count"])
    finally:
        WORKER.drop(reading)


def _check(path: str) -> None:
    require(MODULE, extra="parquet")
    with open_regular(path):  # with our permissions, which a worker that started earlier may not have
        pass


def _unpacked(answer: Message) -> list[Mapping[str, Any]]:
    """Put bytes and vectors back into their rows: see ``isthmus.isolated.parquet.Packed``."""

    def unpack(value: Any) -> Any:
        if isinstance(value, dict):
            kind, blob = answer.body["kinds"][value[""]], answer.blobs[value[""]]
            return blob if kind == "bytes" else np.frombuffer(blob, dtype=kind)
        if isinstance(value, list):
            if value[0] is None:
                return {name: unpack(item) for name, item in value[1:]}
            return [unpack(item) for item in value[1:]]
        return value

    return [unpack(row) for row in answer.body["rows"]]
