"""Searches on several threads, and while the collection is calibrated again.

    python bench/concurrency.py [--rows 150000] [--seconds 2] [--turns 10] [--index auto]

A collection of texts and images (vectors made from those of `mini`, `bench/real_like.py`) is searched with words that
`mini` encodes on one core each. Each turn searches on one thread, idle and while the collection calibrates again in the
background, then on one thread and on eight. Turns are short and alternate, for machines drift; the last line has the
medians of their ratios. Read the ratios, not the milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event, Thread
from time import perf_counter
from unittest.mock import patch

import numpy as np
from real_like import many, seeds

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders import Encoder
from isthmus.encoders.bank import queries
from isthmus.search import snapshot_builder
from isthmus.types import Matrix, Rows, Vectors

SPEC = "center+nnn(k=16)+standardize"
THREADS = 8


@dataclass(frozen=True)
class LookUp:
    """The encoder ``mini`` for queries; for documents ready vectors, chosen by a checksum, which takes no time."""

    vectors: dict[str, Matrix]
    mini: Encoder

    @property
    def name(self) -> str:
        return self.mini.name

    @property
    def identity(self) -> str:
        return self.mini.identity

    @property
    def dim(self) -> int:
        return self.mini.dim

    @property
    def modalities(self) -> tuple[str, ...]:
        return self.mini.modalities

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        given: dict[str, list[object]] = {
            "text": [one.text for one in documents],
            "image": [one.image for one in documents],
        }
        present = {kind: np.array([one is not None for one in several]) for kind, several in given.items()}
        held = {kind: several for kind, several in given.items() if present[kind].any()}
        rows = {kind: [zlib.crc32(repr(one).encode()) for one in several] for kind, several in held.items()}
        parts = {kind: self.vectors[kind][np.array(found) % len(self.vectors[kind])] for kind, found in rows.items()}
        return Vectors(parts, {kind: present[kind] for kind in parts})

    def encode_passages(self, documents: Sequence[Document], *, skip: object = None) -> tuple[Vectors, Rows]:  # noqa: ARG002
        return self.encode_documents(documents), np.arange(len(documents))

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        return self.mini.encode_queries(queries)

    def split(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def filled(things: Collection, rows: int) -> None:
    notes = (Document(f"text {n}", text=f"note {n}") for n in range(rows // 2))
    photos = (Document(f"image {n}", image=f"photo {n}".encode()) for n in range(rows // 2))
    things.add(notes)
    things.add(photos)
    things.calibrate(SPEC)
    things.refresh()


def latencies(things: Collection, words: Iterator[str], seconds: float) -> Matrix:
    """Search for so long on one thread; return what each search took."""
    taken, end = [], perf_counter() + seconds
    while (start := perf_counter()) < end:
        things.search(next(words))
        taken.append(perf_counter() - start)
    return np.array(taken)


def fresh() -> Iterator[str]:
    """Yield words that nobody has searched for: an encoder remembers queries."""
    return (f"{text} {turn}" for turn in count(int(perf_counter() * 1e6)) for text in queries()[:400])


def per_second(things: Collection, threads: int, seconds: float) -> float:
    """Return how many searches all threads together finish in a second."""
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda _: len(latencies(things, fresh(), seconds)), range(threads)))
    return sum(found) / seconds


@contextmanager
def refitting(things: Collection) -> Iterator[None]:
    """Have the collection calibrate again in the background, over and over; in the end wait for it."""
    over = Event()

    def change() -> None:
        number = 0
        while not over.is_set():
            things.add([Document("changing", text=f"note {perf_counter()} {number}")])
            number += 1
            over.wait(0.2)

    with patch.object(snapshot_builder, "DRIFT", -1.0):  # every change counts as drift
        thread = Thread(target=change)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
    while things.stats().refitting:
        over.wait(0)


def turn(things: Collection, seconds: float) -> tuple[float, float]:
    """Measure everything once; return the ratio of the 99th percentiles, and that of the rates."""
    idle = latencies(things, fresh(), seconds)
    with refitting(things):
        busy = latencies(things, fresh(), seconds)
    one, eight = (per_second(things, threads, seconds) for threads in (1, THREADS))
    (a, b), (c, d) = (np.quantile(taken, [0.5, 0.99]) * 1e3 for taken in (idle, busy))
    print(
        f"idle p50 {a:.1f}, p99 {b:.1f} ms; during a re-fit p50 {c:.1f}, p99 {d:.1f} ms: × {d / b:.2f};   "
        f"{one:.0f}/s on 1 thread, {eight:.0f}/s on {THREADS}: × {eight / one:.2f}",
        flush=True,
    )
    return d / b, eight / one


def main(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    mini = encoders.load("mini", threads=1)
    encoder = LookUp({kind: many(rows, options.rows // 2, rng) for kind, rows in seeds(None).items()}, mini)
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "bench.isthmus")
        with Collection.open(place, encoder, index=options.index) as things:
            filled(things, options.rows)
            print(f"{options.rows:,} documents: {dict(things.stats().index)}", flush=True)
            latencies(things, fresh(), 1)
            found = [turn(things, options.seconds) for _ in range(options.turns)]
    p99, rate = np.median(found, axis=0)
    print(f"median of {options.turns}: p99 during a re-fit × {p99:.2f}; {THREADS} threads × {rate:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--index", default="auto")
    main(parser.parse_args())
