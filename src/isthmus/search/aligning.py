"""Queries are aligned before they are searched, if a search says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from isthmus.documents import Query
from isthmus.errors import BadInput
from isthmus.search.manifest import Opened

if TYPE_CHECKING:
    from isthmus.align import Aligned, Aligner


@dataclass(slots=True, eq=False)
class Aligners:
    """A collection's aligners, each loaded when it is first named. ``isthmus.align`` is not imported before."""

    opened: Opened
    _of: int = 0  # the encoding whose encoder the loaded ones were given
    _loaded: dict[str, Aligner] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def get(self, align: str | Aligner) -> Aligner:
        """Return an aligner by name; one that is given, as it is."""
        from isthmus.align import load

        with self._lock:
            if not isinstance(align, str):
                return load(align)
            opened = self.opened
            if opened.moved() != self._of:
                self._loaded, self._of = {}, opened.encoding
            if align not in self._loaded:
                self._loaded[align] = load(align, encoder=opened.load(), device=opened.device, threads=opened.threads)
            return self._loaded[align]

    def aligned(self, queries: Sequence[Query], align: str | Aligner | None) -> list[Aligned] | None:
        """Return what becomes of queries; None where nothing was asked for."""
        if align is None or align == "none":
            return None
        aligner = self.get(align)
        found = aligner.align(queries)
        if len(found) != len(queries):
            raise BadInput(
                f"The aligner {aligner.name} gave {len(found)} queries for {len(queries)}. It has to give one for each."
            )
        return found
