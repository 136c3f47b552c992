"""A collection on one server: speed of search, recall, ingest, and readers while it is calibrated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Thread
from time import perf_counter

import numpy as np
from engine_data import AGAIN, SHARES, SPEC, Data, K, recall
from engine_places import Place
from targets import Row

from isthmus import Collection, Query
from isthmus.calibration.rows import unit
from isthmus.search.maintenance import giving_way
from isthmus.search.published_index import PublishedIndex
from isthmus.search.ranking import ranked
from isthmus.search.snapshot import Snapshot
from isthmus.storage.postgres.pool import VectorDumper
from isthmus.storage.protocols import About, FoldedRows, PublishedVectors, RowFilter
from isthmus.types import Matrix, Vectors

BATCH, RAW = 4096, "0-raw"
IDLE = 200  # searches before and after a re-fit


def rows(name: str, place: Place, data: Data, rates: dict[str, float]) -> Iterator[Row]:
    """Measure one server, and put its rates for `isthmus plan` into ``rates``.

    Targets hold for real servers, so Qdrant's local mode has none but recall.
    """
    real = name != "qdrant"
    with Collection.open(place.path, "none", follow=False, vectors=place.vectors) as things:
        plain = [Copy(place.url, data.vectors.shape[1], form) for form in ("text", "binary")] if place.url else []
        ours, copied = _ingest(things, data, plain)
        rates[f"{name}_stored_rows_per_second"] = len(data) / ours
        yield Row("stored, documents a second", len(data) / ours)
        for form, seconds, least in zip(("COPY", "COPY in binary"), copied, (0.5, None), strict=False):
            yield Row(f"rate of storing, of {form} of the same rows into one table", seconds / ours, least=least)
        start = perf_counter()
        things.calibrate(SPEC)
        yield Row("first calibration with folding and indexes, seconds", perf_counter() - start)
        snapshot = things.snapshot()
        raw = Raw.of(snapshot, data)
        rates[f"{name}_written_rows_per_second"] = len(data) / raw.writing
        rates[f"{name}_indexed_rows_per_second"] = len(data) / raw.indexing
        yield Row("written on the server, rows a second", len(data) / raw.writing)
        yield Row("indexed there, rows a second", len(data) / raw.indexing)
        yield from _speed(things, snapshot, raw, data, real)
        yield from _recalls(things, snapshot, data)
        raw.server.drop(RAW)
        yield from _refit(things, data, real)


def _ingest(things: Collection, data: Data, plain: Sequence[Copy]) -> tuple[float, list[float]]:
    """Add all documents, and copy them into plain tables, in turns; return the seconds of each."""
    taken = [0.0] * (1 + len(plain))
    for start in range(0, len(data), BATCH):
        some = list(data.documents(start, start + BATCH))
        taken[0] += _seconds(lambda: things.add(some))  # noqa: B023 - called at once
        for at, one in enumerate(plain, 1):
            taken[at] += _seconds(lambda: one.add(data, start, start + BATCH))  # noqa: B023
    return taken[0], taken[1:]


class Copy:
    """A plain table of pgvector, filled by COPY: in its usual format (text), or in the binary one."""

    def __init__(self, url: str, dim: int, format_: str) -> None:
        import psycopg

        self.connection = psycopg.connect(url, autocommit=True)
        self.write = (lambda vector: vector) if format_ == "binary" else as_text
        self.connection.adapters.register_dumper(np.ndarray, VectorDumper)
        self.connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        table = f"(id text PRIMARY KEY, modality text, metadata jsonb, vector vector({dim}))"
        self.connection.execute(f"DROP TABLE IF EXISTS plain_{format_}; CREATE TABLE plain_{format_} {table}")
        self.statement = f"COPY plain_{format_} FROM STDIN (FORMAT {format_})"

    def add(self, data: Data, start: int, stop: int) -> None:
        """Copy some documents in one transaction."""
        from psycopg.types.json import Jsonb

        with self.connection.cursor() as cursor, cursor.copy(self.statement) as copy:
            for n in range(start, min(stop, len(data))):
                copy.write_row((str(n), data.kind(n), Jsonb(data.metadata(n)), self.write(data.vectors[n])))


def as_text(vector: Matrix) -> str:
    """Write a vector as pgvector reads it; nine digits tell every 32-bit float from the next."""
    return f"[{','.join(f'{number:.9g}' for number in vector.tolist())}]"


@dataclass(frozen=True)
class Raw:
    """The raw vectors on the same server, in the same form, searched by the same statements."""

    server: PublishedVectors
    modalities: tuple[str, ...]
    last: int
    writing: float  # seconds
    indexing: float

    @classmethod
    def of(cls, snapshot: Snapshot, data: Data) -> Raw:
        """Publish them beside the folded ones."""
        server = next(index.server for index in snapshot.built if isinstance(index, PublishedIndex))
        start = perf_counter()
        server.begin(RAW, snapshot.modalities, data.vectors.shape[1])
        for at in range(0, len(data), BATCH):
            numbers = np.arange(at, min(at + BATCH, len(data)))
            kinds = np.array([data.kind(n) for n in numbers.tolist()])
            for kind in snapshot.modalities:
                mine = numbers[kinds == kind]
                if len(mine):
                    facts = [list(data.metadata(n).items()) for n in mine.tolist()]
                    pairs = np.column_stack([mine, np.zeros_like(mine)])
                    server.write(RAW, FoldedRows(kind, data.vectors[mine], pairs, list(map(str, mine)), facts))
        written = perf_counter()
        server.mark(RAW, About("raw", snapshot.state, len(data), complete=True))
        return cls(server, snapshot.modalities, len(data), written - start, perf_counter() - written)

    def ask(self, query: Matrix) -> list[int]:
        """Return the best rows of all modalities."""
        several = [self.server.search(RAW, name, query[None], K + 1, RowFilter(self.last)) for name in self.modalities]
        inner = np.concatenate([one[0] for one, _ in several])
        found = np.concatenate([one[0, :, 0] for _, one in several])
        return [int(row) for row in found[np.argsort(-inner, kind="stable")[:K]]]


def _speed(things: Collection, snapshot: Snapshot, raw: Raw, data: Data, real: bool) -> Iterator[Row]:
    """Time raw and calibrated searches of the same statements, and whole searches, in turns."""
    ways: dict[str, Callable[[Matrix], object]] = {
        "raw": lambda query: raw.ask(unit(query[None])[0]),
        "calibrated": lambda query: ranked(snapshot, Vectors.of(query[None], "text"), K),
        "whole": lambda query: things.search(_query(query), k=K),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn, query in enumerate(data.queries):
        for name in list(ways) if turn % 2 else reversed(ways):
            taken[name].append(_seconds(lambda: ways[name](query)))  # noqa: B023 - called at once
    p50 = {name: float(np.median(several[2:])) for name, several in taken.items()}
    yield Row("search by raw vectors, p50, ms", 1e3 * p50["raw"])
    most = 1.1 if real else None
    yield Row(
        "calibrated search, p50, of the same statements on raw vectors", p50["calibrated"] / p50["raw"], most=most
    )
    yield Row("whole search, with documents and P(match), p50, of those statements", p50["whole"] / p50["raw"])


def _recalls(things: Collection, snapshot: Snapshot, data: Data) -> Iterator[Row]:
    for name, where in ({"everything": None} | dict(SHARES)).items():
        wanted = data.exact(snapshot, where)
        start = perf_counter()
        found = [[hit.id for hit in things.search(_query(query), k=K, where=where)] for query in data.queries]
        each = (perf_counter() - start) / len(found)
        yield Row(f"recall@10, {name}, {1e3 * each:.1f} ms", recall(found, wanted), least=0.97)


def _refit(things: Collection, data: Data, real: bool) -> Iterator[Row]:
    """Search on this thread, idle and while another thread calibrates."""
    count = min(IDLE, len(data.queries))

    def some() -> list[float]:
        return [_seconds(lambda: things.search(_query(query), k=K)) for query in data.queries[:count]]  # noqa: B023

    def again() -> None:
        with giving_way():  # as a collection's own re-fits, and jobs of the server
            done.append(_seconds(lambda: things.calibrate(AGAIN)))

    idle, busy, done = some(), list[float](), list[float]()
    thread = Thread(target=again)
    thread.start()
    while thread.is_alive():
        query = data.queries[len(busy) % count]
        busy.append(_seconds(lambda: things.search(_query(query), k=K)))  # noqa: B023
    thread.join()
    idle += some()
    ratio = float(np.quantile(busy, 0.99) / np.quantile(idle, 0.99))
    yield Row("re-fit, seconds", done[0] if done else None)
    yield Row("p50 of searches during the re-fit, of idle", float(np.median(busy) / np.median(idle)))
    yield Row("p99 of searches during the re-fit, of idle", ratio, most=2 if real else None)


def _query(vector: Matrix) -> Query:
    return Query(vectors={"text": vector})


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
