"""Folded vectors in the database, searched there by pgvector: exactly while they are few, else by HNSW.

A publication has a table of its own, made like ``folded``, with a partial HNSW index for each modality of many rows.
Nobody else writes there, and nobody reads it before it is served or after: indexes are made once all rows are there,
and the table is dropped, without a search or a writer that waits for it. A role that may make no tables puts its rows
into ``folded`` itself, where they are searched exactly and deleted in batches.

A filter is part of the same statement. Few rows that pass it are compared one by one; for many, the server walks the
graph until enough pass (``hnsw.iterative_scan``). Where the walk ends too early, the search is repeated exactly.

``database-half`` makes the indexes of 16-bit numbers, of half the size. Rows keep their 32 bits: the best by the index
are compared again with those. Reads and writes are on connections of their own, so a search sees every acknowledged
write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int4, Int8

from isthmus.errors import CannotWrite
from isthmus.storage.postgres.address import NAMES, PostgresAddress
from isthmus.storage.postgres.database import OwnConnections, PostgresDatabase
from isthmus.storage.postgres.filters import Sql, compiled, listed_json, pushes
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.postgres.schema import INLINE
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows

MOST = 10_000  # rows that one search returns
EXACT_BELOW = 5_000  # rows of a modality that are compared one by one
# Rows that pass a filter are compared one by one while they are few: all may be far from the query, where the graph
# finds them late. They are counted, unless the server expects more and a sample, which should have SAMPLED, agrees.
EXACT_FILTERED = 20_000
SAMPLED = 1_000
WIDEST = {"vector": 2_000, "halfvec": 4_000}  # numbers of a vector that HNSW takes
# How a search is planned. Without a filter by the graph: the server counts no cost for reading vectors that lie outside
# of their rows, and would compare all of them. JIT is off because such a plan looks costly to older servers.
EXACTLY = "SET LOCAL enable_indexscan = off; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on"
BY_COST = "SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = on; SET LOCAL enable_sort = on"
BY_GRAPH = (
    "SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL jit = off"
)
# Candidates of a search by HNSW, at least: of 100,000 photos, words found 77% of the best by 100, 94% by 400. With a
# filter the walk goes on until so many pass.
EF = 400
# The time limit is meant for searches; a publication that is made beside another gives way to searches.
PATIENTLY = "SET LOCAL statement_timeout = 0"
GIVING_WAY = "SET LOCAL max_parallel_maintenance_workers = 0"
AGAIN = 2  # times as many candidates from an index of 16-bit numbers

DROPPED = 10_000  # rows that are deleted at once
PATIENCE = "1s"  # how long to wait for searches on a table that is dropped; what waits blocks those that come

COLUMNS = "key, modality, document, passage, id, facts, vector"
TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"  # two writers of the same rows: one waits
REPLACED = """
DELETE FROM {table} t USING unnest(%s::bigint[], %s::integer[]) AS new (document, passage)
WHERE t.key = %s AND t.document BETWEEN %s AND %s AND t.document = new.document AND t.passage = new.passage
"""
ANALYZE = "ANALYZE {table} (key, modality, document, facts)"  # how many rows pass a filter; not what vectors are like
INDEXES = {  # of a publication's table, beside its primary key, by how PostgreSQL ends their names
    "key_modality_document_idx": "CREATE INDEX IF NOT EXISTS {name} ON {table} (key, modality, document)",
    "facts_idx": "CREATE INDEX IF NOT EXISTS {name} ON {table} USING gin (facts jsonb_path_ops)",
}
HNSW = (
    "CREATE INDEX IF NOT EXISTS {name} ON {table} USING hnsw ((vector::{kind}({width})) {kind}_ip_ops) "
    "WHERE modality = {modality}"
)
SEARCH = """
SELECT document, passage, -(vector <#> {query}) AS inner_product FROM (
  SELECT d.document, d.passage, d.vector FROM {table} d WHERE {where}
  ORDER BY d.vector::{kind}({width}) <#> {query}::{kind}({width}) LIMIT {limit}) AS best
ORDER BY inner_product DESC, document, passage LIMIT {k}
"""
FOUND = "SELECT width, to_regclass(quote_ident(%s)) IS NOT NULL, about FROM publications WHERE key = %s"
GRANTS = """
SELECT privilege_type, CASE WHEN grantee != 0 THEN pg_get_userbyid(grantee) END
FROM pg_class, aclexplode(coalesce(relacl, acldefault('r', relowner)))
WHERE oid = 'folded'::regclass AND grantee != current_user::regrole
"""
LEFT = """
SELECT relname FROM pg_class WHERE relkind = 'r' AND starts_with(relname, 'folded_') AND relname != ALL(%s)
AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'folded'::regclass)
"""
DELETE = """
DELETE FROM {table} WHERE key = %s AND ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE key = %s LIMIT %s))
"""


@dataclass(frozen=True, slots=True)
class PublicationTable:
    """Where a publication is, and the length of its vectors."""

    name: str
    width: int

    @property
    def sql(self) -> sql.Identifier:
        """Its name in a statement."""
        return sql.Identifier(self.name)


class PostgresFolded:
    """The publications of one collection."""

    def __init__(self, place: PostgresAddress, name: str) -> None:
        self.address = name  # in the manifest of the same database
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
        self._drop_left()
        with self._transaction() as connection:
            with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                _make(connection, sql.Identifier(_name(key)))
            connection.execute("INSERT INTO publications VALUES (%s, %s)", (key, width))

    def about(self, key: str) -> About | None:
        """Return what was last marked; None where there is no such publication, or its rows are lost."""
        with suppress(NotPublished), self._on(key, write=False) as (connection, table):
            if _has_rows(connection, table, key):
                found = connection.execute("SELECT about FROM publications WHERE key = %s", (key,)).fetchone()
                return None if found is None or found[0] is None else About.from_json(found[0])
        return None

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is; one that gets complete, or a large modality, is indexed first."""
        before = self.about(key) if about.complete else None
        if about.complete and (before is None or not before.complete or _large(before) != _large(about)):
            self._index(key)
        with self._transaction() as connection:
            statement = "UPDATE publications SET about = %s WHERE key = %s"
            if not connection.execute(statement, (about.to_json(), key)).rowcount:
                raise self._missing(key)

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in place of those with the same document and passage."""
        with self._on(key) as (connection, table):
            if not len(rows):
                return
            connection.execute(TURN, (f"isthmus publication {key}",))
            documents, passages = rows.rows.T.tolist()
            replaced = (documents, passages, key, min(documents), max(documents))
            connection.execute(sql.SQL(REPLACED).format(table=table.sql), replaced)
            copy_rows(connection, table.sql, key, rows)

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents; those that are not there are ignored."""
        with self._on(key) as (connection, table):
            statement = sql.SQL("DELETE FROM {} WHERE key = %s AND document = ANY(%s)").format(table.sql)
            connection.execute(statement, (key, documents.tolist()))

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return ``(m, k)`` inner products, best first, and ``(m, k, 2)`` documents and passages."""
        inner = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k, 2), -1, np.int64)
        passing = rows_passing(modality, where)
        with self._on(key, write=False, last=where.last) as (connection, table):
            exact = _are_few(connection, table, key, passing, where)
            is_filtered = where.condition is not None or where.only is not None
            planned = EXACTLY if exact else BY_COST if is_filtered else BY_GRAPH
            connection.execute(f"{_settings(k)}; {planned}")
            kind = self._kind(table.width)
            limit = k if exact and kind == "vector" else candidates(k, kind, is_filtered=is_filtered)
            for at, query in enumerate(queries):
                statement, values = _statement(key, passing, (query, table, kind, k, limit))
                # never prepared: a plan that is kept would not heed the filter's values, nor the settings
                found = connection.execute(statement, values, prepare=False).fetchall()
                if len(found) < k and not exact:  # all that may be found, or a walk that ended too early
                    connection.execute(EXACTLY)
                    found = connection.execute(statement, values, prepare=False).fetchall()
                    connection.execute(planned)
                for place, (document, passage, product) in enumerate(found):
                    inner[at, place], rows[at, place] = product, (document, passage)
            if not (rows >= 0).any() and not _has_rows(connection, table, key):
                raise self._missing(key)
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find, exactly."""
        passing = rows_passing(modality, where)
        with self._on(key, write=False, last=where.last) as (connection, table):
            statement = f"SELECT count(*) FROM {table.sql.as_string()} d WHERE d.key = %s AND {passing.text}"
            found = connection.execute(statement, (key, *passing.values)).fetchone()
        return int(found[0]) if found else 0

    def pushes(self, condition: Condition) -> bool:
        """Whether the server can apply a condition exactly: every one is compiled to SQL, unless it is very long."""
        return pushes(condition)

    def drop(self, key: str) -> None:
        """Delete a publication with its table; one that is not there is ignored."""
        name = _name(key)
        if not self._dropped(name):
            self._delete(name, key)  # the owner drops the table later
        self._delete("folded", key)
        with self._transaction() as connection:
            connection.execute("DELETE FROM publications WHERE key = %s", (key,))

    def _dropped(self, name: str) -> bool:
        """Drop a table; False, and nothing is done, if this role may not."""
        with self._transaction() as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'")
            try:
                with connection.transaction():
                    connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(name)))
            except psycopg.errors.InsufficientPrivilege:
                return False
        return True

    def _delete(self, name: str, key: str) -> None:
        """Delete the rows of a publication, some at a time."""
        statement = sql.SQL(DELETE).format(table=sql.Identifier(name))
        deleted = DROPPED
        while deleted == DROPPED:
            with self._transaction() as connection:
                deleted = connection.execute(statement, (key, key, DROPPED)).rowcount

    def _drop_left(self) -> None:
        """Drop the tables of publications that a role without the right to drop them has emptied."""
        keys = self._database.all("SELECT key FROM publications")
        for (name,) in self._database.all(LEFT, [_name(key) for (key,) in keys]):
            with suppress(CannotWrite):
                self._dropped(name)

    def _index(self, key: str) -> None:
        """Make the indexes of a publication that has a table of its own, where they are missing and this role may."""
        with self._on(key) as (connection, table):
            if table.name == "folded":
                return
            counting = sql.SQL("SELECT modality, count(*) FROM {} GROUP BY modality").format(table.sql)
            counts = connection.execute(counting).fetchall()
            read = connection.execute("SELECT FROM publications WHERE key != %s AND about IS NOT NULL", (key,)).rowcount
        for statement in self._indexes(key, table, [name for name, count in counts if count >= EXACT_BELOW]):
            allowed = suppress(psycopg.errors.InsufficientPrivilege)
            with self._transaction() as connection, allowed, connection.transaction():
                connection.execute(f"{PATIENTLY}; {GIVING_WAY if read else ''}")
                connection.execute(statement)

    def _indexes(self, key: str, table: PublicationTable, large: Sequence[str]) -> Iterator[sql.Composed]:
        """Yield the statements that make them: HNSW for the large modalities, if their vectors are not too long."""
        yield sql.SQL(ANALYZE).format(table=table.sql)
        for ending, statement in INDEXES.items():
            yield sql.SQL(statement).format(name=sql.Identifier(f"{table.name}_{ending}"), table=table.sql)
        kind = self._kind(table.width)
        for modality in large if table.width <= WIDEST[kind] else ():
            yield sql.SQL(HNSW).format(
                name=sql.Identifier(_name(f"{key} {modality}")),
                table=table.sql,
                kind=sql.SQL(kind),
                width=sql.Literal(table.width),
                modality=sql.Literal(modality),
            )

    def _kind(self, width: int) -> str:
        """Return the type that an index has: 16 bits if that was chosen, or where only they fit."""
        return "halfvec" if self.address == NAMES[1] or width > WIDEST["vector"] else "vector"

    @contextmanager
    def _on(
        self, key: str, *, write: bool = True, last: int | None = None
    ) -> Iterator[tuple[Connection, PublicationTable]]:
        """Yield a transaction, and the table of a publication; an error if it lacks documents up to the last.

        It may: where a URL names several servers, this connection may be to a replica that is behind.
        """
        with self._transaction(write=write) as connection:
            found = connection.execute(FOUND, (_name(key), key)).fetchone()
            if found is None:
                raise self._missing(key)
            if last is not None and not reaches(found[2], last):
                raise NotPublished(f"{self._place}: publication {key} lacks documents here, as on a replica behind.")
            try:
                yield connection, PublicationTable(_name(key) if found[1] else "folded", int(found[0]))
            except psycopg.errors.UndefinedTable:  # dropped meanwhile
                raise self._missing(key) from None

    def _missing(self, key: str) -> NotPublished:
        return NotPublished(f"{self._place} has no publication {key}. It is made again from the collection.")

    def _transaction(self, *, write: bool = True) -> AbstractContextManager[Connection]:
        return self._database.apart(write=write)


