"""A table of PostgreSQL with pgvector: ``pgvector:postgresql://HOST/DATABASE/TABLE?id=COLUMN&vector=COLUMN``.

A table in a schema is SCHEMA.TABLE; other options belong to the connection (``sslmode`` …), a password may be in
``PGPASSWORD``. Each search chooses the metric by its operator: ``<#>`` inner product, ``<=>`` cosine, ``<->`` distance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput, CannotReach, UnknownName
from isthmus.registry import suggestion
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import (
    COSINE,
    INNER,
    L2,
    Batch,
    Id,
    StoreDescription,
    StoreKind,
    VectorSource,
    plain,
    the_field,
)

OPTIONS = ("id", "vector")
IDS = ("id", "_id", "key")
TYPES = ("vector", "halfvec")
COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.atttypid::bigint FROM pg_attribute a
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
TABLES = """
    SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""
KEYS = """
    SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
    WHERE i.indrelid = to_regclass(%s) AND i.indisprimary
"""


def connect(address: StoreAddress) -> tuple[Any, str]:
    """Return a connection, and the name of the table in SQL, quoted."""
    psycopg = need("psycopg", extra="postgres")
    url, name = address.folder_and_name()
    others = {key: value for key, value in address.options.items() if key not in (*OPTIONS, "modality", "all")}
    try:
        connection = psycopg.connect(f"{url}?{urlencode(others, quote_via=quote)}" if others else url, autocommit=True)
    except psycopg.Error as error:
        raise CannotReach(f"{StoreAddress(address.kind, url, {})} cannot be reached: {error}") from None
    return connection, psycopg.sql.Identifier(*name.split(".")).as_string(connection)


def columns_of(connection: Any, table: str) -> dict[str, tuple[str, int]]:
    """Return the columns of a table, with the names and the numbers of their types; empty if there is none."""
    found = connection.execute(COLUMNS, (table,)).fetchall()
    return {name: (kind, number) for name, kind, number in found}


def quoted(connection: Any, name: str) -> str:
    """Return the name of a column in SQL."""
    return str(need("psycopg", extra="postgres").sql.Identifier(name).as_string(connection))


