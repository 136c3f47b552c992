"""``ValueCounts``: the values of fields, counted once for each state of the documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from isthmus.errors import BadInput, shown
from isthmus.search import arguments
from isthmus.storage.protocols import Store
from isthmus.storage.values import LISTED, FieldValues

FIELDS = 64  # whose counts are kept


@dataclass(slots=True, eq=False)
class ValueCounts:
    """The values of fields. Counting reads a whole field, so one thread does it and the result is kept."""

    store: Store
    _sequence: int = -1
    _known: dict[str, FieldValues] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def of(self, name: str, count: int) -> FieldValues:
        """Return the values of a field, the ``count`` most frequent of them."""
        wanted = checked(name, count)
        with self._lock, self.store.database.reading():
            now = self.store.database.sequence()
            if now != self._sequence:
                self._sequence, self._known = now, {}
            found = self._known.get(name)
            if found is None:
                found = self.store.values(name)
                self._known = {**dict(list(self._known.items())[1 - FIELDS :]), name: found}
        return found.first(wanted)


def checked(name: object, count: object) -> int:
    """Check what is asked for; return how many values."""
    if not isinstance(name, str):
        raise BadInput(f"A field is a name in the metadata, not {shown(name)}. fields() lists them.")
    wanted = arguments.count("count", count, least=1)
    if wanted > LISTED:
        raise BadInput(f"count is {wanted:,}; {LISTED} is the most.")
    return wanted
