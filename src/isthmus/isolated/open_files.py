"""What a worker keeps open between requests: the files that are being read, by the number that each reading has."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

MOST = 8  # readings at a time; one that was closed for another is opened again when it goes on


class Closes(Protocol):
    """Something that is closed."""

    def close(self) -> object:
        """Let go of it."""


Kept = TypeVar("Kept", bound=Closes)


class OpenFiles(Generic[Kept]):
    """Readings that go on, the least recently used one first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Kept] = OrderedDict()

    def get(self, number: str, make: Callable[[], Kept]) -> Kept:
        """Return what a reading has open, made now if it is not there."""
        if number not in self._kept:
            while len(self._kept) >= MOST:
                self._kept.popitem(last=False)[1].close()
            self._kept[number] = make()
        self._kept.move_to_end(number)
        return self._kept[number]

    def drop(self, number: str) -> None:
        """Close what a reading has open, if anything."""
        if number in self._kept:
            self._kept.pop(number).close()
