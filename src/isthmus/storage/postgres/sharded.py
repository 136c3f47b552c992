"""Folded vectors on shard servers, searched there by pgvector and merged here.

A document's rows are on the shard that the hash of its row number names. A search sends each shard its own top k:

    SELECT … FROM sharded_1 WHERE … ORDER BY vector <#> query LIMIT k  UNION ALL  SELECT … FROM sharded_2 …

(LIMIT on the partitioned table itself would not be sent.) The shards work at the same time. There is no two-phase
commit between servers; what makes a write safe is the order of its commits. postgres_fdw commits on the shards first
and on the coordinator last, so:

- ``publications.about`` says how far a publication is, and is written after its rows. Rows beyond it are not seen;
  rows of a write that failed on the way are written again, in place of what is there.
- Every write takes a number from a sequence and leaves it on the shards (``marks``) and, last, in
  ``sharded_publications``. A shard with a smaller number than the coordinator has lost changes, as a replica that was
  promoted too early has: its publication is not used again, and published anew.

Nothing here is the only copy: documents and raw vectors are on the coordinator, and one transaction there is what
acknowledges them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from isthmus.errors import BadFile, CannotReach, IsthmusError
from isthmus.storage.postgres import explain
from isthmus.storage.postgres.address import SHARDED, PostgresAddress
from isthmus.storage.postgres.database import OwnConnections, PostgresDatabase
from isthmus.storage.postgres.filters import Sql, pushes
from isthmus.storage.postgres.folded import (
    EXACT_BELOW,
    EXACT_FILTERED,
    MOST,
    WIDEST,
    candidates,
    copy_rows,
    reaches,
    rows_passing,
)
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.shards import LISTED, Shard, answers, listed, remotely, schema_of
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter, ShardsDown
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows

NEXT = "SELECT nextval('sharded_changes')"
TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
PATIENT = "SET LOCAL statement_timeout = 0"  # which is meant for searches
DROPPED = 10_000  # rows that are deleted at once
DELETE = "DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE key = {key} LIMIT {most}))"
EXACTLY = "d.vector <#> %s::vector"
NEAREST = """
(SELECT {number} AS shard, d.document, d.passage, {columns} FROM {table} d WHERE {where} ORDER BY near LIMIT {limit})
"""
FEW = "(SELECT {number}, count(*) FROM (SELECT FROM {table} d WHERE {where} LIMIT {most}) AS few)"
BETWEEN = ('could not connect to server "', "could not establish connection")  # of postgres_fdw, of dblink
ON_SHARD = "remote SQL command"  # in the context of what went wrong there
GONE = ("08", "57P")  # states: no connection, or the server stopped


@dataclass(frozen=True, slots=True, eq=False)
class NearestSearch:
    """A search for the rows nearest to one query, on shards."""

    where: Sql
    query: Matrix
    width: int
    kind: str  # of the numbers in the index: vector, or halfvec
    k: int
    is_filtered: bool = False

    def on(self, several: Sequence[Shard], *, exact: bool = False) -> tuple[str, tuple[Any, ...]]:
        """Return the statement: the best rows of each shard; ``exact`` compares every row."""
        cast = f"{self.kind}({self.width})"
        near = EXACTLY if exact else f"d.vector::{cast} <#> %s::vector::{cast}"
        limit = self.k if exact else self.limit
        columns, queries = f"{near} AS near", [self.query]
        if self.kind == "halfvec":  # the index has 16 bits of what is compared again
            columns, queries = f"{EXACTLY} AS product, {columns}", [self.query, self.query]
        each = [
            NEAREST.format(number=one.number, columns=columns, table=one.table, where=self.where.text, limit=limit)
            for one in several
        ]
        return " UNION ALL ".join(each), (*queries, *self.where.values) * len(several)

    @property
    def limit(self) -> int:
        """How many rows each shard sends."""
        return candidates(self.k, self.kind, is_filtered=self.is_filtered)


class PostgresSharded:
    """The folded vectors of one collection on its shards."""

    def __init__(self, place: PostgresAddress, name: str) -> None:
        self.address = name  # in the manifest
        self.most = MOST
        self._place = place
        self._connections = OwnConnections(place)

    @property
    def _database(self) -> PostgresDatabase:
        return self._connections.database

    def close(self) -> None:
        """Close connections; another call opens them again."""
        self._connections.close()

    def begin(self, key: str, modalities: Sequence[str], width: int) -> None:  # noqa: ARG002 - rows bring them
        """Make an empty publication; remains of one with the same key are deleted."""
        self.drop(key)
        with self._transaction() as (connection, there):
            (change,) = connection.execute(NEXT).fetchall()[0]
            for shard in there:
                connection.execute(f"INSERT INTO {shard.marks} VALUES (%s, %s)", (key, change))
            connection.execute(
                "INSERT INTO sharded_publications (key, width, change) VALUES (%s, %s, %s)", (key, width, change)
            )

    def about(self, key: str) -> About | None:
        """Return what was last marked; None where there is no such publication, or it was never marked."""
        found = self._database.one("SELECT about FROM sharded_publications WHERE key = %s", key)
        return None if found is None or found[0] is None else About.from_json(found[0])

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is; a complete one gets its indexes first."""
        if about.complete:
            self._index(key)
        with self._transaction() as (connection, _):
            statement = "UPDATE sharded_publications SET about = %s WHERE key = %s"
            if not connection.execute(statement, (about.to_json(), key)).rowcount:
                raise self._missing(key)

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in place of those with the same document and passage."""
        with self._change(key) as connection:
            old = "DELETE FROM sharded WHERE key = %s AND modality = %s AND document = ANY(%s)"
            connection.execute(old, (key, rows.modality, np.unique(rows.rows[:, 0]).tolist()))
            copy_rows(connection, sql.Identifier("sharded"), key, rows)

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents; those that are not there are ignored."""
        with self._change(key) as connection:
            connection.execute("DELETE FROM sharded WHERE key = %s AND document = ANY(%s)", (key, documents.tolist()))

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return ``(m, k)`` inner products, best first, and ``(m, k, 2)`` documents and passages."""
        inner = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k, 2), -1, np.int64)
        only = rows_passing(modality, where)
        only = Sql(f"d.key = %s AND {only.text}", (key, *only.values))
        with self._transaction(write=False) as (connection, all_of_them):
            asked = [shard for shard in all_of_them if shard.name not in where.without]
            width = self._checked(connection, key, asked, where.last)
            filtered = where.condition is not None or where.only is not None
            few = _with_few(connection, asked, only) if filtered else []
            for at, query in enumerate(queries):
                nearest = NearestSearch(only, query, width, self._kind(width), k, filtered)
                for place, (product, document, passage) in enumerate(_found(connection, nearest, asked, few)):
                    inner[at, place], rows[at, place] = -product, (document, passage)
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find, exactly."""
        only = rows_passing(modality, where)
        with self._transaction(write=False) as (connection, there):
            self._checked(connection, key, there, where.last)
            each = [f"SELECT count(*) AS n FROM {shard.table} d WHERE d.key = %s AND {only.text}" for shard in there]
            statement = f"SELECT sum(n)::bigint FROM ({' UNION ALL '.join(each)}) AS counted"
            return int(connection.execute(statement, (key, *only.values) * len(there)).fetchall()[0][0])

    def pushes(self, condition: Condition) -> bool:
        """Whether the server can apply a condition exactly: every one is compiled to SQL, unless it is very long."""
        return pushes(condition)

    def drop(self, key: str) -> None:
        """Delete a publication with its indexes; one that is not there is ignored."""
        with self._transaction() as (connection, there):
            connection.execute(PATIENT)
            for shard in there:
                for name in _indexes(connection, shard, key):
                    place = sql.Identifier(shard.schema, name)
                    remotely(connection, shard, sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(place))
                some = sql.SQL(DELETE).format(
                    table=sql.Identifier(shard.schema, shard.rows_there), key=sql.Literal(key), most=DROPPED
                )
                while remotely(connection, shard, some) == f"DELETE {DROPPED}":
                    pass
        with self._transaction() as (connection, there):
            for shard in there:
                connection.execute(f"DELETE FROM {shard.marks} WHERE key = %s", (key,))
            connection.execute("DELETE FROM sharded_publications WHERE key = %s", (key,))

    @contextmanager
    def _change(self, key: str) -> Iterator[Connection]:
        """Change the rows of a publication: one write at a time, and each leaves its number on every shard."""
        with self._transaction() as (connection, there):
            connection.execute(TURN, (f"isthmus shards {self._place.collection} {key}",))
            yield connection
            (change,) = connection.execute(NEXT).fetchall()[0]
            for name in (*(shard.marks for shard in there), "sharded_publications"):
                if not connection.execute(f"UPDATE {name} SET change = %s WHERE key = %s", (change, key)).rowcount:
                    raise self._missing(key)

    def _checked(self, connection: Connection, key: str, asked: Sequence[Shard], last: int) -> int:
        """Return the width of a publication's vectors; an error if it, or one of these shards, lacks some."""
        of_key = "SELECT width, change, about FROM sharded_publications WHERE key = %s"
        found = connection.execute(of_key, (key,)).fetchone()
        if found is None or not reaches(found[2], last):
            raise self._missing(key)
        each = [f"SELECT {shard.number}, change FROM {shard.marks} WHERE key = %s" for shard in asked]
        marks: dict[int, int] = (
            dict(connection.execute(" UNION ALL ".join(each), (key,) * len(each)).fetchall()) if each else {}
        )
        behind = [shard.name for shard in asked if marks.get(shard.number, -1) < found[1]]
        if behind:
            with suppress(IsthmusError), self._database.apart() as other:  # a reader leaves that to others
                other.execute("DELETE FROM sharded_publications WHERE key = %s", (key,))
            raise NotPublished(
                f"{self._place}: {', '.join(behind)} lacks changes that were made there before. Its vectors are "
                "published again from the collection."
            )
        return int(found[0])

    def _index(self, key: str) -> None:
        """Make the HNSW indexes of a publication on every shard, all shards at the same time."""
        found = self._database.one("SELECT width FROM sharded_publications WHERE key = %s", key)
        if found is None:
            raise self._missing(key)
        there = listed(self._database.all(LISTED))
        with ThreadPoolExecutor(max(1, len(there))) as pool:
            for done in [pool.submit(self._index_shard, shard, key, int(found[0])) for shard in there]:
                done.result()

    def _index_shard(self, shard: Shard, key: str, width: int) -> None:
        kind = self._kind(width)
        counted = f"SELECT modality, count(*) FROM {shard.table} WHERE key = %s GROUP BY modality"
        with self._transaction() as (connection, _):
            counts = connection.execute(counted, (key,)).fetchall() if width <= WIDEST[kind] else []
        with self._transaction() as (connection, _):  # the first has ended on the shard, which indexes wait for
            connection.execute(PATIENT)
            for modality in (name for name, count in counts if count >= EXACT_BELOW):
                remotely(connection, shard, _index_of(connection, shard, key, modality, kind, width))
            remotely(connection, shard, sql.SQL("ANALYZE {}").format(sql.Identifier(shard.schema, shard.rows_there)))

    def _kind(self, width: int) -> str:
        """Return the type that an index has: 16 bits if that was chosen, or where only they fit."""
        return "halfvec" if self.address == SHARDED[1] or width > WIDEST["vector"] else "vector"

    def _missing(self, key: str) -> NotPublished:
        return NotPublished(f"{self._place} has no publication {key}. It is made again from the collection.")

    @contextmanager
    def _transaction(self, *, write: bool = True) -> Iterator[tuple[Connection, list[Shard]]]:
        """Run a transaction on the coordinator and on the shards that it touches; errors of a shard name it."""
        try:
            with self._database.apart(write=write) as connection:
                yield connection, listed(connection.execute(LISTED).fetchall())
        except IsthmusError as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.Error) and (named := self._explained(cause)) is not None:
                raise named from cause
            raise

    def _explained(self, error: psycopg.Error) -> IsthmusError | None:
        """Return the error of a shard that did not answer, or refused; None for one of the coordinator."""
        said, context = error.diag.message_primary or "", error.diag.context or ""
        if ON_SHARD not in context and not said.startswith(BETWEEN):
            return None
        there = listed(self._database.all(LISTED))
        blamed = [shard for shard in there if f'"{shard.server}"' in said or shard.is_named_in(context)]
        if blamed and error.sqlstate in explain.MISSING:
            return BadFile(
                f"{blamed[0].name} has lost its tables ({explain.first_line(error)}). Make them again, and publish its "
                f"vectors again: isthmus shards --move {blamed[0].number} with the URL of this server."
            )
        if not (error.sqlstate or "").startswith(GONE):
            return explain.explained(error, blamed[0].name if blamed else f"a shard of {self._place}")
        with ThreadPoolExecutor(max(1, len(there))) as pool:
            down = [shard.name for shard, up in zip(there, pool.map(self._answers, there), strict=True) if not up]
        names = sorted({*down, *(shard.name for shard in blamed)})
        who = f"{' and '.join(names)} of {self._place}" if names else f"A shard of {self._place}"
        return ShardsDown(
            f"{who} cannot be reached ({explain.first_line(error)}). Nothing is lost: documents are elsewhere. Start "
            "it, or name the server in its place: isthmus shards --move. Until then, partial=True (--partial) finds "
            "what the other shards have.",
            names,
        )

    def _answers(self, shard: Shard) -> bool:
        try:
            self._database.all(f"SELECT 1 FROM {shard.marks} LIMIT 1")
        except IsthmusError as error:
            return not isinstance(error, CannotReach)
        return True


