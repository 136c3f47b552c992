"""Milvus: ``milvus:http://HOST:19530/COLLECTION``, or ``milvus:FILE.db/COLLECTION`` of Milvus Lite.

``?vector=FIELD`` names one of several vectors. A token is read from ``MILVUS_TOKEN``. Servers from 2.3 on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.errors import CannotReach, CannotRead, UnknownName
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

METRICS = {INNER: "IP", COSINE: "COSINE", L2: "L2"}
PEEKED = 100  # rows whose fields are shown, if the collection takes any
LONGEST = 65_535  # characters of an id


def connect(place: str, *, create: bool) -> Any:
    """Return the client of a server or of a file."""
    pymilvus = need("pymilvus", extra="milvus")
    if "://" not in place and not create and not Path(place).exists():
        raise CannotRead(f"{place} does not exist.")
    try:
        return pymilvus.MilvusClient(place, token=os.environ.get("MILVUS_TOKEN", ""))
    except pymilvus.MilvusException as error:
        raise CannotReach(f"No Milvus answers at {place}: {error.message}") from None


class MilvusSource:
    """The entities of a collection."""

    def __init__(self, address: StoreAddress) -> None:
        self.place, self.name = address.folder_and_name()
        self.client = connect(self.place, create=False)
        try:
            if not self.client.has_collection(self.name):
                raise UnknownName(f"No collection is called {self.name!r} there. Check its name.")
            described = self.client.describe_collection(self.name)
            self.fields = {one["name"]: one for one in described["fields"]}
            self.key = next(one["name"] for one in described["fields"] if one.get("is_primary"))
            known = [name for name, one in self.fields.items() if one["type"].name == "FLOAT_VECTOR"]
            only = known if len(known) == 1 else []
            self.vector = the_field(address.options.get("vector"), only, known, "vectors", "vector")
            self.has_numbers = self.fields[self.key]["type"].name == "INT64"
            self.client.load_collection(self.name)
        except BaseException:
            self.client.close()
            raise

    def describe(self) -> StoreDescription:
        """Return the fields; those that are not in the schema are of the first rows."""
        count = self.client.query(self.name, filter="", output_fields=["count(*)"])[0]["count(*)"]
        first: Batch | None = next(self.batches(PEEKED), None)
        fields = dict.fromkeys(name for row in (first.metadata if first else ()) for name in row)
        dim = int(self.fields[self.vector]["params"]["dim"])
        return StoreDescription(int(count), dim, tuple(fields), self.key, self.vector)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield entities in the order of their keys."""
        pages = self.client.query_iterator(self.name, batch_size=size, output_fields=["*"])
        try:
            while rows := pages.next():
                vectors = np.array([row[self.vector] for row in rows], dtype=np.float32)
                others = [{k: v for k, v in row.items() if k not in (self.key, self.vector)} for row in rows]
                yield Batch([row[self.key] for row in rows], vectors, others)
        finally:
            pages.close()

    def close(self) -> None:
        """Close the client."""
        self.client.close()


class MilvusTarget:
    """A new collection with the fields of the source; fields that the schema does not name are dynamic."""

    whole = False

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.place, self.name = address.folder_and_name()
        self.source = beside if isinstance(beside, MilvusSource) else None
        self.own = self.source is None or self.source.place != self.place
        self.client = connect(self.place, create=True) if self.source is None or self.own else self.source.client

    def exists(self) -> bool:
        """Whether a collection has this name."""
        return bool(self.client.has_collection(self.name))

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:
        """Make the collection, write entities, and wait until they can be searched."""
        kind: type | None = None if not self.exists() else self._kind()

        def write(batch: Batch) -> None:
            nonlocal kind
            if kind is None:
                kind = int if self.source and self.source.has_numbers else str
                self._create(dim, metric, like, kind)
            texts = batch.texts or [None] * len(batch)
            metadata: Callable[[Mapping[str, Any]], dict[str, Any]] = plain if self.source is None else dict
            rows = [
                {
                    **{name: value for name, value in metadata(row).items() if value is not None},
                    **({} if text is None else {"document": text}),
                    like.id_field: kind(key),
                    like.vector_field: vector.tolist(),
                }
                for key, vector, row, text in zip(batch.ids, batch.vectors, batch.metadata, texts, strict=True)
            ]
            self.client.upsert(self.name, rows)

        yield write
        self.client.flush(self.name)

    def _kind(self) -> type:
        return int if self._key()["type"].name == "INT64" else str

    def _key(self) -> Mapping[str, Any]:
        fields = self.client.describe_collection(self.name)["fields"]
        return next(one for one in fields if one.get("is_primary"))

    def _create(self, dim: int, metric: str, like: StoreDescription, kind: type) -> None:
        types = need("pymilvus", extra="milvus").DataType
        schema = self.client.create_schema(auto_id=False, enable_dynamic_field=True)
        if kind is int:
            schema.add_field(like.id_field, types.INT64, is_primary=True)
        else:
            schema.add_field(like.id_field, types.VARCHAR, is_primary=True, max_length=LONGEST)
        schema.add_field(like.vector_field, types.FLOAT_VECTOR, dim=dim)
        index = self.client.prepare_index_params()
        index.add_index(like.vector_field, index_type="FLAT", metric_type=METRICS[metric])
        self.client.create_collection(self.name, schema=schema, index_params=index)

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the keys."""
        key = self._key()["name"]
        pages = self.client.query_iterator(self.name, batch_size=1000, output_fields=[key])
        try:
            while rows := pages.next():
                yield [row[key] for row in rows]
        finally:
            pages.close()

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete entities."""
        self.client.delete(self.name, ids=list(ids))
        self.client.flush(self.name)

    def close(self) -> None:
        """Close a client of its own."""
        if self.own:
            self.client.close()


KIND = StoreKind(
    example="milvus:http://HOST:19530/COLLECTION",
    options=("vector",),
    values={INNER: "inner", COSINE: "cosine", L2: "squared distance"},
    source=MilvusSource,
    target=MilvusTarget,
    clients=("pymilvus", "grpc"),
)
