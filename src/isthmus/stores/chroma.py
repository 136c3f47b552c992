"""Chroma: ``chroma:FOLDER/COLLECTION``, or ``chroma:http://HOST:PORT/COLLECTION`` of a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from isthmus.stores.base import COSINE, INNER, L2, Batch, Id, StoreDescription, StoreKind, VectorSource, plain

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
        self.source = beside if isinstance(beside, ChromaSource) else None
        shared = self.source if self.source is not None and self.source.place == self.place else None
        self.client = connect(self.place, create=True) if shared is None else shared.client

    def exists(self) -> bool:
        """Whether a collection has this name."""
        return self.name in [one.name for one in self.client.list_collections()]

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Make the collection without an embedding function: queries come as folded vectors."""
        configuration, is_new = {"hnsw": {"space": SPACES[metric]}}, not self.exists()
        if is_new:
            self.client.create_collection(self.name, configuration=configuration, embedding_function=None)
        collection = self.client.get_collection(self.name, embedding_function=None)
        metadata: Callable[[Mapping[str, Any]], dict[str, Any]] = _scalars if self.source is None else dict

        def write(batch: Batch) -> None:
            ids, rows = list(map(str, batch.ids)), list(map(metadata, batch.metadata))
            texts = batch.texts or [None] * len(batch)
            if not is_new:
                _delete_stale(collection, dict(zip(ids, zip(rows, texts, strict=True), strict=True)))
            for has_text in (False, True):
                some = [at for at, text in enumerate(texts) if (text is not None) is has_text]
                if some:
                    collection.upsert(
                        ids=[ids[at] for at in some],
                        embeddings=batch.vectors[some],
                        metadatas=[rows[at] or None for at in some],
                        documents=[texts[at] for at in some] if has_text else None,
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


def _delete_stale(collection: Any, rows: Mapping[str, tuple[Mapping[str, Any], str | None]]) -> None:
    """Delete rows that have lost a field or their text: an upsert would keep it."""
    found = collection.get(ids=list(rows), include=["metadatas", "documents"])
    stale = [
        key
        for key, had, text in zip(found["ids"], found["metadatas"], found["documents"], strict=True)
        if (had or {}).keys() - rows[key][0].keys() or (text is not None and rows[key][1] is None)
    ]
    if stale:
        collection.delete(ids=stale)


def _scalars(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as Chroma takes it: None is left out, and lists and objects become JSON."""
    return {
        name: value if isinstance(value, str | int | float) else json.dumps(value)
        for name, value in plain(row).items()
        if value is not None
    }


KIND = StoreKind(
    example="chroma:FOLDER/COLLECTION",
    options=(),
    values={INNER: "1 − inner", COSINE: "1 − cosine", L2: "squared distance"},
    source=ChromaSource,
    target=ChromaTarget,
    clients=("chromadb", "httpx"),
)
