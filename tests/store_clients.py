"""Stores as people have them, each made and searched with its own client: what reproduce/stores.py and tests share.

A store holds vectors with a field ``kind``, under the metric that people use with CLIP: cosine, or inner product of
unit vectors. ``search`` is the plain call of the client, for raw and for calibrated stores.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np

import postgres_server
from isthmus.types import Matrix, Names
from vector_servers import milvus_address

KIND = "kind"
LANCE = {"inner": "dot", "cosine": "cosine", "l2": "l2"}
OPERATORS = {"inner": "<#>", "cosine": "<=>", "l2": "<->"}


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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        """Return the ids of the best rows, and what the client says of each.

        ``metric`` is for clients that choose one with each search.
        """


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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        import faiss

        place = Path("/".join(place_of(address)))
        shards = [np.load(place / name / f"{name}_0.npy").astype(np.float32) for name in ("img_emb", "text_emb")]
        index = faiss.IndexFlatIP(shards[0].shape[1])
        index.add(np.vstack(shards))  # images first, as in the rows
        inner, found = index.search(query[None].astype(np.float32), k)
        return found[0].tolist(), inner[0]


@contextmanager
def chroma_server(folder: Path) -> Iterator[str]:
    """Run a server of Chroma's on a folder, and yield its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(folder)]
    with subprocess.Popen(
        [*program, "--host", "127.0.0.1", "--port", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        try:
            if not any(b"listening" in line for line in process.stdout):
                raise RuntimeError("Chroma's server ended before it listened.")
            Thread(target=process.stdout.read, daemon=True).start()  # it waits for a reader of its log
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


class Chroma:
    """A persistent client, or one of a server."""

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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        import chromadb

        where, name = place_of(address)
        server = urlsplit(where)
        client = (
            chromadb.HttpClient(server.hostname or "", server.port or 0)
            if server.scheme
            else chromadb.PersistentClient(where)
        )
        collection = client.get_collection(name, embedding_function=None)
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

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        from qdrant_client import QdrantClient

        where, name = place_of(address)
        client = QdrantClient(path=where)
        points = client.query_points(name, query=query, limit=k).points
        client.close()
        return [int(point.id) for point in points], np.array([point.score for point in points])


class LanceDB:
    """A folder of tables; the plain search has no metric, which is the Euclidean distance."""

    def build(self, folder: Path, rows: Rows) -> str:
        import lancedb
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.vectors.ravel()), rows.vectors.shape[1])
        table = pa.table({"id": list(rows.ids), "vector": vectors, KIND: rows.kinds.tolist()})
        lancedb.connect(str(folder / "lance")).create_table("photos", table, mode="overwrite")
        return f"lancedb:{folder}/lance/photos?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"lancedb:{folder}/lance/photos_fair"

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        import lancedb

        where, name = place_of(address)
        search = lancedb.connect(where).open_table(name).search(query)
        found = (search.distance_type(LANCE[metric]) if metric else search).limit(k).to_list()
        return [row["id"] for row in found], np.array([row["_distance"] for row in found])


class Milvus:
    """The server of `vector_servers.py` where one may run; otherwise Milvus Lite, a file."""

    def build(self, folder: Path, rows: Rows) -> str:
        from pymilvus import DataType, MilvusClient

        client = MilvusClient(self._place(folder))
        if client.has_collection(self._name(folder)):
            client.drop_collection(self._name(folder))
        schema = client.create_schema(enable_dynamic_field=True)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=rows.vectors.shape[1])
        flat = client.prepare_index_params()  # the default, a graph, is built later and may then miss a row
        flat.add_index("vector", index_type="FLAT", metric_type="COSINE")
        client.create_collection(self._name(folder), schema=schema, index_params=flat, consistency_level="Strong")
        entities = [
            {"id": key, "vector": vector.tolist(), KIND: kind}
            for key, vector, kind in zip(rows.ids, rows.vectors, rows.kinds.tolist(), strict=True)
        ]
        client.insert(self._name(folder), entities)
        client.flush(self._name(folder))
        client.close()
        return f"milvus:{self._place(folder)}/{self._name(folder)}?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"milvus:{self._place(folder)}/{self._name(folder)}_fair"

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        from pymilvus import MilvusClient

        where, name = place_of(address)
        client = MilvusClient(where)
        client.load_collection(name)
        found = client.search(name, data=[query.tolist()], limit=k, consistency_level="Strong")[0]
        client.close()
        return [hit["id"] for hit in found], np.array([hit["distance"] for hit in found])

    @staticmethod
    def _place(folder: Path) -> str:
        return milvus_address() or str(folder / "milvus.db")

    @staticmethod
    def _name(folder: Path) -> str:
        return "photos_" + "".join(letter for letter in str(folder) if letter.isalnum())


class Pgvector:
    """A table, and the operator of the inner product."""

    def build(self, folder: Path, rows: Rows) -> str:
        with self._connected(
            folder, "CREATE EXTENSION IF NOT EXISTS vector; DROP TABLE IF EXISTS photos"
        ) as connection:
            connection.execute(
                f"CREATE TABLE photos (id int PRIMARY KEY, v vector({rows.vectors.shape[1]}), {KIND} text)"
            )
            with connection.cursor() as cursor:
                values = zip(rows.ids, rows.vectors.tolist(), rows.kinds.tolist(), strict=True)
                cursor.executemany("INSERT INTO photos VALUES (%s, %s::real[]::vector, %s)", list(values))
        return f"pgvector:{self._database(folder)}/photos?modality={KIND}"

    def target(self, folder: Path) -> str:
        return f"pgvector:{self._database(folder)}/photos_fair"

    def search(self, address: str, query: Matrix, k: int, metric: str | None = None) -> tuple[list[int], Matrix]:
        import psycopg

        url, name = place_of(address)
        value = f"v {OPERATORS[metric or 'inner']} %s::real[]::vector"
        statement = f"SELECT id, {value} AS value FROM {name} ORDER BY value LIMIT {k}"
        with psycopg.connect(url) as connection:
            found = connection.execute(statement, (query.tolist(),)).fetchall()
        return [row[0] for row in found], np.array([row[1] for row in found])

    @staticmethod
    def _database(folder: Path) -> str:
        return postgres_server.server().database("s" + "".join(c for c in str(folder) if c.isalnum())[-50:].lower())

    def _connected(self, folder: Path, first: str) -> Any:
        import psycopg

        url = self._database(folder)
        with psycopg.connect(postgres_server.server().url, autocommit=True) as connection:
            name = urlsplit(url).path[1:]
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
                connection.execute(f"CREATE DATABASE {name}")
        connection = psycopg.connect(url)
        connection.execute(first)
        return connection


CLIENTS: Mapping[str, Client] = {
    "parquet": Parquet(),
    "faiss": Faiss(),
    "clip-retrieval": ClipRetrieval(),
    "chroma": Chroma(),
    "qdrant": Qdrant(),
    "lancedb": LanceDB(),
    "milvus": Milvus(),
    "pgvector": Pgvector(),
}
MODULES = {
    "parquet": "pyarrow",
    "faiss": "faiss",
    "clip-retrieval": "faiss",
    "chroma": "chromadb",
    "qdrant": "qdrant_client",
    "lancedb": "lancedb",
    "milvus": "pymilvus",
    "pgvector": "psycopg",
}


def installed(name: str) -> bool:
    """Whether the client of a store is installed."""
    return find_spec(MODULES[name]) is not None
