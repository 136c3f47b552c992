"""Embedded stores, each in a process of its own: isthmus beside Chroma, LanceDB and plain Faiss.

One process adds the documents and ends; another opens what is on the disk and is searched, in turns with the others. So
memory is that of one store, and other load on the machine slows all of them.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from engine_data import SPEC, Data, K, recall

from isthmus import Collection, Document, Query
from isthmus.types import Matrix

BATCH, TURNS = 5000, 5
Blocks = Iterator[tuple[int, Matrix, list[str]]]  # the first number, vectors, kinds


class Ours:
    """An isthmus collection of vectors, calibrated."""

    name, module, spec = "isthmus, calibrated", "isthmus", SPEC

    def __init__(self, folder: Path) -> None:
        self.things = Collection.open(folder / "peer.isthmus", "none", follow=False)

    def add(self, blocks: Blocks) -> None:
        for start, vectors, kinds in blocks:
            pairs = enumerate(zip(vectors, kinds, strict=True), start)
            self.things.add(Document(str(n), vectors={kind: row}) for n, (row, kind) in pairs)
        self.things.calibrate(self.spec)

    def ask(self, vector: Matrix) -> list[str]:
        return [hit.id for hit in self.things.search(Query(vectors={"text": vector}), k=K)]


class Raw(Ours):
    """The same collection, not calibrated: every vector is compared."""

    name, spec = "isthmus, raw", "none"


class FaissHNSW:
    """The method of clip-retrieval at this size: one Faiss index of raw vectors, without documents."""

    name, module = "Faiss HNSW, vectors alone", "faiss"

    def __init__(self, folder: Path) -> None:
        import faiss

        self.file = str(folder / "raw.faiss")
        with suppress(RuntimeError):
            self.index: Any = faiss.read_index(self.file)

    def add(self, blocks: Blocks) -> None:
        import faiss

        for start, vectors, _ in blocks:
            if not start:
                self.index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
                self.index.hnsw.efSearch = 64
            self.index.add(vectors)
        faiss.write_index(self.index, self.file)

    def ask(self, vector: Matrix) -> list[str]:
        return [str(row) for row in self.index.search(vector[None], K)[1][0]]


class Chroma:
    """Chroma, on the disk, by cosine."""

    name, module = "Chroma", "chromadb"

    def __init__(self, folder: Path) -> None:
        import chromadb

        client = chromadb.PersistentClient(str(folder / "chroma"))
        self.rows = client.get_or_create_collection("peer", metadata={"hnsw:space": "cosine"})

    def add(self, blocks: Blocks) -> None:
        for start, vectors, kinds in blocks:
            names = [str(n) for n in range(start, start + len(vectors))]
            self.rows.add(ids=names, embeddings=vectors, metadatas=[{"kind": kind} for kind in kinds])

    def ask(self, vector: Matrix) -> list[str]:
        return list(self.rows.query(query_embeddings=[vector], n_results=K)["ids"][0])


class Lance:
    """LanceDB, on the disk, by cosine, with its default index."""

    name, module = "LanceDB", "lancedb"

    def __init__(self, folder: Path) -> None:
        import lancedb

        self.database = lancedb.connect(str(folder / "lance"))
        with suppress(ValueError):
            self.table = self.database.open_table("peer")

    def add(self, blocks: Blocks) -> None:
        import lancedb.index
        import pyarrow

        for start, vectors, kinds in blocks:
            held = pyarrow.FixedSizeListArray.from_arrays(vectors.reshape(-1), vectors.shape[1])
            names = [str(n) for n in range(start, start + len(vectors))]
            rows = pyarrow.table({"id": names, "kind": kinds, "vector": held})
            if start:
                self.table.add(rows)
            else:
                self.table = self.database.create_table("peer", rows)
        self.table.create_index("vector", config=lancedb.index.IvfPq(distance_type="cosine"))

    def ask(self, vector: Matrix) -> list[str]:
        return [row["id"] for row in self.table.search(vector).distance_type("cosine").limit(K).to_list()]


PEERS: dict[str, Any] = {"isthmus": Ours, "raw": Raw, "chroma": Chroma, "lancedb": Lance, "faiss": FaissHNSW}


def peak() -> int:
    """Return the most memory this process has held, in bytes (Linux)."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) * 1024


