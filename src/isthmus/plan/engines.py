"""Memory, disk, time and machines for each engine.

memory   what should be in memory for a fast search: vectors and index; a folder's files are mapped, not copied
disk     the documents, their raw vectors, the folded vectors and the index
build    storing encoded documents and building the index; encoding is not part of it
re-fit   a new calibration of all documents: raw vectors are read, folded ones and their index written
shards   machines, if three quarters of the memory of each may be used; each builds the index of its part

What was not measured is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from isthmus.plan import sizes
from isthmus.plan.constants import Constants, measured
from isthmus.plan.workload import Workload
from isthmus.registry import lookup

USABLE = 0.75  # of a machine's memory: the rest is for the system, connections and growth
DIM = 512  # for which rates of rows were measured


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one engine takes; bytes and seconds."""

    engine: str
    memory: int
    disk: int
    shards: int
    build_seconds: float | None
    refit_seconds: float | None
    refit_read: int
    refit_written: int
    basis: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What an engine stores: the store, folded vectors, an index; and what of it should be in memory."""

    store: int
    folded: int
    index: int
    memory: int
    basis: str
    stored_rate: str = "stored_rows_per_second"
    written_rate: str | None = None  # of rows on a server: one process sends them
    index_rate: str | None = None
    has_rates: bool = True
    note: str = ""


def store_bytes(load: Workload, constants: Constants) -> int:
    """Return the size of the database of a folder: documents, words and raw vectors."""
    each = constants.of("store_document_bytes") + load.text_bytes * constants.of("store_bytes_per_text_byte")
    return round(load.documents * each + load.rows * (4 * load.dim + constants.of("store_row_bytes")))


def raw_bytes(load: Workload, constants: Constants) -> int:
    """Return how much of a store a re-fit reads: the raw vectors."""
    return round(load.rows * (4 * load.dim + constants.of("store_row_bytes")))


def _exact(load: Workload, constants: Constants) -> _Parts:
    folded = sizes.folded_bytes(load.rows, load.width)
    return _Parts(store=store_bytes(load, constants), folded=folded, index=0, memory=folded, basis="files")


def _ivf(load: Workload, constants: Constants, index: Callable[[int, int], int]) -> _Parts:
    folded, cells = sizes.folded_bytes(load.rows, load.width), index(load.rows, load.width)
    return _Parts(
        store=store_bytes(load, constants),
        folded=folded,
        index=cells,
        memory=cells + 4 * load.rows + folded,
        basis="files",
        index_rate="ivf_rows_per_second",
        note="the folded vectors, of which a search reads few, may be on a fast disk instead",
    )


def _hnsw(load: Workload, constants: Constants) -> _Parts:
    folded, graph = sizes.folded_bytes(load.rows, load.width), sizes.hnsw_bytes(load.rows, load.width)
    return _Parts(
        store=store_bytes(load, constants),
        folded=folded,
        index=graph,
        memory=graph + folded,
        basis="files",
        index_rate="hnsw_rows_per_second",
    )


def _postgres(load: Workload, constants: Constants, *, half: bool) -> _Parts:
    longer = load.width > sizes.PG_WIDEST[False]  # has an index of 16 bits, as with halfvec
    graph = sizes.pg_hnsw_bytes(load.rows, load.width, half=half or longer)
    folded = sizes.pg_table_bytes(load.rows, load.width, inline=sizes.PG_KEPT)  # of 32 bits: only the index has 16
    raw = sizes.pg_table_bytes(load.rows, load.dim, inline=sizes.PG_KEPT)
    texts = load.documents * (constants.of("store_document_bytes") + load.text_bytes)
    return _Parts(
        store=round(texts) + raw,
        folded=folded,
        index=graph,
        memory=graph or folded,
        basis="page layout, compared with PostgreSQL 18 and pgvector 0.8",
        stored_rate="pgvector_stored_rows_per_second",
        written_rate="pgvector_written_rows_per_second",
        index_rate="pgvector_indexed_rows_per_second",
        has_rates=not half and not longer,
        note=_note_on_length(load.width) if longer else "",
    )


def _note_on_length(width: int) -> str:
    if width > sizes.PG_WIDEST[True]:
        return f"an index takes {sizes.PG_WIDEST[True]:,} numbers at most, so every vector of a modality is compared"
    return f"vectors of more than {sizes.PG_WIDEST[False]:,} numbers have an index of 16 bits"


def _qdrant(load: Workload, constants: Constants) -> _Parts:
    memory = sizes.qdrant_bytes(load.rows, load.width)
    return _Parts(
        store=store_bytes(load, constants),
        folded=4 * load.rows * load.width,
        index=memory - 4 * load.rows * load.width,
        memory=memory,
        basis="Qdrant's capacity planning",
        has_rates=False,
    )


def _milvus(load: Workload, constants: Constants, index: Callable[[int, int], int]) -> _Parts:
    memory = index(load.rows, load.width)
    return _Parts(
        store=store_bytes(load, constants),
        folded=4 * load.rows * load.width,
        index=memory,
        memory=memory,
        basis="the format of the index",
        has_rates=False,
    )


ENGINES: Mapping[str, Callable[[Workload, Constants], _Parts]] = MappingProxyType(
    {
        "folder exact": _exact,
        "folder ivf-sq8": lambda load, constants: _ivf(load, constants, sizes.ivf_bytes),
        "folder ivf-rabitq": lambda load, constants: _ivf(load, constants, sizes.rabitq_bytes),
        "folder hnsw": _hnsw,
        "postgresql vector": lambda load, constants: _postgres(load, constants, half=False),
        "postgresql halfvec": lambda load, constants: _postgres(load, constants, half=True),
        "qdrant hnsw": _qdrant,
        "milvus ivf_flat": lambda load, constants: _milvus(load, constants, sizes.milvus_ivf_bytes),
        "milvus hnsw": lambda load, constants: _milvus(load, constants, sizes.milvus_hnsw_bytes),
        "milvus ivf_sq8": lambda load, constants: _milvus(load, constants, sizes.milvus_sq8_bytes),
    }
)


def plan(load: Workload, engine: str | None = None, constants: Constants | None = None) -> list[Estimate]:
    """Estimate every engine, or the one that is named."""
    known = constants or measured()
    if engine is not None:
        lookup(ENGINES, engine, "engine of a plan")
    return [_estimate(name, load, known) for name in ENGINES if engine in (None, name)]


def _estimate(name: str, load: Workload, constants: Constants) -> Estimate:
    parts = ENGINES[name](load, constants)
    shards = max(1, math.ceil(parts.memory / (USABLE * load.memory)))
    note, builders = parts.note, 1
    if name.startswith("folder") and shards > 1:
        note = f"needs {parts.memory / (USABLE * load.memory):.1f} times the memory of a machine, and is never on two"
    elif shards > 1:
        builders = shards
        stored = f"documents and their raw vectors, {parts.store / 1e9:,.0f} GB, are on one machine"
        note = f"{note}; {stored}" if note else stored
    folding = fold_seconds(load, constants) + _writing_seconds(parts, load, constants)
    index = _index_seconds(parts, load, constants) / builders
    storing = load.rows / constants.of(parts.stored_rate) * load.dim / DIM
    return Estimate(
        engine=name,
        memory=parts.memory,
        disk=parts.store + parts.folded + parts.index,
        shards=shards,
        build_seconds=storing + folding + index if parts.has_rates else None,
        refit_seconds=folding + index if parts.has_rates else None,
        refit_read=raw_bytes(load, constants),
        refit_written=parts.folded + parts.index,
        basis=parts.basis,
        note=note,
    )


def fold_seconds(load: Workload, constants: Constants) -> float:
    """Return how long all documents take to be folded: a pass over the vectors, and a product with the references."""
    products = 2 * load.rows * load.references * load.dim * load.queries
    passed = 4 * load.rows * load.dim / constants.rate("fold_bytes_per_second", load.cores)
    return passed + products / constants.rate("matrix_operations_per_second", load.cores)


def _writing_seconds(parts: _Parts, load: Workload, constants: Constants) -> float:
    """Return how long one process takes to write the folded vectors to a server; more cores do not help it."""
    if parts.written_rate is None:
        return 0.0
    return load.rows * (load.width / DIM) / constants.of(parts.written_rate)


def _index_seconds(parts: _Parts, load: Workload, constants: Constants) -> float:
    """Return how long the index takes to be built; the work for a row is taken to grow with its width."""
    if parts.index_rate is None:
        return 0.0
    return load.rows * (load.width / DIM) / constants.rate(parts.index_rate, load.cores)
