"""Rows of Arrow tables, which Parquet and LanceDB share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.stores.base import Batch, StoreDescription, plain, the_field
from isthmus.types import Matrix

VECTORS = ("vector", "embedding", "vectors", "embeddings")
ROW = "row"  # the id of a row without one: its number


def is_vector(kind: Any) -> bool:
    """Whether a column of this Arrow type may hold vectors."""
    types = need("pyarrow", extra="parquet").types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return bool(is_list and types.is_floating(kind.value_type))


def vector_field(schema: Any, wanted: str | None) -> str:
    """Return the column of the vectors."""
    known = [column.name for column in schema if is_vector(column.type)]
    return the_field(wanted, [*VECTORS, *(known if len(known) == 1 else [])], known, "vectors", "vector")


def vectors_of(column: Any) -> Matrix:
    """Return a column of lists as a matrix."""
    if column.null_count:
        raise BadInput("A row has no vector. Remove such rows, or name another column: ?vector=NAME.")
    flat = column.flatten()
    if not len(column):
        return np.empty((0, 0), dtype=np.float32)
    if len(flat) % len(column):
        raise BadInput("The vectors have different lengths.")
    return np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float32).reshape(len(column), -1)


def read(batch: Any, id_field: str, vector: str, first: int) -> Batch:
    """Turn a record batch into rows; ``first`` is the number of its first row."""
    names = batch.schema.names
    others = [name for name in names if name not in (id_field, vector)]
    ids = batch.column(id_field).to_pylist() if id_field in names else list(range(first, first + batch.num_rows))
    metadata = batch.select(others).to_pylist() if others else [{} for _ in ids]
    return Batch(ids, vectors_of(batch.column(vector)), metadata)


def schema_like(like: StoreDescription, dim: int, first: Batch) -> Any:
    """Return the schema of a new table: the columns of the source, or those that the first rows have."""
    arrow = need("pyarrow", extra="parquet")
    vector = arrow.field(like.vector_field, arrow.list_(arrow.float32(), dim))
    if isinstance(like.native, arrow.Schema):
        columns = [vector if column.name == vector.name else column for column in like.native]
        return arrow.schema(columns)
    rows, key = _rows(first, like), arrow.field(like.id_field, arrow.array(list(first.ids)).type)
    names = dict.fromkeys(name for row in rows for name in row if name not in (key.name, vector.name))
    others = [arrow.field(name, _type_of([row.get(name) for row in rows])) for name in names]
    return arrow.schema([key, vector, *others])


def _type_of(values: Sequence[Any]) -> Any:
    """Return the type of a new column; a text where values have no type, or several."""
    arrow = need("pyarrow", extra="parquet")
    try:
        found = arrow.array(values).type
    except arrow.ArrowException:
        return arrow.string()
    return arrow.string() if arrow.types.is_null(found) else found


def table(batch: Batch, like: StoreDescription, schema: Any) -> Any:
    """Return rows as a table of this schema."""
    arrow = need("pyarrow", extra="parquet")
    rows = _rows(batch, like)
    flat = arrow.array(np.ascontiguousarray(batch.vectors, dtype=np.float32).ravel())
    columns: list[Any] = []
    for column in schema:
        if column.name == like.vector_field:
            columns.append(arrow.FixedSizeListArray.from_arrays(flat, batch.vectors.shape[1]))
        elif column.name == like.id_field:
            columns.append(arrow.array(list(batch.ids), type=column.type))
        else:
            columns.append(_array([row.get(column.name) for row in rows], column))
    return arrow.Table.from_arrays(columns, schema=schema)


def _array(values: Sequence[Any], column: Any) -> Any:
    arrow = need("pyarrow", extra="parquet")
    if arrow.types.is_string(column.type):
        values = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    try:
        return arrow.array(values, type=column.type)
    except arrow.ArrowException as error:
        raise BadInput(
            f"The field {column.name!r} has values of several types, and a column has one, here {column.type} "
            f"({error}). Calibrate into a store of another kind."
        ) from None


def _rows(batch: Batch, like: StoreDescription) -> Sequence[dict[str, Any]]:
    """Return the metadata of rows: as it is from a table, else as JSON has it, with the texts."""
    if isinstance(like.native, need("pyarrow", extra="parquet").Schema):
        return [dict(row) for row in batch.metadata]
    texts = batch.texts or [None] * len(batch)
    return [
        {**plain(row), **({} if batch.texts is None else {"document": text})}
        for row, text in zip(batch.metadata, texts, strict=True)
    ]
