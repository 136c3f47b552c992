"""Folded vectors in Milvus: ``milvus://HOST:19530/NAME``, held to what Milvus 2.3 offers.

A publication is a Milvus collection ``NAME_KEY`` with one partition per modality; a search looks at one of them. An
entity is one row: its primary key is made of the document's row and the passage, and a JSON field has what filters ask
for. A JSON field holds 64 KiB, so facts are stored as hashes of 96 bits. The default partition has one entity, with
``About``. Reads are strongly consistent: they see every write that was acknowledged.

The index is IVF_FLAT: Milvus 2.3 leaves out half of a graph's links where a filter leaves a tenth of the rows, and then
HNSW finds .72 of the best, however many candidates it looks at.

Settings, in the address: ``exact=true`` (a FLAT index); ``lists`` and ``probes`` (of IVF_FLAT); ``graph=true`` (HNSW)
with ``m``, ``ef_construct`` and ``ef``; ``https=true``, ``timeout`` (seconds). The token of a server comes from
``MILVUS_TOKEN``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import RLock
from time import monotonic, sleep
from typing import Any, TypeVar

import numpy as np

from isthmus._optional import need, require
from isthmus.errors import BadInput, CannotReach
from isthmus.storage.facts import Scalar
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter
from isthmus.storage.servers.address import ServerAddress
from isthmus.storage.servers.payload import Payload, fact, key_of, pushes
from isthmus.storage.where import COLUMNS, All, Compare, Condition, Either, Everything, Exists, Not, OneOf
from isthmus.types import Matrix, Rows

ABOUT = -1  # the entity that holds ``About``
PASSAGES = 2**24  # of one document, at most: the low bits of a primary key
BATCH = 256  # entities that are written at once, and documents that are deleted at once
BYTES = 65_536  # of a JSON field
LISTS = 1_024  # of IVF_FLAT in a segment; the server makes fewer of a small one
PROBES = 128  # lists that a search looks at
EF = 512  # candidates of a search in a graph, at least
FILTERED = 8  # times as much effort with a filter: what does not pass costs little
MOST = 32_768  # candidates or lists; Milvus takes no more candidates
NOT_FOUND, NOT_LOADED, NO_PARTITION = 100, 101, 200  # codes of errors, of a collection or a partition, since 2.3
POLL = 0.1  # seconds between questions whether the index is built
TIMEOUT = 60  # seconds
SETTINGS = ("exact", "lists", "probes", "graph", "m", "ef_construct", "ef", "https", "timeout")
SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
EVERYTHING, NOTHING = "row >= 0", "row < 0"

Result = TypeVar("Result")


class MilvusVectors:
    """The publications of one collection in Milvus."""

    most = 16_384  # Milvus returns no more

    def __init__(self, address: ServerAddress) -> None:
        require("pymilvus", extra="milvus")
        address.check(*SETTINGS)
        self._at = address
        self._kind = "FLAT" if address.flag("exact") else "HNSW" if address.flag("graph") else "IVF_FLAT"
        self._timeout = address.number("timeout", TIMEOUT)
        self._client: Any = None
        self._lock = RLock()

    @property
    def address(self) -> str:
        """Where it is, without secrets."""
        return self._at.text

    def begin(self, key: str, modalities: Sequence[str], width: int) -> None:
        """Make an empty collection on the server, with a partition per modality."""
        self.drop(key)
        kinds = need("pymilvus", extra="milvus").DataType

        def make(client: Any) -> None:
            name = self._name(key)
            schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
            schema.add_field("point", kinds.INT64, is_primary=True)
            schema.add_field("row", kinds.INT64)
            schema.add_field("payload", kinds.JSON)
            schema.add_field("vector", kinds.FLOAT_VECTOR, dim=width)
            client.create_collection(name, schema=schema, consistency_level="Strong", timeout=self._timeout)
            for modality in modalities:
                client.create_partition(name, key_of(modality), timeout=self._timeout)
            client.create_index(name, self._index(client), timeout=self._timeout)
            client.load_collection(name, timeout=self._timeout)
            self._upsert(key, "_default", [_entity(ABOUT, ABOUT, {"width": width}, [0.0] * width)], client)

        self._call(key, make)

    def _index(self, client: Any) -> Any:
        settings = client.prepare_index_params()
        graph = {"M": self._at.number("m", 16), "efConstruction": self._at.number("ef_construct", 200)}
        params = {"FLAT": {}, "HNSW": graph, "IVF_FLAT": {"nlist": self._at.number("lists", LISTS)}}[self._kind]
        settings.add_index("vector", metric_type="IP", index_type=self._kind, params=params)
        return settings

    def _effort(self, k: int, where: RowFilter) -> dict[str, int]:
        """Return the parameters of a search, for each kind of index: one made with other settings may be there."""
        times = FILTERED if where.condition is not None or where.only is not None else 1
        ef, probes = self._at.number("ef", EF) or EF, self._at.number("probes", PROBES) or PROBES
        return {"ef": min(max(times * ef, k), MOST), "nprobe": min(times * probes, MOST)}

    def about(self, key: str) -> About | None:
        """Return what was last marked."""
        try:
            found = self._about(key)
        except NotPublished:
            return None
        return About.from_json(found["about"]) if "about" in found else None

    def _about(self, key: str) -> dict[str, Any]:
        def read(client: Any) -> Any:
            return client.query(
                self._name(key),
                filter=f"point == {ABOUT}",
                output_fields=["payload"],
                consistency_level="Strong",
                timeout=self._timeout,
            )

        found = self._call(key, read)
        return dict(found[0]["payload"]) if found else {}

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is; one that becomes complete gets its index first."""
        held = self._about(key)
        width = held.get("width")
        if width is None:
            raise self._lost(key)
        if about.complete and not ("about" in held and About.from_json(held["about"]).complete):
            self._call(key, partial(self._seal, key))
        entity = _entity(ABOUT, ABOUT, {"width": width, "about": about.to_json()}, [0.0] * width)
        self._call(key, partial(self._upsert, key, "_default", [entity]))

    def _seal(self, key: str, client: Any) -> None:
        """Have the server build its index now, and wait: what it searches until then finds less, with filters most."""
        client.flush(self._name(key), timeout=self._timeout)
        give_up = monotonic() + (self._timeout or TIMEOUT)  # the server goes on, and answers meanwhile
        while monotonic() < give_up:
            if not client.describe_index(self._name(key), "vector", timeout=self._timeout).get("pending_index_rows"):
                return  # all rows are in it, or the server does not say
            sleep(POLL)

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in batches."""
        for start in range(0, len(rows), BATCH):
            places = range(start, min(start + BATCH, len(rows)))
            batch = [self._row(rows, at) for at in places]
            self._call(key, partial(self._upsert, key, key_of(rows.modality), batch))

    def _row(self, rows: FoldedRows, at: int) -> dict[str, Any]:
        row, passage = rows.rows[at].tolist()
        of = Payload.of(rows.facts[at])
        columns: list[tuple[str, Scalar]] = [("id", rows.ids[at]), ("modality", rows.modality)]
        payload = {
            "facts": [_hash(one) for one in (*of.facts, *of.names, *(_column(*each) for each in columns))],
            "least": {_hash(name): value for name, value in of.least.items()},
            "most": {_hash(name): value for name, value in of.most.items()},
        }
        if len(json.dumps(payload)) > BYTES:
            raise BadInput(
                f"Document {rows.ids[at]!r} has {len(of.facts):,} values in its metadata, and Milvus stores 64 KiB "
                "beside a vector. Move some of them to its text, or keep the vectors elsewhere: --vectors folder."
            )
        return _entity(row * PASSAGES + passage, row, payload, rows.vectors[at].tolist())

    def _upsert(self, key: str, partition: str, entities: list[dict[str, Any]], client: Any) -> None:
        client.upsert(self._name(key), entities, partition_name=partition, timeout=self._timeout)

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents."""
        for start in range(0, len(documents), BATCH):
            self._call(key, partial(self._delete, key, _rows(documents[start : start + BATCH])))

    def _delete(self, key: str, some: str, client: Any) -> None:
        client.delete(self._name(key), filter=some, timeout=self._timeout)

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return the largest inner products, and their documents and passages."""
        asked = np.asarray(queries, np.float32).tolist()
        inner = np.full((len(asked), k), -np.inf, np.float32)
        rows = np.full((len(asked), k, 2), -1, np.int64)

        def find(client: Any) -> Any:
            return client.search(
                self._name(key),
                data=asked,
                anns_field="vector",
                filter=_expression(where),
                limit=k,
                search_params={"metric_type": "IP", "params": self._effort(k, where)},
                partition_names=[key_of(modality)],
                consistency_level="Strong",
                timeout=self._timeout,
            )

        for at, found in enumerate(self._call(key, find)):
            inner[at, : len(found)] = [one["distance"] for one in found]
            rows[at, : len(found)] = [divmod(_point(one), PASSAGES) for one in found] or np.empty((0, 2))
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find."""

        def ask(client: Any) -> Any:
            return client.query(
                self._name(key),
                filter=_expression(where),
                output_fields=["count(*)"],
                partition_names=[key_of(modality)],
                consistency_level="Strong",
                timeout=self._timeout,
            )

        return int(self._call(key, ask)[0]["count(*)"])

    def pushes(self, condition: Condition) -> bool:
        """Whether the payload answers a condition exactly."""
        return pushes(condition)

    def drop(self, key: str) -> None:
        """Delete a publication."""

        def remove(client: Any) -> None:
            if client.has_collection(self._name(key), timeout=self._timeout):
                client.drop_collection(self._name(key), timeout=self._timeout)

        self._call(key, remove)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _name(self, key: str) -> str:
        return f"{self._at.name}_{key.replace('-', '_')}"

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                scheme = "https" if self._at.flag("https") else "http"
                self._client = need("pymilvus", extra="milvus").MilvusClient(
                    uri=f"{scheme}://{self._at.place}", token=os.environ.get("MILVUS_TOKEN", ""), timeout=self._timeout
                )
            return self._client

    def _call(self, key: str, work: Callable[[Any], Result]) -> Result:
        """Run work with the client, and turn its errors into ours."""
        errors, grpc = need("pymilvus.exceptions", extra="milvus"), need("grpc", extra="milvus")
        try:
            client = self._connected()
            try:
                return work(client)
            except errors.MilvusException as error:
                if error.code != NOT_LOADED:
                    raise
                client.load_collection(self._name(key), timeout=self._timeout)  # after a restart it is on disk only
                return work(client)
        except errors.MilvusException as error:
            if error.code in (NOT_FOUND, NO_PARTITION):
                raise self._lost(key) from None
            raise self._unreachable(str(error.message)) from None
        except grpc.RpcError as error:
            raise self._unreachable(str(error.details())) from None
        except (OSError, ValueError) as error:
            raise self._unreachable(str(error)) from None

    def _lost(self, key: str) -> NotPublished:
        return NotPublished(f"{self.address} has no collection {self._name(key)}. It is made again from the documents.")

    def _unreachable(self, why: str) -> CannotReach:
        said = why.splitlines()[0][:200] if why else "no reason given"
        return CannotReach(
            f"Milvus at {self.address} does not answer, or refuses ({said}). Nothing is lost: documents and vectors "
            "are in the collection. Start the server, check the address and MILVUS_TOKEN, and try again."
        )


