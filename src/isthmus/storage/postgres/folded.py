"""Folded vectors in the database, searched there by pgvector: exactly while they are few, else by HNSW.

Each publication has, for each modality of many rows, a partial HNSW index: ``WHERE key = … AND modality = …``. A filter
is part of the same statement. The server may answer it by the index of facts and compare what is left, or walk the
graph until enough rows pass (``hnsw.iterative_scan``); where the walk ends too early, the search is repeated exactly.

``database-half`` makes the indexes of 16-bit numbers, of half the size. Rows keep their 32 bits: the best by the index
are compared again with those. Reads and writes are on connections of their own, so a search sees every acknowledged
write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

import numpy as np
import psycopg
from psycopg import sql

from isthmus.errors import CannotWrite
from isthmus.storage.postgres.address import NAMES, PostgresAddress
from isthmus.storage.postgres.database import OwnConnections, PostgresDatabase
from isthmus.storage.postgres.filters import Sql, compiled, listed_json
from isthmus.storage.postgres.pool import Connection
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows

MOST = 10_000  # rows that one search returns
EXACT_BELOW = 5_000  # rows of a modality that are compared one by one
WIDEST = {"vector": 2_000, "halfvec": 4_000}  # numbers of a vector that HNSW takes
EF = 100  # candidates of a search by HNSW, at least; 1000 is pgvector's limit
AGAIN = 2  # times as many candidates from an index of 16-bit numbers

COLUMNS = "key, modality, document, passage, id, facts, vector"
WRITE = (
    f"INSERT INTO folded ({COLUMNS}) SELECT {COLUMNS} FROM arriving ON CONFLICT (key, document, passage) DO UPDATE SET "
    "modality = excluded.modality, id = excluded.id, facts = excluded.facts, vector = excluded.vector"
)
SEARCH = """
SELECT document, passage, -(vector <#> {query}) AS inner_product FROM (
  SELECT d.document, d.passage, d.vector FROM folded d WHERE {where}
  ORDER BY d.vector::{kind}({width}) <#> {query}::{kind}({width}) LIMIT {limit}) AS best
ORDER BY inner_product DESC, document, passage LIMIT {k}
"""


class PostgresFolded:
    """The tables ``publications`` and ``folded`` of one collection."""

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
        with self._transaction() as connection:
            connection.execute("INSERT INTO publications VALUES (%s, %s)", (key, width))

    def about(self, key: str) -> About | None:
        """Return what was last marked; None where there is no such publication, or it was never marked."""
        found = self._database.one("SELECT about FROM publications WHERE key = %s", key)
        return None if found is None or found[0] is None else About.from_json(found[0])

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is; a complete one gets its indexes first."""
        if about.complete:
            self._index(key)
        with self._transaction() as connection:
            statement = "UPDATE publications SET about = %s WHERE key = %s"
            if not connection.execute(statement, (about.to_json(), key)).rowcount:
                raise self._missing(key)

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in place of those with the same document and passage."""
        self._width(key)
        with self._transaction() as connection:
            connection.execute("CREATE TEMP TABLE arriving (LIKE folded) ON COMMIT DROP")
            with connection.cursor() as cursor, cursor.copy(f"COPY arriving ({COLUMNS}) FROM STDIN") as copy:
                for at, (document, passage) in enumerate(rows.rows.tolist()):
                    facts, vector = listed_json(rows.facts[at]), vector_text(rows.vectors[at])
                    copy.write_row((key, rows.modality, document, passage, rows.ids[at], facts, vector))
            connection.execute(WRITE)

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents; those that are not there are ignored."""
        with self._transaction() as connection:
            statement = "DELETE FROM folded WHERE key = %s AND document = ANY(%s)"
            connection.execute(statement, (key, documents.tolist()))

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return ``(m, k)`` inner products, best first, and ``(m, k, 2)`` documents and passages."""
        width = self._width(key)
        inner = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k, 2), -1, np.int64)
        kind, passing = self._kind(width), rows_passing(modality, where)
        with self._transaction() as connection:
            connection.execute(_settings(k))
            for at, query in enumerate(queries):
                statement, values = _statement(key, passing, (vector_text(query), width, kind, k))
                # never prepared: a plan that is kept would not heed the filter's values, nor the settings
                found = connection.execute(statement, values, prepare=False).fetchall()
                if len(found) < k:  # all that may be found, or a walk that ended too early
                    connection.execute("SET LOCAL enable_indexscan = off")
                    found = connection.execute(statement, values, prepare=False).fetchall()
                    connection.execute("SET LOCAL enable_indexscan = on")
                for place, (document, passage, product) in enumerate(found):
                    inner[at, place], rows[at, place] = product, (document, passage)
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find, exactly."""
        passing = rows_passing(modality, where)
        statement = f"SELECT count(*) FROM folded d WHERE d.key = %s AND {passing.text}"
        return int(self._database.one(statement, key, *passing.values)[0])

    def pushes(self, condition: Condition) -> bool:  # noqa: ARG002 - all of them
        """Whether the server can apply a condition exactly: every one is compiled to SQL."""
        return True

    def drop(self, key: str) -> None:
        """Delete a publication with its indexes; one that is not there is ignored."""
        with self._transaction() as connection:
            modalities = connection.execute("SELECT DISTINCT modality FROM folded WHERE key = %s", (key,)).fetchall()
            for (modality,) in modalities:
                with suppress(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(_index_name(key, modality)))
            connection.execute("DELETE FROM folded WHERE key = %s", (key,))
            connection.execute("DELETE FROM publications WHERE key = %s", (key,))

    def _index(self, key: str) -> None:
        """Make the HNSW indexes of a publication that has none; exact search does where this role may not."""
        width = self._width(key)
        kind = self._kind(width)
        if width > WIDEST[kind]:
            return
        counts = self._database.all("SELECT modality, count(*) FROM folded WHERE key = %s GROUP BY modality", key)
        for modality in (name for name, count in counts if count >= EXACT_BELOW):
            with suppress(CannotWrite), self._transaction() as connection:
                connection.execute(
                    sql.SQL(
                        "CREATE INDEX IF NOT EXISTS {} ON folded USING hnsw ((vector::{}({})) {}) "
                        "WHERE key = {} AND modality = {}"
                    ).format(
                        _index_name(key, modality),
                        sql.SQL(kind),
                        sql.Literal(width),
                        sql.SQL(f"{kind}_ip_ops"),
                        sql.Literal(key),
                        sql.Literal(modality),
                    )
                )

    def _kind(self, width: int) -> str:
        """Return the type that an index has: 16 bits if that was chosen, or where only they fit."""
        return "halfvec" if self.address == NAMES[1] or width > WIDEST["vector"] else "vector"

    def _width(self, key: str) -> int:
        found = self._database.one("SELECT width FROM publications WHERE key = %s", key)
        if found is None:
            raise self._missing(key)
        return int(found[0])

    def _missing(self, key: str) -> NotPublished:
        return NotPublished(f"{self._place} has no publication {key}. It is made again from the collection.")

    def _transaction(self) -> AbstractContextManager[Connection]:
        return self._database.apart()


def _statement(key: str, passing: Sql, asked: tuple[str, int, str, int]) -> tuple[Any, tuple[Any, ...]]:
    """Return a search: key and modality as literals, because a partial index is used only for those it names."""
    query, width, kind, k = asked
    few = k * AGAIN if kind == "halfvec" else k
    text = SEARCH.format(
        query="%s::vector",
        where=f"d.key = {_literal(key)} AND {passing.text}",
        kind=kind,
        width=width,
        limit=int(few),
        k=int(k),
    )
    return text, (query, *passing.values, query)


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
    candidates = min(1000, max(EF, 2 * k))
    return (
        f"SET LOCAL hnsw.ef_search = {candidates}; SET LOCAL hnsw.iterative_scan = relaxed_order; "
        "SET LOCAL hnsw.max_scan_tuples = 2000000000; SET LOCAL hnsw.scan_mem_multiplier = 8"
    )


def _index_name(key: str, modality: str) -> sql.Identifier:
    return sql.Identifier(f"folded_{hashlib.sha256(f'{key} {modality}'.encode()).hexdigest()[:24]}")


def vector_text(vector: Matrix) -> str:
    """Write a vector for pgvector; nine digits are enough to read the same 32 bits."""
    return f"[{','.join(f'{number:.9g}' for number in vector.tolist())}]"
