"""OpenTelemetry gets the requests of a server and the stages of their searches, and no words of them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from starlette.testclient import TestClient

from isthmus import Collection
from isthmus.search import SearchRequest
from isthmus.serve.batching import SearchBatcher
from isthmus.serve.work import WorkPool
from serving import THINGS, client_of, data_url, fill, png, started

pytestmark = pytest.mark.install
WORD = "zanzibar"  # of queries


@pytest.fixture(scope="module")
def exporter() -> Any:
    """What is sent to the SDK, which can be set up once in a process."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(made))
    trace.set_tracer_provider(provider)
    return made


@pytest.fixture
def spans(exporter: Any) -> Any:
    exporter.clear()
    return exporter


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("spans")
    fill(root, tiny, count=6)
    return root


@pytest.fixture
def client(root: Path) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def test_a_search_is_one_trace_of_its_request_and_its_stages(client: TestClient, spans: Any) -> None:
    asked = {"query": WORD, "align": "forge-mini", "explain": True}
    for body in ({"query": WORD}, asked):
        spans.clear()
        assert client.post(f"{THINGS}/search", json=body).status_code == 200
        found = spans.get_finished_spans()
        (request,) = (one for one in found if one.name == f"POST {THINGS.replace('things', '{name}')}/search")
        stages = [one for one in found if one.name.startswith("isthmus.")]
        wanted = {"isthmus.encode", "isthmus.rank", "isthmus.fetch"} | ({"isthmus.align"} if "align" in body else set())
        assert {one.name for one in stages} == wanted
        ids = {one.context.span_id for one in found}
        for one in stages:
            assert one.context.trace_id == request.context.trace_id
            assert one.parent.span_id in ids
            assert dict(one.attributes) == {"isthmus.queries": 1}


def test_no_span_has_words_of_a_query(client: TestClient, spans: Any) -> None:
    client.get(f"{THINGS}/search", params={"q": WORD})
    client.post(f"{THINGS}/search", json={"query": {"text": WORD, "image": data_url(png(1))}})
    client.post(f"{THINGS}/search", json={"query": WORD, "where": {WORD: {WORD: 1}}})
    client.post(f"{THINGS}/search", json={"query": WORD, "modalities": [WORD]})  # fails in a stage, and says the word
    client.post(f"{THINGS}/search", json={"searches": [{"query": WORD}] * 2})
    client.get("/v1/collections", params={WORD: WORD})
    found = spans.get_finished_spans()
    assert len([one for one in found if one.name.startswith(("GET", "POST"))]) == 6
    assert any(one.name == "isthmus.rank" and not one.status.is_ok for one in found)
    assert not [one.name for one in found if WORD in one.to_json()]


def test_the_query_of_an_address_still_reaches_the_routes(client: TestClient) -> None:
    assert len(client.get(f"{THINGS}/search", params={"q": "cat", "k": 2}).json()["hits"]) == 2


def test_searches_that_run_together_are_linked_to_one_span(root: Path, spans: Any) -> None:
    from opentelemetry import trace

    pool = WorkPool(2, 100, 60.0)

    async def one(batcher: SearchBatcher, word: str) -> None:
        with trace.get_tracer("test").start_as_current_span(word):
            await batcher.search(SearchRequest(word, k=1), lambda hits: hits[0].id.encode())

    async def several(things: Collection) -> None:
        batcher = SearchBatcher(things, pool, 64, lambda size: None)
        await asyncio.gather(*(one(batcher, word) for word in ("cat", "dog", "tree")))

    with Collection.open(root / "things.isthmus", follow=False) as things:
        asyncio.run(several(things))
    pool.close()
    found = {span.name: span for span in spans.get_finished_spans()}
    batch = found["isthmus.batch"]
    assert batch.parent.span_id == found["cat"].context.span_id
    assert [link.context.span_id for link in batch.links] == [found[word].context.span_id for word in ("dog", "tree")]
    assert found["isthmus.rank"].parent.span_id == batch.context.span_id
    assert dict(found["isthmus.rank"].attributes) == {"isthmus.queries": 3}


def test_the_documented_variables_send_spans_to_a_collector(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        thread = Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
        with started(root) as server:
            assert server.ask("GET", f"{THINGS}/search?q={WORD}")[0] == 200
            server.process.send_signal(signal.SIGTERM)
            server.process.wait()
        collector.shutdown()
        thread.join()
    traces = b"".join(body for path, body in sent if path == "/v1/traces")
    assert all(name in traces for name in (b"isthmus.encode", b"isthmus.rank", b"/v1/collections/{name}/search"))
    assert WORD.encode() not in b"".join(body for _, body in sent)