def _entity(point: int, row: int, payload: dict[str, Any], vector: list[float]) -> dict[str, Any]:
    return {"point": point, "row": row, "payload": payload, "vector": vector}


def _point(found: Any) -> int:
    return int(found["id"] if "id" in found else found["point"])


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _column(name: str, value: Scalar) -> str:
    """Return the text of an id or a modality, which no metadata equals."""
    return f"{name}:{value}"


def _rows(documents: Rows) -> str:
    return f"row in [{','.join(map(str, documents.tolist()))}]" if len(documents) else NOTHING


def _expression(where: RowFilter) -> str:
    parts = [f"row <= {where.last}"]
    if len(where.gone):
        parts.append(f"not ({_rows(where.gone)})")
    if where.only is not None:
        parts.append(_rows(where.only))
    if where.condition is not None:
        parts.append(_condition(where.condition))
    return " and ".join(f"({part})" for part in parts)


def _any(texts: Iterable[str]) -> str:
    listed = ",".join(f'"{_hash(text)}"' for text in texts)
    return f'json_contains_any(payload["facts"], [{listed}])' if listed else NOTHING


def _condition(condition: Condition) -> str:
    match condition:
        case Everything():
            return EVERYTHING
        case OneOf(name, values):
            return _any(_column(name, value) if name in COLUMNS else fact(name, value) for value in values)
        case Compare(name, operator, value):
            field = "most" if operator in ("gt", "gte") else "least"
            return f'payload["{field}"]["{_hash(key_of(name))}"] {SIGNS[operator]} {float(value)!r}'
        case Exists(name):
            return EVERYTHING if name in COLUMNS else _any([key_of(name)])
        case Not(inner):
            return f"not ({_condition(inner)})"
        case All(several):
            return " and ".join(f"({_condition(one)})" for one in several)
        case Either(several):
            return " or ".join(f"({_condition(one)})" for one in several)
