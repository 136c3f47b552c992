"""Stores as people have them, each made and searched with its own client: what reproduce/stores.py and tests share.

A store holds vectors with a field ``kind``, under the metric that people use with CLIP: cosine, or inner product of
unit vectors. ``search`` is the plain call of the client, for raw and for calibrated stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from isthmus.types import Matrix, Names

KIND = "kind"


@dataclass(frozen=True)
class Rows:
    """Rows of a store: numbers as ids, unit vectors, and kinds."""

    ids: Sequence[int]
    vectors: Matrix
    kinds: Names

    def __len__(self) -> int:
        return len(self.ids)


class Client(Protocol):
    """A store and its client."""

    def build(self, folder: Path, rows: Rows) -> str:
        """Make a store in a folder and return its address."""

    def target(self, folder: Path) -> str:
        """Return the address of a new store beside it."""

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        """Return the ids of the best rows, and what the client says of each."""


def place_of(address: str) -> tuple[str, str]:
    """Return the folder or server, and the name in it."""
    where, _, name = address.partition(":")[2].partition("?")[0].rpartition("/")
    return where, name


class Parquet:
    """A table, searched with numpy."""

    def build(self, folder: Path, rows: Rows) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({"id": list(rows.ids), "embedding": list(rows.vectors), KIND: rows.kinds.tolist()})
        pq.write_table(table, folder / "photos.parquet")
        return f"parquet:{folder}/photos.parquet?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"parquet:{folder}/photos_fair.parquet"

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        import pyarrow.parquet as pq

        table = pq.read_table("/".join(place_of(address)))
        inner = np.stack(table["embedding"].to_numpy()) @ query
        best = np.argsort(-inner, kind="stable")[:k]
        return [table["id"][int(row)].as_py() for row in best], inner[best]


class Faiss:
    """An exact index, with ids and kinds in files."""

    def build(self, folder: Path, rows: Rows) -> str:
        import faiss

        index = faiss.IndexFlatIP(rows.vectors.shape[1])
        index.add(np.ascontiguousarray(rows.vectors))
        faiss.write_index(index, str(folder / "photos.faiss"))
        (folder / "ids.txt").write_text("\n".join(map(str, rows.ids)))
        (folder / "kinds.txt").write_text("\n".join(rows.kinds.tolist()))
        return f"faiss:{folder}/photos.faiss?ids={folder}/ids.txt&modality={folder}/kinds.txt"

    def target(self, folder: Path) -> str:
        return f"faiss:{folder}/photos_fair.faiss"

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        import faiss

        where, name = place_of(address)
        index = faiss.read_index(f"{where}/{name}")
        ids = Path(where, "ids.txt").read_text().splitlines()
        inner, found = index.search(query[None], k)
        return [int(ids[row]) for row in found[0]], inner[0]


class ClipRetrieval:
    """A folder of shards, from which Faiss indexes are made; photos and captions are rows of their own."""

    def build(self, folder: Path, rows: Rows) -> str:
        import pyarrow as pa
        import pyarrow.parquet as pq

        place = folder / "embeddings"
        for name, kind in (("img_emb", "image"), ("text_emb", "text")):
            (place / name).mkdir(parents=True)
            np.save(place / name / f"{name}_0.npy", rows.vectors[rows.kinds == kind].astype(np.float16))
        (place / "metadata").mkdir()
        count = int((rows.kinds == "image").sum())
        pq.write_table(
            pa.table({"caption": [f"photo {row}" for row in range(count)]}), place / "metadata/metadata_0.parquet"
        )
        return f"clip-retrieval:{place}"

    def target(self, folder: Path) -> str:
        return f"clip-retrieval:{folder}/embeddings_fair"

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        import faiss

        place = Path("/".join(place_of(address)))
        shards = [np.load(place / name / f"{name}_0.npy").astype(np.float32) for name in ("img_emb", "text_emb")]
        index = faiss.IndexFlatIP(shards[0].shape[1])
        index.add(np.vstack(shards))  # images first, as in the rows
        inner, found = index.search(query[None].astype(np.float32), k)
        return found[0].tolist(), inner[0]


class Chroma:
    """A persistent client."""

    def build(self, folder: Path, rows: Rows) -> str:
        import chromadb

        client = chromadb.PersistentClient(str(folder / "chroma"))
        cosine = {"hnsw": {"space": "cosine"}}
        if "photos" in [one.name for one in client.list_collections()]:
            client.delete_collection("photos")
        collection = client.create_collection("photos", configuration=cosine, embedding_function=None)  # type: ignore[arg-type,unused-ignore]
        collection.add(
            ids=[str(key) for key in rows.ids],
            embeddings=rows.vectors,
            metadatas=[{KIND: kind} for kind in rows.kinds.tolist()],
        )
        return f"chroma:{folder}/chroma/photos?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"chroma:{folder}/chroma/photos_fair"

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        import chromadb

        where, name = place_of(address)
        collection = chromadb.PersistentClient(where).get_collection(name, embedding_function=None)
        found = collection.query(query_embeddings=[query], n_results=k)
        return [int(key) for key in found["ids"][0]], np.array(found["distances"][0])


class Qdrant:
    """The client's local mode."""

    def build(self, folder: Path, rows: Rows) -> str:
        from qdrant_client import QdrantClient, models

        client = QdrantClient(path=str(folder / "qdrant"))
        vectors = models.VectorParams(size=rows.vectors.shape[1], distance=models.Distance.COSINE)
        if client.collection_exists("photos"):
            client.delete_collection("photos")
        client.create_collection("photos", vectors_config=vectors)
        payloads: list[dict[str, Any]] = [{KIND: kind} for kind in rows.kinds.tolist()]
        client.upsert("photos", models.Batch(ids=list(rows.ids), vectors=rows.vectors.tolist(), payloads=payloads))
        client.close()
        return f"qdrant:{folder}/qdrant/photos?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"qdrant:{folder}/qdrant/photos_fair"

    def search(self, address: str, query: Matrix, k: int) -> tuple[list[int], Matrix]:
        from qdrant_client import QdrantClient

        where, name = place_of(address)
        client = QdrantClient(path=where)
        points = client.query_points(name, query=query, limit=k).points
        client.close()
        return [int(point.id) for point in points], np.array([point.score for point in points])


CLIENTS: Mapping[str, Client] = {
    "parquet": Parquet(),
    "faiss": Faiss(),
    "clip-retrieval": ClipRetrieval(),
    "chroma": Chroma(),
    "qdrant": Qdrant(),
}
MODULES = {
    "parquet": "pyarrow",
    "faiss": "faiss",
    "clip-retrieval": "faiss",
    "chroma": "chromadb",
    "qdrant": "qdrant_client",
}


def installed(name: str) -> bool:
    """Whether the client of a store is installed."""
    return find_spec(MODULES[name]) is not None
