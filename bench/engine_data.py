"""Vectors of the engines' benchmark: half texts, half images, like real ones; and what exact search finds of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
from real_like import many, seeds

from isthmus import Document
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot, folded, in_memory
from isthmus.storage.base import Block
from isthmus.types import Mask, Matrix, Vectors

K = 10
SPEC, AGAIN = "center+nnn(k=16)+standardize", "center+nnn(k=17)+standardize"  # the calibration, and one to re-fit
Filter: TypeAlias = Mapping[str, int | Mapping[str, int]]
SHARES: Mapping[str, Filter] = {  # filters, by what they allow
    "1%": {"hundredth": 0},
    "10%": {"tenth": 0},
    "50%": {"half": 0},
    "50%, a range": {"tenth": {"lt": 5}},
}


@dataclass(frozen=True)
class Data:
    """Documents by number: the first half are texts."""

    vectors: Matrix
    queries: Matrix

    @classmethod
    def of(cls, rows: int, real: Path | None, queries: int = 200) -> Data:
        rng, known = np.random.default_rng(0), seeds(real)
        half = rows // 2
        made = [many(known["text"], half, rng), many(known["image"], rows - half, rng)]
        return cls(np.concatenate(made), many(known["text"], queries, rng))

    def __len__(self) -> int:
        return len(self.vectors)

    def kind(self, number: int) -> str:
        return "text" if number < len(self) // 2 else "image"

    @staticmethod
    def metadata(number: int) -> dict[str, int]:
        return {"half": number % 2, "tenth": number // 2 % 10, "hundredth": number // 2 % 100}

    def documents(self, start: int, stop: int) -> Iterator[Document]:
        for number in range(start, min(stop, len(self))):
            vectors = {self.kind(number): self.vectors[number]}
            yield Document(str(number), vectors=vectors, metadata=self.metadata(number))

    def exact(self, snapshot: Snapshot, where: Filter | None = None) -> list[set[str]]:
        """Return the ids that exact search finds for each query, by a snapshot's calibration."""
        numbers, kinds = np.arange(len(self)), np.array([self.kind(number) for number in range(len(self))])
        parts = {kind: np.where((kinds == kind)[:, None], self.vectors, 0) for kind in ("image", "text")}
        vectors = Vectors(parts, {kind: kinds == kind for kind in parts})
        fitted, sources = snapshot.calibrated.fitted, snapshot.calibrated.sources
        pieces = folded(fitted, Block(numbers, list(map(str, numbers)), vectors, numbers), sources)
        built = in_memory(pieces, "exact")
        if where is not None:
            may = self._passing(where)
            built = tuple(replace(index, alive=may[index.documents]) for index in built)
        found = ranked(replace(snapshot, built=built, recent=()), Vectors.of(self.queries, "text"), K)
        return [{str(row) for row in one.documents} for one in found]

    def _passing(self, where: Filter) -> Mask:
        given = (self.metadata(number) for number in range(len(self)))
        return np.array([all(_is(one[name], value) for name, value in where.items()) for one in given])


def _is(value: int, asked: int | Mapping[str, int]) -> bool:
    return value < asked["lt"] if isinstance(asked, Mapping) else value == asked


def recall(found: list[list[str]], wanted: list[set[str]]) -> float:
    """Return the mean share of the wanted ids that was found."""
    return float(np.mean([len(set(one) & right) / len(right) for one, right in zip(found, wanted, strict=True)]))
