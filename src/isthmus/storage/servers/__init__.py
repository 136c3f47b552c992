"""Servers that keep folded vectors, by the first word of their address: ``qdrant://host:6333/name``.

The address is kept in the manifest of a collection, so it has no secrets: keys come from the environment. Its query has
settings (``?exact=true``). ``folder`` instead of an address keeps the vectors in the collection's own folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.storage.servers.address import ServerAddress

if TYPE_CHECKING:
    from isthmus.storage.protocols import PublishedVectors

FOLDER = "folder"


def _qdrant(address: ServerAddress) -> PublishedVectors:
    from isthmus.storage.servers.qdrant import QdrantVectors

    return QdrantVectors(address)


def _milvus(address: ServerAddress) -> PublishedVectors:
    from isthmus.storage.servers.milvus import MilvusVectors

    return MilvusVectors(address)


KINDS: Mapping[str, Callable[[ServerAddress], PublishedVectors]] = MappingProxyType(
    {"milvus": _milvus, "qdrant": _qdrant}
)


def opened_server(address: str) -> PublishedVectors:
    """Return the server at an address; it is connected to when it is first used."""
    scheme, separator, _ = address.partition("://")
    if not separator:
        known = ", ".join(f"{name}://HOST/NAME" for name in sorted(KINDS))
        raise BadInput(f"{address!r} is not the address of a server of vectors. Write {known}, or folder.")
    return lookup(KINDS, scheme, "server of vectors")(ServerAddress.parse(address))
