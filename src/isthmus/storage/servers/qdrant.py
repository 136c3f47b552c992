"""Folded vectors in Qdrant: ``qdrant://HOST:6333/NAME``; in this process for tests: ``qdrant://:memory:/NAME``.

A publication is a Qdrant collection ``NAME-KEY`` with one named vector per modality (inner product, ``Dot``): each
modality has a graph of its own, and a search looks at nothing else. A point is one row. Its number is made of the
document's row and the passage, so an answer needs no payload; the payload has what filters ask for. One point without
vectors holds ``About``.

Settings, in the address: ``exact=true`` (search every vector), ``m``, ``ef_construct`` and ``ef`` (of the graph),
``shards``, ``replicas``, ``write_consistency_factor`` and ``ordering`` (of a cluster), ``https=true``, ``timeout``
(seconds). The key of a server comes from ``QDRANT_API_KEY``. Quantization is yours to switch on, on the server.

A write is acknowledged when every replica has it, so a read of any replica sees it; ``write_consistency_factor`` lets
fewer be enough. Servers from 1.13 on: earlier ones cannot count the points that have a vector.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from threading import RLock
from typing import Any, TypeVar
from uuid import UUID

import numpy as np

from isthmus._optional import need, require
from isthmus.errors import BadInput, CannotReach
from isthmus.registry import lookup
from isthmus.storage.protocols.published import About, FoldedRows, NotPublished, RowFilter
from isthmus.storage.servers.address import ServerAddress
from isthmus.storage.servers.payload import Payload, fact, key_of, pushes
from isthmus.storage.where import COLUMNS, All, Compare, Condition, Either, Everything, Exists, Not, OneOf
from isthmus.types import Matrix, Rows

ABOUT = str(UUID(int=0xAB007))  # the point that holds ``About``
PASSAGES = 2**24  # of one document, at most: the low bits of a point's number
BATCH = 512  # points that are written at once,
BYTES = 16 << 20  # or as many as have so many bytes of JSON: a server takes 32 MB
DIGITS = 24  # bytes of a number in JSON, at most
TIMEOUT = 60  # seconds
OLDEST = (1, 13)  # version of a server
ORDERINGS = ("weak", "medium", "strong")
SETTINGS = ("exact", "m", "ef_construct", "ef", "https", "timeout")
OF_CLUSTERS = ("shards", "replicas", "write_consistency_factor", "ordering")

Result = TypeVar("Result")


class QdrantVectors:
    """The publications of one collection in Qdrant."""

    most = 1_000_000

    def __init__(self, address: ServerAddress) -> None:
        require("qdrant_client", extra="qdrant")
        address.check(*SETTINGS, *OF_CLUSTERS)
        self._ordering = lookup(
            {name: name for name in ORDERINGS}, address.settings.get("ordering", "weak"), "ordering"
        )
        self._at = address
        self._is_local = address.place == ":memory:" or address.place.startswith("/")
        self._exact, self._ef = address.flag("exact"), address.number("ef")
        self._client: Any = None
        self._apart = ""  # versions of the server and of the client, if they are more than one apart
        self._lock = RLock()

    @property
    def address(self) -> str:
        """Where it is, without secrets."""
        return self._at.text

    def begin(self, key: str, modalities: Sequence[str], width: int) -> None:
        """Make an empty collection on the server, with a named vector per modality."""
        self.drop(key)
        m, at = self._models, self._at
        of = m.VectorParams(size=width, distance=m.Distance.DOT)
        graph = m.HnswConfigDiff(m=at.number("m"), ef_construct=at.number("ef_construct"))
        replicas = at.number("replicas")

        def make(client: Any) -> None:
            name = self._name(key)
            client.create_collection(
                name,
                dict.fromkeys(modalities, of),
                hnsw_config=graph,
                shard_number=at.number("shards"),
                replication_factor=replicas,
                write_consistency_factor=at.number("write_consistency_factor", replicas),
            )
            if not self._is_local:
                kinds = {"row": m.PayloadSchemaType.INTEGER} | dict.fromkeys(
                    ("facts", "names", *COLUMNS), m.PayloadSchemaType.KEYWORD
                )
                for field, kind in kinds.items():
                    client.create_payload_index(name, field, kind, wait=True)

        self._call(key, make)

    def about(self, key: str) -> About | None:
        """Return what was last marked."""
        try:
            found = self._call(key, lambda client: client.retrieve(self._name(key), [ABOUT]))
        except NotPublished:
            return None
        return About.from_json(found[0].payload["about"]) if found else None

    def mark(self, key: str, about: About) -> None:
        """Record how far a publication is."""
        point = self._models.PointStruct(id=ABOUT, vector={}, payload={"about": about.to_json()})
        self._call(key, partial(self._upsert, self._name(key), [point]))

    def write(self, key: str, rows: FoldedRows) -> None:
        """Write rows, in batches."""
        for some, payloads in _batches(rows):
            batch = self._models.Batch(
                ids=[row * PASSAGES + passage for row, passage in rows.rows[some].tolist()],
                vectors={rows.modality: rows.vectors[some].tolist()},
                payloads=payloads,
            )
            self._call(key, partial(self._upsert, self._name(key), batch))

    def remove(self, key: str, documents: Rows) -> None:
        """Delete all rows of these documents."""
        for start in range(0, len(documents), BATCH):
            some = self._any("row", documents[start : start + BATCH].tolist())
            where = self._models.FilterSelector(filter=self._models.Filter(must=[some]))
            self._call(key, partial(self._delete, self._name(key), where))

    def _upsert(self, name: str, points: Any, client: Any) -> None:
        client.upsert(name, points, wait=True, ordering=self._ordering)

    def _delete(self, name: str, where: Any, client: Any) -> None:
        client.delete(name, where, wait=True, ordering=self._ordering)

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        """Return the largest inner products, and their documents and passages."""
        m, allowed = self._models, self._filter(where)
        params = m.SearchParams(exact=self._exact, hnsw_ef=self._ef)
        asked = [
            m.QueryRequest(query=query, using=modality, limit=k, filter=allowed, params=params)
            for query in np.asarray(queries, np.float32).tolist()
        ]
        found = self._call(key, lambda client: client.query_batch_points(self._name(key), asked))
        inner = np.full((len(asked), k), -np.inf, np.float32)
        rows = np.full((len(asked), k, 2), -1, np.int64)
        for at, answer in enumerate(found):
            points = answer.points
            inner[at, : len(points)] = [point.score for point in points]
            rows[at, : len(points)] = [divmod(point.id, PASSAGES) for point in points] or np.empty((0, 2))
        return inner, rows

    def count(self, key: str, modality: str, where: RowFilter) -> int:
        """Return how many rows a search may find."""
        m = self._models
        both = m.Filter(must=[m.HasVectorCondition(has_vector=modality), self._filter(where)])
        return int(self._call(key, lambda client: client.count(self._name(key), both, exact=True)).count)

    def pushes(self, condition: Condition) -> bool:
        """Whether the payload answers a condition exactly."""
        return pushes(condition)

    def drop(self, key: str) -> None:
        """Delete a publication."""
        self._call(key, lambda client: client.delete_collection(self._name(key)))

    def close(self) -> None:
        """Close the connection; in memory, what is published stays as long as the object."""
        with self._lock:
            if self._client is not None and self._at.place != ":memory:":
                self._client.close()
                self._client = None

    @property
    def _models(self) -> Any:
        return need("qdrant_client", extra="qdrant").models

    def _name(self, key: str) -> str:
        return f"{self._at.name}-{key}"

    def _connected(self) -> Any:
        if self._client is None:
            made, place = need("qdrant_client", extra="qdrant").QdrantClient, self._at.place
            if self._is_local:
                self._client = made(location=place) if place == ":memory:" else made(path=place)
            else:
                scheme = "https" if self._at.flag("https") else "http"
                server = made(
                    url=f"{scheme}://{place}",
                    api_key=os.environ.get("QDRANT_API_KEY"),
                    timeout=self._at.number("timeout", TIMEOUT),
                    check_compatibility=False,  # which warns from another thread; ``_check_version`` does it
                )
                try:
                    self._check_version(str(server.info().version))
                except BaseException:
                    server.close()
                    raise
                self._client = server
        return self._client

    def _check_version(self, server: str) -> None:
        """Reject a server that is too old; remember whether the client is made for another one."""
        there, own = _version(server), _version(version("qdrant-client"))
        if there < OLDEST:
            raise BadInput(
                f"Qdrant at {self.address} is version {server}, and isthmus needs {'.'.join(map(str, OLDEST))} or "
                "later. Upgrade the server."
            )
        if there[0] != own[0] or abs(there[1] - own[1]) > 1:
            self._apart = f"; the server is version {server}, its client here {version('qdrant-client')}"

    def _call(self, key: str, work: Callable[[Any], Result]) -> Result:
        """Run work with the client, and turn its errors into ours; local mode is for one thread at a time."""
        errors = need("qdrant_client.http.exceptions", extra="qdrant")
        try:
            with self._lock:
                client = self._connected()
                if self._is_local:
                    return work(client)
            return work(client)
        except errors.UnexpectedResponse as error:
            if error.status_code == 404:
                raise self._lost(key) from None
            raise self._unreachable(
                f"refuses the request ({error.status_code} {error.reason_phrase}{self._apart})"
            ) from None
        except (errors.ApiException, OSError, RuntimeError) as error:
            raise self._unreachable(f"does not answer ({error})") from None
        except ValueError as error:
            if "not found" not in str(error):
                raise
            raise self._lost(key) from None

    def _lost(self, key: str) -> NotPublished:
        return NotPublished(f"{self.address} has no collection {self._name(key)}. It is made again from the documents.")

    def _unreachable(self, what: str) -> CannotReach:
        return CannotReach(
            f"Qdrant at {self.address} {what}. Nothing is lost: documents and vectors are in the collection. Start the "
            "server, check the address and QDRANT_API_KEY, and try again."
        )

    def _filter(self, where: RowFilter) -> Any:
        m = self._models
        must = [m.FieldCondition(key="row", range=m.Range(lte=where.last))]
        if where.only is not None:
            must.append(self._any("row", where.only.tolist()))
        if where.condition is not None:
            must.append(self._condition(where.condition))
        return m.Filter(must=must, must_not=[self._any("row", where.gone.tolist())] if len(where.gone) else None)

    def _any(self, field: str, values: Sequence[int] | Sequence[str]) -> Any:
        m = self._models
        if not values:
            return m.Filter(must_not=[self._everything()])
        return m.FieldCondition(key=field, match=m.MatchAny(any=list(values)))

    def _everything(self) -> Any:
        return self._models.FieldCondition(key="row", range=self._models.Range(gte=0))

    def _condition(self, condition: Condition) -> Any:
        m = self._models
        match condition:
            case Everything():
                return self._everything()
            case OneOf(name, values) if name in COLUMNS:
                return self._any(name, [str(value) for value in values])
            case OneOf(name, values):
                return self._any("facts", [fact(name, value) for value in values])
            case Compare(name, operator, value):
                field = "most" if operator in ("gt", "gte") else "least"
                return m.FieldCondition(key=f"{field}.{key_of(name)}", range=m.Range(**{operator: float(value)}))
            case Exists(name):
                return self._everything() if name in COLUMNS else self._any("names", [key_of(name)])
            case Not(inner):
                return m.Filter(must_not=[self._condition(inner)])
            case All(several):
                return m.Filter(must=[self._condition(one) for one in several])
            case Either(several):
                return m.Filter(should=[self._condition(one) for one in several])


def _batches(rows: FoldedRows) -> Iterator[tuple[slice, list[dict[str, Any]]]]:
    """Cut rows into batches by their number and their bytes, with the payload of each."""
    start, held, payloads = 0, 0, list[dict[str, Any]]()
    for at, (row, name, facts) in enumerate(zip(rows.rows[:, 0].tolist(), rows.ids, rows.facts, strict=True)):
        payload = _payload(row, name, rows.modality, Payload.of(facts))
        size = DIGITS * rows.vectors.shape[1] + len(json.dumps(payload))
        if payloads and (len(payloads) == BATCH or held + size > BYTES):
            yield slice(start, at), payloads
            start, held, payloads = at, 0, []
        payloads.append(payload)
        held += size
    if payloads:
        yield slice(start, len(rows)), payloads


def _version(text: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    >>> _version("1.13.0-dev")
    (1, 13)
    """
    major, minor = re.findall(r"\d+", text)[:2]
    return int(major), int(minor)


def _payload(row: int, name: str, modality: str, of: Payload) -> dict[str, Any]:
    about = {"row": row, "id": name, "modality": modality}
    return {**about, "facts": of.facts, "names": of.names, "least": of.least, "most": of.most}
