"""Statistics that are updated by adds and deletes, and how far a collection has drifted from its fit.

In words: a calibration is fitted on the collection as it was. The mean of each part is kept up to date
by adding and removing documents, exactly, without reading the others again; shards are merged the same way.
When the means have moved far enough, a new fit is worth its cost.

Formula (Chan, Golub & LeVeque 1979; removal is the same step with a negative count), for two groups a, b:

    n = n_a + n_b        δ = mean_b − mean_a
    mean = mean_a + δ · n_b / n
    M2   = M2_a + M2_b + δ² · n_a n_b / n          variance = M2 / n   (population)

    drift of a part = ‖mean_now − mean_at_fit‖ / √(total variance at fit)

A drift of 0 is no change; at 0.5 the cloud's centre has moved by half the cloud's own radius.

>>> rng = np.random.default_rng(0)
>>> first, second = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
>>> both = Moments.of(first).merge(Moments.of(second))
>>> bool(np.allclose(both.variance, np.vstack([first, second]).var(axis=0)))
True
>>> bool(np.allclose(both.remove(second).mean, first.mean(axis=0)))
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isthmus.calibration._sealed import sealed, unsealed
from isthmus.calibration.passages import OwnerLike, Passages, lengths, rows_of
from isthmus.calibration.rows import in_blocks, unit
from isthmus.errors import BadInput
from isthmus.types import Matrix, Rows, Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """The count, mean ``(d,)`` and sum of squared deviations ``(d,)`` of some rows, in float64."""

    count: int
    mean: Matrix
    m2: Matrix

    @classmethod
    def empty(cls, dim: int) -> Moments:
        """Return the moments of no rows at all."""
        return cls(0, np.zeros(dim), np.zeros(dim))

    @classmethod
    def of(cls, rows: Matrix, counts: Rows | None = None) -> Moments:
        """Return the moments of ``rows``, ``(n, d)``; each group of ``counts`` rows has weight 1."""
        rows = np.asarray(rows, dtype=np.float64)
        if not len(rows):
            return cls.empty(rows.shape[1])
        if counts is None:
            mean = rows.mean(axis=0)
            return cls(len(rows), mean, np.square(rows - mean).sum(axis=0))
        share = np.repeat(1 / counts, counts)
        mean = share @ rows / len(counts)
        return cls(len(counts), mean, share @ np.square(rows - mean))

    @property
    def variance(self) -> Matrix:
        """The population variance of each dimension."""
        return self.m2 / max(self.count, 1)

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both groups of rows together."""
        return self._combine(other, 1)

    def add(self, rows: Matrix) -> Moments:
        """Return the moments with ``rows`` added."""
        return self.merge(Moments.of(rows))

    def remove(self, rows: Matrix) -> Moments:
        """Return the moments with ``rows``, added earlier, removed."""
        return self._combine(Moments.of(rows), -1)

    def _combine(self, other: Moments, sign: int) -> Moments:
        if self.mean.shape != other.mean.shape:
            raise BadInput(f"rows of {len(other.mean)} dimensions cannot be combined with rows of {len(self.mean)}.")
        count = self.count + sign * other.count
        if count < 0:
            raise BadInput(f"{other.count} rows cannot be removed from {self.count}: they were never added.")
        if count == 0:
            return Moments.empty(len(self.mean))
        delta = other.mean - self.mean
        share = sign * other.count / count
        m2 = self.m2 + sign * other.m2 + np.square(delta) * (self.count * share)
        return Moments(count, self.mean + delta * share, np.maximum(m2, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The moments of each part of a set of documents (or queries), each row normalised, each document with weight 1."""

    parts: Mapping[str, Moments]

    @classmethod
    def of(cls, vectors: Vectors, owner: OwnerLike | None = None) -> Statistics:
        """Return the statistics of ``vectors``, part by part.

        ``owner`` is the document of each row: a document has weight 1, each of its n passages 1/n, and counts are
        numbers of documents.
        """
        passages = Passages.of(vectors, owner)
        return cls({part: _part_moments(passages, part) for part in vectors.parts if vectors.present[part].any()})

    def add(self, vectors: Vectors, owner: OwnerLike | None = None) -> Statistics:
        """Return the statistics with these documents added."""
        return self.merge(Statistics.of(vectors, owner))

    def remove(self, vectors: Vectors, owner: OwnerLike | None = None) -> Statistics:
        """Return the statistics with these documents, added earlier with the same passages, removed."""
        gone = Statistics.of(vectors, owner)
        if unknown := set(gone.parts) - set(self.parts):
            raise BadInput(f"rows with {', '.join(sorted(unknown))} cannot be removed: none were added.")
        kept = {p: m._combine(gone.parts[p], -1) if p in gone.parts else m for p, m in self.parts.items()}
        return Statistics({p: m for p, m in kept.items() if m.count})

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of two shards together."""
        both = {p: m.merge(other.parts[p]) for p, m in self.parts.items() if p in other.parts}
        return Statistics({**self.parts, **other.parts, **both})

    @property
    def means(self) -> dict[str, Matrix]:
        """The mean unit vector of each part."""
        return {part: moments.mean for part, moments in self.parts.items()}

    @property
    def counts(self) -> dict[str, int]:
        """The number of documents with each part."""
        return {part: moments.count for part, moments in self.parts.items()}

    def tensors(self) -> dict[str, Matrix]:
        """The tensors to save besides the counts."""
        means = {f"mean/{part}": moments.mean for part, moments in self.parts.items()}
        return means | {f"m2/{part}": moments.m2 for part, moments in self.parts.items()}

    @classmethod
    def restore(cls, counts: Mapping[str, int], tensors: Mapping[str, Matrix]) -> Statistics:
        """Rebuild the statistics from their counts and ``tensors``."""
        return cls({part: Moments(n, tensors[f"mean/{part}"], tensors[f"m2/{part}"]) for part, n in counts.items()})

    def to_bytes(self) -> bytes:
        """Write the statistics as bytes, for a store."""
        return sealed("statistics", self.counts, self.tensors())

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "the statistics") -> Statistics:
        """Read what ``to_bytes`` wrote; damaged bytes raise an error that mentions ``name``."""
        return cls.restore(*unsealed("statistics", data, name))


def drift(at_fit: Statistics, now: Statistics) -> dict[str, float]:
    """Return how far each part's mean has moved since the fit, in radii of its cloud at the fit.

    A part that did not exist at the fit has drifted infinitely far; one that no longer exists, not at all.
    """
    return {part: _part_drift(at_fit.parts.get(part), moments) for part, moments in now.parts.items()}


def _part_drift(before: Moments | None, after: Moments) -> float:
    if before is None:
        return float("inf")
    moved = float(np.linalg.norm(after.mean - before.mean))
    radius = float(np.sqrt(before.variance.sum()))
    return 0.0 if moved == 0 else moved / max(radius, 1e-9)


def _part_moments(documents: Passages, part: str) -> Moments:
    vectors, owner = documents.vectors, documents.owner
    numbers = np.flatnonzero(vectors.present[part])
    starts = None if owner is None else np.flatnonzero(np.diff(owner[numbers], prepend=-1))
    counts = None if starts is None else lengths(starts, len(numbers))
    matrix = vectors.parts[part]
    blocks: dict[int, Moments] = {}

    def task(block: slice) -> None:
        taken = numbers[rows_of(block, starts, len(numbers))]
        rows = unit(np.asarray(matrix[taken], dtype=np.float64), part=part, numbers=taken)
        blocks[block.start] = Moments.of(rows, None if counts is None else counts[block])

    n = len(numbers) if starts is None else len(starts)
    in_blocks(n, vectors.dim * -(-len(numbers) // n), task)
    total = Moments.empty(vectors.dim)
    for start in sorted(blocks):  # always in the same order: the result does not depend on the threads
        total = total.merge(blocks[start])
    return total
