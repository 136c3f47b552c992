"""The files that a worker keeps open between requests, by the number of each reading."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

MOST = 8  # readings at a time; a reading that was closed for another is reopened when it continues


class Closes(Protocol):
    """Something with a ``close`` method."""

    def close(self) -> object:
        """Close it."""


Kept = TypeVar("Kept", bound=Closes)


class OpenFiles(Generic[Kept]):
    """Readings in progress, the least recently used first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def get(self, number: str, make: Callable[[], Kept]) -> Kept:
        """Return the open file of a reading; open it if necessary."""
        if number not in self._kept:
            while len(self._kept) >= MOST:
                self._kept.popitem(last=False)[1].close()
            self._kept[number] = make()
        self._kept.move_to_end(number)
        return self._kept[number]

    def drop(self, number: str) -> None:
        """Close the file of a reading, if it is open."""
        if number in self._kept:
            self._kept.pop(number).close()
