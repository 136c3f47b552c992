"""Server processes and clients for `bench/serve.py`: isthmus, Chroma, and a bare FastAPI route, on loopback."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np

JSON = {"Content-Type": "application/json"}
SERVE = "from isthmus.cli import main; main()"
BARE = """
import json, sys, uvicorn
from fastapi import FastAPI, Request, Response
app, body = FastAPI(), sys.argv[2].encode()
@app.post("/")
async def route(request: Request) -> Response:
    await request.json()
    return Response(body, media_type="application/json")
uvicorn.run(app, port=int(sys.argv[1]), log_level="critical")
"""


@dataclass
class Process:
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    port: int

    def ask(self, method: str, place: str, body: Any = None) -> tuple[int, Any]:
        """Send one request on a connection of its own."""
        client = Client(self.port)
        try:
            return client.ask(method, place, body)
        finally:
            client.close()

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        said = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", said)
        return 1024 * int(found[1]) if found else 0

    def cpu(self) -> float:
        """Return the seconds of processor time that it has used, in all its threads."""
        said = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


@dataclass
class Client:
    """A connection that is kept open."""

    port: int
    connection: HTTPConnection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, method: str, place: str, body: Any = None) -> tuple[int, Any]:
        """Send a request; return its status and its JSON."""
        sent = None if body is None else json.dumps(body)
        self.connection.request(method, place, sent, {} if body is None else JSON)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


@dataclass
class LightClient:
    """A connection for many requests of one kind, which takes little time of its own: answers are not parsed."""

    port: int
    place: str
    connection: socket.socket = field(init=False)

    def __enter__(self) -> LightClient:
        self.connection = socket.create_connection(("127.0.0.1", self.port), 120)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def ask(self, body: Any) -> str:
        """Send a request; return the status of the whole answer."""
        sent = json.dumps(body).encode()
        head = f"POST {self.place} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.connection.sendall(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        answer = b""
        while True:
            piece = self.connection.recv(1 << 18)
            if not piece:
                raise ConnectionError("closed")
            answer += piece
            head_of, ended, rest = answer.partition(b"\r\n\r\n")
            size = re.search(rb"(?i)content-length: *(\d+)", head_of)
            if ended and (
                (b"chunked" in head_of.lower() and rest.endswith(b"0\r\n\r\n")) or (size and len(rest) >= int(size[1]))
            ):
                return head_of.split(None, 2)[1].decode()


@contextmanager
def _running(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **settings)  # noqa: S603 - our own commands
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def isthmus(root: Path, *options: str) -> Iterator[Process]:
    """Run `isthmus serve` over a folder, with one core per encoder run."""
    command = [sys.executable, "-c", SERVE, "serve", str(root), "--port", "0", *options]
    environment = {**os.environ, "ISTHMUS_THREADS": "1"}
    with _running(command, stderr=subprocess.PIPE, env=environment) as process:
        if process.stderr is None:
            raise SystemExit("there is no pipe to the server")
        said, found = "", None
        while found is None and process.poll() is None:
            said += process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        if found is None:
            raise SystemExit(said + process.stderr.read())
        Thread(target=process.stderr.read, daemon=True).start()
        yield Process(process, int(found[1]))


def free_port() -> int:
    """Return a port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@contextmanager
def bare(answer: str) -> Iterator[Process]:
    """Run a FastAPI route that reads JSON and returns a fixed answer."""
    port = free_port()
    with _running([sys.executable, "-c", BARE, str(port), answer]) as process:
        _await(port, process)
        yield Process(process, port)


@contextmanager
def chroma(program: str, folder: Path) -> Iterator[Process]:
    """Run Chroma's server."""
    port = free_port()
    command = [program, "run", "--path", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    with _running(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _await(port, process)
        yield Process(process, port)


def filled_chroma(server: Process, rows: Any) -> str:
    """Add the vectors to a new collection of Chroma; return where it is searched."""
    base = "/api/v2/tenants/default_tenant/databases/default_database/collections"
    status, made_there = server.ask("POST", base, {"name": "numbers", "metadata": {"hnsw:space": "cosine"}})
    if status not in (200, 201):
        raise SystemExit(f"Chroma answered {status}: {made_there}")
    place = f"{base}/{made_there['id']}"
    for start in range(0, len(rows), 500):
        some = range(start, min(start + 500, len(rows)))
        body = {
            "ids": [f"d{i}" for i in some],
            "embeddings": [rows[i].tolist() for i in some],
            "documents": [f"number {i}" for i in some],
        }
        status, said = server.ask("POST", f"{place}/add", body)
        if status not in (200, 201):
            raise SystemExit(f"Chroma answered {status}: {said}")
    return f"{place}/query"


def _await(port: int, process: subprocess.Popen[str]) -> None:
    end = perf_counter() + 60
    while perf_counter() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
    raise SystemExit(f"{process.args!r} does not listen.")


@dataclass
class Load:
    """What clients saw: the seconds of each answer, and how many had each status."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    took: float = 0.0

    def add(self, other: Load) -> None:
        """Add what clients saw later."""
        self.seconds += other.seconds
        self.took += other.took
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.took

    def quantile(self, share: float) -> float:
        """Return the seconds within which this share was answered."""
        return float(np.quantile(self.seconds, share))

    @property
    def errors(self) -> dict[str, int]:
        """Statuses other than 200 and the announced 429 and 503."""
        return {status: count for status, count in self.statuses.items() if status not in ("200", "429", "503")}


def together(clients: int, seconds: float, work: Callable[[int, Callable[[], bool]], Iterator[str]]) -> Load:
    """Run ``work(client, over)`` on threads for some seconds; each status that it yields is an answer."""
    load, began = Load(), perf_counter()
    end = began + seconds

    def run(client: int) -> None:
        last = perf_counter()
        try:
            for status in work(client, lambda: perf_counter() >= end):
                now = perf_counter()
                load.seconds.append(now - last)
                load.statuses[status] = load.statuses.get(status, 0) + 1
                last = now
        except (OSError, HTTPException, ValueError) as error:
            name = type(error).__name__
            load.statuses[name] = load.statuses.get(name, 0) + 1

    threads = [Thread(target=run, args=(client,)) for client in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    load.took = perf_counter() - began
    return load


def asking(
    port: int, place: str, bodies: Callable[[int, int], Any]
) -> Callable[[int, Callable[[], bool]], Iterator[str]]:
    """Return work of clients that each send one request after another, on a connection that stays open."""

    def work(client: int, over: Callable[[], bool]) -> Iterator[str]:
        with LightClient(port, place) as connection:
            number = 0
            while not over():
                yield connection.ask(bodies(client, number))
                number += 1

    return work
