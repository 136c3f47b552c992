"""Helpers for tests of the server: an application over a folder of collections, and a client that calls it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection
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
JSON = {"Content-Type": "application/json"}
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


@dataclass
class Process:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, place: str, body: Any = None) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, place, None if body is None else json.dumps(body), {} if body is None else JSON)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()


@contextmanager
def started(root: Path, *options: str) -> Iterator[Process]:
    """Start `isthmus serve` on a folder."""
    with command("serve", str(root), "--port", "0", *options) as process:
        yield process


@contextmanager
def command(*words: str) -> Iterator[Process]:
    """Start a command that serves, and wait until it says where."""
    line = [sys.executable, "-m", "isthmus", *words]
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, env={**os.environ, "ISTHMUS_THREADS": "1"})
    assert process.stderr is not None
    said = ""
    while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", said)):
        said += (more := process.stderr.readline())
        assert more, said  # it has ended
    drained = Thread(target=process.stderr.read)
    drained.start()
    try:
        yield Process(process, int(found[1]))
    finally:
        process.kill()
        process.wait()
        drained.join()
        process.stderr.close()
