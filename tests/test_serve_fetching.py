"""Pictures by URL come only from listed hosts, all of whose addresses are public."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from endpoint import Answer
from isthmus.errors import BadInput, CannotReach
from isthmus.serve.fetching import PORTS, Address, PictureBudget, PictureFetcher, is_public
from isthmus.serve.settings import ServeLimits
from serving import THINGS, client_of, fill, png, serving_pictures

PUBLIC = "93.184.216.34"
PICTURE = Answer(png(77), headers={"Content-Type": "image/png"})


def to_port(hosts: tuple[str, ...], resolve: Callable[[str, int], list[Address]], port: int) -> PictureFetcher:
    """Fetch from a port of this machine, whatever the address."""

    def connect(_: Address, __: int, seconds: float) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), seconds)

    return PictureFetcher(hosts, resolve, lambda _: True, connect, seconds=0.5, largest=4000)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),  # noqa: S104
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1"),
        *("::ffff:127.0.0.1", "::ffff:93.184.216.34", "2002:7f00:1::", "64:ff9b::7f00:1", "64:ff9b:1::a00:1"),
        *("2001:0:53aa:64c:0:0:80ff:fffe", "2001:db8::1", "192.0.2.1", "198.18.0.1"),
    ],
)
def test_no_address_but_a_public_one_is_connected_to(address: str) -> None:
    assert not is_public(ip_address(address))
    fetch = PictureFetcher(("pictures.example",), lambda host, port: [ip_address("93.184.216.34"), ip_address(address)])
    with pytest.raises(BadInput, match="not public"):
        fetch("https://pictures.example/a.png")


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/a.png", "http://2130706433/a.png", "http://0x7f.1/a.png", "http://0177.0.0.1/a.png"),
        *("http://[::1]/a.png", "http://[::ffff:127.0.0.1]/a.png", "http://127.1/", "http://①②⑦.0.0.1/"),
    ],
)
def test_no_form_of_a_private_address_is_fetched_even_if_it_is_listed(url: str) -> None:
    host = url.split("/")[2].strip("[]")
    with pytest.raises((BadInput, CannotReach)):
        PictureFetcher((host, "127.0.0.1", "::1"))(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://evil.example/a.png", "fetches no pictures from"),
        ("https://pictures.example.evil.example/a.png", "fetches no pictures from"),
        ("https://pictures.example@evil.example/a.png", "not a plain"),
        ("https://user:pass@pictures.example/a.png", "not a plain"),
        ("https://pictures.example:22/a.png", "names a port"),
        ("https://pictures.example:99999/a.png", "not a URL"),
        ("https://[::1/a.png", "not a URL"),
        ("https:///etc/passwd", "fetches no pictures from"),
    ],
)
def test_only_plain_urls_of_listed_hosts_are_fetched(url: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        PictureFetcher(("pictures.example", "*.images.example"))(url)


def internet(monkeypatch: pytest.MonkeyPatch, port: int, names: dict[str, list[str]]) -> list[tuple[str, int]]:
    """Answer names with their addresses, one after another, and dial a port of this machine; return what is dialled."""
    dialled: list[tuple[str, int]] = []
    resolve, connect = socket.getaddrinfo, socket.create_connection

    def getaddrinfo(host: str, *given: Any, **more: Any) -> Any:
        if host not in names:
            return resolve(host, *given, **more)
        answers = names[host]
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    def create_connection(address: tuple[str, int], *given: Any, **more: Any) -> socket.socket:
        if address[1] != PORTS["http"]:
            return connect(address, *given, **more)
        dialled.append(address)
        return connect(("127.0.0.1", port), *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "create_connection", create_connection)
    return dialled


def redirect(location: str) -> Answer:
    return Answer(status=302, headers={"Location": location})


def test_the_address_that_was_checked_is_dialled_whatever_the_name_says_next(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"pictures.example": [PUBLIC, "127.0.0.1"]}
    with serving_pictures([PICTURE]) as port:
        dialled = internet(monkeypatch, port, names)
        fetch = PictureFetcher(("pictures.example",))
        assert fetch("http://pictures.example/a.png") == png(77)
        assert dialled == [(PUBLIC, 80)]
        with pytest.raises(BadInput, match="not public"):  # the name now says the second address
            fetch("http://pictures.example/a.png")
        assert dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://inside.example/a.png", "not public"),  # listed, too
        ("http://127.0.0.1/a.png", "fetches no pictures from"),
        ("http://169.254.169.254/", "fetches no pictures from"),
        ("file:///etc/passwd", "not a plain"),
    ],
)
def test_a_redirect_is_checked_like_the_first_url(location: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"pictures.example": [PUBLIC], "inside.example": ["10.0.0.1"]}
    with serving_pictures([redirect(location), PICTURE]) as port:
        dialled = internet(monkeypatch, port, names)
        with pytest.raises(BadInput, match=said):
            PictureFetcher(tuple(names))("http://pictures.example/a.png")
    assert dialled == [(PUBLIC, 80)]


def test_a_redirect_is_followed_three_times_and_its_name_is_resolved_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    other = "93.184.216.35"
    with serving_pictures([redirect("/b.png"), PICTURE]) as port:
        dialled = internet(monkeypatch, port, {"pictures.example": [PUBLIC, other]})
        assert PictureFetcher(("pictures.example",))("http://pictures.example/a.png") == png(77)
        assert dialled == [(PUBLIC, 80), (other, 80)]
    with serving_pictures([redirect("/again")]) as port, pytest.raises(CannotReach, match="more than 3 times"):
        internet(monkeypatch, port, {"pictures.example": [PUBLIC]})
        PictureFetcher(("pictures.example",))("http://pictures.example/a.png")


def test_a_server_fetches_pictures_from_the_hosts_it_was_given_and_no_others(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, tiny, count=3)
    names = {"pictures.example": [PUBLIC], "inside.example": ["192.168.0.1"], "other.example": [PUBLIC]}
    with serving_pictures([PICTURE]) as port:
        dialled = internet(monkeypatch, port, names)
        with client_of(tmp_path, picture_hosts=("pictures.example", "inside.example")) as client:
            new = [{"id": name, "image": f"http://{name}/a.png"} for name in names]
            report = client.post(f"{THINGS}/documents?ids=true", json=new).json()
            found = client.post(f"{THINGS}/search", json={"query": {"image": "http://pictures.example/a.png"}, "k": 1})
            kept = client.get(f"{THINGS}/documents/pictures.example/parts/0").content
    assert report["ids"]["added"] == ["pictures.example"]
    assert ["not public" in one["why"] for one in report["skipped"]] == [True, False]
    assert "fetches no pictures from 'other.example'" in report["skipped"][1]["why"]
    assert ([hit["id"] for hit in found.json()["hits"]], kept) == (["pictures.example"], png(77))
    assert dialled == [(PUBLIC, 80)] * 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b"x", headers={"Content-Type": "text/html"}), "is not a picture"),
        (Answer(b"x", 404, {"Content-Type": "image/png"}), "status 404"),
        (Answer(b"x" * 5000, headers={"Content-Type": "image/png"}), "larger than"),
        (Answer(never=True), "cannot be fetched|too long"),
    ],
)
def test_what_is_too_large_too_slow_or_no_picture_is_not_fetched(answer: Answer, said: str) -> None:
    with serving_pictures([answer]) as port, pytest.raises(CannotReach, match=said):
        fetch = to_port(("pictures.example",), lambda *_: [ip_address("127.0.0.1")], port)
        fetch("http://pictures.example/a.png")


def trickle(answer: Callable[[socket.socket], None]) -> tuple[int, Thread]:
    """Answer one request on a port of this machine, byte by byte; return the port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listening, suppress(OSError):  # the client may have had enough
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                answer(connection)

    thread = Thread(target=run)
    thread.start()
    return listening.getsockname()[1], thread


