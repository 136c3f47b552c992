"""The table of kinds of stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from isthmus.errors import CannotReach, IsthmusError
from isthmus.registry import lookup
from isthmus.stores import chroma, clip_retrieval, faiss, lancedb, milvus, parquet, pgvector, qdrant
from isthmus.stores.address import StoreAddress
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


def kind_of(address: StoreAddress) -> StoreKind:
    """Return the kind of an address, after checking its options."""
    kind = lookup(KINDS, address.kind, "kind of store")
    known = {name: name for name in (*COMMON, *kind.options)}
    if not kind.passes_options:
        for name in address.options:
            lookup(known, name, f"option of {address.kind}:")
    return kind


def open_source(address: StoreAddress) -> VectorSource:
    """Open an existing store for reading."""
    return kind_of(address).source(address)


def open_target(address: StoreAddress, beside: VectorSource | None) -> tuple[StoreKind, VectorTarget]:
    """Open a place for a new store; ``beside`` is the source, whose connection is shared if it is the same server."""
    kind = kind_of(address)
    return kind, kind.target(address, beside)


@contextmanager
def explained(*addresses: StoreAddress) -> Iterator[None]:
    """Turn errors of the clients of these stores into ours."""
    try:
        yield
    except IsthmusError:
        raise
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        named = [str(one) for one in addresses if package in KINDS[one.kind].clients]
        if not named:
            raise
        said = " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
        raise CannotReach(
            f"{' or '.join(named)} does not answer, or refuses ({said}). Vectors that were there are as they were. "
            "Check that it runs, and try again; a new store that was being written is finished with --update."
        ) from error
