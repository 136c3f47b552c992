"""A server under load, on loopback: `isthmus serve` against the bare library, a bare FastAPI route, and Chroma.

    python bench/serve.py [--seconds 120] [--documents 1000] [--chroma chroma/bin/chroma] [--only mixed,rates]

Chroma is measured if its program is given: python -m venv chroma && chroma/bin/pip install chromadb

mixed      half of the time: 4 clients search and 2 write, against as many threads that call the library; memory;
           200 slow clients at the same time, and others that leave in the middle of an upload
one        one client that searches, in turns with the library: the cost of HTTP alone
batches    32 clients that search for words, with batches and without
rates      8 clients that search by a vector: isthmus, Chroma, and a FastAPI route that returns the same bytes
kill       `kill -9` under writes, and a graceful stop: what was acknowledged is there

Read the ratios, not the milliseconds. The exit status is 1 if a request failed with anything but 429 and 503, or
something acknowledged was lost. Clients are threads of one Python process, which takes its share of the cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from serve_process import ALONE, Client, Load, Process, asking, bare, chroma, isthmus, together

from isthmus import Collection, Document
from isthmus.encoders.bank import queries

THINGS = "/v1/collections/things"
SEARCH, DOCUMENTS = f"{THINGS}/search", f"{THINGS}/documents"
READERS, WRITERS, SLOW = 4, 2, 200
DIM = 64
ENOUGH = 50  # writes that are acknowledged before a server is killed
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/%s\r\nContent-Length: 100000\r\n\r\n"


def words(client: int, number: int) -> str:
    """Return words that nobody has searched for: an encoder remembers queries."""
    known = queries()
    return f"{known[(37 * client + number) % len(known)]} {client} {number} {perf_counter():.6f}"


def made(root: Path, count: int) -> None:
    """Make the collections: texts, and vectors without an encoder."""
    known = queries()
    with Collection.open(root / "things.isthmus", calibration="center", threads=1) as things:
        things.add([Document(f"d{i}", f"{known[i % len(known)]} {i}") for i in range(count)])
        things.search("a cat")
    rows = vectors(count)
    with Collection.open(root / "numbers.isthmus", "none", calibration="none") as numbers:
        numbers.add([Document(f"d{i}", f"number {i}", vectors={"text": row}) for i, row in enumerate(rows)])


def vectors(count: int) -> Any:
    """Return random unit vectors."""
    rows = np.random.default_rng(0).normal(size=(count, DIM))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def mixed_work(
    read: Callable[[int, int], str], write: Callable[[int, int], str], wrote: Load
) -> Callable[[int, Callable[[], bool]], Iterator[str]]:
    """Return work in which the first clients search, and the others write into a list of their own."""

    def work(client: int, over: Callable[[], bool]) -> Iterator[str]:
        number = 0
        while not over():
            if client < READERS:
                yield read(client, number)
            else:
                began = perf_counter()
                status = write(client, number)
                wrote.seconds.append(perf_counter() - began)
                wrote.statuses[status] = wrote.statuses.get(status, 0) + 1
            number += 1

    return work


def by_library(folder: Path, seconds: float) -> Load:
    """Search and write on threads that call the library."""
    with Collection.open(folder, threads=1, create=False) as things:

        def read(client: int, number: int) -> str:
            things.search(words(client, number))
            return "200"

        def write(client: int, number: int) -> str:
            things.add([Document(f"w{client}-{number}", words(client, number))])
            return "200"

        return together(READERS + WRITERS, seconds, mixed_work(read, write, Load()))


def by_http(server: Process, seconds: float, acknowledged: list[str]) -> tuple[Load, Load]:
    """Search and write over HTTP; ids that were acknowledged are added to the list."""
    clients, wrote = [Client(server.port) for _ in range(READERS + WRITERS)], Load()

    def read(client: int, number: int) -> str:
        return str(clients[client].ask("POST", SEARCH, {"query": words(client, number)})[0])

    def write(client: int, number: int) -> str:
        name = f"h{client}-{perf_counter():.9f}"
        status, _ = clients[client].ask("POST", DOCUMENTS, {"id": name, "text": words(client, number)})
        if status == 200:
            acknowledged.append(name)
        return str(status)

    return together(len(clients), seconds, mixed_work(read, write, wrote)), wrote


@contextmanager
def bad_clients(port: int) -> Iterator[None]:
    """Keep 200 connections that send nothing more, and leave 20 uploads in the middle."""
    with ExitStack() as held:
        for number in range(SLOW):
            one = held.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            one.sendall(b"POST / HTTP/1.1\r\nHost: localh" if number % 2 else HEAD % (SEARCH.encode(), b"json") + b"{")
        for number in range(20):
            with socket.create_connection(("127.0.0.1", port), 60) as gone:
                line = json.dumps({"id": f"half {number}", "text": "whole"}).encode()
                gone.sendall(HEAD % (DOCUMENTS.encode(), b"x-ndjson") + line + b"\n" + line[:9])
        yield


def lost(server: Process, acknowledged: list[str]) -> int:
    """Return how many acknowledged documents are not there."""
    found: set[str] = set()
    for start in range(0, len(acknowledged), 100):
        status, said = server.ask("POST", f"{DOCUMENTS}/get", {"ids": acknowledged[start : start + 100]})
        if status == 200:
            found.update(one["id"] for one in said["documents"])
        else:
            print(f"documents/get answered {status}: {said}", file=sys.stderr)
    return len(set(acknowledged) - found)


def row(name: str, value: str, aim: str = "") -> None:
    """Print a row of the table."""
    print(f"| {name} | {value} | {aim} |", flush=True)


def measure_mixed(root: Path, seconds: float) -> bool:
    copy = root.parent / "library" / "things.isthmus"
    shutil.copytree(root / "things.isthmus", copy)
    bare_call = by_library(copy, seconds / 2)
    acknowledged: list[str] = []
    with isthmus(root) as server:
        by_http(server, 2, acknowledged)  # so that everything is loaded
        before = server.memory()
        with bad_clients(server.port):
            load, wrote = by_http(server, seconds / 2, acknowledged)
        after, missing = server.memory(), lost(server, acknowledged)
    errors = {**load.errors, **wrote.errors}
    for share, aim in ((0.5, "1.5"), (0.99, "3")):
        ratio = load.quantile(share) / bare_call.quantile(share)
        row(f"mixed reads and writes: p{share * 100:.0f} of a search, of the library's", f"{ratio:.2f}", aim)
    announced = sum(each.statuses.get(status, 0) for each in (load, wrote) for status in ("429", "503"))
    row(f"of {len(load.seconds):,} searches and {len(wrote.seconds):,} writes: errors", str(sum(errors.values())), "0")
    row("429 and 503", str(announced))
    row("acknowledged and lost", str(missing), "0")
    row("memory at the end, of the start", f"{after / before:.2f}", "1")
    if errors:
        print(f"errors: {errors}", file=sys.stderr)
    return not errors and not missing


def measure_one(root: Path, seconds: float) -> None:
    ratios: list[tuple[float, float]] = []
    with isthmus(root) as server, Collection.open(root / "things.isthmus", threads=1) as things:
        search = asking(server.port, SEARCH, lambda client, number: {"query": words(client, number)})

        def call(client: int, over: Callable[[], bool]) -> Iterator[str]:
            while not over():
                things.search(words(client, 0))
                yield "200"

        for work in (search, call):
            together(1, 1, work)
        for _ in range(5):
            ours, bare_call = (together(1, seconds / 10, work) for work in (search, call))
            ratios.append(tuple(ours.quantile(share) / bare_call.quantile(share) for share in (0.5, 0.99)))  # type: ignore[arg-type]
    middle = np.median(ratios, axis=0)
    row("one client: p50 of a search, of the library's", f"{middle[0]:.2f}", "1.5")
    row("one client: p99", f"{middle[1]:.2f}", "3")


def measure_batches(root: Path, seconds: float) -> None:
    rates: dict[str, list[float]] = {"with": [], "without": []}
    with isthmus(root) as batched, isthmus(root, start=ALONE) as alone:
        for turn in range(4):
            for name, server in (("with", batched), ("without", alone)):
                search = asking(server.port, SEARCH, lambda client, number: {"query": words(client, number), "k": 3})
                load = together(32, seconds / 6, search)
                if turn:  # the first loads the encoder
                    rates[name].append(load.rate)
    row(
        "32 clients: rate with batches, of without",
        f"{np.median(rates['with']) / np.median(rates['without']):.2f}",
        "2",
    )


def measure_rates(root: Path, seconds: float, documents: int, program: str | None) -> None:
    rows = vectors(documents)

    def numbers(client: int, number: int) -> list[float]:
        found: list[float] = rows[(37 * client + number) % documents].tolist()
        return found

    def query(client: int, number: int) -> Any:
        return {"query": {"vectors": {"text": numbers(client, number)}}}

    with ExitStack() as running:
        server = running.enter_context(isthmus(root))
        place = "/v1/collections/numbers/search"
        answer = json.dumps(server.ask("POST", place, query(0, 0))[1])
        route = running.enter_context(bare(answer))
        work = {"isthmus": asking(server.port, place, query), "bare": asking(route.port, "/", query)}
        if program is not None:
            other = running.enter_context(chroma(program, root.parent / "chroma"))
            place = filled_chroma(other, rows)
            ask = lambda client, number: {"query_embeddings": [numbers(client, number)], "n_results": 10}  # noqa: E731
            work["chroma"] = asking(other.port, place, ask)
        found: dict[str, list[float]] = {name: [] for name in work}
        for turn in range(4):
            for name, each in work.items():
                load = together(8, seconds / 3 / len(work), each)
                if load.errors:
                    print(f"{name}: {load.errors}", file=sys.stderr)
                if turn:
                    found[name].append(load.rate)
    ours = float(np.median(found["isthmus"]))
    row("8 clients by vector: rate, of a bare FastAPI route", f"{ours / np.median(found['bare']):.2f}")
    row("the same, of Chroma's server", f"{ours / np.median(found['chroma']):.2f}" if program else "not measured")


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


def writing_until(server: Process, number: int, acknowledged: list[str]) -> Callable[..., Iterator[str]]:
    """Return work of clients that write until the server is gone; the first one sends the signal when time is over."""

    def write(client: int, over: Callable[[], bool]) -> Iterator[str]:
        connection, count, told = Client(server.port), 0, client != 0
        while True:
            name = f"k{server.process.pid}-{client}-{count}"
            status, _ = connection.ask("POST", DOCUMENTS, {"id": name, "text": words(client, count)})
            if status == 200:
                acknowledged.append(name)
            count += 1
            if not told and over() and len(acknowledged) >= ENOUGH:
                server.process.send_signal(number)  # once: a second one ends a graceful stop
                told = True
            yield str(status)

    return write


def measure_kill(root: Path, seconds: float) -> bool:
    missing = 0
    for name, number in (("kill -9", signal.SIGKILL), ("graceful stop", signal.SIGTERM)):
        acknowledged: list[str] = []
        with isthmus(root) as server:
            load = together(WRITERS + 2, seconds, writing_until(server, number, acknowledged))
            server.process.wait(60)
        with isthmus(root) as server:
            gone = lost(server, acknowledged)
        missing += gone
        half = {kind: count for kind, count in load.statuses.items() if not kind.isdigit()}
        row(f"{name} under writes: of {len(acknowledged):,} acknowledged, lost", str(gone), "0")
        print(f"{name}: connections ended with {half}", file=sys.stderr)
    return not missing


def main(options: argparse.Namespace) -> int:
    part = options.seconds / 2
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "served")
        root.mkdir()
        made(root, options.documents)
        print("| | value | aim |\n| --- | ---: | ---: |")
        measures: dict[str, Callable[[], bool | None]] = {
            "mixed": lambda: measure_mixed(root, part),
            "one": lambda: measure_one(root, part / 4),
            "batches": lambda: measure_batches(root, part / 4),
            "rates": lambda: measure_rates(root, part / 4, options.documents, options.chroma),
            "kill": lambda: measure_kill(root, part / 16),
        }
        results = [measures[name]() for name in (options.only.split(",") if options.only else measures)]
    return int(False in results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="of all measurements together, without preparation")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--chroma", help="Chroma's program, to compare with")
    parser.add_argument("--only", help="some of mixed, one, batches, rates, kill")
    sys.exit(main(parser.parse_args()))
