"""The store of a collection in one SQLite database: the source of truth for everything else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from isthmus.calibration import Statistics
from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import State
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.calibrations import SqliteCalibrations
from isthmus.storage.sqlite.documents import SqliteDocuments
from isthmus.storage.sqlite.filters import compiled
from isthmus.storage.sqlite.ledger import SqliteLedger
from isthmus.storage.sqlite.query_log import SqliteQueries
from isthmus.storage.sqlite.values import values
from isthmus.storage.sqlite.vectors import several
from isthmus.storage.sqlite.words import SqliteWords
from isthmus.storage.values import FieldValues
from isthmus.storage.where import Condition
from isthmus.types import Rows

FILTERS = 8  # whose rows are cached


@dataclass(slots=True, eq=False)
class SqliteStore(SqliteDocuments):
    """The store of a collection. Every change happens inside ``database.writing()``."""

    _filtered: dict[tuple[object, ...], Rows] = field(default_factory=dict)
    _statistics: tuple[bytes, Statistics] | None = None  # those last read or written, and their bytes

    @property
    def ledger(self) -> SqliteLedger:
        """The files that documents came from, and skipped inputs."""
        return SqliteLedger(self.database)

    @property
    def calibrations(self) -> SqliteCalibrations:
        """The fitted calibrations."""
        return SqliteCalibrations(self.database)

    @property
    def queries(self) -> SqliteQueries:
        """The query log, and queries given for calibration."""
        return SqliteQueries(self.database)

    @property
    def words(self) -> SqliteWords:
        """BM25 over the texts."""
        return SqliteWords(self.database)

    def touched(self, connection: sqlite3.Connection, statistics: Statistics) -> None:
        """Record a change of the documents, and their new statistics."""
        schema.changed(connection)
        data = statistics.to_bytes()
        schema.put(connection, statistics=data)
        self._statistics = (data, statistics)

    def set_dim(self, connection: sqlite3.Connection, dim: int | None) -> None:
        """Store the number of dimensions."""
        schema.put(connection, dim=dim)

    def met(self, connection: sqlite3.Connection, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Record the file and the run in which unchanged documents were found: (file, run, id)."""
        statement = "UPDATE documents SET unit = ?1, run = ?2, origin = seal(id, ?1, ?2) WHERE id = ?3"
        connection.executemany(statement, seen)

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents; with ``but_run``, only those that this run did not find."""
        statement = f"SELECT id, origin IS {schema.ORIGIN} FROM documents WHERE unit = ?"
        if but_run is not None:
            statement += f" AND (run IS NULL OR run != {int(but_run)})"
        found = self.database.all(statement, number)
        for name, whole in found:
            if not whole:
                raise self.damaged(f"where document {name!r} came from")
        return [name for name, _ in found]

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that pass a filter; the results of the last few filters are cached until documents change."""
        query = compiled(condition)
        key = (self.database.sequence(), query.sql, query.values)
        found = self._filtered.get(key)
        if found is None:
            rows = self.database.all(query.sql, *query.values)
            found = np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))
            self._filtered = {**dict(list(self._filtered.items())[1 - FILTERS :]), key: found}
        return found

    def trim(self, sequence: int) -> None:
        """Delete records that only an index older than a change needs, unless another writes or the disk is full."""
        with suppress(CannotWrite), self.database.writing(wait=False) as connection:
            connection.execute("DELETE FROM gone WHERE sequence <= ?", (sequence,))
            connection.execute("DELETE FROM states WHERE sequence < ?", (sequence,))

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which are updated with every change."""
        data = self.database.manifest("statistics").get("statistics")
        if data is None:
            return Statistics({})
        known = self._statistics
        if known is None or known[0] != data:
            known = self._statistics = (data, Statistics.from_bytes(data))
        return known[1]

    def count(self) -> int:
        """Return the number of documents."""
        return int(self.database.one("SELECT count(*) FROM documents")[0])

    def counts(self) -> dict[str, int]:
        """Return the number of documents of each modality."""
        return dict(self.database.all("SELECT modality, count(*) FROM documents GROUP BY modality ORDER BY modality"))

    def modalities(self) -> set[str]:
        """Return the modalities of the documents, without counting them."""
        found: set[str] = set()
        after = ""
        statement = "SELECT min(modality) FROM documents WHERE modality > ?"
        while (row := self.database.one(statement, after)) and row[0] is not None:
            found.add(after := str(row[0]))
        return found

    def parts(self) -> set[str]:
        """Return the parts that documents have vectors for."""
        return set(self.statistics().parts)

    def fields(self) -> list[str]:
        """Return the names of the metadata, with one index lookup for each."""
        found: list[str] = []
        statement = "SELECT min(name) FROM facts WHERE name > ?"
        while (row := self.database.one(statement, found[-1] if found else "")) and row[0] is not None:
            found.append(str(row[0]))
        return found

    def values(self, name: str) -> FieldValues:
        """Return the values of a field with how many documents have each; this reads every value of the field."""
        return values(self.database, name)

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order they were added."""
        query = compiled(condition)
        statement = f"SELECT id FROM documents WHERE row IN ({query.sql}) ORDER BY row"
        return [name for (name,) in self.database.all(statement, *query.values)]

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        return dict(self.database.all("SELECT row, id FROM documents"))

    def names_like(self, start: str) -> list[str]:
        """Return some ids with a common prefix."""
        return [
            name for (name,) in self.database.all("SELECT id FROM documents WHERE id LIKE ? || '%' LIMIT 200", start)
        ]

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after a row, in order."""
        return [
            row
            for (row,) in self.database.all(
                "SELECT row FROM documents WHERE row > ? ORDER BY row LIMIT ?", after, count
            )
        ]

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        where = "" if modality is None else " WHERE modality = ?"
        values = () if modality is None else (modality,)
        return [row for (row,) in self.database.all(f"SELECT row FROM documents{where} ORDER BY row", *values)]

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        statement = "SELECT DISTINCT document FROM segments WHERE name = ? ORDER BY document LIMIT ?"
        return [row for (row,) in self.database.all(statement, name, count)]

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents with any other modality."""
        marks = ",".join("?" * len(known))
        statement = f"SELECT id, modality FROM documents WHERE modality NOT IN ({marks}) ORDER BY row"
        return self.database.all(statement, *known)

    def origins(self, rows: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the file and the run that documents came from."""
        found: dict[int, tuple[int | None, int | None]] = {}
        for some in several(list(rows)):
            columns = f"row, id, unit, run, origin IS {schema.ORIGIN}"
            statement = f"SELECT {columns} FROM documents WHERE row IN ({','.join('?' * len(some))})"
            for row, name, unit, run, whole in self.database.all(statement, *some):
                if not whole:
                    raise self.damaged(f"where document {name!r} came from")
                found[row] = unit, run
        return found

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None if there is none."""
        statement = "SELECT row FROM documents WHERE modality = ? AND own_hash IS NULL LIMIT 1"
        found = self.database.one(statement, modality)
        return int(found[0]) if found else None

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that exists."""
        found: dict[str, int] = {}
        for some in several(list(ids)):
            marks = ",".join("?" * len(some))
            found |= dict(self.database.all(f"SELECT id, row FROM documents WHERE id IN ({marks})", *some))
        return found

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        rows = self.database.all(
            f"SELECT document, checksum IS {schema.sealed('gone')} FROM gone WHERE sequence > ?", sequence
        )
        if not all(whole for _, whole in rows):
            raise self.damaged("the list of deleted documents")
        return np.array([row for row, _ in rows], dtype=np.int64)

    def state(self) -> State:
        """Return the current state of the documents."""
        sequence = self.database.sequence()
        token = self.token(sequence)
        if token is None:
            raise BadFile(
                f"{self.database.path} is damaged: the token of its last change is missing. Restore it from a copy, or "
                "index again."
            )
        return State(sequence, token)

    def passed(self, state: State) -> bool:
        """Whether the documents were ever in a state, and all changes since are recorded."""
        return self.token(state.sequence) == state.token

    def token(self, sequence: int) -> str | None:
        """Return the token of the documents' state after a change; None if it is not recorded, or no longer."""
        found = self.database.one(
            f"SELECT token, checksum IS {schema.sealed('states')} FROM states WHERE sequence = ?", sequence
        )
        return bytes(found[0]).hex() if found and found[1] else None
