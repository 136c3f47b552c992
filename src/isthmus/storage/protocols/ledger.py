"""What a store records about its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from isthmus.storage.base import Holder, LedgerRows, Transaction, Unit


class Ledger(Protocol):
    """The files that documents came from, and inputs that could not be read."""

    def next_numbers(self) -> tuple[int, int]:
        """Return the number of the next run, and that of the next unit."""
        ...

    def unit(self, root: str, key: str) -> Unit | None:
        """Return the record of a file."""
        ...

    def key(self, number: int) -> str:
        """Return the name of a unit inside its source; empty if there is none."""
        ...

    def holds(self, root: str, inside: str) -> bool:
        """Whether a source has units at or below a path."""
        ...

    def not_met(self, root: str, run: int) -> list[Unit]:
        """Return the units of a source that a run did not find."""
        ...

    def count(self, number: int) -> int:
        """Return the number of documents of a unit."""
        ...

    def stored(self, number: int, names: Sequence[str], *, before: int | None = None) -> bool:
        """Whether a unit has one of these documents; with ``before``, from an earlier run than that."""
        ...

    def holder(self, name: str) -> Holder | None:
        """Return where the document of an id came from; None if there is none."""
        ...

    def sources(self) -> dict[str, int]:
        """Return the number of files of each source."""
        ...

    def rows(self) -> LedgerRows:
        """Return everything that is recorded."""
        ...

    def replace_all(self, transaction: Transaction, /, rows: LedgerRows) -> None:
        """Record this instead of what is there; at the commit, documents may only name files that it has."""
        ...

    def skipped(self) -> list[tuple[str, str]]:
        """Return what could not be read, and why."""
        ...

    def begin(self, transaction: Transaction, /, number: int, root: str, key: str, run: int) -> None:
        """Record that a unit is being read: it has no stamp until it is done, and its skipped entries are cleared."""
        ...

    def met(self, transaction: Transaction, /, numbers: Iterable[int], run: int) -> None:
        """Record that a run found these units unchanged."""
        ...

    def keep(self, transaction: Transaction, /, number: int, names: Sequence[str], run: int) -> None:
        """Record that a run found documents of a unit unchanged."""
        ...

    def stamp(self, ended: Sequence[tuple[str | None, int]]) -> None:
        """Write the stamps of units that were read completely: (stamp, unit)."""
        ...

    def skip(self, transaction: Transaction, /, root: str, key: str, place: str, why: str) -> None:
        """Record an input that could not be read."""
        ...

    def forget_skipped(self, transaction: Transaction, /, units: Sequence[tuple[str, str]]) -> None:
        """Remove the skipped entries of units, by root and key."""
        ...

    def forget(self, root: str, units: Sequence[Unit]) -> None:
        """Delete the records of units whose documents were deleted."""
        ...

    def skip_documents(self, transaction: Transaction, /, why: dict[str, str]) -> None:
        """Record documents by id as skipped, so that the next run reads their files again."""
        ...