def _with_few(connection: Connection, asked: Sequence[Shard], only: Sql) -> list[Shard]:
    """Return the shards where a filter leaves so few rows that comparing all is faster than to walk the graph."""
    if not asked:
        return []
    each = [FEW.format(number=one.number, table=one.table, where=only.text, most=EXACT_FILTERED) for one in asked]
    # never prepared: a plan that is kept would not heed the filter's values
    found = connection.execute(" UNION ALL ".join(each), only.values * len(asked), prepare=False).fetchall()
    numbers = {number for number, count in found if count < EXACT_FILTERED}
    return [shard for shard in asked if shard.number in numbers]


def _found(
    connection: Connection, nearest: NearestSearch, asked: Sequence[Shard], few: Sequence[Shard] = ()
) -> list[tuple[float, int, int]]:
    """Return the best rows of all shards, (distance, document, passage), the nearest first.

    Every row is compared on the shards with ``few``, the others are asked by their index.
    """
    by_index = [shard for shard in asked if shard not in few]
    parts = [nearest.on(some, exact=some is few) for some in (by_index, few) if some]
    if not parts:
        return []
    statement, values = " UNION ALL ".join(text for text, _ in parts), tuple(v for _, values in parts for v in values)
    found = connection.execute(statement, values, prepare=False).fetchall()
    counts = [sum(row[0] == shard.number for row in found) for shard in by_index]
    again = [shard for shard, count in zip(by_index, counts, strict=True) if count < nearest.limit]
    if again:  # all that may be found there, or a walk that ended too early
        numbers = {shard.number for shard in again}
        found = [row for row in found if row[0] not in numbers]
        found += connection.execute(*nearest.on(again, exact=True), prepare=False).fetchall()
    return sorted((product, document, passage) for _, document, passage, product, *_ in found)[: nearest.k]


