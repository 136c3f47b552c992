"""A real server on a port of this machine: streams, broken clients, kill -9, and a graceful stop."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from isthmus import Collection
from isthmus.serve.app import create_app
from isthmus.serve.run import bind, configured, protocol
from isthmus.serve.settings import ServeLimits, ServeSettings
from isthmus.storage.sqlite.lock import WriterLock
from serving import THINGS, Process, address_of, fill, until
from serving import started as started  # test_serve_browser.py has it from here
from stock import looked_at


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("process")
    fill(root, tiny, count=6)
    return root


def test_nothing_acknowledged_is_lost_by_kill_9_under_writes_and_a_graceful_stop_finishes_what_came(
    root: Path,
) -> None:
    acknowledged: list[str] = []
    enough, over = Event(), Event()

    def write(server: Process, writer: int) -> None:
        number = 0
        while not over.is_set():
            name = f"w{writer}-{number}"
            try:
                status, report = server.ask("POST", f"{THINGS}/documents", {"id": name, "text": "a red cat"})
            except (OSError, ValueError):
                return  # the server is gone
            if status == 200 and report["added"]:
                acknowledged.append(name)
            number += 1
            if len(acknowledged) >= 20:
                enough.set()

    with started(root) as server:
        writers = [Thread(target=write, args=(server, writer)) for writer in range(3)]
        for one in writers:
            one.start()
        enough.wait(60)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        over.set()
        for one in writers:
            one.join()
    assert len(acknowledged) >= 20
    assert looked_at(root / "things.isthmus") == []

    with started(root) as server:
        found = server.ask("POST", f"{THINGS}/documents/get", {"ids": acknowledged})[1]["documents"]
        assert sorted(one["id"] for one in found) == sorted(acknowledged)
        answers: list[tuple[int, Any]] = []
        many = {"documents": [{"id": f"late-{i}", "text": "a tree"} for i in range(300)]}
        late = Thread(target=lambda: answers.append(server.ask("POST", f"{THINGS}/documents", many)))
        late.start()
        server.ask("GET", "/health")  # so that the documents have come before the signal
        server.process.send_signal(signal.SIGTERM)
        late.join()
        assert server.process.wait(60) in (0, -signal.SIGTERM)
    with Collection.open(root / "things.isthmus", follow=False) as things:
        kept = sum(name.startswith("late-") for name in things.ids())
    status, report = answers[0]
    assert (status, report["added"], kept) == (200, 300, 300)


def test_a_job_that_kill_9_cut_off_is_finished_after_the_restart(root: Path) -> None:
    lines = "".join(f'{{"id": "job-{i}", "text": "a cat number {i}"}}\n' for i in range(6000))

    def kept() -> int:
        with Collection.open(root / "things.isthmus", follow=False) as things:
            return sum(name.startswith("job-") for name in things.ids())

    with started(root) as server:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        kind = {"Content-Type": "application/x-ndjson"}
        connection.request("POST", f"{THINGS}/documents?job=true", lines, kind)
        place = json.loads(connection.getresponse().read())["id"]
        connection.close()
        until(lambda: server.ask("GET", f"{THINGS}/jobs/{place}")[1]["done"])
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    ledger = root / f".isthmus-serve/jobs/{place}.json"
    cut = json.loads(ledger.read_bytes())
    assert (cut["state"], cut["attempts"]) == ("running", 1)
    assert 0 < kept() < 6000
    with started(root) as server:
        job = until(lambda: ended(server.ask("GET", f"{THINGS}/jobs/{place}")[1]))
        assert (job["state"], job["error"]) == ("done", None)
    assert (json.loads(ledger.read_bytes())["attempts"], kept()) == (2, 6000)


def ended(job: dict[str, Any]) -> dict[str, Any] | None:
    """Return a job that has ended."""
    return None if job["state"] in ("queued", "running") else job


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[tuple[str, int]]:
    with address_of(root, limits=ServeLimits(slow=0.3, body=100_000)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def talk(address: tuple[str, int], *pieces: bytes) -> bytes:
    """Send bytes, and return everything that comes until the server closes the connection."""
    with socket.create_connection(address, 30) as connection:
        said = b""
        with suppress(ConnectionError):  # the server may have closed it
            for piece in pieces:
                connection.sendall(piece)
        with suppress(ConnectionError):
            while piece := connection.recv(65536):
                said += piece
    return said


MUCH = 32 << 20  # bytes: more than the buffers of a connection
HEAD = b"POST /v1/collections/things/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


HIDDEN = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"  # what would be smuggled
SMUGGLING = {
    "two kinds of length": (HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, 400),
    "the same, in another order": (
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + HIDDEN,
        400,
    ),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}" + HIDDEN, 400),
    "two codings": (HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" + HIDDEN, 400),
    "an unknown coding": (HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN, 400),
    "a space before the colon": (HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + HIDDEN, 400),
    "a signed length": (HEAD + b"Content-Length: +2\r\n\r\n{}" + HIDDEN, 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n" + HIDDEN, 400),
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_a_request_with_two_lengths_or_none_that_is_clear_is_refused_and_nothing_after_it_is_read(
    address: tuple[str, int], name: str
) -> None:
    sent, status = SMUGGLING[name]
    said = talk(address, sent)
    assert said.startswith(b"HTTP/1.1 %d " % status), said
    assert said.count(b"HTTP/1.1 ") == 1


def test_a_client_that_sends_its_headers_or_body_slowly_is_cut_off(address: tuple[str, int]) -> None:
    assert talk(address) == b""
    assert talk(address, HEAD[:40]) == b""
    assert talk(address, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /hea").count(b"HTTP/1.1 200") == 1
    assert b"408" in talk(address, HEAD + b"Content-Length: 1000\r\n\r\n{").split(b"\r\n")[0]


async def much(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with more than the system takes at once."""
    if scope["type"] == "lifespan":
        for state in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{state}.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(MUCH)})


