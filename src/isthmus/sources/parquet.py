"""Parquet, a few rows at a time; columns of vectors never become Python numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from isthmus._optional import need
from isthmus.errors import BadFile
from isthmus.sources.base import Found
from isthmus.sources.files import File, from_system
from isthmus.sources.rows import VECTORS, Table

MODULE = "pyarrow"
AT_ONCE = 256  # rows; pictures of a few MB each must fit


def read(file: File) -> Iterator[Found]:
    """Give each row as a document."""
    table = Table(file, "row")
    for number, row in enumerate(rows(file.path), 1):
        yield table.found(row, number)


def rows(path: str) -> Iterator[Mapping[str, Any]]:
    """Read the rows of a Parquet file, without holding more than a few."""
    arrow = need(MODULE, extra="parquet")
    parquet = need("pyarrow.parquet", extra="parquet")
    with Path(path).open("rb") as stream:
        try:
            with closing(parquet.ParquetFile(stream, pre_buffer=False)) as opened:
                for batch in opened.iter_batches(batch_size=AT_ONCE, use_threads=False):
                    names = batch.schema.names
                    columns = [_values(name, column, arrow) for name, column in zip(names, batch.columns, strict=True)]
                    for row in zip(*columns, strict=True):
                        yield dict(zip(names, row, strict=True))
        except (arrow.ArrowException, OSError) as error:
            if from_system(error):
                raise
            raise BadFile(f"is not Parquet, or damaged: {error}") from None


def _values(name: str, column: Any, arrow: Any) -> list[Any]:
    """Turn a column into Python values; vectors into arrays, times into strings, decimals into fractions."""
    kind = column.type
    is_list = arrow.types.is_list(kind) or arrow.types.is_large_list(kind) or arrow.types.is_fixed_size_list(kind)
    if is_list and (name == "vector" or name in VECTORS):
        return [value.values.to_numpy(zero_copy_only=False) if value.is_valid else None for value in column]
    if arrow.types.is_temporal(kind) and not arrow.types.is_duration(kind):
        column = column.cast(arrow.string())
    elif arrow.types.is_decimal(kind):
        column = column.cast(arrow.float64())
    values: list[Any] = column.to_pylist()
    return values


def count(path: str) -> int:
    """Return how many rows a Parquet file has."""
    parquet = need("pyarrow.parquet", extra="parquet")
    with closing(parquet.ParquetFile(path)) as opened:
        return int(opened.metadata.num_rows)
