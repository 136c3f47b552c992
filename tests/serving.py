"""Helpers for tests of the server: an application over a folder of collections, and a client that calls it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any, TypeVar

import uvicorn
from PIL import Image
from starlette.testclient import TestClient

from endpoint import Answer
from isthmus import Collection
from isthmus.serve.app import create_app
from isthmus.serve.run import bind, configured, url_of
from isthmus.serve.settings import ServeLimits, ServeSettings
from stock import mixed, pixels

THINGS = "/v1/collections/things"
PATIENCE = 120.0  # seconds until a test that waits has failed
Found = TypeVar("Found")


def until(ready: Callable[[], Found | None]) -> Found:
    """Ask again and again until the answer is true, and return it."""
    end = monotonic() + PATIENCE
    while not (found := ready()):
        assert monotonic() < end, "what is waited for does not happen"
    return found


def png(seed: int) -> bytes:
    out = BytesIO()
    Image.fromarray(pixels(seed)).save(out, "PNG")
    return out.getvalue()


def data_url(data: bytes) -> str:
    return f"data:image/png;base64,{b64encode(data).decode()}"


def fill(root: Path, encoder: str, name: str = "things", count: int = 30) -> None:
    """Make a collection in a folder."""
    with Collection.open(root / f"{name}.isthmus", encoder, "center", follow=False) as things:
        things.add(mixed(count))
        things.search("cat")


@contextmanager
def client_of(root: Path, *, limits: ServeLimits | None = None, **settings: Any) -> Iterator[TestClient]:
    """Run an application over a folder, as a client on this machine sees it."""
    given = ServeSettings(paths=(root,), workers=2, limits=limits or ServeLimits())
    with TestClient(create_app(replace(given, **settings)), base_url="http://localhost") as client:
        yield client


@contextmanager
def address_of(root: Path, **settings: Any) -> Iterator[str]:
    """Run an application under uvicorn on a free port of this machine, and return its address."""
    given = replace(ServeSettings(paths=(root,), workers=2, port=0), **settings)
    with bind(given) as taken:
        server = uvicorn.Server(configured(create_app(given), given))
        thread = Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield url_of(given, taken).rstrip("/")  # what comes before it is ready waits in the socket
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def serving_pictures(answers: Sequence[Answer]) -> Iterator[int]:
    """Answer GET requests on a port of this machine with scripted answers; the last one repeats."""
    left, over = list(answers), Event()

    class Pictures(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer.never:
                over.wait()
                return
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the client may have had enough
                self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pictures) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            over.set()
            server.shutdown()
            thread.join()