def _index_of(connection: Connection, shard: Shard, key: str, modality: str, kind: str, width: int) -> sql.Composed:
    return sql.SQL(
        "CREATE INDEX IF NOT EXISTS {name} ON {table} USING hnsw ((vector::{kind}({width})) {operators}) "
        "WHERE key = {key} AND modality = {modality}"
    ).format(
        name=sql.Identifier(f"{_prefix(shard, key)}{hashlib.sha256(modality.encode()).hexdigest()[:12]}"),
        table=sql.Identifier(shard.schema, shard.rows_there),
        kind=sql.Identifier(schema_of(connection, "vector"), kind),
        width=sql.Literal(width),
        operators=sql.Identifier(schema_of(connection, "vector"), f"{kind}_ip_ops"),
        key=sql.Literal(key),
        modality=sql.Literal(modality),
    )


def _prefix(shard: Shard, key: str) -> str:
    """Return how the names of a publication's indexes begin."""
    return f"{shard.rows_there}_{hashlib.sha256(key.encode()).hexdigest()[:12]}_"


def _indexes(connection: Connection, shard: Shard, key: str) -> list[str]:
    """Return the names of a publication's indexes on a shard."""
    asked = "SELECT indexname::text FROM pg_indexes WHERE schemaname = {} AND starts_with(indexname::text, {})"
    statement = sql.SQL(asked).format(sql.Literal(shard.schema), sql.Literal(_prefix(shard, key)))
    return answers(connection, shard, statement)
