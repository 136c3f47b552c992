"""The store of a collection on a PostgreSQL server."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isthmus.calibration import Statistics
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, CannotWrite
from isthmus.storage.base import Compacted, State, UnfinishedReencode
from isthmus.storage.facts import Scalar, facts
from isthmus.storage.postgres import lock, schema
from isthmus.storage.postgres.address import NAMES, SHARDED
from isthmus.storage.postgres.calibrations import PostgresCalibrations
from isthmus.storage.postgres.database import PostgresDatabase
from isthmus.storage.postgres.documents import PostgresDocuments
from isthmus.storage.postgres.filters import compiled
from isthmus.storage.postgres.folded import PostgresFolded
from isthmus.storage.postgres.ledger import PostgresLedger
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.query_log import PostgresQueries
from isthmus.storage.postgres.sharded import PostgresSharded
from isthmus.storage.postgres.staging import PostgresStaging, begun, drop
from isthmus.storage.postgres.values import values
from isthmus.storage.postgres.words import PostgresWords
from isthmus.storage.values import FieldValues
from isthmus.storage.where import Condition
from isthmus.types import Rows

LIKE = 200  # ids with a common prefix, at most
DISTINCT = """
WITH RECURSIVE each AS (
  SELECT min(modality) AS name FROM documents
  UNION ALL SELECT (SELECT min(modality) FROM documents WHERE modality > each.name) FROM each
  WHERE each.name IS NOT NULL
) SELECT name FROM each WHERE name IS NOT NULL
"""
TABLES = ("documents", "parts", "segments", "words", "gone", "states", "calibrations", "query_log", "units", "skipped")


@dataclass(eq=False)
class PostgresStore(PostgresDocuments):
    """The store of a collection. Every change happens inside ``database.writing()``."""

    _statistics: tuple[bytes, Statistics] | None = None  # those last read or written, and their bytes

    @property
    def folder(self) -> None:
        """None: there is no folder."""

    @contextmanager
    def again(self) -> Iterator[PostgresStore]:
        """Open the same store again, on connections of its own, for another thread."""
        with closing(PostgresDatabase(self.database.address)) as database:
            yield PostgresStore(database)

    @cached_property
    def _lock(self) -> lock.AdvisoryLock:
        return lock.AdvisoryLock(self.database)

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the writer lock, or raise an error that names its holder."""
        return self._lock.held(shared=False)

    def writer(self) -> AbstractContextManager[None]:
        """Hold the right to add and delete documents, together with other processes."""
        return self._lock.held(shared=True)

    def fitting(self) -> AbstractContextManager[bool]:
        """Hold the lock of re-fits; yields whether this process has it."""
        return lock.only(self.database, lock.FITTING)

    def building(self) -> AbstractContextManager[bool]:
        """Hold the lock of publications; yields whether no other thread or process has it."""
        return lock.only(self.database, lock.BUILDING)

    @cached_property
    def ledger(self) -> PostgresLedger:
        """The files that documents came from, and skipped inputs."""
        return PostgresLedger(self.database)

    @cached_property
    def calibrations(self) -> PostgresCalibrations:
        """The fitted calibrations."""
        return PostgresCalibrations(self.database)

    @cached_property
    def queries(self) -> PostgresQueries:
        """The query log, and queries given for calibration."""
        return PostgresQueries(self.database)

    @cached_property
    def words(self) -> PostgresWords:
        """BM25 over the texts."""
        return PostgresWords(self.database, self.tokenizer)

    def published(self, name: str | None) -> PostgresFolded | PostgresSharded | None:
        """Return the folded vectors in the database, if it has pgvector, or on its shards; None for another name."""
        if name in SHARDED:
            sharded = self.database.one("SELECT to_regclass('sharded') IS NOT NULL")[0]
            return PostgresSharded(self.database.address, name) if sharded else None
        if name not in (None, *NAMES) or not self.database.manifest("pgvector").get("pgvector"):
            return None
        return PostgresFolded(self.database.address, name or NAMES[0])

    def values(self, name: str) -> FieldValues:
        """Return the values of a field with how many documents have each."""
        return values(self.database, name)

    def facts(self, rows: Sequence[int]) -> dict[int, list[tuple[str, Scalar]]]:
        """Return the metadata of documents as filters see them: (name, value), by row; without those that have none."""
        found = self.database.all("SELECT row, metadata::text FROM documents WHERE row = ANY(%s)", list(map(int, rows)))
        known = {row: list(dict.fromkeys(facts(json.loads(metadata)))) for row, metadata in found}
        return {row: several for row, several in known.items() if several}

    def stage(self, name: str, encoder: Encoder) -> PostgresStaging:
        """Open the staging area for another encoder's vectors; continue if it has some from the same encoder."""
        return PostgresStaging.open(self, name, encoder)

    def staged(self) -> UnfinishedReencode | None:
        """Return the unfinished re-encoding; None if there is none."""
        return begun(self.database)

    def drop_staged(self) -> None:
        """Delete an unfinished re-encoding."""
        drop(self.database)

    def shrink(self) -> None:
        """Do nothing: the server reuses unused space by itself (autovacuum)."""

    def compact(self) -> Compacted:
        """Let the server reuse the space of deleted documents, and count its rows for the planner."""
        before = self.size()
        with self.database.explained(), closing(self.database.connect()) as connection:
            for table in TABLES:
                connection.execute(f"VACUUM (ANALYZE) {table}")
        return Compacted(before, self.size())

    def size(self) -> int:
        """Return the bytes of all tables and their indexes."""
        statement = (
            "SELECT coalesce(sum(pg_total_relation_size(to_regclass(name))), 0)::bigint FROM unnest(%s::text[]) AS name"
        )
        return int(self.database.one(statement, list(TABLES))[0])

    def problems(self) -> list[str]:
        """Read everything that is stored, and return what is damaged."""
        from isthmus.storage.postgres import verify  # late: searches never need it

        with self.database.reading():
            return verify.problems(self)

    def touched(self, connection: Connection, statistics: Statistics) -> None:
        """Record a change of the documents, and their new statistics."""
        self._lock.check()
        schema.changed(connection)
        schema.put(connection, statistics=statistics.to_bytes())

    def set_dim(self, connection: Connection, dim: int | None) -> None:
        """Store the number of dimensions."""
        schema.put(connection, dim=dim)

    def met(self, connection: Connection, seen: Sequence[tuple[int | None, int | None, str]]) -> None:
        """Record the file and the run in which unchanged documents were found: (file, run, id)."""
        if seen:
            with connection.cursor() as cursor:
                cursor.executemany("UPDATE documents SET unit = %s, run = %s WHERE id = %s", seen)

    def of_unit(self, number: int, *, but_run: int | None = None) -> list[str]:
        """Return the ids of a file's documents; with ``but_run``, only those that this run did not find."""
        other = "" if but_run is None else f" AND run IS DISTINCT FROM {int(but_run)}"
        found = self.database.all(f"SELECT id FROM documents WHERE unit = %s{other} ORDER BY row", number)
        return [name for (name,) in found]

    def filtered(self, condition: Condition) -> Rows:
        """Return the rows that pass a filter."""
        where = compiled(condition)
        rows = self.database.all(f"SELECT d.row FROM documents d WHERE {where.text} ORDER BY d.row", *where.values)
        return np.fromiter((row for (row,) in rows), dtype=np.int64, count=len(rows))

    def trim(self, sequence: int) -> None:
        """Delete records that only an index older than a change needs, unless another writes or the disk is full."""
        with suppress(CannotWrite), self.database.writing(wait=False) as connection:
            connection.execute("DELETE FROM gone WHERE sequence <= %s", (sequence,))
            connection.execute("DELETE FROM states WHERE sequence < %s", (sequence,))

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
        return {name for (name,) in self.database.all(DISTINCT)}

    def parts(self) -> set[str]:
        """Return the parts that documents have vectors for."""
        return set(self.statistics().parts)

    def fields(self) -> list[str]:
        """Return the names of the metadata."""
        return sorted(name for (name,) in self.database.all("SELECT DISTINCT jsonb_object_keys(facts) FROM documents"))

    def ids(self, condition: Condition) -> list[str]:
        """Return the ids of the documents that pass a filter, in the order they were added."""
        where = compiled(condition)
        found = self.database.all(f"SELECT d.id FROM documents d WHERE {where.text} ORDER BY d.row", *where.values)
        return [name for (name,) in found]

    def names(self) -> dict[int, str]:
        """Return the id of every document by its row."""
        return dict(self.database.all("SELECT row, id FROM documents ORDER BY row"))

    def names_like(self, start: str) -> list[str]:
        """Return some ids with a common prefix."""
        statement = f"SELECT id FROM documents WHERE starts_with(lower(id), lower(%s)) ORDER BY row LIMIT {LIKE}"
        return [name for (name,) in self.database.all(statement, start.replace("\0", ""))]

    def page(self, after: int, count: int) -> list[int]:
        """Return the next rows after a row, in order."""
        statement = "SELECT row FROM documents WHERE row > %s ORDER BY row LIMIT %s"
        return [row for (row,) in self.database.all(statement, after, count)]

    def rows(self, modality: str | None = None) -> list[int]:
        """Return the rows of all documents in order, or of those of a modality."""
        where, values = ("", ()) if modality is None else (" WHERE modality = %s", (modality,))
        return [row for (row,) in self.database.all(f"SELECT row FROM documents{where} ORDER BY row", *values)]

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        statement = "SELECT DISTINCT document FROM segments WHERE name = %s ORDER BY document LIMIT %s"
        return [row for (row,) in self.database.all(statement, name, count)]

    def other_modalities(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (id, modality) of the documents with any other modality."""
        statement = "SELECT id, modality FROM documents WHERE modality != ALL(%s) ORDER BY row"
        return self.database.all(statement, list(known))

    def origins(self, rows: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
        """Return the file and the run that documents came from."""
        found = self.database.all("SELECT row, unit, run FROM documents WHERE row = ANY(%s)", list(map(int, rows)))
        return {row: (unit, run) for row, unit, run in found}

    def encoded_row(self, modality: str) -> int | None:
        """Return a document of a modality whose vectors are all the encoder's; None if there is none."""
        statement = "SELECT row FROM documents WHERE modality = %s AND own_hash IS NULL ORDER BY row LIMIT 1"
        found = self.database.one(statement, modality)
        return int(found[0]) if found else None

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """Return the row of each of these ids that exists."""
        names = [name for name in ids if "\0" not in name]
        return dict(self.database.all("SELECT id, row FROM documents WHERE id = ANY(%s)", names)) if names else {}

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        rows = self.database.all("SELECT document FROM gone WHERE sequence > %s", sequence)
        return np.array([row for (row,) in rows], dtype=np.int64)

    def state(self) -> State:
        """Return the current state of the documents."""
        sequence = self.database.sequence()
        token = self.token(sequence)
        if token is None:
            raise BadFile(
                f"{self.database.path} is damaged: the token of its last change is missing. Restore it from a backup."
            )
        return State(sequence, token)

    def passed(self, state: State) -> bool:
        """Whether the documents were ever in a state, and all changes since are recorded."""
        return self.token(state.sequence) == state.token

    def token(self, sequence: int) -> str | None:
        """Return the token of the documents' state after a change; None if it is not recorded, or no longer."""
        found = self.database.one("SELECT token FROM states WHERE sequence = %s", sequence)
        return str(found[0]) if found else None
