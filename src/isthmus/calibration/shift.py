"""A shift: a map on vectors, one for documents and one for queries. ``none``, ``center`` and ``dn`` are shifts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from numpy.typing import DTypeLike

from isthmus.calibration.live import Statistics
from isthmus.calibration.passages import Passages
from isthmus.types import Matrix, Vectors


class Shift(Protocol):
    """A fitted shift."""

    @property
    def weights(self) -> Mapping[str, float]:
        """The fusion weight of each part, for documents without weights of their own."""

    def documents(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return one shifted vector per document, ``(n, d)``."""

    def queries(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return one shifted vector per query, ``(n, d)``."""

    def tensors(self) -> dict[str, Matrix]:
        """Return the tensors to save."""


class ShiftMethod(Protocol):
    """The settings of a shift."""

    def fit(self, documents: Passages, queries: Vectors, weights: Mapping[str, float], seen: Statistics) -> Shift:
        """Learn the shift from documents (and their statistics) and reference queries."""

    def restore(self, tensors: Mapping[str, Matrix], weights: Mapping[str, float]) -> Shift:
        """Rebuild the fitted shift from its saved tensors."""


def named_by_side(documents: Mapping[str, Matrix], queries: Mapping[str, Matrix]) -> dict[str, Matrix]:
    """Combine the means of both sides in one table, for saving."""
    return {f"document:{name}": mean for name, mean in documents.items()} | {
        f"query:{name}": mean for name, mean in queries.items()
    }


def split_by_side(tensors: Mapping[str, Matrix]) -> tuple[dict[str, Matrix], dict[str, Matrix]]:
    """Undo ``named_by_side``."""
    sides: dict[str, dict[str, Matrix]] = {"document": {}, "query": {}}
    for name, mean in tensors.items():
        side, _, key = name.partition(":")
        sides[side][key] = mean
    return sides["document"], sides["query"]
