"""Transactions, snapshots and the manifest of a store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from isthmus.storage.base import Place, Transaction


class Engine(Protocol):
    """Transactions, snapshots and the manifest of one store."""

    writable: bool
    closed: bool

    def read_only(self) -> str | None:
        """Return why this process may not write, found out again where that may change; None if it may."""
        ...

    @property
    def path(self) -> Place:
        """Where it is, for messages."""
        ...

    def check_place(self) -> None:
        """Raise an error if the store was deleted or replaced while it was open."""
        ...

    def manifest(self, *names: str) -> dict[str, Any]:
        """Return the values of these names in the manifest, if they exist; without names, all values."""
        ...

    def put(self, transaction: Transaction, /, **values: object) -> None:
        """Set values of the manifest."""
        ...

    def sequence(self) -> int:
        """Return how many transactions have changed documents."""
        ...

    def reading(self) -> AbstractContextManager[None]:
        """Read one state: everything this thread reads inside is as of the last transaction committed before."""
        ...

    def held(self) -> AbstractContextManager[Callable[[], AbstractContextManager[None]]]:
        """Hold one state for later reads: each read is inside ``with`` the returned function."""
        ...

    def writing(self) -> AbstractContextManager[Transaction]:
        """Run a transaction: all of it, or nothing."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...
