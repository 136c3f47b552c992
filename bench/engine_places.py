"""Servers for the engines' benchmark: the real PostgreSQL and Milvus of the tests, and Qdrant in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

PACKAGES = {"pgvector": ("psycopg", "pg0"), "milvus": ("pymilvus", "milvus"), "qdrant": ("qdrant_client",)}
SETTINGS = {"shared_buffers": "1GB", "maintenance_work_mem": "1GB", "max_wal_size": "8GB"}  # of our own PostgreSQL


@dataclass(frozen=True)
class Place:
    """Where a collection is, and where its folded vectors are."""

    path: str
    vectors: str | None = None
    url: str | None = None  # of a database, to compare with plain SQL


@contextmanager
def pgvector(folder: Path) -> Iterator[Place]:
    import psycopg

    from postgres_server import server

    made = server()
    if made.data is not None:  # our own; one that was named keeps its settings
        with psycopg.connect(made.url, autocommit=True) as connection:
            for name, value in SETTINGS.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        made.stop()
        made.start()
    yield Place(made.collection(f"bench_{folder.name.replace('-', '_')}"[:40]), url=made.url)


@contextmanager
def milvus(folder: Path) -> Iterator[Place]:
    from vector_servers import milvus_address

    server = (milvus_address() or "").replace("http", "milvus")
    yield Place(str(folder / "things.isthmus"), f"{server}/{folder.name}")


@contextmanager
def qdrant(folder: Path) -> Iterator[Place]:
    (folder / "qdrant").mkdir()
    yield Place(str(folder / "things.isthmus"), f"qdrant://{folder / 'qdrant'}/bench")


PLACES: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "pgvector": pgvector,
    "milvus": milvus,
    "qdrant": qdrant,
}


def missing(name: str) -> str:
    """Return why a server cannot be measured here; empty if it can."""
    lacking = [package for package in PACKAGES[name] if find_spec(package) is None]
    if lacking:
        return f"{' and '.join(lacking)} is not installed"
    from vector_servers import milvus_may_run

    return (
        "it listens on all addresses, and runs only where there is no network"
        if name == "milvus" and not milvus_may_run()
        else ""
    )
