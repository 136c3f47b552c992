"""A server under load, on loopback: `isthmus serve` against the bare library, a bare FastAPI route, and Chroma.

    python bench/serve.py [--seconds 120] [--documents 1000] [--chroma chroma/bin/chroma] [--only mixed,rates]

Chroma is measured if its program is given: python -m venv chroma && chroma/bin/pip install chromadb

mixed      for --seconds: 4 clients search and 2 write, while 200 slow clients hold connections and others leave in the
           middle of an upload; in turns with as many threads that call the library
one        one client that searches, in turns with the library: the cost of HTTP alone
batches    16 and 32 clients that search for words, with batches and without, in turns
rates      8 clients that search by a vector: isthmus, Chroma, and a FastAPI route that returns the same bytes, in turns
kill       `kill -9` under writes and a restart, and a graceful stop: what was acknowledged is there

Read the ratios, not the milliseconds; on a busy machine, those of processor time. The exit status is 1 if a target was
missed: a ratio, a request that failed with anything but 429 and 503, something acknowledged that was lost. Clients are
threads of one Python process, which takes its share of the cores. It all takes about three times --seconds, and ends
after six times in any case.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
from serve_process import Client, LightClient, Load, Process, asking, bare, chroma, filled_chroma, isthmus, together
from targets import Row, told

from isthmus import Collection, Document
from isthmus.encoders.bank import queries

THINGS = "/v1/collections/things"
SEARCH, DOCUMENTS = f"{THINGS}/search", f"{THINGS}/documents"
READERS, WRITERS, SLOW = 4, 2, 200
PACE = 15  # writes a second of each writer, over HTTP and by the library
DIM = 64
TURNS = 4  # of what is compared, so that a change of the machine's load meets both
VOCABULARY = np.array(sorted({word.lower() for query in queries() for word in re.findall("[A-Za-z]{3,}", query)}))
FLAT = 1.1  # memory that does not grow
ENOUGH = 50  # writes that are acknowledged before a server is killed
HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/%s\r\nContent-Length: 100000\r\n\r\n"


def words(client: int, number: int) -> str:
    """Return three words that nobody has searched for: an encoder remembers queries."""
    rng = np.random.default_rng([client, number, int(perf_counter() * 1e6)])
    return " ".join(str(word) for word in rng.choice(VOCABULARY, 3))


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
    """Return work in which the first clients search, and the others write into a list of their own, at a steady pace.

    Without a pace the same machine would write twice as much over HTTP as by the library, and search less.
    """

    def work(client: int, over: Callable[[], bool]) -> Iterator[str]:
        number, first = 0, perf_counter()
        while not over():
            if client < READERS:
                yield read(client, number)
            else:
                sleep(max(0.0, first + number / PACE - perf_counter()))
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
    wrote = Load()
    with ExitStack() as held:
        places = [SEARCH] * READERS + [DOCUMENTS] * WRITERS
        clients = [held.enter_context(LightClient(server.port, place)) for place in places]

        def read(client: int, number: int) -> str:
            return clients[client].ask({"query": words(client, number)})

        def write(client: int, number: int) -> str:
            name = f"h{client}-{perf_counter():.9f}"
            status = clients[client].ask({"id": name, "text": words(client, number)})
            if status == "200":
                acknowledged.append(name)
            return status

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


def refitted(server: Process) -> None:
    """Calibrate the collection again, and wait."""
    job = server.ask("POST", f"{THINGS}/calibration", {"spec": "center"})[1]
    while server.ask("GET", f"{THINGS}/jobs/{job['id']}")[1]["state"] in ("queued", "running"):
        sleep(0.1)


def measure_mixed(root: Path, seconds: float) -> Iterator[Row]:
    copy = root.parent / "library" / "things.isthmus"
    shutil.copytree(root / "things.isthmus", copy)
    acknowledged: list[str] = []
    ours, wrote, bare_call, memory = Load(), Load(), Load(), list[int]()
    with isthmus(root) as server:
        by_http(server, 2, acknowledged)  # so that everything is loaded, and what a re-fit needs
        refitted(server)
        for _ in range(TURNS):
            bare_call.add(by_library(copy, seconds / 2 / TURNS))
            memory.append(server.memory())
            with bad_clients(server.port):
                for whole, part in zip((ours, wrote), by_http(server, seconds / TURNS, acknowledged), strict=True):
                    whole.add(part)
        memory.append(server.memory())
        missing = lost(server, acknowledged)
    errors = {**ours.errors, **wrote.errors}
    if errors:
        print(f"errors: {errors}", file=sys.stderr)
    for share, most in ((0.5, 1.5), (0.99, 3)):
        ratio = ours.quantile(share) / bare_call.quantile(share)
        yield Row(f"mixed reads and writes: p{share * 100:.0f} of a search, of the library's", ratio, most=most)
    yield Row(
        f"of {len(ours.seconds):,} searches and {len(wrote.seconds):,} writes: errors", sum(errors.values()), most=0
    )
    yield Row("429 and 503", sum(each.statuses.get(status, 0) for each in (ours, wrote) for status in ("429", "503")))
    yield Row("acknowledged and lost", missing, most=0)
    yield Row("memory at the end, of the start", memory[-1] / memory[0])
    yield Row("memory at the end, of the middle", memory[-1] / memory[2], most=FLAT)


def measure_one(root: Path, seconds: float) -> Iterator[Row]:
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
    yield Row("one client: p50 of a search, of the library's", float(middle[0]), most=1.5)
    yield Row("one client: p99", float(middle[1]), most=3)


def measure_batches(root: Path, seconds: float) -> Iterator[Row]:
    body = lambda client, number: {"query": words(client, number), "k": 3}  # noqa: E731
    with isthmus(root) as batched, isthmus(root, "--batch", "1") as alone:
        for clients in (16, 32):
            rates: dict[str, list[float]] = {"with": [], "without": []}
            costs: dict[str, list[float]] = {"with": [], "without": []}
            for turn in range(1 + TURNS):
                for name, server in (("with", batched), ("without", alone)):
                    before = server.cpu()
                    load = together(clients, seconds / 2 / 2 / (1 + TURNS), asking(server.port, SEARCH, body))
                    if turn:  # the first loads the encoder
                        rates[name].append(load.rate)
                        costs[name].append((server.cpu() - before) / len(load.seconds))
            ratio = np.median(rates["with"]) / np.median(rates["without"])
            yield Row(f"{clients} clients: rate with batches, of without", float(ratio), least=2)
            cost = float(np.median(costs["without"]) / np.median(costs["with"]))
            yield Row("processor time of a search without, of with", cost)


def measure_rates(root: Path, seconds: float, documents: int, program: str | None) -> Iterator[Row]:
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
    yield Row("8 clients by vector: rate, of a bare FastAPI route", ours / float(np.median(found["bare"])))
    yield Row("the same, of Chroma's server", ours / float(np.median(found["chroma"])) if program else None)


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


def measure_kill(root: Path, seconds: float) -> Iterator[Row]:
    for name, number in (("kill -9", signal.SIGKILL), ("graceful stop", signal.SIGTERM)):
        acknowledged: list[str] = []
        with isthmus(root) as server:
            load = together(WRITERS + 2, seconds, writing_until(server, number, acknowledged))
            server.process.wait(60)
        with isthmus(root) as server:
            gone = lost(server, acknowledged)
        half = {kind: count for kind, count in load.statuses.items() if not kind.isdigit()}
        print(f"{name}: connections ended with {half}", file=sys.stderr)
        yield Row(f"{name} under writes: of {len(acknowledged):,} acknowledged, lost", gone, most=0)


def main(options: argparse.Namespace) -> int:
    signal.alarm(int(6 * options.seconds + 300))  # whatever hangs
    seconds = options.seconds
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "served")
        root.mkdir()
        made(root, options.documents)
        measures: dict[str, Callable[[], Iterator[Row]]] = {
            "mixed": lambda: measure_mixed(root, seconds),
            "one": lambda: measure_one(root, seconds / 4),
            "batches": lambda: measure_batches(root, seconds / 2),
            "rates": lambda: measure_rates(root, seconds / 4, options.documents, options.chroma),
            "kill": lambda: measure_kill(root, seconds / 32),
        }
        chosen = options.only.split(",") if options.only else list(measures)
        if unknown := set(chosen) - set(measures):
            raise SystemExit(f"There is no {min(unknown)}. Choose from {', '.join(measures)}.")
        return 0 if told(row for name in chosen for row in measures[name]()) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120, help="of the mixed load; the others take a part of it")
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--chroma", help="Chroma's program, to compare with")
    parser.add_argument("--only", help="some of mixed, one, batches, rates, kill")
    sys.exit(main(parser.parse_args()))
