"""Chroma: ``chroma:FOLDER/COLLECTION``, or ``chroma:http://HOST:PORT/COLLECTION`` of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from isthmus._optional import need
from isthmus.errors import CannotReach, CannotRead, UnknownName
from isthmus.registry import suggestion
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import COSINE, INNER, L2, Batch, Id, StoreDescription, StoreKind, VectorSource

SPACES = {INNER: "ip", COSINE: "cosine", L2: "l2"}
PEEKED = 100  # rows whose metadata shows the fields


def connect(place: str, *, create: bool) -> Any:
    """Return the client of a folder or of a server."""
    chromadb = need("chromadb", extra="chroma")
    if place.startswith(("http://", "https://")):
        server = urlsplit(place)
        try:
            return chromadb.HttpClient(
                host=server.hostname or "localhost", port=server.port or 8000, ssl=server.scheme == "https"
            )
        except ValueError as error:
            raise CannotReach(f"No Chroma server answers at {place}: {error}") from None
    if not create and not Path(place, "chroma.sqlite3").exists():
        raise CannotRead(f"{place} is no folder of Chroma: it has no chroma.sqlite3.")
    return chromadb.PersistentClient(place)


class ChromaSource:
    """The rows of a collection; its documents are texts, its metadata fields."""

    def __init__(self, address: StoreAddress) -> None:
        self.place, self.name = address.folder_and_name()
        self.client = connect(self.place, create=False)
        names = [one.name for one in self.client.list_collections()]
        if self.name not in names:
            raise UnknownName(f"No collection is called {self.name!r} there. {suggestion(self.name, names)}")
        self.collection = self.client.get_collection(self.name, embedding_function=None)

    def describe(self) -> StoreDescription:
        """Return the size, and the fields of the first rows."""
        first = self.collection.get(limit=PEEKED, include=["embeddings", "metadatas"])
        fields = dict.fromkeys(name for row in first["metadatas"] or () for name in row or ())
        dim = len(first["embeddings"][0]) if len(first["ids"]) else 0
        return StoreDescription(self.collection.count(), dim, tuple(fields))

    @cached_property
    def _ids(self) -> list[str]:
        return list(self.collection.get(include=[])["ids"])

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows by their ids: pages by offset take ever longer."""
        for start in range(0, len(self._ids), size):
            some = self._ids[start : start + size]
            found = self.collection.get(ids=some, include=["embeddings", "metadatas", "documents"])
            place = {key: at for at, key in enumerate(found["ids"])}
            rows = [place[key] for key in some if key in place]  # others were deleted meanwhile
            if rows:
                yield Batch(
                    [found["ids"][at] for at in rows],
                    np.asarray(found["embeddings"], dtype=np.float32)[rows],
                    [found["metadatas"][at] or {} for at in rows],
                    [found["documents"][at] for at in rows],
                )

    def close(self) -> None:
        """Hold nothing open: clients of a folder are shared in a process."""


class ChromaTarget:
    """A new collection."""

    whole = False

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.place, self.name = address.folder_and_name()
        shared = isinstance(beside, ChromaSource) and beside.place == self.place
        self.client = beside.client if shared and isinstance(beside, ChromaSource) else connect(self.place, create=True)

    def exists(self) -> bool:
        """Whether a collection has this name."""
        return self.name in [one.name for one in self.client.list_collections()]

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Make the collection without an embedding function: queries come as folded vectors."""
        configuration = {"hnsw": {"space": SPACES[metric]}}
        if not self.exists():
            self.client.create_collection(self.name, configuration=configuration, embedding_function=None)
        collection = self.client.get_collection(self.name, embedding_function=None)

        def write(batch: Batch) -> None:
            for has_text in (False, True):
                rows = [at for at in range(len(batch)) if (_text(batch, at) is not None) is has_text]
                if rows:
                    collection.upsert(
                        ids=[str(batch.ids[at]) for at in rows],
                        embeddings=batch.vectors[rows],
                        metadatas=[dict(batch.metadata[at]) or None for at in rows],
                        documents=[_text(batch, at) for at in rows] if has_text else None,
                    )

        yield write

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield the ids."""
        yield self.client.get_collection(self.name, embedding_function=None).get(include=[])["ids"]

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete rows."""
        self.client.get_collection(self.name, embedding_function=None).delete(ids=[str(key) for key in ids])

    def close(self) -> None:
        """Hold nothing open."""


def _text(batch: Batch, at: int) -> str | None:
    return None if batch.texts is None else batch.texts[at]


KIND = StoreKind(
    example="chroma:FOLDER/COLLECTION",
    options=(),
    values={INNER: "1 − inner", COSINE: "1 − cosine", L2: "squared distance"},
    source=ChromaSource,
    target=ChromaTarget,
)
