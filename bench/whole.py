"""A whole collection: the speed of indexing relative to the encoder, its cold start, and a comparison with peers.

    python bench/whole.py [--only index cold peers] [--photos 256] [--rows 50000]

Photos are synthetic (500 × 375 JPEG); vectors of `peers` are made from real ones (`bench/real_like.py`). Chroma and
LanceDB are measured if they are installed (`pip install chromadb lancedb`). Read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from encode import photos, session
from machine import seconds
from real_like import many, seeds

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders.cache import MemoryCache
from isthmus.types import Matrix

K = 10


def index(count: int) -> None:
    """Index a folder of photos, compared with the encoder alone and with the bare image model on decoded pixels."""
    encoder = encoders.load("mini", cache=MemoryCache(limit=0))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "photos")
        folder.mkdir()
        for number, data in enumerate(photos(count)):
            (folder / f"{number:05}.jpg").write_bytes(data)
        pictures = [Document(path.name, image=path) for path in folder.iterdir()]
        model, pixels = session("image.onnx"), np.random.default_rng(0).integers(0, 255, (32, 256, 256, 3), np.uint8)
        name = model.get_inputs()[0].name
        bare, alone, ours = [], [], []
        for turn in range(3):  # in turns, because machines drift
            bare.append(seconds(lambda: model.run(None, {name: pixels})) / len(pixels))
            alone.append(seconds(lambda: encoder.encode_documents(pictures), 1) / count)
            with Collection.open(Path(scratch, f"{turn}.isthmus"), encoder, follow=False) as things:
                ours.append(seconds(lambda: things.index(folder), 1) / count)
    best = min(ours)
    shares = f"{min(alone) / best:.0%} of the encoder, {min(bare) / best:.0%} of its bare model"
    print(f"index: {1 / best:.0f} photos/s: {shares}")


def cold() -> None:
    """Search from a new process, its files in the page cache."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "a.isthmus")
        with Collection.open(place) as things:
            things.add(
                Document(str(n), f"note {n} about {word}") for n, word in enumerate(["cats", "tea", "snow"] * 700)
            )
            things.calibrate("center+nnn(k=16)+standardize")
        command = [sys.executable, "-m", "isthmus.cli", "search", "a cat", "--in", str(place)]
        taken = seconds(lambda: subprocess.run(command, check=True, capture_output=True))  # noqa: S603 - our own
        imported = seconds(lambda: subprocess.run([sys.executable, "-c", "import isthmus"], check=True))
        bare = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    print(f"cold: isthmus search {taken:.2f} s (2,100 documents); import isthmus {imported - bare:.3f} s")


class Ours:
    """An isthmus collection of vectors, calibrated."""

    name = "isthmus, calibrated"

    def __init__(self, folder: Path) -> None:
        self.things = Collection.open(folder / "peer.isthmus", "none", follow=False)

    def add(self, vectors: Matrix, kinds: list[str]) -> None:
        self.things.add(
            Document(str(n), vectors={kind: row}) for n, (row, kind) in enumerate(zip(vectors, kinds, strict=True))
        )
        self.things.calibrate("center+nnn(k=16)+standardize")

    def ask(self, vector: Matrix) -> list[str]:
        return [hit.id for hit in self.things.search(Query(vectors={"text": vector}), k=K)]


class Raw(Ours):
    """The same collection, not calibrated."""

    name = "isthmus, raw"

    def add(self, vectors: Matrix, kinds: list[str]) -> None:
        self.things.add(
            Document(str(n), vectors={kind: row}) for n, (row, kind) in enumerate(zip(vectors, kinds, strict=True))
        )
        self.things.calibrate("none")


