"""Published vectors in this process: the shortest implementation of the protocol, and the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock

import numpy as np

from isthmus.storage.facts import Scalar, readable
from isthmus.storage.memory.filters import passes
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter
from isthmus.storage.where import Condition
from isthmus.types import Matrix, Rows


@dataclass(frozen=True, slots=True, eq=False)
class MemoryRow:
    """One row: its vector, its modality, and what filters ask for."""

    modality: str
    vector: Matrix
    id: str
    facts: Sequence[tuple[str, Scalar]]

    def passes(self, condition: Condition) -> bool:
        """Whether the row's document passes a filter."""
        return passes(self._values, condition)

    def _values(self, name: str) -> list[Scalar]:
        columns: dict[str, Scalar] = {"id": self.id, "modality": self.modality}
        if name in columns:
            return [columns[name]]
        return [value for known, value in self.facts if known == readable(name)]


@dataclass(slots=True, eq=False)
class MemoryPublication:
    """The rows of one publication by (document, passage)."""

    modalities: tuple[str, ...]
    width: int
    rows: dict[tuple[int, int], MemoryRow] = field(default_factory=dict)
    about: About | None = None


class MemoryVectors:
    """Publications in dictionaries, searched one row after another."""

    def __init__(self, address: str = "memory://here/reference") -> None:
        self.address = address
        self.most = 1_000_000
        self.publications: dict[str, MemoryPublication] = {}
        self.lock = RLock()

    def begin(self, key: str, modalities: Sequence[str], width: int) -> None:
        """Make an empty publication; remains of one with the same key are deleted."""
        self.publications[key] = MemoryPublication(tuple(modalities), width)

    def about(self, key: str) -> About | None:
        """Return what was last marked."""
        found = self.publications.get(key)
        return None if found is None else found.about

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is."""
        self._of(key).about = about

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in place of those with the same document and passage."""
        with self.lock:
            there = self._of(key)
            new = {
                (document, passage): MemoryRow(rows.modality, rows.vectors[at].copy(), rows.ids[at], rows.facts[at])
                for at, (document, passage) in enumerate(rows.rows.tolist())
            }
            there.rows = there.rows | new  # a search that has begun goes on with those it has

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents."""
        gone = set(documents.tolist())
        with self.lock:
            there = self._of(key)
            there.rows = {place: row for place, row in there.rows.items() if place[0] not in gone}

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return the largest inner products, and their documents and passages."""
        places, vectors = self._allowed(key, modality, where)
        inner = np.full((len(queries), k), -np.inf, np.float32)
        rows = np.full((len(queries), k, 2), -1, np.int64)
        if places:
            products = queries @ vectors.T  # (m, n)
            order = np.argsort(-products, axis=1, kind="stable")[:, :k]
            inner[:, : order.shape[1]] = np.take_along_axis(products, order, axis=1)
            rows[:, : order.shape[1]] = np.array(places, np.int64)[order]
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find."""
        return len(self._allowed(key, modality, where)[0])

    def pushes(self, condition: Condition) -> bool:  # noqa: ARG002 - it can apply any
        """Whether the server can apply a condition."""
        return True

    def drop(self, key: str) -> None:
        """Delete a publication."""
        self.publications.pop(key, None)

    def close(self) -> None:
        """Do nothing: what is published stays as long as the object."""

    def _of(self, key: str) -> MemoryPublication:
        if key not in self.publications:
            raise NotPublished(f"{self.address} has no publication {key}. It is made again from the collection.")
        return self.publications[key]

    def _allowed(self, key: str, modality: str, where: RowFilter) -> tuple[list[tuple[int, int]], Matrix]:
        gone, only = set(where.gone.tolist()), None if where.only is None else set(where.only.tolist())
        of = self._of(key)
        found = [
            (place, row.vector)
            for place, row in sorted(of.rows.items(), key=lambda item: item[0])
            if row.modality == modality
            and place[0] <= where.last
            and place[0] not in gone
            and (only is None or place[0] in only)
            and (where.condition is None or row.passes(where.condition))
        ]
        return [place for place, _ in found], np.array([vector for _, vector in found], np.float32)