def work(kind: str, folder: Path, file: Path, shape: tuple[int, int], pipe: Connection) -> None:
    """Open a store in this process, and answer what comes: the documents to add, or queries; None ends it."""
    peer = PEERS[kind](folder)
    pipe.send("ready")
    before = peak()
    while (asked := pipe.recv()) is not None:
        if isinstance(asked, str):
            start = perf_counter()
            peer.add(_blocks(file, *shape))
            pipe.send((perf_counter() - start, peak() - before))
            continue
        found, taken = [], []
        for query in asked:
            start = perf_counter()
            found.append(peer.ask(query))
            taken.append(perf_counter() - start)
        pipe.send((found, taken, peak() - before))


def _blocks(file: Path, rows: int, dim: int) -> Blocks:
    """Read vectors from a file, a block at a time, so that they are in no store's memory."""
    for start in range(0, rows, BATCH):
        count = min(BATCH, rows - start)
        vectors = np.fromfile(file, np.float32, count * dim, offset=4 * start * dim).reshape(count, dim)
        yield start, vectors, ["text" if n < rows // 2 else "image" for n in range(start, start + count)]


@dataclass
class Worker:
    """A process with one store."""

    process: Any
    pipe: Any

    @classmethod
    def of(cls, kind: str, folder: Path, data: Data) -> Worker:
        pipe, other = multiprocessing.get_context("spawn").Pipe()
        given = (kind, folder, folder.parent / "vectors.f32", data.vectors.shape, other)
        process = multiprocessing.get_context("spawn").Process(target=work, args=given)
        process.start()
        made = cls(process, pipe)
        other.close()
        made.pipe.recv()
        return made

    def call(self, asked: object) -> Any:
        self.pipe.send(asked)
        return self.pipe.recv()

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()


def table(data: Data, scratch: Path, wanted: list[str]) -> None:
    """Print a line for each store; ratios are of isthmus, calibrated, in the same turns."""
    data.vectors.tofile(scratch / "vectors.f32")
    kinds = [kind for kind in wanted if find_spec(PEERS[kind].module)]
    best = [set(map(str, np.argsort(-row)[:K])) for row in data.queries @ data.vectors.T]
    added = {}
    for kind in kinds:
        (scratch / kind).mkdir()
        worker = Worker.of(kind, scratch / kind, data)
        added[kind] = worker.call("add")
        worker.close()
    workers = {kind: Worker.of(kind, scratch / kind, data) for kind in kinds}
    answers: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for worker in workers.values():
        worker.call(data.queries[:5])
    for turn in range(TURNS):
        for kind in kinds[turn % len(kinds) :] + kinds[: turn % len(kinds)]:
            answers[kind].append(workers[kind].call(data.queries))
    for worker in workers.values():
        worker.close()
    _print(data, scratch, added, answers, best)


def _print(
    data: Data, scratch: Path, added: dict[str, Any], answers: dict[str, list[Any]], best: list[set[str]]
) -> None:
    size = data.vectors.nbytes
    print("| | added | memory adding, searching | disk | p50 | of isthmus | p99 | recall of raw | images in top 10 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    p50 = {kind: np.array([np.median(taken) for _, taken, _ in several]) for kind, several in answers.items()}
    first = p50[next(iter(p50))]
    for kind, several in answers.items():
        found = several[-1][0]
        taken = np.concatenate([times for _, times, _ in several])
        images = np.mean([data.kind(int(name)) == "image" for one in found for name in one])
        disk = sum(path.stat().st_size for path in (scratch / kind).rglob("*") if path.is_file()) / size
        right = "" if PEERS[kind] is Ours else f"{recall(found, best):.3f}"
        print(
            f"| {PEERS[kind].name} | {len(data) / added[kind][0]:,.0f}/s | {added[kind][1] / size:.1f}, "
            f"{several[-1][2] / size:.1f} × | {disk:.1f} × | {1e3 * np.median(p50[kind]):.1f} ms "
            f"| {np.median(p50[kind] / first):.2f} | {1e3 * np.quantile(taken, 0.99):.1f} ms | {right} "
            f"| {images:.1%} |",
            flush=True,
        )
