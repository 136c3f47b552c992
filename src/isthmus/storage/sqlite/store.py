"""What a collection holds, in one SQLite database: the truth that everything else is made from."""

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
from isthmus.storage.sqlite.vectors import several
from isthmus.storage.sqlite.words import SqliteWords
from isthmus.storage.where import Condition
from isthmus.types import Rows

FILTERS = 8  # whose rows are kept


@dataclass(slots=True, eq=False)
class SqliteStore(SqliteDocuments):
    """What a collection holds. Everything that changes it happens inside ``database.writing()``."""

    _filtered: dict[tuple[object, ...], Rows] = field(default_factory=dict)

    @property
    def ledger(self) -> SqliteLedger:
        """The files that documents came from, and what was skipped."""
        return SqliteLedger(self.database)

    @property
    def calibrations(self) -> SqliteCalibrations:
        """The fitted calibrations."""
        return SqliteCalibrations(self.database)

    @property
    def queries(self) -> SqliteQueries:
        """The log of queries, and those given for calibration."""
        return SqliteQueries(self.database)

    @property
    def words(self) -> SqliteWords:
        """BM25 over the texts."""
        return SqliteWords(self.database)

    def touched(self, connection: sqlite3.Connection, statistics: Statistics) -> None:
        """Note that documents changed, and the statistics of what is there now."""
        schema.changed(connection)
        schema.put(connection, statistics=statistics.to_bytes())

    def set_dim(self, connection: sqlite3.Connection, dim: int | None) -> None:
        """Note how many numbers a vector has."""
        schema.put(connection, dim=dim)

    def met(self, connection: sqlite3.Connection, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Note the file and the run in which unchanged documents were met: (file, run, id)."""
        statement = "UPDATE documents SET unit = ?1, run = ?2, origin = seal(id, ?1, ?2) WHERE id = ?3"
        connection.executemany(statement, seen)

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents, with ``but_run`` of those that this run has not met."""
        statement = f"SELECT id, origin IS {schema.ORIGIN} FROM documents WHERE unit = ?"
        if but_run is not None:
            statement += f" AND (run IS NULL OR run != {int(but_run)})"
        found = self.database.all(statement, number)
        for name, whole in found:
            if not whole:
                raise self.damaged(f"where document {name!r} came from")
        return [name for name, _ in found]

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that a filter lets through; those of the last few filters are kept until documents change."""
        query = compiled(condition)
        key = (self.database.sequence(), query.sql, query.values)
        found = self._filtered.get(key)
        if found is None:
            rows = self.database.all(query.sql, *query.values)
            found = np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))
            self._filtered = {**dict(list(self._filtered.items())[1 - FILTERS :]), key: found}
        return found

    def trim(self, sequence: int) -> None:
        """Forget what only an index older than a change needs to know; not now where somebody writes, or no room is."""
        with suppress(CannotWrite), self.database.writing(wait=False) as connection:
            connection.execute("DELETE FROM gone WHERE sequence <= ?", (sequence,))
            connection.execute("DELETE FROM states WHERE sequence < ?", (sequence,))

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which follow every change."""
        found = self.database.manifest("statistics")
        return Statistics.from_bytes(found["statistics"]) if found else Statistics({})

    def count(self) -> int:
        """Return how many documents there are."""
        return int(self.database.one("SELECT count(*) FROM documents")[0])

    def counts(self) -> dict[str, int]:
        """Return how many documents each modality has."""
        return dict(self.database.all("SELECT modality, count(*) FROM documents GROUP BY modality ORDER BY modality"))

    def modalities(self) -> set[str]:
        """Return the modalities there are, without counting their documents."""
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
        """Return the names of the metadata, at the cost of one look into the index for each."""
        found: list[str] = []
        statement = "SELECT min(name) FROM facts WHERE name > ?"
        while (row := self.database.one(statement, found[-1] if found else "")) and row[0] is not None:
            found.append(str(row[0]))
        return found

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that a filter lets through, in the order they were added."""
        query = compiled(condition)
        statement = f"SELECT id FROM documents WHERE row IN ({query.sql}) ORDER BY row"
        return [name for (name,) in self.database.all(statement, *query.values)]

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        return dict(self.database.all("SELECT row, id FROM documents"))

    def names_like(self, start: str) -> list[str]:
        """Return some ids that begin alike."""
        return [
            name for (name,) in self.database.all("SELECT id FROM documents WHERE id LIKE ? || '%' LIMIT 200", start)
        ]

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after one, in order."""
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
        """Return (id, modality) of the documents whose modality is none of these."""
        marks = ",".join("?" * len(known))
        statement = f"SELECT id, modality FROM documents WHERE modality NOT IN ({marks}) ORDER BY row"
        return self.database.all(statement, *known)

    def origin(self, name: str) -> tuple[int | None, int | None]:
        """Return the file and the run that a document came with."""
        unit, run = self.database.one("SELECT unit, run FROM documents WHERE id = ?", name)
        return unit, run

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None when there is none."""
        statement = "SELECT row FROM documents WHERE modality = ? AND own_hash IS NULL LIMIT 1"
        found = self.database.one(statement, modality)
        return int(found[0]) if found else None

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that is there."""
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
        """Return which state the documents are in."""
        sequence = self.database.sequence()
        token = self.token(sequence)
        if token is None:
            raise BadFile(
                f"{self.database.path} is damaged: the token of its last change is missing. Restore it from a copy, or "
                "index again."
            )
        return State(sequence, token)

    def passed(self, state: State) -> bool:
        """Whether the documents have been in a state, and what has changed since is known."""
        return self.token(state.sequence) == state.token

    def token(self, sequence: int) -> str | None:
        """Return the token of the documents' state after a change; None where it is not known, or no longer."""
        found = self.database.one(
            f"SELECT token, checksum IS {schema.sealed('states')} FROM states WHERE sequence = ?", sequence
        )
        return bytes(found[0]).hex() if found and found[1] else None
