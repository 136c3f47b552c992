"""Documents of several passages: one row of vectors per passage, and the document of each row.

    s(q, d) = max over the passages p of d of s(q, p)

In words: a long text is split, each piece has a row, and the document's similarity is that of its best piece. Every
fit uses that maximum, so a bias is a number per *document*, repeated on each of its rows: the largest of the rows'
inner products is then the document's, on any engine. In a mean a document has weight 1, its passages 1/n each, so
that a long document does not dominate; an image that is repeated on every passage counts once, too.

>>> documents = Passages.of(Vectors.of(np.eye(3), "text"), owner=[0, 0, 1])
>>> len(documents), documents.share.tolist()
(2, [0.5, 0.5, 1.0])
>>> best_rows(np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 6.0]]), documents.starts).tolist()
[[3.0, 2.0], [5.0, 6.0]]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from isthmus.errors import BadInput
from isthmus.types import Matrix, Names, Rows, Vectors

OwnerLike: TypeAlias = NDArray[np.integer[Any]] | Sequence[int]

Kind = TypeVar("Kind", bound=np.generic)
_FORM = "Number the documents 0, 1, 2 … and keep the rows of each together: 0, 0, 1, 2, 2."


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """Rows of vectors, and the first row of each document; None where every document is one row."""

    vectors: Vectors
    starts: Rows | None = None

    @classmethod
    def of(cls, vectors: Vectors, owner: OwnerLike | None = None) -> Passages:
        """Read the document of each row, or reject an invalid numbering."""
        if owner is None:
            return cls(vectors)
        numbers = _checked(owner, len(vectors))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        if len(starts) == len(vectors):
            return cls(vectors)
        code = vectors.modality_code
        differs = code != code[starts][numbers]
        if differs.any():
            row = int(np.argmax(differs))
            document = int(numbers[row])
            raise BadInput(
                f"document {document} is {vectors.modality[starts[document]]} at row {starts[document]} and "
                f"{vectors.modality[row]} at row {row}. All passages of a document have its modality: repeat the image "
                "on each of them, or make two documents."
            )
        return cls(vectors, starts)

    def __len__(self) -> int:
        return len(self.vectors) if self.starts is None else len(self.starts)

    @property
    def modalities(self) -> tuple[str, ...]:
        """The distinct modalities."""
        return self.vectors.modalities

    @property
    def modality_code(self) -> Rows:
        """Each document's index into ``modalities``, ``(documents,)``."""
        code = self.vectors.modality_code
        return code if self.starts is None else code[self.starts]

    @property
    def modality(self) -> Names:
        """The modality of each document, ``(documents,)``."""
        return np.asarray(self.modalities, dtype=str)[self.modality_code]

    @property
    def owner(self) -> Rows | None:
        """The document of each row; None where every document is one row."""
        return None if self.starts is None else self.on_rows(np.arange(len(self)))

    @property
    def share(self) -> Matrix:
        """The weight of each row in a mean over documents, ``(rows,)``."""
        if self.starts is None:
            return np.ones(len(self.vectors))
        return self.on_rows(1.0 / lengths(self.starts, len(self.vectors)))

    def on_rows(self, values: NDArray[Kind]) -> NDArray[Kind]:
        """Repeat each document's value on all of its rows, ``(documents, …)`` to ``(rows, …)``."""
        return values if self.starts is None else np.repeat(values, lengths(self.starts, len(self.vectors)), axis=0)


def lengths(starts: Rows, rows: int) -> Rows:
    """Return the number of rows of each document."""
    return np.diff(starts, append=rows)


def rows_of(documents: slice, starts: Rows | None, rows: int) -> slice:
    """Return the rows of consecutive documents."""
    if starts is None or documents.start >= documents.stop:
        return documents
    return slice(int(starts[documents.start]), int(starts[documents.stop]) if documents.stop < len(starts) else rows)


def blocks(starts: Rows | None, rows: int, step: int) -> Iterator[slice]:
    """Yield documents of about ``step`` rows at a time; a longer document is a block of its own."""
    if starts is None:
        yield from (slice(first, min(first + step, rows)) for first in range(0, rows, step))
        return
    ends = np.append(starts[1:], rows)
    first = 0
    while first < len(starts):
        stop = max(first + 1, int(np.searchsorted(ends, starts[first] + step, side="right")))
        yield slice(first, stop)
        first = stop


def best_rows(values: Matrix, starts: Rows | None) -> Matrix:
    """Return the maximum over each document's rows, ``(rows, n)`` to ``(documents, n)``."""
    if starts is None:
        return values
    best = np.empty((len(starts), values.shape[1]), dtype=values.dtype)
    ends = [*starts[1:].tolist(), len(values)]
    for document, (start, end) in enumerate(zip(starts.tolist(), ends, strict=True)):
        np.maximum.reduce(values[start:end], axis=0, out=best[document])  # many times faster than reduceat here
    return best


def best_columns(values: Matrix, starts: Rows | None) -> Matrix:
    """Return the maximum over each document's columns, ``(n, rows)`` to ``(n, documents)``."""
    return values if starts is None else np.maximum.reduceat(values, starts, axis=1)


def _checked(owner: OwnerLike, rows: int) -> Rows:
    numbers = np.asarray(owner)
    if numbers.shape != (rows,):
        raise BadInput(f"{rows} rows came with an owner of shape {numbers.shape}. Give the document of each row.")
    if not rows:
        return np.empty(0, dtype=np.intp)
    if numbers.dtype.kind not in "iu":
        raise BadInput(f"owner holds document numbers, not {numbers.dtype}. {_FORM}")
    numbers = numbers.astype(np.intp)
    steps = np.diff(numbers, prepend=-1)
    wrong = ~np.isin(steps, (0, 1))
    wrong[0] = numbers[0] != 0
    if wrong.any():
        row = int(np.argmax(wrong))
        before = f" after {numbers[row - 1]}" if row else ""
        raise BadInput(f"owner is {numbers[row]} at row {row}{before}. {_FORM}")
    return numbers
