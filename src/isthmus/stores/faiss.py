"""A Faiss index, with its ids and modalities in files beside it: ``faiss:INDEX?ids=FILE&modality=FILE``.

A file has a line for each row (or is a .npy array). Rows keep their order, so the ids of the old index are those of
the new one; an ``IndexIDMap`` becomes another. From a store of another kind, ``INDEX.ids`` has a line for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.atomic import replacing
from isthmus.errors import BadFile, BadInput, CannotRead
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import INNER, L2, MODALITY, Batch, Id, StoreDescription, StoreKind, VectorSource


class FaissSource:
    """The vectors of an index, as it reconstructs them."""

    def __init__(self, address: StoreAddress) -> None:
        self.path, self.options = Path(address.place), address.options

    @cached_property
    def index(self) -> Any:
        """The index, mapped from its file where it can be."""
        faiss = need("faiss", extra="ann")
        if not self.path.is_file():
            raise CannotRead(f"{self.path} does not exist, or is no file.")
        try:
            index = faiss.read_index(str(self.path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except RuntimeError as error:
            raise BadFile(f"{self.path} is no Faiss index, or damaged: {error}") from None
        if faiss.try_extract_index_ivf(index) is not None:
            index = faiss.read_index(str(self.path))
            try:
                faiss.extract_index_ivf(index).make_direct_map()
            except RuntimeError:
                raise BadInput(
                    f"{self.path} has cells, and ids that are not the numbers of its rows, so its vectors do not come "
                    "back in an order. Put them into Parquet, or an IndexIDMap."
                ) from None
        return index

    @cached_property
    def own_ids(self) -> Any:
        """The ids of an index with a map of them; None if it has none."""
        faiss = need("faiss", extra="ann")
        index = faiss.downcast_index(self.index)
        return faiss.vector_to_array(index.id_map) if isinstance(index, faiss.IndexIDMap) else None

    @cached_property
    def ids(self) -> Sequence[Id]:
        """The ids of all rows."""
        if "ids" in self.options:
            return self._column(self.options["ids"])
        return range(self.index.ntotal) if self.own_ids is None else self.own_ids.tolist()

    @cached_property
    def modality(self) -> Sequence[Any] | None:
        """The modality of each row."""
        return self._column(self.options[MODALITY]) if MODALITY in self.options else None

    def _column(self, name: str) -> list[Any]:
        path = Path(name)
        try:
            found = (
                np.load(path, allow_pickle=False).tolist()
                if path.suffix == ".npy"
                else path.read_text("utf-8").splitlines()
            )
        except (OSError, ValueError) as error:
            raise CannotRead(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
        if len(found) != self.index.ntotal:
            raise BadInput(f"{path} has {len(found):,} lines for the {self.index.ntotal:,} vectors of {self.path}.")
        return list(found)

    def describe(self) -> StoreDescription:
        """Return the size of the index."""
        fields = () if self.modality is None else (MODALITY,)
        return StoreDescription(int(self.index.ntotal), int(self.index.d), fields)

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows in the order of the index."""
        faiss = need("faiss", extra="ann")
        whole = faiss.downcast_index(self.index)
        stored = whole if self.own_ids is None else faiss.downcast_index(whole.index)
        total = int(self.index.ntotal)
        for start in range(0, total, size):
            count = min(size, total - start)
            try:
                vectors = stored.reconstruct_n(start, count)
            except RuntimeError:
                raise BadInput(f"{self.path} cannot give its vectors back ({type(stored).__name__}).") from None
            ids = [self.ids[row] for row in range(start, start + count)]
            yield Batch(ids, vectors, [self._metadata(row) for row in range(start, start + count)])

    def _metadata(self, row: int) -> dict[str, Any]:
        return {} if self.modality is None else {MODALITY: self.modality[row]}

    def close(self) -> None:
        """Hold nothing open."""


class FaissTarget:
    """A new index: exact, or what ``?index=`` says, as in HNSW32."""

    whole = True

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.path, self.factory = Path(address.place), address.options.get("index", "Flat")
        self.source = beside if isinstance(beside, FaissSource) else None
        self.ids_path = self.path.with_name(f"{self.path.name}.ids")

    def exists(self) -> bool:
        """Whether a file is there."""
        return self.path.exists() or (self.source is None and self.ids_path.exists())

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Build the index and write its file."""
        faiss = need("faiss", extra="ann")
        index = faiss.index_factory(
            dim, self.factory, faiss.METRIC_INNER_PRODUCT if metric == INNER else faiss.METRIC_L2
        )
        if not index.is_trained:
            raise BadInput(
                f"An index {self.factory!r} has to be trained. Write Flat or HNSW32, or build it from Parquet."
            )

        own = None if self.source is None else self.source.own_ids
        if own is not None:
            index = faiss.IndexIDMap2(index)
        ids: list[str] = []

        def write(batch: Batch) -> None:
            vectors = np.ascontiguousarray(batch.vectors, dtype=np.float32)
            if own is None:
                index.add(vectors)
            else:
                index.add_with_ids(vectors, own[index.ntotal : index.ntotal + len(batch)])
            if self.source is None:
                ids.extend(map(str, batch.ids))

        yield write
        if self.source is None:
            with replacing(self.ids_path) as draft:
                draft.write_text("".join(f"{key}\n" for key in ids), encoding="utf-8")
        with replacing(self.path) as draft:
            faiss.write_index(index, str(draft))

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield nothing: an index has no ids of its own."""
        yield from ()

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete nothing: a new file has no such rows."""

    def close(self) -> None:
        """Hold nothing open."""


KIND = StoreKind(
    example="faiss:INDEX.faiss?ids=ids.txt&modality=kinds.txt",
    options=("ids", "index"),
    values={INNER: "inner", L2: "squared distance"},
    source=FaissSource,
    target=FaissTarget,
)
