"""Vectors in Parquet: ``parquet:FILE?id=COLUMN&vector=COLUMN&modality=COLUMN``, or a folder of such files.

The new file has the same columns and the same rows in the same order, with the vectors folded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from isthmus._optional import need
from isthmus.atomic import replacing
from isthmus.errors import BadFile, CannotRead
from isthmus.stores import arrow
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import COSINE, INNER, L2, Batch, Id, StoreDescription, StoreKind, VectorSource, the_field


class ParquetSource:
    """The rows of a file, or of all files of a folder."""

    def __init__(self, place: str, id_field: str | None = None, vector: str | None = None) -> None:
        self.path = Path(place)
        self.id_field, self.vector = id_field, vector

    @classmethod
    def of(cls, address: StoreAddress) -> ParquetSource:
        """Open an address."""
        return cls(address.place, address.options.get("id"), address.options.get("vector"))

    @cached_property
    def files(self) -> list[Any]:
        """The open files."""
        parquet, errors = need("pyarrow.parquet", extra="parquet"), need("pyarrow", extra="parquet").ArrowException
        paths = sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]
        if not paths:
            raise CannotRead(f"{self.path} has no .parquet files.")
        try:
            return [parquet.ParquetFile(path) for path in paths]
        except errors as error:
            raise BadFile(f"{self.path} is not Parquet, or damaged: {error}") from None
        except OSError as error:
            raise CannotRead(f"{self.path} cannot be read: {error.strerror or error}.") from None

    def describe(self) -> StoreDescription:
        """Return the columns; the number of dimensions is that of the first row."""
        schema = self.files[0].schema_arrow
        vector = arrow.vector_field(schema, self.vector)
        id_field = self.id_field or ("id" if "id" in schema.names else arrow.ROW)
        if self.id_field is not None and self.id_field not in schema.names:
            the_field(self.id_field, (), schema.names, "ids", "id")
        first = next(self.batches(1), None)
        fields = tuple(name for name in schema.names if name not in (vector, id_field))
        count = sum(file.metadata.num_rows for file in self.files)
        dim = 0 if first is None else first.vectors.shape[1]
        return StoreDescription(count, dim, fields, id_field, vector, schema.remove_metadata())

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows, file by file."""
        schema = self.files[0].schema_arrow
        vector = arrow.vector_field(schema, self.vector)
        id_field = self.id_field or ("id" if "id" in schema.names else arrow.ROW)
        done = 0
        for file in self.files:
            for batch in file.iter_batches(batch_size=size):
                yield arrow.read(batch, id_field, vector, done)
                done += batch.num_rows

    def close(self) -> None:
        """Close the files."""
        for file in self.__dict__.get("files", ()):
            file.close()


class ParquetTarget:
    """A new file, written as a whole."""

    whole = True

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:  # noqa: ARG002 - a file has no connection
        self.path = Path(address.place)

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.path.exists()

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Write a file; the metric is chosen by whoever searches it."""
        parquet = need("pyarrow.parquet", extra="parquet")
        with replacing(self.path) as draft, ExitStack() as stack:
            writer: list[Any] = []

            def write(batch: Batch) -> None:
                if not writer:
                    schema = arrow.schema_like(like, dim, batch)
                    writer.append(stack.enter_context(parquet.ParquetWriter(draft, schema)))
                writer[0].write_table(arrow.table(batch, like, writer[0].schema))

            yield write
            stack.close()  # the file is complete before it is renamed

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids."""
        for batch in ParquetSource(str(self.path)).batches(1000):
            yield batch.ids

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete nothing: a new file has no such rows."""

    def close(self) -> None:
        """Hold nothing open."""


KIND = StoreKind(
    example="parquet:FILE.parquet?id=id&vector=embedding&modality=kind",
    options=("id", "vector"),
    values={INNER: "inner", COSINE: "cosine", L2: "distance"},
    source=ParquetSource.of,
    target=ParquetTarget,
)
