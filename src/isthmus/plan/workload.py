"""What is to be stored: how many documents, how long their vectors are, and the machines at hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from isthmus.errors import BadInput

GIB = 1 << 30
MOST = 10**12  # documents: past this, nothing here was thought through
MOST_DIMENSIONS = 65_536
LIMITS: dict[str, tuple[float, float, str]] = {
    "documents": (1, MOST, "documents"),
    "dim": (1, MOST_DIMENSIONS, "dimensions"),
    "passages": (1, 10_000, "passages for each document"),
    "text_bytes": (0, 10_000_000, "bytes of text for each document"),
    "references": (1, 10_000_000, "reference queries"),
    "queries": (1, 16, "kinds of query"),
    "memory": (GIB, 1 << 50, "bytes of memory in a machine"),
    "cores": (1, 4096, "cores of a machine"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A collection that does not exist yet.

    ``passages``: vectors for each document, on average. ``text_bytes``: text of a document that is stored and searched
    by word. ``references``: reference queries of a calibration. ``queries``: kinds of query (words, pictures, both),
    each of which adds a number to every folded vector. ``memory`` and ``cores`` are those of one machine.

    >>> Workload(documents=0, dim=512)
    Traceback (most recent call last):
    isthmus.errors.BadInput: documents=0 makes no plan: it must be a number from 1 to 1,000,000,000,000 (documents).
    """

    documents: int
    dim: int
    passages: float = 1.0
    text_bytes: int = 500
    references: int = 4000
    queries: int = 1
    memory: int = 64 * GIB
    cores: int = 16

    def __post_init__(self) -> None:
        for name, (least, most, what) in LIMITS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise BadInput(f"{name}={value!r} is not a number of {what}.")
            if not least <= value <= most:
                raise BadInput(
                    f"{name}={value:,} makes no plan: it must be a number from {least:,} to {most:,} ({what})."
                )

    @property
    def rows(self) -> int:
        """How many vectors there are."""
        return math.ceil(self.documents * self.passages)

    @property
    def width(self) -> int:
        """How many numbers a folded vector has."""
        return self.dim + self.queries