def candidates(k: int, kind: str, *, is_filtered: bool) -> int:
    """Return how many rows a walk of the graph finds, of which the best are returned."""
    return max(k * AGAIN if kind == "halfvec" else k, EF if is_filtered else 0)


def _large(about: About) -> set[str]:
    """Return the modalities that have an index."""
    return {modality for modality, count in about.written.items() if count >= EXACT_BELOW}


def _make(connection: Connection, table: sql.Identifier) -> None:
    """Make a table like ``folded``, but for the indexes; whoever may read or write that may do the same here."""
    like = f"(LIKE folded INCLUDING ALL EXCLUDING INDEXES, PRIMARY KEY (key, document, passage)) WITH ({INLINE})"
    connection.execute(sql.SQL(f"CREATE TABLE {{}} {like}").format(table))
    for privilege, role in connection.execute(GRANTS).fetchall():
        to = sql.SQL("PUBLIC") if role is None else sql.Identifier(role)
        connection.execute(sql.SQL("GRANT {} ON {} TO {}").format(sql.SQL(privilege), table, to))


def _has_rows(connection: Connection, table: PublicationTable, key: str) -> bool:
    """Whether a publication has any row; one without was dropped, or left out of a backup, and is made again."""
    statement = sql.SQL("SELECT FROM {} WHERE key = %s LIMIT 1").format(table.sql)
    return bool(connection.execute(statement, (key,)).rowcount)


