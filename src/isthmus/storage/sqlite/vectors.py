"""The segments of documents: raw vectors in and out, in blocks, and their statistics."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from isthmus import checksums
from isthmus.calibration import Statistics
from isthmus.errors import BadFile
from isthmus.storage.base import Block
from isthmus.storage.segments import Segment, assembled, blob
from isthmus.storage.sqlite.database import Database
from isthmus.types import Matrix

AT_ONCE = 500  # question marks in one statement
BLOCK = 2048  # documents whose vectors are read at once

INSERT = (
    "INSERT INTO segments (document, parts, name, start, stop, own, vector, checksum) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, seal(?1, ?2, ?3, ?4, ?5, ?6, ?7))"
)


@dataclass(slots=True, eq=False)
class SqliteVectors:
    """The table ``segments``."""

    database: Database

    def damaged(self, what: str) -> BadFile:
        """Return the error for something that does not match its checksum."""
        return BadFile(
            f"{self.database.path} is damaged: {what} does not match its checksum. `isthmus stats --verify` lists all "
            "that is damaged. Delete those documents or add them again, or restore the file from a copy."
        )

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        found: dict[int, list[Segment]] = defaultdict(list)
        for some in several(list(rows)):
            marks = ",".join("?" * len(some))
            columns = "document, parts, name, start, stop, own, vector, checksum"
            statement = f"SELECT {columns} FROM segments WHERE document IN ({marks}) ORDER BY row"
            for row, parts, name, start, stop, own, data, written in self.database.all(statement, *some):
                if checksums.of_values(row, parts, name, start, stop, own, data) != written:
                    raise self.damaged(f"the {name!r} vector of {self.named(row)}")
                numbers = (int(parts),) if parts.isdecimal() else tuple(map(int, parts.split(",")))
                found[row].append(Segment(numbers, name, from_blob(data), start, stop, bool(own)))
        lost = set(map(int, rows)) - found.keys()
        if lost and (there := self._names(sorted(lost))):  # otherwise it was deleted meanwhile
            raise self.damaged(f"document {there[0][1]!r} has no vectors; it")
        return found

    def named(self, row: int) -> str:
        """Return the name of the document in a row, for error messages."""
        found = self.database.one("SELECT id FROM documents WHERE row = ?", row)
        return f"document {found[0]!r}" if found else f"a document that is not there (row {row})"

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Recompute the statistics from the vectors of all documents except some; damaged vectors are ignored."""
        statistics = Statistics({})
        for (row,) in self.database.all("SELECT row FROM documents ORDER BY row"):
            if row not in but:
                with suppress(BadFile):
                    segments = self.segments([row])
                    statistics = statistics.add(*assembled([segments[row]]))
        return statistics

    def blocks(self, after: int = -1, last: int | None = None, size: int = BLOCK) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, at most a block at a time."""
        documents = "SELECT row, id FROM documents WHERE row > ?1 AND row <= ?2 ORDER BY row LIMIT ?3"
        last = self.last() if last is None else last
        while rows := self.database.all(documents, after, last, size):
            block = self._block(rows)
            if len(block.rows):
                yield block
            after = rows[-1][0]

    def last(self) -> int:
        """Return the row of the last document added; -1 if there is none."""
        return int(self.database.one("SELECT coalesce(max(row), -1) FROM documents")[0])

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        return self._block(sorted(self._names(rows)))

    def _names(self, rows: Sequence[int]) -> list[tuple[int, str]]:
        named: list[tuple[int, str]] = []
        for some in several([int(row) for row in rows]):
            marks = ",".join("?" * len(some))
            named += self.database.all(f"SELECT row, id FROM documents WHERE row IN ({marks})", *some)
        return named

    def _block(self, named: Sequence[tuple[int, str]]) -> Block:
        segments = self.segments([row for row, _ in named])
        there = [(row, name) for row, name in named if row in segments]  # another process may have deleted one
        rows = np.array([row for row, _ in there], dtype=np.intp)
        return Block(rows, [name for _, name in there], *assembled([segments[row] for row, _ in there]))


def insert(connection: sqlite3.Connection, row: int, segments: Iterable[Segment]) -> None:
    """Store the vectors of a document."""
    connection.executemany(INSERT, ((row, *_stored(segment)) for segment in segments))


def _stored(segment: Segment) -> tuple[object, ...]:
    parts = ",".join(map(str, segment.parts))
    return (parts, segment.name, segment.start, segment.stop, int(segment.own), blob(segment.vector))


def from_blob(data: bytes) -> Matrix:
    """Read a vector from its bytes."""
    return np.frombuffer(data, dtype="<f4")


def several(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split values into groups for one statement."""
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]