def test_a_client_that_does_not_read_its_answer_is_cut_off_and_one_that_reads_gets_it(root: Path) -> None:
    given = ServeSettings(paths=(root,), port=0, limits=ServeLimits(slow=0.7))
    with bind(given) as taken:
        server = uvicorn.Server(configured(much, given))
        thread = Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            with socket.create_connection(taken.getsockname(), 30) as deaf:
                deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                until(lambda: deaf.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))  # the connection was reset
            with socket.create_connection(taken.getsockname(), 30) as other:
                other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert sum(map(len, iter(lambda: other.recv(1 << 20), b""))) > MUCH
        finally:
            server.should_exit = True
            thread.join()


def test_many_slow_clients_do_not_keep_others_from_their_answers(address: tuple[str, int]) -> None:
    slow = [socket.create_connection(address, 30) for _ in range(200)]
    try:
        for one in slow:
            one.sendall(HEAD[:50])
        assert talk(address, b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").startswith(
            b"HTTP/1.1 200"
        )
    finally:
        for one in slow:
            one.close()


def test_a_request_on_a_connection_too_many_is_told_when_to_come_again(root: Path) -> None:
    given = ServeSettings(paths=(root,), workers=1, port=0)
    with bind(given) as taken:
        settings = configured(create_app(given), given)
        settings.http_protocol_class = protocol(given.limits.slow, connections=2)
        settings.http = settings.http_protocol_class
        server = uvicorn.Server(settings)
        thread = Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            ask = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with (
                socket.create_connection(taken.getsockname()) as one,
                socket.create_connection(taken.getsockname()) as two,
            ):
                for kept in (one, two):
                    kept.sendall(ask)
                    assert kept.recv(65536).startswith(b"HTTP/1.1 200")
                said = talk(taken.getsockname(), ask)
            assert said.startswith(b"HTTP/1.1 503")
            assert b"retry-after: 1\r\n" in said.lower()
        finally:
            server.should_exit = True
            thread.join()


