"""What it costs that an identical picture comes first: searches by picture with and without the comparison.

    python bench/identical.py [--rows 20000]

A collection of ready vectors, a third texts, a third pictures, a third both. *file*: the query has a file, whose hash
is looked up, and the nearest pictures of the same scan are compared. *ready vectors*: there is no file, so the pictures
are searched once more, without biases. Processor time, alternating; the ratio is to the search without a comparison.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from unittest import mock

import numpy as np

from isthmus import Collection, Document, Image, Query
from isthmus.search import identical
from isthmus.search.ranking import Ranking
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.types import Matrix, Vectors

Queries = Sequence[Query]
Lists = Sequence[Sequence[Ranking]]
Found = list[dict[int, float]]
DIM, QUERIES, TURNS = 256, 40, 7
KINDS = (("text",), ("image",), ("text", "image"))


def unit(rows: Matrix) -> Matrix:
    """Return rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def collection(folder: str, rows: int, rng: np.random.Generator) -> Collection:
    """Make a collection, calibrated."""
    things = Collection.open(folder, "none", calibration="none", follow=False)
    made = unit(rng.normal(size=(rows, 2, DIM)) + 2 * rng.normal(size=(2, DIM)))
    parts = ({kind: made[row, int(kind == "image")] for kind in KINDS[row % 3]} for row in range(rows))
    things.add(Document(f"{row}", vectors=vectors) for row, vectors in enumerate(parts))
    references = unit(rng.normal(size=(200, DIM)))
    things.calibrate("blend", queries=[Query(vectors={"image": vector}) for vector in references])
    return things


def main(rows: int) -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    found = identical.documents_with_part
    queries = [Query(vectors={"image": vector}) for vector in unit(rng.normal(size=(QUERIES, DIM)))]
    files = [Query(parts=[Image(bytes([at]))]) for at in range(QUERIES)]

    def as_files(snapshot: Snapshot, store: Store, asked: Queries, vectors: Vectors, nearest: Lists) -> Found:
        return found(snapshot, store, files[: len(asked)], vectors, nearest)

    def nothing(_: Snapshot, __: Store, asked: Queries, ___: Vectors, ____: Lists) -> Found:
        return [{} for _ in asked]

    times: dict[str, list[float]] = {"without": [], "file": [], "ready vectors": []}
    with tempfile.TemporaryDirectory() as folder, collection(f"{folder}/c", rows, rng) as things:
        for _ in range(TURNS):
            for name, compare in (("without", nothing), ("file", as_files), ("ready vectors", found)):
                with mock.patch.object(identical, "documents_with_part", compare):
                    times[name].append(timed(lambda one: things.search(one, k=10), queries))
    base = statistics.median(times["without"])
    for name, several in times.items():
        spent = statistics.median(several)
        print(f"{name:<14} {1e3 * spent:6.2f} ms a query   {spent / base:.2f} ×")


def timed(search: Callable[[Query], object], queries: Sequence[Query]) -> float:
    """Return the processor time of one query."""
    start = time.process_time()
    for query in queries:
        search(query)
    return (time.process_time() - start) / len(queries)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    main(parser.parse_args().rows)
