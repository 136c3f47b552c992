"""What is sent to a Qdrant server, by a stand-in for one: local mode has neither replicas nor a version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from isthmus.errors import BadInput, CannotReach, UnknownName
from isthmus.storage.protocols import FoldedRows
from isthmus.storage.servers import opened_server

ROWS = FoldedRows("text", np.ones((1, 2), np.float32), np.array([[0, 0]]), ["a"], [()])


@dataclass
class StandIn:
    """A server of a version, which says yes to everything, or has a status for what changes something."""

    version: str = "1.20.1"
    status: int = 200
    place: str = ""
    asked: list[tuple[str, dict[str, list[str]], Any]] = field(default_factory=list)

    def of(self, method_and_path: str) -> tuple[dict[str, list[str]], Any]:
        """Return the parameters and the body of the only request like this."""
        [found] = [(given, body) for path, given, body in self.asked if path == method_and_path]
        return found


@contextmanager
def standing_in(server: StandIn) -> Iterator[StandIn]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            where, body = urlsplit(self.path), self.rfile.read(int(self.headers["Content-Length"] or 0))
            asked = (f"{self.command} {where.path}", parse_qs(where.query), json.loads(body) if body else None)
            server.asked.append(asked)
            changes = "points" in where.path or where.path.endswith("/index")
            done = {"operation_id": 0, "status": "completed"} if changes else True
            about: dict[str, Any] = {"title": "qdrant", "version": server.version}
            form = about if where.path == "/" else {"result": done, "status": "ok", "time": 0.0}
            said = json.dumps(form).encode()
            self.send_response(200 if where.path == "/" else server.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever)
        thread.start()
        server.place = f"qdrant://127.0.0.1:{listening.server_port}"
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("settings", "factors", "ordering"),
    [
        ("", (None, None), "weak"),
        ("?shards=6&replicas=3", (3, 3), "weak"),
        ("?replicas=3&write_consistency_factor=2&ordering=strong", (3, 2), "strong"),
    ],
)
def test_a_cluster_acknowledges_a_write_when_all_replicas_have_it_unless_told_otherwise(
    settings: str, factors: tuple[int | None, int | None], ordering: str
) -> None:
    with standing_in(StandIn()) as server:
        vectors = opened_server(f"{server.place}/things{settings}")
        vectors.begin("1-a", ["text"], 2)
        vectors.write("1-a", ROWS)
        vectors.remove("1-a", np.array([0]))
        made = server.of("PUT /collections/things-1-a")[1]
        assert (made.get("replication_factor"), made.get("write_consistency_factor")) == factors
        for change in ("PUT /collections/things-1-a/points", "POST /collections/things-1-a/points/delete"):
            assert server.of(change)[0] == {"wait": ["true"], "ordering": [ordering]}
        vectors.close()


def test_an_ordering_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownName, match=r"No ordering is called 'fast'\. Known: medium, strong, weak"):
        opened_server("qdrant://localhost:6333/things?ordering=fast")


def test_a_request_of_long_vectors_or_much_metadata_is_smaller_than_a_server_takes() -> None:
    wide, facts = np.full((600, 4097), -1 / 3, np.float32), [("words", "word " * 20_000)]
    ids, places = [f"d{at}" for at in range(600)], np.array([[at, 0] for at in range(600)])
    with standing_in(StandIn()) as server:
        vectors = opened_server(f"{server.place}/things")
        vectors.write("1-a", FoldedRows("text", wide, places, ids, [()] * 600))
        vectors.write("1-a", FoldedRows("text", wide[:, :2], places, ids, [facts] * 600))
        written = [body["batch"] for path, _, body in server.asked if path.endswith("/points")]
        assert max(len(json.dumps(one)) for one in written) < 32 << 20
        assert sorted(point for one in written for point in one["ids"]) == sorted(2 * [at << 24 for at in range(600)])
        vectors.close()


@pytest.mark.parametrize("version", ["1.12.6", "0.11.0"])
def test_a_server_that_is_too_old_is_refused_by_every_call(version: str) -> None:
    with standing_in(StandIn(version)) as server:
        vectors = opened_server(f"{server.place}/things")
        for _ in range(2):
            with pytest.raises(BadInput, match=rf"is version {version}, and isthmus needs 1\.13 or later. Upgrade the"):
                vectors.about("1-a")
        assert {path for path, *_ in server.asked} == {"GET /"}


def test_a_refusal_of_a_server_far_from_its_client_names_both_versions() -> None:
    with standing_in(StandIn("9.9.9-dev", status=400)) as server:
        vectors = opened_server(f"{server.place}/things")
        with pytest.raises(CannotReach, match=r"\(400 .*; the server is version 9\.9\.9-dev, its client here 1\."):
            vectors.write("1-a", ROWS)
        vectors.close()
