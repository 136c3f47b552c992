"""Open the store that a path or a URL names, or make it: a folder, a PostgreSQL server, or memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TypeVar

from isthmus._optional import need
from isthmus.errors import BadInput, CannotWrite
from isthmus.storage.base import Place
from isthmus.storage.postgres import address as postgres
from isthmus.storage.protocols import Store
from isthmus.storage.sqlite.database import FILE, LOCK, Database
from isthmus.storage.sqlite.folder import FolderStore
from isthmus.urls import url_of

MEMORY = ":memory:"

Made = TypeVar("Made")


def open_store(path: str | PathLike[str], before_making: Callable[[Place], Made]) -> tuple[Place, Store, Made | None]:
    """Open a store, or make it; return where it is, and what ``before_making`` returned if it was made.

    ``before_making`` is called where there is no store yet; if it raises an error, none is made.
    """
    if postgres.is_address(os.fspath(path)):
        return _on_postgres(os.fspath(path), before_making)
    if os.fspath(path) == MEMORY:
        from isthmus.storage.memory.store import MemoryStore  # late: most collections are in a folder

        return Path(MEMORY), MemoryStore(), before_making(Path(MEMORY))
    if (url := url_of(os.fspath(path))) is not None:
        raise BadInput(
            f"{url} is not the place of a collection: that is a folder, or postgresql://… . Servers of vectors, as "
            "qdrant://… and milvus://…, are named beside the folder: vectors=, --vectors."
        )
    return _in_folder(Path(path), before_making)


def _in_folder(folder: Path, before_making: Callable[[Place], Made]) -> tuple[Place, Store, Made | None]:
    with suppress(RuntimeError):  # ~ and what is no user's name: a folder may be called that
        folder = folder.expanduser()
    try:
        there = (folder / FILE).exists()
    except (OSError, ValueError) as error:
        raise BadInput(f"{folder} cannot be looked at: {getattr(error, 'strerror', None) or error}.") from None
    made = None
    if not there:
        made = before_making(folder)
        _make(folder)
    return folder, FolderStore(Database(folder, writable=not there or _may_write(folder))), made


def _on_postgres(url: str, before_making: Callable[[Place], Made]) -> tuple[Place, Store, Made | None]:
    need("psycopg", extra="postgres")
    from isthmus.storage.postgres.database import PostgresDatabase  # late: it needs an extra
    from isthmus.storage.postgres.store import PostgresStore

    database = PostgresDatabase(postgres.PostgresAddress.of(url))
    try:
        made = None
        if not database.there or not database.manifest("encoder"):  # there may be tables alone, as of shards
            made = before_making(database.path)
        if not database.there:
            database.create()
        return database.path, PostgresStore(database), made
    except BaseException:
        database.close()
        raise


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(f"{folder} cannot be made: {error.strerror or error}.") from None
    if not os.access(folder, os.W_OK):
        raise CannotWrite(f"{folder} cannot be written to. Name a folder of your own.")
    others = [path.name for path in folder.iterdir() if not path.name.startswith((FILE, LOCK))]  # one being made
    if others:
        raise BadInput(
            f"{folder} is not a collection and is not empty (it holds {others[0]!r}). Name a new folder, for instance "
            f"{folder}.isthmus."
        )


def _may_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / FILE, os.W_OK)
