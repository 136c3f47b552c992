"""Fitted calibrations, and the queries that they are fitted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from isthmus.storage.base import StoredCalibration, Transaction


class Calibrations(Protocol):
    """Fitted calibrations by number; one of them is served."""

    def served(self) -> int:
        """Return the number of the served calibration, 0 for none."""
        ...

    def spec(self) -> str | None:
        """Return the spec that was requested for the collection."""
        ...

    def versions(self) -> list[int]:
        """Return the numbers of all calibrations."""
        ...

    def draft(self, make: Callable[[int], StoredCalibration]) -> int:
        """Write a calibration under a new number, not served yet; return the number."""
        ...

    def forget_drafts(self, keep: int = 0) -> None:
        """Delete drafts that were not published, because their process was killed; earlier ones and ``keep`` stay."""
        ...

    def publish(self, made: StoredCalibration, spec: str, *, over: int | None, encoding: int | None) -> None:
        """Serve a calibration from now on, if ``over`` and ``encoding`` still match what is served."""
        ...

    def replace_all(self, transaction: Transaction, /, kept: Sequence[StoredCalibration], spec: str) -> None:
        """Keep these calibrations, oldest first, in place of all others, inside the caller's transaction.

        The last one is served from now on; none if there is none.
        """
        ...

    def read(self, version: int) -> StoredCalibration:
        """Read a calibration."""
        ...


class Queries(Protocol):
    """The query log, if it is on, and queries given for calibration."""

    @property
    def on(self) -> bool:
        """Whether the log is on."""
        ...

    def switch(self, on: bool) -> None:
        """Switch the log on or off; switching it off deletes its queries."""
        ...

    def add(self, rows: Sequence[tuple[str, str]]) -> None:
        """Add queries, (time, text), and keep only the newest; add none if the log was switched off meanwhile."""
        ...

    def logged(self) -> list[tuple[str, str]]:
        """Return the log, (time, text), oldest first, without damaged queries."""
        ...

    def count(self) -> int:
        """Return the number of queries in the log."""
        ...

    def recent(self, count: int) -> list[str]:
        """Return the words of the newest queries, without damaged ones."""
        ...

    def give(self, rows: Sequence[tuple[str | None, str | None]]) -> None:
        """Replace the queries given for calibration, (text, id of the answer)."""
        ...

    def given(self) -> list[tuple[str, str | None]]:
        """Return the queries given for calibration."""
        ...