@pytest.mark.parametrize(
    ("slow", "after"),
    [(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100, b"\r\nContent-Type: image/png\r\n\r\nwhole"), (b"HTTP/1.1 2", b"00 OK")],
)
def test_headers_that_come_byte_by_byte_do_not_extend_the_time_of_a_picture(slow: bytes, after: bytes) -> None:
    pace = Event()

    def answer(connection: socket.socket) -> None:
        for byte in slow:
            connection.send(bytes([byte]))
            pace.wait(0.02)
        connection.send(after)

    port, thread = trickle(answer)
    fetch = to_port(("pictures.example",), lambda *_: [ip_address("127.0.0.1")], port)
    with pytest.raises(CannotReach):
        fetch("http://pictures.example/a.png", within=0.05)
    pace.set()
    thread.join()


def test_a_request_has_a_number_of_pictures_to_fetch_and_a_time_for_all_of_them() -> None:
    now = [0.0]

    def fetch(_: str, within: float) -> bytes:
        given.append(within)
        now[0] += 2
        return b"picture"

    given: list[float] = []
    budget = PictureBudget(fetch, count=3, seconds=5, clock=lambda: now[0])
    assert [budget("url") for _ in range(3)] == [b"picture"] * 3
    assert given == [5, 3, 1]
    for spent in (budget, PictureBudget(fetch, count=3, seconds=0)):
        with pytest.raises(BadInput, match="more pictures to fetch"):
            spent("url")


def test_pictures_beyond_the_number_of_a_request_are_skipped_and_said(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, tiny, count=3)
    url = "http://pictures.example/a.png"
    with serving_pictures([PICTURE, Answer(status=404), PICTURE]) as port:
        dialled = internet(monkeypatch, port, {"pictures.example": [PUBLIC]})
        limits = ServeLimits(fetches=3)
        with client_of(tmp_path, picture_hosts=("pictures.example",), limits=limits) as client:
            new = [{"id": f"p{number}", "image": url} for number in range(5)]
            report = client.post(f"{THINGS}/documents?ids=true", json=new).json()
            several = client.post(f"{THINGS}/search", json={"searches": [{"query": {"image": url}}] * 4})
            inputs = client.post("/v1/embeddings", json={"input": [{"image": url}] * 4})
            texts = client.post("/v1/rerank", json={"query": "a cat", "documents": [{"image": url}] * 4})
    assert report["ids"]["added"] == ["p0", "p2"]
    assert ["status 404" in one["why"] for one in report["skipped"]] == [True, False, False]
    assert ["more pictures to fetch" in one["why"] for one in report["skipped"]] == [False, True, True]
    assert [one.status_code for one in (several, inputs, texts)] == [400] * 3
    assert len(dialled) == 4 * 3
