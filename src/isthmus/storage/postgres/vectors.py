"""The segments of documents: raw vectors in and out, in blocks, and their statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from psycopg.types.json import Jsonb

from isthmus import checksums
from isthmus.calibration import Statistics
from isthmus.errors import BadFile
from isthmus.storage.base import Block
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.segments import Segment, assembled, blob

BLOCK = 2048  # documents whose vectors are read at once
COLUMNS = "document, number, parts, name, span, own, vector, checksum"
TYPES = ("int8", "int4", "int4[]", "varchar", "jsonb", "bool", "bytea", "int8")
SELECT = f"SELECT {COLUMNS} FROM segments WHERE document = ANY(%s) ORDER BY document, number"


@dataclass(slots=True, eq=False)
class PostgresVectors:
    """The table ``segments``."""

    database: PostgresDatabase

    def damaged(self, what: str) -> BadFile:
        """Return the error for something that does not match its checksum."""
        return BadFile(
            f"{self.database.path} is damaged: {what} does not match its checksum. `isthmus stats --verify` lists all "
            "that is damaged. Delete those documents or add them again, or restore them from a backup."
        )

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        wanted = [int(row) for row in rows]
        found: dict[int, list[Segment]] = defaultdict(list)
        for row, number, parts, name, span, own, data, written in self.database.all(SELECT, wanted) if wanted else ():
            if _sealed(row, number, parts, name, span, own, data) != written:
                raise self.damaged(f"the {name!r} vector of {self.named(row)}")
            start, stop = span or (None, None)
            found[row].append(Segment(tuple(parts), name, np.frombuffer(data, dtype="<f4"), start, stop, own))
        lost = set(wanted) - found.keys()
        if lost and (there := self._names(sorted(lost))):  # otherwise it was deleted meanwhile
            raise self.damaged(f"document {there[0][1]!r} has no vectors; it")
        return found

    def named(self, row: int) -> str:
        """Return the name of the document in a row, for error messages."""
        found = self._names([row])
        return f"document {found[0][1]!r}" if found else f"a document that is not there (row {row})"

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Recompute the statistics from the vectors of all documents except some; damaged vectors are ignored."""
        statistics, left_out = Statistics({}), set(but)
        for (row,) in self.database.all("SELECT row FROM documents ORDER BY row"):
            if row not in left_out:
                with suppress(BadFile):
                    statistics = statistics.add(*assembled([self.segments([row])[row]]))
        return statistics

    def blocks(self, after: int = -1, last: int | None = None, size: int = BLOCK) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, at most a block at a time."""
        documents = "SELECT row, id FROM documents WHERE row > %s AND row <= %s ORDER BY row LIMIT %s"
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
        return self._block(self._names(rows))

    def _names(self, rows: Sequence[int]) -> list[tuple[int, str]]:
        wanted = [int(row) for row in rows]
        statement = "SELECT row, id FROM documents WHERE row = ANY(%s) ORDER BY row"
        return self.database.all(statement, wanted) if wanted else []

    def _block(self, named: Sequence[tuple[int, str]]) -> Block:
        segments = self.segments([row for row, _ in named])
        there = [(row, name) for row, name in named if row in segments]  # another process may have deleted one
        rows = np.array([row for row, _ in there], dtype=np.intp)
        return Block(rows, [name for _, name in there], *assembled([segments[row] for row, _ in there]))


def insert(connection: Connection, documents: Iterable[tuple[int, Sequence[Segment]]]) -> None:
    """Store the vectors of documents, by row."""
    copying = f"COPY segments ({COLUMNS}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        copy.set_types(TYPES)
        for row, segments in documents:
            for number, segment in enumerate(segments):
                copy.write_row(_stored(row, number, segment))


def _stored(row: int, number: int, segment: Segment) -> tuple[Any, ...]:
    parts, data = [int(part) for part in segment.parts], blob(segment.vector)
    span = None if segment.start is None and segment.stop is None else [segment.start, segment.stop]
    checksum = _sealed(row, number, parts, segment.name, span, segment.own, data)
    written = None if span is None else Jsonb(span)
    return (row, number, parts, segment.name, written, bool(segment.own), data, checksum)


def _sealed(row: int, number: int, parts: list[int], name: str, span: Any, own: bool, data: bytes) -> int:
    numbers = ",".join(map(str, parts))
    return checksums.of_values(row, number, numbers, name, *(span or (None, None)), int(own), bytes(data))
