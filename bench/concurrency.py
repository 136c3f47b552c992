"""Searches on several threads, and while the collection is calibrated again.

    python bench/concurrency.py [--rows 200000] [--seconds 2] [--turns 10] [--index auto] [--real FILE.npz]

A collection of texts and images (vectors made from real ones, `bench/real_like.py`) is searched with words. Its encoder
looks vectors up, so that searching is measured and no model. Each turn searches on one thread, idle and while another
thread runs ``calibrate``, then on one thread and on eight. Turns are short and alternate, for machines drift; the last
line has the medians of their ratios. Read the ratios, not the milliseconds.
"""

from __future__ import annotations

import argparse
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from time import perf_counter

import numpy as np
from real_like import many, seeds

from isthmus import Collection, Document, Query
from isthmus.types import Matrix, Rows, Vectors

SPEC = "center+nnn(k=16)+standardize"
THREADS = 8


@dataclass(frozen=True)
class LookUp:
    """An encoder without a model: ready vectors, chosen by a text's or a picture's checksum."""

    vectors: dict[str, Matrix]
    name: str = "look-up"
    modalities: tuple[str, ...] = ("text", "image", "image+text")

    @property
    def identity(self) -> str:
        return f"look-up {zlib.crc32(self.vectors['text'][0].tobytes())} {len(self.vectors['text'])}"

    @property
    def dim(self) -> int:
        return int(self.vectors["text"].shape[1])

    def encode_documents(self, documents: Sequence[Document | Query]) -> Vectors:
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
        return self.encode_documents([Query.of(one) for one in queries])

    def split(self, text: str) -> list[tuple[int, int]]:
        return [(0, len(text))]


def filled(things: Collection, rows: int) -> None:
    notes = (Document(f"text {n}", text=f"note {n}") for n in range(rows // 2))
    photos = (Document(f"image {n}", image=f"photo {n}".encode()) for n in range(rows // 2))
    things.add(notes)
    things.add(photos)
    things.calibrate(SPEC)
    things.refresh()


def latencies(things: Collection, searches: list[Query], seconds: float) -> Matrix:
    """Search for so long on one thread; return what each search took."""
    taken, end = [], perf_counter() + seconds
    for query in cycle(searches):
        start = perf_counter()
        if start > end:
            break
        things.search(query)
        taken.append(perf_counter() - start)
    return np.array(taken)


def per_second(things: Collection, searches: list[Query], threads: int, seconds: float) -> float:
    """Return how many searches all threads together finish in a second."""
    with ThreadPoolExecutor(threads) as pool:
        rolled = [[*searches[n * 7 :], *searches[: n * 7]] for n in range(threads)]
        found = list(pool.map(lambda own: len(latencies(things, own, seconds)), rolled))
    return sum(found) / seconds


@contextmanager
def refitting(things: Collection) -> Iterator[list[int]]:
    """Calibrate over and over on another thread; yield a list that grows by one for each time."""
    over, done = Event(), list[int]()

    def work() -> None:
        while not over.is_set():
            things.calibrate(SPEC)
            done.append(1)

    thread = Thread(target=work)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def turn(things: Collection, searches: list[Query], seconds: float) -> tuple[float, float]:
    """Measure everything once; return the ratio of the 99th percentiles, and that of the rates."""
    idle = latencies(things, searches, seconds)
    with refitting(things):
        busy = latencies(things, searches, seconds)
    one, eight = (per_second(things, searches, threads, seconds) for threads in (1, THREADS))
    (a, b), (c, d) = (np.quantile(taken, [0.5, 0.99]) * 1e3 for taken in (idle, busy))
    print(
        f"idle p50 {a:.1f}, p99 {b:.1f} ms; during a re-fit p50 {c:.1f}, p99 {d:.1f} ms: × {d / b:.2f};   "
        f"{one:.0f}/s on 1 thread, {eight:.0f}/s on {THREADS}: × {eight / one:.2f}",
        flush=True,
    )
    return d / b, eight / one


def main(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    encoder = LookUp({kind: many(rows, options.rows // 2, rng) for kind, rows in seeds(options.real).items()})
    searches = [Query(f"what about {n}?") for n in range(400)]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "bench.isthmus")
        with Collection.open(place, encoder, follow=False, index=options.index) as things:
            filled(things, options.rows)
            print(f"{options.rows:,} documents: {dict(things.stats().index)}", flush=True)
            latencies(things, searches, 1)
            found = [turn(things, searches, options.seconds) for _ in range(options.turns)]
    p99, rate = np.median(found, axis=0)
    print(f"median of {options.turns}: p99 during a re-fit × {p99:.2f}; {THREADS} threads × {rate:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--index", default="auto")
    parser.add_argument("--real", type=Path, help="an npz of real vectors, arrays named …_img and …_txt")
    main(parser.parse_args())
