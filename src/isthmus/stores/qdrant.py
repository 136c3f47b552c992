"""Qdrant: ``qdrant:http://HOST:6333/COLLECTION``, or ``qdrant:FOLDER/COLLECTION`` of the client's local mode.

``?vector=NAME`` names one of several vectors. The key of a server is read from ``QDRANT_API_KEY``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import numpy as np

from isthmus._optional import need
from isthmus.errors import BadInput, CannotReach, CannotRead, UnknownName
from isthmus.registry import lookup, suggestion
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import COSINE, INNER, L2, Batch, Id, StoreDescription, StoreKind, VectorSource, plain

DISTANCES = {INNER: "DOT", COSINE: "COSINE", L2: "EUCLID"}
PEEKED = 100  # rows whose payload shows the fields


def connect(place: str, *, create: bool) -> Any:
    """Return the client of a server or of a folder."""
    client = need("qdrant_client", extra="qdrant").QdrantClient
    if place.startswith(("http://", "https://")):
        return client(url=place, api_key=os.environ.get("QDRANT_API_KEY"))
    if not create and not Path(place, "meta.json").exists():
        raise CannotRead(f"{place} is no folder of Qdrant's local mode: it has no meta.json.")
    try:
        return client(path=place)
    except RuntimeError as error:  # another process has the folder
        raise CannotReach(f"{place} cannot be opened: {error}") from None


class QdrantSource:
    """The points of a collection; payload fields are metadata."""

    def __init__(self, address: StoreAddress) -> None:
        self.place, self.name = address.folder_and_name()
        self.client = connect(self.place, create=False)
        try:
            names = [one.name for one in self.client.get_collections().collections]
            if self.name not in names:
                raise UnknownName(f"No collection is called {self.name!r} there. {suggestion(self.name, names)}")
            self.vector, self.dim = self._vector(address.options.get("vector"))
        except BaseException:
            self.client.close()
            raise

    def _vector(self, wanted: str | None) -> tuple[str | None, int]:
        """Return the name of the vectors, None if they have none, and their dimensions."""
        vectors = self.client.get_collection(self.name).config.params.vectors
        if not isinstance(vectors, dict):
            return None, int(vectors.size)
        if wanted is None and len(vectors) > 1:
            raise BadInput(f"Points have several vectors: {', '.join(vectors)}. Name one in the address: ?vector=NAME.")
        name = wanted or next(iter(vectors))
        return name, int(lookup(vectors, name, "vector of these points").size)

    def describe(self) -> StoreDescription:
        """Return the size, and the fields of the first points."""
        first, _ = self.client.scroll(self.name, limit=PEEKED, with_payload=True)
        fields = dict.fromkeys(name for point in first for name in point.payload or ())
        return StoreDescription(int(self.client.count(self.name).count), self.dim, tuple(fields))

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield points in the order of their ids; those without this vector are left out."""
        wanted = True if self.vector is None else [self.vector]
        offset = None
        while True:
            points, offset = self.client.scroll(
                self.name, limit=size, offset=offset, with_payload=True, with_vectors=wanted
            )
            rows = [(point, vector) for point in points if (vector := self._of(point)) is not None]
            if rows:
                vectors = np.array([vector for _, vector in rows], dtype=np.float32)
                yield Batch([point.id for point, _ in rows], vectors, [point.payload or {} for point, _ in rows])
            if offset is None:
                return

    def _of(self, point: Any) -> Any:
        return point.vector if self.vector is None else (point.vector or {}).get(self.vector)

    def close(self) -> None:
        """Close the client; in local mode this frees the folder."""
        self.client.close()


class QdrantTarget:
    """A new collection. An id that Qdrant cannot have becomes a UUID made from it, and is kept in the payload."""

    whole = False

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.place, self.name = address.folder_and_name()
        self.own = not (isinstance(beside, QdrantSource) and beside.place == self.place)
        self.client = (
            beside.client if isinstance(beside, QdrantSource) and not self.own else connect(self.place, create=True)
        )

    def exists(self) -> bool:
        """Whether a collection has this name."""
        return bool(self.client.collection_exists(self.name))

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Make the collection, with one vector that has no name."""
        models = need("qdrant_client.models", extra="qdrant")
        if not self.exists():
            distance = getattr(models.Distance, DISTANCES[metric])
            self.client.create_collection(self.name, vectors_config=models.VectorParams(size=dim, distance=distance))

        def write(batch: Batch) -> None:
            pairs = [_point(key, row) for key, row in zip(batch.ids, _payloads(batch), strict=True)]
            points = models.Batch(
                ids=[key for key, _ in pairs], vectors=batch.vectors.tolist(), payloads=[row for _, row in pairs]
            )
            self.client.upsert(self.name, points, wait=True)

        yield write

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids that the points had in the source."""
        offset = None
        while True:
            points, offset = self.client.scroll(self.name, limit=1000, offset=offset, with_payload=[ORIGINAL])
            yield [(point.payload or {}).get(ORIGINAL, point.id) for point in points]
            if offset is None:
                return

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete points."""
        models = need("qdrant_client.models", extra="qdrant")
        chosen = models.PointIdsList(points=[_point(key, {})[0] for key in ids])
        self.client.delete(self.name, points_selector=chosen, wait=True)

    def close(self) -> None:
        """Close a client of its own."""
        if self.own:
            self.client.close()


ORIGINAL = "isthmus_id"


def _point(key: Id, row: dict[str, Any]) -> tuple[Id, dict[str, Any]]:
    """Return an id that Qdrant takes, and the payload with the original one if it is another."""
    if isinstance(key, int) and key >= 0:
        return key, row
    with suppress(ValueError):
        if str(UUID(str(key))) == key:  # others are UUIDs, too, and come back in this form
            return key, row
    return str(uuid5(NAMESPACE_URL, str(key))), {**row, ORIGINAL: key}


def _payloads(batch: Batch) -> list[dict[str, Any]]:
    texts = batch.texts or [None] * len(batch)
    pairs = zip(batch.metadata, texts, strict=True)
    return [{**plain(row), **({} if text is None else {"document": text})} for row, text in pairs]


KIND = StoreKind(
    example="qdrant:http://HOST:6333/COLLECTION",
    options=("vector",),
    values={INNER: "inner", COSINE: "cosine", L2: "distance"},
    source=QdrantSource,
    target=QdrantTarget,
    clients=("qdrant_client", "httpx"),
)
