"""LanceDB: ``lancedb:FOLDER/TABLE?id=COLUMN&vector=COLUMN``.

The metric belongs to each search, not to a table; without one LanceDB takes the Euclidean distance. Folded rows are
equally long, so the plain call of the client is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from isthmus._optional import need
from isthmus.errors import CannotRead, UnknownName
from isthmus.registry import suggestion
from isthmus.stores import arrow
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import COSINE, INNER, L2, Batch, Id, StoreDescription, StoreKind, VectorSource, the_field

IDS = ("id", "_id", "key")


def table_names(database: Any) -> list[str]:
    """Return the names of all tables."""
    found: list[str] = []
    page = database.list_tables()
    found += page.tables
    while page.page_token:
        page = database.list_tables(page_token=page.page_token)
        found += page.tables
    return found


class LanceSource:
    """The rows of a table."""

    def __init__(self, address: StoreAddress) -> None:
        self.place, self.name = address.folder_and_name()
        if "://" not in self.place and not Path(self.place).is_dir():
            raise CannotRead(f"{self.place} does not exist.")
        self.database = need("lancedb", extra="lancedb").connect(self.place)
        names = table_names(self.database)
        if self.name not in names:
            raise UnknownName(f"No table is called {self.name!r} there. {suggestion(self.name, names)}")
        self.table = self.database.open_table(self.name)
        schema = self.table.schema
        self.vector = arrow.vector_field(schema, address.options.get("vector"))
        self.id_field = the_field(address.options.get("id"), IDS, schema.names, "ids", "id")

    def describe(self) -> StoreDescription:
        """Return the columns; a table's vectors have a fixed size."""
        schema = self.table.schema
        fields = tuple(name for name in schema.names if name not in (self.vector, self.id_field))
        first = next(self.batches(1), None)
        dim = 0 if first is None else first.vectors.shape[1]
        plain = schema.remove_metadata()
        return StoreDescription(self.table.count_rows(), dim, fields, self.id_field, self.vector, plain)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows in the order of the table."""
        for batch in self.table.search().to_batches(batch_size=size):
            if batch.num_rows:
                yield arrow.read(batch, self.id_field, self.vector, 0)

    def close(self) -> None:
        """Hold nothing open."""


class LanceTarget:
    """A new table with the columns of the source."""

    whole = False

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.place, self.name = address.folder_and_name()
        self.source, self.wanted = beside, address.options.get("id")
        self.database = need("lancedb", extra="lancedb").connect(self.place)

    def exists(self) -> bool:
        """Whether a table has this name."""
        return self.name in table_names(self.database)

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Append to a new table; replace rows by their ids in one that is there."""
        made = None if not self.exists() else self.database.open_table(self.name)
        is_new = made is None

        def write(batch: Batch) -> None:
            nonlocal made
            if made is None:
                made = self.database.create_table(self.name, schema=arrow.schema_like(like, dim, batch))
            rows = arrow.table(batch, like, made.schema)
            if is_new:
                made.add(rows)
            else:
                made.merge_insert(like.id_field).when_matched_update_all().when_not_matched_insert_all().execute(rows)

        yield write

    @cached_property
    def _id_field(self) -> str:
        """The column of the ids, which has the name that it has in the source."""
        of_source = () if self.source is None else (self.source.describe().id_field,)
        names = self.database.open_table(self.name).schema.names
        return the_field(self.wanted, [*of_source, *IDS], names, "ids", "id")

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids."""
        rows = self.database.open_table(self.name).search().select([self._id_field])
        for batch in rows.to_batches(batch_size=1000):
            yield batch.column(self._id_field).to_pylist()

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete rows."""
        quoted = ", ".join(str(key) if isinstance(key, int) else "'" + key.replace("'", "''") + "'" for key in ids)
        self.database.open_table(self.name).delete(f"`{self._id_field}` IN ({quoted})")

    def close(self) -> None:
        """Hold nothing open."""


KIND = StoreKind(
    example="lancedb:FOLDER/TABLE",
    options=("id", "vector"),
    values={L2: "squared distance", INNER: "1 − inner", COSINE: "1 − cosine"},
    source=LanceSource,
    target=LanceTarget,
)
