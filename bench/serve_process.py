"""Server processes and clients for `bench/serve.py`: isthmus, Chroma, and a bare FastAPI route, on loopback."""

from __future__ import annotations

import json
import os
import re
import signal
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
ALONE = "from isthmus.serve import batching; batching.LARGEST, batching.LANES = 1, 4; " + SERVE  # no batches
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

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end."""
        self.process.send_signal(number)
        return self.process.wait(60)


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


@contextmanager
def _running(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, text=True, **settings)  # noqa: S603 - our own commands
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def isthmus(root: Path, *options: str, start: str = SERVE) -> Iterator[Process]:
    """Run `isthmus serve` over a folder, with one core per encoder run."""
    command = [sys.executable, "-c", start, "serve", str(root), "--port", "0", *options]
    environment = {**os.environ, "ISTHMUS_THREADS": "1"}
    with _running(command, stderr=subprocess.PIPE, env=environment) as process:
        if process.stderr is None:
            raise SystemExit("there is no pipe to the server")
        said = process.stderr.readline()
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
        connection = Client(port)
        number = 0
        while not over():
            yield str(connection.ask("POST", place, bodies(client, number))[0])
            number += 1
        connection.close()

    return work