def _statement(
    key: str, passing: Sql, asked: tuple[Matrix, PublicationTable, str, int, int]
) -> tuple[Any, tuple[Any, ...]]:
    """Return a search: the modality is a literal, because a partial index is used only for the one it names."""
    query, table, kind, k, limit = asked
    text = SEARCH.format(
        query="%s::vector",
        table=table.sql.as_string(),
        where=f"d.key = {_literal(key)} AND {passing.text}",
        kind=kind,
        width=table.width,
        limit=int(limit),
        k=int(k),
    )
    return text, (query, *passing.values, query)


def _are_few(connection: Connection, table: PublicationTable, key: str, passing: Sql, where: RowFilter) -> bool:
    """Whether a filter leaves so few rows that comparing all of them is faster than to walk the graph for them.

    They are counted, unless the server expects more and a sample agrees: what it expects of a range is but a guess.
    """
    if where.condition is None and where.only is None:
        return False

    def asked(statement: str, of: str = "") -> Any:
        rows = f"SELECT FROM {table.sql.as_string()} d {of} WHERE d.key = %s AND {passing.text}"
        found = connection.execute(statement.format(rows=rows), (key, *passing.values), prepare=False).fetchone()
        return None if found is None else found[0]

    expected = asked("EXPLAIN (FORMAT JSON) {rows}")[0]["Plan"]["Plan Rows"]
    if expected >= EXACT_FILTERED:
        share = min(1.0, SAMPLED / expected)
        sampled = asked("SELECT count(*) FROM ({rows}) AS sampled", f"TABLESAMPLE SYSTEM ({100 * share})")
        if sampled >= EXACT_FILTERED * share:
            return False
    return int(asked(f"SELECT count(*) FROM ({{rows}} LIMIT {EXACT_FILTERED}) AS few")) < EXACT_FILTERED