class FaissFlat:
    """The method of clip-retrieval at this size: one Faiss index of raw vectors, without documents."""

    name = "Faiss HNSW, vectors alone"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, vectors: Matrix, kinds: list[str]) -> None:  # noqa: ARG002 - it has no kinds
        import faiss

        self.index = faiss.IndexHNSWFlat(vectors.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        self.index.add(vectors)
        self.index.hnsw.efSearch = 64
        faiss.write_index(self.index, str(self.folder / "raw.faiss"))

    def ask(self, vector: Matrix) -> list[str]:
        return [str(row) for row in self.index.search(vector[None], K)[1][0]]


class Chroma:
    """Chroma, on the disk, by cosine."""

    name = "Chroma"

    def __init__(self, folder: Path) -> None:
        import chromadb

        client = chromadb.PersistentClient(str(folder / "chroma"))
        self.rows = client.create_collection("peer", metadata={"hnsw:space": "cosine"})

    def add(self, vectors: Matrix, kinds: list[str]) -> None:
        for start in range(0, len(vectors), 5000):
            some = slice(start, start + 5000)
            names = [str(n) for n in range(start, min(start + 5000, len(vectors)))]
            self.rows.add(ids=names, embeddings=vectors[some], metadatas=[{"kind": kind} for kind in kinds[some]])

    def ask(self, vector: Matrix) -> list[str]:
        return list(self.rows.query(query_embeddings=[vector], n_results=K)["ids"][0])


class Lance:
    """LanceDB, on the disk, by cosine, with its default index."""

    name = "LanceDB"

    def __init__(self, folder: Path) -> None:
        import lancedb

        self.database = lancedb.connect(str(folder / "lance"))

    def add(self, vectors: Matrix, kinds: list[str]) -> None:
        import lancedb.index

        rows = (
            {"id": str(n), "kind": kind, "vector": row}
            for n, (row, kind) in enumerate(zip(vectors, kinds, strict=True))
        )
        self.table = self.database.create_table("peer", list(rows))
        self.table.create_index("vector", config=lancedb.index.IvfPq(distance_type="cosine"))

    def ask(self, vector: Matrix) -> list[str]:
        return [row["id"] for row in self.table.search(vector).distance_type("cosine").limit(K).to_list()]


def peers(rows: int, real: Path | None) -> None:
    """Add the same vectors to each and search each for the ten best, one query at a time."""
    rng = np.random.default_rng(0)
    known = seeds(real)
    vectors = np.concatenate([many(known["text"], rows // 2, rng), many(known["image"], rows - rows // 2, rng)])
    kinds = ["text"] * (rows // 2) + ["image"] * (rows - rows // 2)
    queries = many(known["text"], 200, rng)
    best = [set(map(str, np.argsort(-row)[:K])) for row in queries @ vectors.T]
    wanted: list[Any] = [Raw, Ours, FaissFlat]
    wanted += [kind for kind, module in ((Chroma, "chromadb"), (Lance, "lancedb")) if find_spec(module)]
    print(f"peers: {rows:,} × {vectors.shape[1]}, half texts, half images, 200 text queries")
    print(f"{'':<28}{'add':>9}{'p50':>9}{'p99':>9}{'recall of raw':>15}{'disk':>9}{'images in top 10':>18}")
    for kind in wanted:
        with tempfile.TemporaryDirectory() as scratch:
            peer = kind(Path(scratch))
            start = perf_counter()
            peer.add(vectors, kinds)
            added = perf_counter() - start
            found, taken = _timed(peer.ask, queries)
            recall = np.mean([len(set(one) & right) / K for one, right in zip(found, best, strict=True)])
            images = np.mean([kinds[int(name)] == "image" for one in found for name in one])
            disk = sum(path.stat().st_size for path in Path(scratch).rglob("*") if path.is_file()) / vectors.nbytes
            said = "" if kind is Ours else f"{recall:.3f}"
            print(
                f"{kind.name:<28}{rows / added:>7.0f}/s{1e3 * np.median(taken):>6.1f} ms"
                f"{1e3 * np.quantile(taken, 0.99):>6.1f} ms{said:>15}{disk:>8.1f}×{images:>18.1%}"
            )


def _timed(ask: Callable[[Matrix], list[str]], queries: Matrix) -> tuple[list[list[str]], list[float]]:
    ask(queries[0])
    found, taken = [], []
    for query in queries:
        start = perf_counter()
        found.append(ask(query))
        taken.append(perf_counter() - start)
    return found, taken


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=("index", "cold", "peers"), default=("index", "cold", "peers"))
    parser.add_argument("--photos", type=int, default=256)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--real", type=Path, help="real vectors to make the others from; default: those of mini")
    options = parser.parse_args()
    if "index" in options.only:
        index(options.photos)
    if "cold" in options.only:
        cold()
    if "peers" in options.only:
        peers(options.rows, options.real)
