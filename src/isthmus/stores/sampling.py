"""One pass over a store: how much there is of each modality, its statistics, and a sample of each.

A store may be larger than memory. A pass keeps the moments of each modality, at most ``SAMPLE`` rows of each (every row
of a smaller store, in its order), and 16 bytes per row: hashes of its id and of its content, from which the next run
sees what was added, changed and deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from isthmus.calibration import Statistics
from isthmus.errors import BadInput, shown
from isthmus.registry import suggestion
from isthmus.stores.address import StoreAddress
from isthmus.stores.base import MODALITY, Batch, Id, StoreDescription, VectorSource
from isthmus.types import Matrix, Names, Vectors, part_name

SAMPLE = 20_000  # rows of each modality
AT_ONCE = 1000  # rows of a batch,
NUMBERS = 1 << 19  # or as many as have so many numbers: servers reject requests of 32 MB, at some 20 bytes a number
SEED = 20240607

Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, eq=False)
class StoreSample:
    """Rows of a store: their ids, vectors and modality."""

    ids: list[Id]
    vectors: Matrix
    modality: Names

    def documents(self) -> Vectors:
        """Return them as the documents that a calibration is fitted on."""
        return Vectors.of(self.vectors, self.modality)


@dataclass(frozen=True, slots=True, eq=False)
class StorePass:
    """What one pass saw."""

    counts: Mapping[str, int]
    statistics: Statistics
    sample: StoreSample
    rows: NDArray[np.uint64]  # (n, 2): hashes of the id and of the content


class Modality:
    """Tells the modality of rows: a field of theirs, or one for all."""

    def __init__(self, address: StoreAddress, fields: tuple[str, ...]) -> None:
        self.all = part_name(address.options["all"]) if "all" in address.options else None
        of_faiss = address.kind == "faiss"  # whose option names a file
        self.field = MODALITY if of_faiss else address.options.get("modality", MODALITY)
        if self.all is None and self.field not in fields:
            known = ", ".join(fields) or "none"
            hint = suggestion(self.field, fields) if "modality" in address.options else ""
            raise BadInput(
                f"Which rows are texts, which are images? No field is called {self.field!r}. {hint} Fields here: "
                f"{known}. Name one in the address, ?modality=FIELD, or say that all rows are alike, ?all=image."
            )

    def of(self, batch: Batch) -> Names:
        """Return the modality of each row."""
        if self.all is not None:
            return np.full(len(batch), self.all)
        names = []
        for key, row in zip(batch.ids, batch.metadata, strict=True):
            value = row.get(self.field)
            if not isinstance(value, str) or not value:
                raise BadInput(f"Row {shown(key)} has {shown(value)} in its field {self.field!r}: no modality.")
            names.append(part_name(value))
        return np.array(names, dtype=str)


def batches(source: VectorSource, description: StoreDescription, progress: Progress = no_progress) -> Iterator[Batch]:
    """Yield the batches of a store, with progress; a vector that cannot be normalised is refused."""
    done = 0
    for batch in source.batches(max(1, min(AT_ONCE, NUMBERS // max(1, description.dim)))):
        if batch.vectors.shape != (len(batch), description.dim):
            raise BadInput(
                f"Vectors of shape {batch.vectors.shape} came where {description.dim} dimensions were expected."
            )
        length = np.linalg.norm(batch.vectors, axis=1)
        if not (np.isfinite(length) & (length > 0)).all():
            row = int(np.argmin(np.isfinite(length) & (length > 0)))
            raise BadInput(f"Row {shown(batch.ids[row])} has a vector of zeros, or with NaN or infinity. Remove it.")
        yield batch
        done += len(batch)
        progress(done, max(description.count, done))


def scan(
    source: VectorSource, description: StoreDescription, modality: Modality, progress: Progress = no_progress
) -> StorePass:
    """Read a store once."""
    reservoir = _Reservoir()
    statistics = Statistics({})
    hashes: list[NDArray[np.uint64]] = []
    for batch in batches(source, description, progress):
        names = modality.of(batch)
        statistics = statistics.add(Vectors.of(batch.vectors, names))
        reservoir.add(batch, names)
        hashes.append(row_hashes(batch))
    if not hashes:
        raise BadInput("The store is empty: there is nothing to read.")
    counts = dict(sorted(reservoir.counts.items()))
    return StorePass(counts, statistics, reservoir.sample(), np.concatenate(hashes))


def row_hashes(batch: Batch) -> NDArray[np.uint64]:
    """Return two hashes for each row, ``(n, 2)``: of its id, and of everything else."""
    vectors = np.ascontiguousarray(batch.vectors)
    out = np.empty((len(batch), 2), dtype=np.uint64)
    for at, (key, row) in enumerate(zip(batch.ids, batch.metadata, strict=True)):
        state = xxhash.xxh3_64(vectors[at].tobytes())
        state.update(json.dumps(row, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))
        if batch.texts is not None:
            state.update((batch.texts[at] or "").encode("utf-8", "surrogatepass"))
        out[at] = id_hash(key), state.intdigest()
    return out


def id_hash(key: Id) -> int:
    """Return the hash of an id."""
    return xxhash.xxh3_64_intdigest(str(key).encode("utf-8", "surrogatepass"))


class _Reservoir:
    """An even sample of each modality: the rows with the smallest of random numbers."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(SEED)
        self.counts: dict[str, int] = {}
        self.kept: dict[str, list[tuple[float, int, Id, Any]]] = {}  # random number, place, id, vector
        self.limit: dict[str, float] = {}
        self.seen = 0

    def add(self, batch: Batch, names: Names) -> None:
        draws = self.rng.random(len(batch))
        for at, name in enumerate(names.tolist()):
            self.counts[name] = self.counts.get(name, 0) + 1
            if draws[at] < self.limit.get(name, 1.0):
                row = np.array(batch.vectors[at], dtype=np.float32)
                self.kept.setdefault(name, []).append((float(draws[at]), self.seen + at, batch.ids[at], row))
        for name, kept in self.kept.items():
            if len(kept) > 2 * SAMPLE:
                self._cut(name)
        self.seen += len(batch)

    def _cut(self, name: str) -> None:
        self.kept[name] = sorted(self.kept[name], key=lambda row: row[0])[:SAMPLE]
        self.limit[name] = self.kept[name][-1][0]

    def sample(self) -> StoreSample:
        """Return the rows that were kept, in the order of the store."""
        for name in self.kept:
            self._cut(name)
        found = ((place, key, name, row) for name, kept in self.kept.items() for _, place, key, row in kept)
        rows = sorted(found, key=lambda row: row[0])
        return StoreSample(
            [row[1] for row in rows], np.stack([row[3] for row in rows]), np.array([row[2] for row in rows])
        )
