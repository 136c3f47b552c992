"""Raw vectors, their statistics, and the states that an index is built from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from isthmus.calibration import Statistics
from isthmus.storage.base import Block, State, Transaction
from isthmus.storage.segments import Segment
from isthmus.types import Rows


class VectorTable(Protocol):
    """The vectors of documents by row number, and a record of each change."""

    def segments(self, rows: Sequence[int]) -> dict[int, list[Segment]]:
        """Return the stored vectors of these documents."""
        ...

    def blocks(self, after: int = -1, last: int | None = None, size: int = 2048) -> Iterator[Block]:
        """Yield the vectors of documents after a row, up to ``last``, in order, at most a block at a time."""
        ...

    def sample(self, rows: Sequence[int]) -> Block:
        """Return the vectors of these documents."""
        ...

    def last(self) -> int:
        """Return the row of the last document added; -1 if there is none."""
        ...

    def rows_with(self, name: str, count: int) -> list[int]:
        """Return some documents that have a vector of this name."""
        ...

    def statistics(self) -> Statistics:
        """Return the statistics of the raw vectors, which are updated with every change."""
        ...

    def recounted(self, *, but: Sequence[int] = ()) -> Statistics:
        """Recompute the statistics from the vectors of all documents except some; damaged vectors are ignored."""
        ...

    def touched(self, transaction: Transaction, /, statistics: Statistics) -> None:
        """Record a change of the documents, and their new statistics."""
        ...

    def set_dim(self, transaction: Transaction, /, dim: int | None) -> None:
        """Store the number of dimensions."""
        ...

    def parts(self) -> set[str]:
        """Return the names of the vectors that documents have."""
        ...

    def state(self) -> State:
        """Return the current state of the documents."""
        ...

    def passed(self, state: State) -> bool:
        """Whether the documents were ever in a state, and all changes since are recorded."""
        ...

    def gone_since(self, sequence: int) -> Rows:
        """Return the rows of documents that were deleted or replaced after a change."""
        ...

    def trim(self, sequence: int) -> None:
        """Delete records that only an index older than a change needs."""
        ...