def test_two_servers_of_one_folder_read_everywhere_and_write_one_at_a_time(tmp_path: Path, tiny: str) -> None:
    root = tmp_path / "two"  # other tests have a server of their own folder, which runs its jobs
    root.mkdir()
    fill(root, tiny, count=6)
    acknowledged: list[str] = []
    others: list[tuple[int, Any]] = []
    cat = {"query": "a red cat", "k": 1000}

    def write(server: Process) -> None:
        for number in range(20):
            name = f"two-{server.port}-{number}"
            status, report = server.ask("POST", f"{THINGS}/documents", {"id": name, "text": "a red cat"})
            if status == 200:
                acknowledged.append(name)
            else:
                others.append((status, report))

    with started(root) as one, started(root) as two:
        servers = (one, two)
        for server in servers:  # what one has written, the other finds with its next request
            write(server)
            for each in servers:
                hits = each.ask("POST", f"{THINGS}/search", cat)[1]["hits"]
                assert set(acknowledged) <= {hit["id"] for hit in hits}
        assert (len(acknowledged), others) == (40, [])
        writers = [Thread(target=write, args=(server,)) for server in servers]
        for thread in writers:
            thread.start()
        for thread in writers:
            thread.join()
        assert {status for status, _ in others} <= {503}  # while the other one writes
        with WriterLock(root / "things.isthmus").held():
            status, said = two.ask("POST", f"{THINGS}/documents", {"id": "refused", "text": "a red cat"})
            assert (status, two.ask("POST", f"{THINGS}/search", cat)[0]) == (503, 200)
        assert "things.isthmus is being written by another process. One writes" in said["error"]["message"]
        assert socket.gethostname() not in said["error"]["message"]
        found = two.ask("POST", f"{THINGS}/documents/get", {"ids": [*set(acknowledged), "refused"]})[1]["documents"]
        assert {hit["id"] for hit in found} == set(acknowledged)
        jobs = [server.ask("POST", f"{THINGS}/diagnose", {}) for server in servers]
        assert sorted(status for status, _ in jobs) == [202, 409], jobs  # one of them runs the jobs of the folder
        owner, job = next((server, job) for server, (status, job) in zip(servers, jobs, strict=True) if status == 202)
        until(lambda: ended(owner.ask("GET", f"{THINGS}/jobs/{job['id']}")[1]))
    assert looked_at(root / "things.isthmus") == []


def test_a_client_that_leaves_in_the_middle_of_a_stream_leaves_whole_documents(
    address: tuple[str, int], root: Path
) -> None:
    head = (
        b"POST /v1/collections/things/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    )
    lines = b"".join(b'{"id": "gone-%d", "text": "a cat"}\n' % i for i in range(300))
    ask = HTTPConnection(*address, timeout=60)

    def count() -> int:
        ask.request("GET", THINGS)
        return int(json.loads(ask.getresponse().read())["documents"])

    before = count()
    with socket.create_connection(address, 30) as connection:
        connection.sendall(head + b"Content-Length: 1000000\r\n\r\n" + lines)
        until(lambda: count() > before)  # the first batch is whole, the rest of the stream never comes
    ask.close()
    assert looked_at(root / "things.isthmus") == []
    with Collection.open(root / "things.isthmus", follow=False) as things:
        assert sum(name.startswith("gone-") for name in things.ids()) in (256, 300)


def test_a_stream_of_documents_is_added_while_it_comes(address: tuple[str, int]) -> None:
    connection = HTTPConnection(*address, timeout=60)
    lines = (b'{"id": "s%d", "text": "a dog"}\n' % i for i in range(300))
    headers = {"Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"}
    connection.request("POST", f"{THINGS}/documents", lines, headers, encode_chunked=True)
    answer: HTTPResponse = connection.getresponse()
    report = json.loads(answer.read())
    connection.close()
    assert (answer.status, report["added"], report["skipped"]) == (200, 300, [])


def test_a_body_that_grows_too_large_on_the_way_is_refused(address: tuple[str, int]) -> None:
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    # the last chunk is small: what the server has not read when it closes would wipe its answer out
    said = talk(address, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *([chunk] * 10), b"1\r\nx\r\n")
    assert said.startswith(b"HTTP/1.1 413 ")
    assert said.count(b"HTTP/1.1 ") == 1


def test_pictures_are_fetched_from_the_hosts_of_the_command_and_never_from_this_machine(root: Path) -> None:
    new = [{"id": name, "image": f"http://{name}/a.png"} for name in ("localhost", "127.0.0.1", "other.example")]
    with started(root, "--picture-host", "localhost", "--picture-host", "127.0.0.1") as server:
        listed = server.ask("POST", f"{THINGS}/documents", new)[1]
    with started(root) as server:
        none = server.ask("POST", f"{THINGS}/documents", new[:1])[1]
    said = [one["why"] for one in (*listed["skipped"], *none["skipped"])]
    wanted = [
        "not public",
        "not public",
        "fetches no pictures from 'other.example'",
        "This server fetches no pictures.",
    ]
    assert [part in one for part, one in zip(wanted, said, strict=True)] == [True] * 4


def test_an_answer_is_not_held_back_by_the_network_stack(root: Path) -> None:
    with bind(ServeSettings(paths=(root,), port=0)) as taken:
        with socket.create_connection(taken.getsockname()):
            accepted, _ = taken.accept()
        with accepted:
            assert accepted.proto == socket.IPPROTO_TCP  # else asyncio does not switch Nagle's algorithm off