class PgvectorSource:
    """The rows of a table or a view."""

    def __init__(self, address: StoreAddress) -> None:
        self.connection, self.table = connect(address)
        try:
            self.columns = columns_of(self.connection, self.table)
            if not self.columns:
                names = [name for (name,) in self.connection.execute(TABLES).fetchall()]
                name = address.folder_and_name()[1]
                raise UnknownName(f"No table is called {name!r} there. {suggestion(name, names)}")
            known = [name for name, (kind, _) in self.columns.items() if kind.startswith(TYPES)]
            only = known if len(known) == 1 else []
            self.vector = the_field(address.options.get("vector"), [*only, "embedding"], known, "vectors", "vector")
            self.id_field = the_field(address.options.get("id"), IDS, list(self.columns), "ids", "id")
        except BaseException:
            self.connection.close()
            raise

    def describe(self) -> StoreDescription:
        """Return the columns, their types, and the number of rows."""
        vector = quoted(self.connection, self.vector)
        known = f"SELECT count(*), max(vector_dims({vector}::vector)) FROM {self.table} WHERE {vector} IS NOT NULL"
        count, dim = self.connection.execute(known).fetchone()
        fields = tuple(name for name in self.columns if name not in (self.id_field, self.vector))
        kinds = {name: kind for name, (kind, _) in self.columns.items()}
        return StoreDescription(int(count), int(dim or 0), fields, self.id_field, self.vector, kinds)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows in the order of their ids, through a cursor of the server; rows without a vector are left out."""
        others = [name for name in self.columns if name not in (self.id_field, self.vector)]
        key, vector = quoted(self.connection, self.id_field), quoted(self.connection, self.vector)
        wanted = ", ".join([self._read(self.id_field), f"{vector}::vector::real[]", *map(self._read, others)])
        with self.connection.transaction(), self.connection.cursor(name="isthmus_rows", binary=True) as cursor:
            cursor.execute(f"SELECT {wanted} FROM {self.table} WHERE {vector} IS NOT NULL ORDER BY {key}")
            while rows := cursor.fetchmany(size):
                vectors = np.array([row[1] for row in rows], dtype=np.float32)
                metadata = [dict(zip(others, row[2:], strict=True)) for row in rows]
                yield Batch([row[0] if isinstance(row[0], int) else str(row[0]) for row in rows], vectors, metadata)

    def _read(self, name: str) -> str:
        """Return a column as it is selected: a type that psycopg cannot read, as an enum, is read as a text."""
        binary, adapters = need("psycopg.pq", extra="postgres").Format.BINARY, self.connection.adapters
        known = adapters.types.get(self.columns[name][1])  # of an array, that of its values
        is_read = known is not None and adapters.get_loader(known.oid, binary) is not None
        return quoted(self.connection, name) + ("" if is_read else "::text")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class PgvectorTarget:
    """A new table with the columns of the source; rows of other stores have their metadata in one column of JSON."""

    whole = False

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.connection, self.table = connect(address)
        self.same = isinstance(beside, PgvectorSource)
        self.id_field = address.options.get("id")

    def exists(self) -> bool:
        """Whether there is such a table."""
        return bool(columns_of(self.connection, self.table))

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Make the table, and write every batch in a transaction of its own."""
        json = need("psycopg.types.json", extra="postgres").Jsonb
        columns = dict(like.native) if self.same else {like.id_field: "varchar", "metadata": "jsonb"}
        others = [name for name in columns if name not in (like.id_field, like.vector_field)]
        key, vector, *rest = (quoted(self.connection, name) for name in (like.id_field, like.vector_field, *others))
        if not self.exists():
            defined = [f"{key} {columns[like.id_field]} PRIMARY KEY", f"{vector} vector({dim})"]
            defined += [f"{sql} {columns[name]}" for sql, name in zip(rest, others, strict=True)]
            self.connection.execute(f"CREATE TABLE {self.table} ({', '.join(defined)})")
        marks = ", ".join(["%s", "%s::real[]::vector", *["%s"] * len(others)])
        replaced = ", ".join(f"{name} = EXCLUDED.{name}" for name in (vector, *rest))
        statement = (
            f"INSERT INTO {self.table} ({', '.join([key, vector, *rest])}) VALUES ({marks}) "
            f"ON CONFLICT ({key}) DO UPDATE SET {replaced}"
        )

        def cell(value: Any, kind: str) -> Any:
            if value is None or not kind.startswith("json"):
                return value
            return [None if one is None else json(one) for one in value] if kind.endswith("[]") else json(value)

        def cells(at: int, batch: Batch) -> list[Any]:
            if self.same:
                return [cell(batch.metadata[at].get(name), columns[name]) for name in others]
            text = {} if batch.texts is None else {"document": batch.texts[at]}
            return [json({**plain(batch.metadata[at]), **text})]

        def write(batch: Batch) -> None:
            with self.connection.transaction(), self.connection.cursor() as cursor:
                ids = batch.ids if self.same else [str(key) for key in batch.ids]
                rows = [[ids[at], batch.vectors[at].tolist(), *cells(at, batch)] for at in range(len(batch))]
                cursor.executemany(statement, rows)

        yield write

    def _key(self) -> str:
        columns = columns_of(self.connection, self.table)
        primary = [name for (name,) in self.connection.execute(KEYS, (self.table,)).fetchall()]
        return quoted(self.connection, the_field(self.id_field, [*primary, *IDS], list(columns), "ids", "id"))

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids."""
        with self.connection.transaction(), self.connection.cursor(name="isthmus_ids") as cursor:
            cursor.execute(f"SELECT {self._key()} FROM {self.table}")
            while rows := cursor.fetchmany(1000):
                yield [row[0] for row in rows]

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete rows."""
        self.connection.execute(f"DELETE FROM {self.table} WHERE {self._key()} = ANY(%s)", (list(ids),))

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def _refuse_other_servers(address: StoreAddress) -> StoreAddress:
    if not address.place.startswith(("postgresql://", "postgres://")):
        raise BadInput("Write pgvector:postgresql://HOST/DATABASE/TABLE.")
    return address


KIND = StoreKind(
    example="pgvector:postgresql://HOST/DATABASE/TABLE?id=id&vector=embedding&modality=kind",
    options=OPTIONS,
    values={INNER: "negative inner", COSINE: "1 − cosine", L2: "distance"},
    source=lambda address: PgvectorSource(_refuse_other_servers(address)),
    target=lambda address, beside: PgvectorTarget(_refuse_other_servers(address), beside),
    clients=("psycopg",),
    passes_options=True,
)
