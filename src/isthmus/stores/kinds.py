"""The table of kinds of stores."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from isthmus.registry import lookup
from isthmus.stores import chroma, clip_retrieval, faiss, lancedb, milvus, parquet, pgvector, qdrant
from isthmus.stores.address import Address
from isthmus.stores.base import StoreKind, VectorSource, VectorTarget

COMMON = ("modality", "all")

KINDS: Mapping[str, StoreKind] = MappingProxyType(
    {
        "chroma": chroma.KIND,
        "clip-retrieval": clip_retrieval.KIND,
        "faiss": faiss.KIND,
        "lancedb": lancedb.KIND,
        "milvus": milvus.KIND,
        "parquet": parquet.KIND,
        "pgvector": pgvector.KIND,
        "qdrant": qdrant.KIND,
    }
)


def kind_of(address: Address) -> StoreKind:
    """Return the kind of an address, after checking its options."""
    kind = lookup(KINDS, address.kind, "kind of store")
    known = {name: name for name in (*COMMON, *kind.options)}
    if not kind.passes_options:
        for name in address.options:
            lookup(known, name, f"option of {address.kind}:")
    return kind


def open_source(address: Address) -> VectorSource:
    """Open an existing store for reading."""
    return kind_of(address).source(address)


def open_target(address: Address, beside: VectorSource | None) -> tuple[StoreKind, VectorTarget]:
    """Open a place for a new store; ``beside`` is the source, whose connection is shared if it is the same server."""
    kind = kind_of(address)
    return kind, kind.target(address, beside)