def reaches(about: str | None, last: int) -> bool:
    """Whether a publication has the documents up to a row."""
    return about is not None and About.from_json(about).last >= last


def rows_passing(modality: str, where: RowFilter) -> Sql:
    """Return what rows must pass."""
    parts = [Sql(f"d.modality = {_literal(modality)} AND d.document <= {int(where.last)}")]
    if len(where.gone):
        parts.append(Sql("d.document != ALL(%s)", (where.gone.tolist(),)))
    if where.only is not None:
        parts.append(Sql("d.document = ANY(%s)", (where.only.tolist(),)))
    if where.condition is not None:
        condition = compiled(where.condition)
        parts.append(Sql(f"({condition.text})", condition.values))
    return Sql(" AND ".join(one.text for one in parts), tuple(value for one in parts for value in one.values))


def _literal(text: str) -> str:
    return sql.Literal(text).as_string().replace("%", "%%")


def _settings(k: int) -> str:
    """Return the settings of a search, for its transaction."""
    candidates = min(1000, max(EF, 2 * k))  # 1000 is the limit of pgvector
    return (
        f"SET LOCAL hnsw.ef_search = {candidates}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        "SET LOCAL hnsw.max_scan_tuples = 2000000000; SET LOCAL hnsw.scan_mem_multiplier = 8"
    )


def _name(text: str) -> str:
    """Return the name of a publication's table, or of an index."""
    return f"folded_{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def copy_rows(connection: Connection, table: sql.Identifier, key: str, rows: FoldedRows) -> None:
    """Add rows to a table."""
    copying = sql.SQL(f"COPY {{}} ({COLUMNS}) FROM STDIN (FORMAT BINARY)").format(table)
    with connection.cursor() as cursor, cursor.copy(copying) as copy:
        for at, (document, passage) in enumerate(rows.rows.tolist()):
            facts = Jsonb(listed_json(rows.facts[at]), dumps=str)  # it is JSON already
            copy.write_row((key, rows.modality, Int8(document), Int4(passage), rows.ids[at], facts, rows.vectors[at]))
