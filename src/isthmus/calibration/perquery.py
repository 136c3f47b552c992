"""The protocol of per-query baselines: ``minmax``, ``zscore`` and ``rrf`` each rescale one query's lists."""

from __future__ import annotations

from typing import Protocol

from isthmus.errors import BadSpec
from isthmus.types import Matrix


class PerQuery(Protocol):
    """The settings of a per-query baseline."""

    def rescale(self, values: Matrix) -> Matrix:
        """Rescale the similarities of one modality's documents, ``(n_queries, n_documents)``."""


def at_least_one(method: str, k: int) -> None:
    """Reject a k below 1."""
    if k < 1:
        raise BadSpec(f"{method} needs k ≥ 1, not {k}.")
