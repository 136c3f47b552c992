"""The output of `clip-retrieval inference`: ``clip-retrieval:FOLDER``.

    img_emb/img_emb_0.npy   text_emb/text_emb_0.npy   metadata/metadata_0.parquet

A photo and its caption are two rows, each with its own modality. The new folder has the same shards with folded vectors
and the same metadata, so that `clip-retrieval index` makes its indexes from it (inner product, as is its default).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.atomic import replacing_folder
from isthmus.errors import BadFile, BadInput, CannotRead
from isthmus.sources.clip_retrieval import FOLDERS, SHARD
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import INNER, MODALITY, Batch, Id, StoreDescription, StoreKind, VectorSource
from isthmus.types import Matrix

METADATA = "metadata"


class ClipRetrievalStore:
    """The vectors of a folder, mapped from their files."""

    def __init__(self, address: StoreAddress) -> None:
        self.path = Path(address.place)

    @cached_property
    def shards(self) -> dict[tuple[str, str], Matrix]:
        """The arrays by shard and modality, in the order of the shards."""
        found = {
            (match[1], part): path
            for part, folder in FOLDERS.items()
            for path in self.path.joinpath(folder).glob("*.npy")
            if (match := SHARD.fullmatch(path.name))
        }
        if not found:
            raise CannotRead(f"{self.path} has no img_emb/img_emb_*.npy and no text_emb/text_emb_*.npy in it.")
        ordered = sorted(found, key=lambda key: (len(key[0]), key))
        return {key: _mapped(found[key]) for key in ordered}

    def describe(self) -> StoreDescription:
        """Return the size of all shards."""
        dims = {array.shape[1] for array in self.shards.values()}
        if len(dims) > 1:
            raise BadInput(f"The shards of {self.path} have {', '.join(map(str, sorted(dims)))} dimensions.")
        count = sum(map(len, self.shards.values()))
        shape = {key: len(array) for key, array in self.shards.items()}
        return StoreDescription(count, dims.pop(), (MODALITY, "shard", "row"), native=(self.path, shape))

    def batches(self, size: int) -> Iterator[Batch]:
        """Yield rows, shard by shard."""
        for (shard, part), array in self.shards.items():
            for start in range(0, len(array), size):
                vectors = np.asarray(array[start : start + size], dtype=np.float32)
                rows = range(start, start + len(vectors))
                yield Batch(
                    [f"{shard}-{row}-{part}" for row in rows],
                    vectors,
                    [{MODALITY: part, "shard": shard, "row": row} for row in rows],
                )

    def close(self) -> None:
        """Hold nothing open."""


def _mapped(path: Path) -> Matrix:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadFile(f"{path} is not an array, or damaged: {error}") from None
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        raise BadFile(
            f"{path} has shape {array.shape} and type {array.dtype}; it must be (rows, dimensions) of numbers."
        )
    return np.asanyarray(array)


class ClipRetrievalTarget:
    """A new folder of the same shape, written as a whole."""

    whole = True

    def __init__(self, address: StoreAddress, beside: VectorSource | None) -> None:
        self.path = Path(address.place)
        if not isinstance(beside, ClipRetrievalStore):
            raise BadInput(
                "A folder of clip-retrieval is made from another one. Name parquet:FILE or faiss:INDEX instead."
            )

    def exists(self) -> bool:
        """Whether something is there."""
        return self.path.exists()

    @contextmanager
    def writing(self, dim: int, metric: str, like: StoreDescription) -> Iterator[Callable[[Batch], None]]:  # noqa: ARG002
        """Write every shard, and copy the metadata."""
        source, shape = like.native
        with replacing_folder(self.path) as draft:
            arrays: dict[tuple[str, str], Any] = {}
            for (shard, part), rows in shape.items():
                folder = FOLDERS[part]
                draft.joinpath(folder).mkdir(exist_ok=True)
                name = draft / folder / f"{folder}_{shard}.npy"
                arrays[shard, part] = np.lib.format.open_memmap(name, "w+", np.float32, (rows, dim))

            def write(batch: Batch) -> None:
                for row, vector in zip(batch.metadata, batch.vectors, strict=True):
                    arrays[row["shard"], row[MODALITY]][row["row"]] = vector

            yield write
            for array in arrays.values():
                array.flush()
            if source.joinpath(METADATA).is_dir():
                shutil.copytree(source / METADATA, draft / METADATA)

    def ids(self) -> Iterator[Sequence[Id]]:
        """Yield nothing: rows are numbered by their shards."""
        yield from ()

    def delete(self, ids: Sequence[Id]) -> None:
        """Delete nothing: a new folder has no such rows."""

    def close(self) -> None:
        """Hold nothing open."""


KIND = StoreKind(
    example="clip-retrieval:FOLDER",
    options=(),
    values={INNER: "inner"},
    source=ClipRetrievalStore,
    target=ClipRetrievalTarget,
)
