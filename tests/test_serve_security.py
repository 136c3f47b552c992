"""What the server refuses, and what it never says. docs/security.md names the test of each threat."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import json
import logging
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from shutil import copytree
from typing import Any

import httpx2
import pytest
from filelock import FileLock
from PIL import Image
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from typer.testing import CliRunner

from isthmus.cli import app
from isthmus.errors import BadFile, BadInput, CannotWrite
from isthmus.serve import keys, run
from isthmus.serve.bodies import JSON, LINES
from isthmus.serve.catalog import Catalog
from isthmus.serve.errors import Refused
from isthmus.serve.guards import HEADERS, BodyGuard
from isthmus.serve.keys import KeyRing, create_key, read_keys, revoke_key
from isthmus.serve.limits import RateLimit
from isthmus.serve.logs import JsonLines
from isthmus.serve.settings import ServeLimits, ServeSettings
from serving import THINGS, client_of, data_url, fill, png


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("secure")
    fill(root, tiny, count=6)
    fill(root, tiny, "other", count=3)
    return root


@pytest.fixture(scope="module")
def client(filled: Path) -> Iterator[TestClient]:
    """A client that only reads."""
    with client_of(filled, limits=ServeLimits(body=200_000, upload=300_000)) as client:
        yield client


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    return copytree(filled, tmp_path / "root")


# --- who may ask, and for whom -------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "a@localhost", "", "["])
def test_a_request_for_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get("/v1/collections", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST"])
def test_a_request_for_this_machine_is_answered(client: TestClient, host: str) -> None:
    assert client.get("/v1/collections", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost", "http://localhost:1"])
def test_a_page_of_another_site_is_refused(client: TestClient, origin: str) -> None:
    for method, place in (("GET", "/v1/collections"), ("POST", f"{THINGS}/search"), ("DELETE", THINGS)):
        assert client.request(method, place, headers={"Origin": origin}).status_code == 403
    assert client.get("/v1/collections", headers={"Origin": "http://localhost"}).status_code == 200


def test_a_page_of_another_site_cannot_load_pictures_but_may_link_here(client: TestClient) -> None:
    for site in ("cross-site", "same-site"):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
        assert client.get(f"{THINGS}/documents/d0-1/parts/0", headers=headers).status_code == 403
        assert client.get("/", headers={"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get(f"{THINGS}/documents/d0-1/parts/0", headers={"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_an_allowed_origin_and_an_allowed_host_pass(filled: Path) -> None:
    with client_of(filled, allowed_origins=("https://app.example",), allowed_hosts=("search.example",)) as client:
        headers = {"Origin": "https://app.example", "Host": "search.example"}
        answer = client.get("/v1/collections", headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://app.example")
        other = client.get("/v1/collections", headers={**headers, "Origin": "https://evil.example"})
        assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)


def test_the_address_that_is_listened_to_is_a_name_of_this_machine(filled: Path) -> None:
    with client_of(filled, host="127.0.0.2") as client:
        for host, status in (("127.0.0.2:8080", 200), ("localhost", 200), ("127.0.0.3", 421)):
            assert client.get("/v1/collections", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("option", "right", "wrong"),
    [
        (
            "allowed_hosts",
            ("search.example.org", "Search", "10.0.0.2", "::1"),
            ("https://a.example", "a.example:80", "*", "[::1]", "a.example/", ""),
        ),
        (
            "allowed_origins",
            ("https://app.example.org", "http://a.example:8080", "http://[::1]:1", "app://localhost"),
            ("https://app.example.org/", "app.example.org", "*", "https://*.example.org", "https://App.example.org"),
        ),
        (
            "picture_hosts",
            ("images.example.org", "*.example.org"),
            ("https://images.example.org", "*", "images.*", "images.example.org:443"),
        ),
    ],
)
def test_a_host_or_an_origin_that_would_never_match_is_refused_at_the_start(
    tmp_path: Path, option: str, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    settings = ServeSettings(paths=(tmp_path,))
    assert getattr(replace(settings, **{option: right}), option) == right  # type: ignore[arg-type]
    for one in wrong:
        with pytest.raises(BadInput, match="would never match"):
            replace(settings, **{option: (one,)})  # type: ignore[arg-type]


def test_an_allowed_host_matches_whatever_its_letters_are(filled: Path) -> None:
    with client_of(filled, allowed_hosts=("Search.Example",)) as client:
        assert client.get("/v1/collections", headers={"Host": "sEARCH.example:443"}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_form_of_another_site_cannot_send_json(client: TestClient, kind: str) -> None:
    headers = {"Content-Type": kind}
    for place in (f"{THINGS}/search", f"{THINGS}/documents", "/v1/collections", "/v1/embeddings"):
        assert client.post(place, content=b'{"query": "cat"}', headers=headers).status_code == 415


def test_without_keys_only_this_machine_is_listened_to(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.0.2", "example.org"):  # noqa: S104
        with pytest.raises(BadInput, match="there are no keys"):
            ServeSettings(paths=(tmp_path,), host=host)
    assert ServeSettings(paths=(tmp_path,), host="127.0.0.3").is_open is False


# --- keys ----------------------------------------------------------------------------------------------------------


def test_a_key_may_do_what_its_scope_and_collections_say(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    scopes = [("read", ()), ("read", ("other",)), ("write", ("things",)), ("admin", ())]
    tokens = [create_key(file, "test", scope, collections)[1] for scope, collections in scopes]
    asked: list[tuple[str, str, Any]] = [
        ("GET", f"{THINGS}/stats", None),
        ("POST", f"{THINGS}/search", {"query": "cat"}),
        ("POST", f"{THINGS}/documents", {"id": "new", "text": "a cat"}),
        ("POST", f"{THINGS}/calibration", {"spec": "wrong"}),
        ("POST", "/v1/collections", {"name": "../x"}),
        ("GET", "/metrics", None),
        ("GET", "/v1/models", None),
    ]
    right = [
        [401, 401, 401, 401, 401, 401, 401],
        [200, 200, 403, 403, 403, 200, 200],
        [403, 403, 403, 403, 403, 403, 200],
        [200, 200, 200, 403, 403, 403, 200],
        [200, 200, 200, 400, 400, 200, 200],
    ]
    with client_of(root, keys=file) as client:
        for token, statuses in zip((None, *tokens), right, strict=True):
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            found = [client.request(how, place, json=body, headers=headers) for how, place, body in asked]
            assert [one.status_code for one in found] == statuses
        one = client.get("/v1/collections", headers={"Authorization": f"Bearer {tokens[1]}"}).json()
        assert [each["name"] for each in one["collections"]] == ["other"]
        assert client.get("/health").status_code == client.get("/ready").status_code == 200


NAMED = "/v1/collections/{name}"
NEEDS = {  # every route of the OpenAPI, and the scope that it needs
    "GET /health": None,
    "GET /ready": None,
    "GET /metrics": "read",
    "GET /v1/models": "read",
    "POST /v1/embeddings": "read",
    "POST /v1/rerank": "read",
    "POST /v2/rerank": "read",
    "GET /v1/collections": "read",
    "POST /v1/collections": "admin",
    f"GET {NAMED}": "read",
    f"DELETE {NAMED}": "admin",
    f"GET {NAMED}/stats": "read",
    f"GET {NAMED}/values": "read",
    f"GET {NAMED}/maps": "read",
    f"GET {NAMED}/search": "read",
    f"POST {NAMED}/search": "read",
    f"GET {NAMED}/calibration": "read",
    f"POST {NAMED}/calibration": "admin",
    f"PUT {NAMED}/calibration": "admin",
    f"GET {NAMED}/diagnose": "read",
    f"POST {NAMED}/diagnose": "write",
    f"GET {NAMED}/jobs": "read",
    f"GET {NAMED}/jobs/{{job}}": "read",
    f"DELETE {NAMED}/jobs/{{job}}": "write",
    f"GET {NAMED}/documents": "read",
    f"POST {NAMED}/documents": "write",
    f"POST {NAMED}/documents/get": "read",
    f"POST {NAMED}/documents/delete": "write",
    f"GET {NAMED}/documents/{{id}}": "read",
    f"PATCH {NAMED}/documents/{{id}}": "write",
    f"DELETE {NAMED}/documents/{{id}}": "write",
    f"GET {NAMED}/documents/{{id}}/parts/{{part}}": "read",
    f"GET {NAMED}/documents/{{id}}/similar": "read",
    f"POST {NAMED}/documents/{{id}}/similar": "read",
    f"POST {NAMED}/documents/{{id}}/maps": "read",
}
ANYWHERE = ("/v1/models", "/v1/embeddings", "/v1/rerank", "/v2/rerank")  # for a key of any collection


def test_every_route_needs_the_scope_of_the_table_and_refuses_a_key_without_it(filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    tokens = {scope: create_key(file, scope, scope)[1] for scope in ("read", "write", "admin")}
    elsewhere = create_key(file, "elsewhere", "admin", ("other",))[1]
    with client_of(filled, keys=file) as client:
        described = client.get("/openapi.json").json()["paths"]
        assert {f"{how.upper()} {path}" for path, all_of_it in described.items() for how in all_of_it} == set(NEEDS)

        def status(route: str, token: str | None) -> int:
            how, path = route.split()
            place = path.format(name="nothing", id="nothing", part=0, job="nothing")
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            return client.request(how, place, headers=headers).status_code

        for route, scope in NEEDS.items():
            right = {name: list(tokens).index(name) >= list(tokens).index(scope or "read") for name in tokens}
            assert (status(route, None) == 401) == (scope is not None), route
            found = {name: status(route, token) for name, token in tokens.items()}
            assert {name: code not in (401, 403) for name, code in found.items()} == right, (route, found)
            may = scope is None or route.endswith((*ANYWHERE, "GET /v1/collections"))
            assert (status(route, elsewhere) == 403) == (not may), route


def test_a_wrong_key_and_a_revoked_key_are_refused_at_once(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key, token = create_key(file, "test")
    with client_of(root, keys=file) as client:
        wrong = [
            token[:-1] + ("A" if token[-1] != "A" else "B"),
            token.replace(key.id, "00000000"),
            "x",
            "",
            f"{token} ",
        ]
        right = client.get("/v1/collections", headers={"Authorization": f"Bearer {token}"})
        found = [client.get("/v1/collections", headers={"Authorization": f"Bearer {one}"}) for one in wrong[:4]]
        basic = client.get("/v1/collections", headers={"Authorization": f"Basic {token}"})
        assert [right.status_code, *(one.status_code for one in (*found, basic))] == [200, 401, 401, 401, 401, 401]
        assert found[0].headers["www-authenticate"] == "Bearer"
        revoke_key(file, key.id)
        gone = client.get("/v1/collections", headers={"Authorization": f"Bearer {token}"})
        assert (gone.status_code, "wrong, or was revoked" in gone.json()["error"]["message"]) == (401, True)
        assert "needs a key" in client.get("/v1/collections").json()["error"]["message"]


def test_keys_that_cannot_be_read_let_nobody_in_and_are_a_fault_of_the_server(
    filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    _, token = create_key(file, "test")
    kept = file.read_bytes()
    with client_of(filled, keys=file) as client:

        def asked() -> httpx2.Response:
            return client.get("/v1/collections", headers={"Authorization": f"Bearer {token}"})

        for broken in (file.unlink, lambda: file.write_text("not json")):
            broken()
            answer = asked()
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "keys.json" not in answer.text
        assert any(one.exc_info and str(file) in str(one.exc_info[1]) for one in caplog.records)
        file.write_bytes(kept)
        assert asked().status_code == 200


class Unequal(str):
    """A hash that may not be compared byte by byte until the first difference, as == does."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a hash was compared with ==")

    __ne__ = __eq__


def test_hashes_of_keys_are_compared_in_constant_time_also_if_there_is_no_such_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys.json"
    key, token = create_key(file, "test")
    monkeypatch.setattr(
        keys, "read_keys", lambda path: [replace(one, hash=Unequal(one.hash)) for one in read_keys(path)]
    )
    compared: list[int] = []
    compare = hmac.compare_digest

    def counted(one: str, other: str) -> bool:
        compared.append(len(other))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    ring = KeyRing(file)
    wrong = [token[:-1] + ("A" if token[-1] != "A" else "B"), token.replace(key.id, "00000000"), "x", ""]
    found = [ring.find(one) for one in (token, *wrong)]
    assert [one is not None for one in found] == [True, False, False, False, False]
    assert compared == [64] * 5


def test_the_file_of_keys_holds_hashes_that_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    key, token = create_key(file, "test", "write", ["things"])
    secret = token.rpartition("_")[2]
    assert secret not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_keys(file) == [key]
    assert KeyRing(file).find(token) == key
    file.write_text('{"keys": [{"id": "x"}]}')
    with pytest.raises(BadFile, match="not a file of keys"):
        KeyRing(file)


def test_keys_that_are_made_and_revoked_at_the_same_time_are_neither_lost_nor_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys.json"
    old = [create_key(file, f"old {n}")[0] for n in range(8)]
    with ThreadPoolExecutor(16) as threads:
        made = [threads.submit(create_key, file, f"new {n}") for n in range(8)]
        gone = [threads.submit(revoke_key, file, key.id) for key in old]
    assert {each.result() for each in gone} == set(old)
    assert {key.id for key in read_keys(file)} == {each.result()[0].id for each in made}
    monkeypatch.setattr(keys, "PATIENCE", 0)
    with (
        FileLock(tmp_path / "keys.json.lock"),
        pytest.raises(CannotWrite, match="are being changed by another process"),
    ):
        create_key(file, "late")
    with pytest.raises(CannotWrite, match=r"there is no folder .*nowhere"):
        create_key(tmp_path / "nowhere" / "keys.json", "lost")


def test_keys_are_made_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    file = str(tmp_path / "keys.json")
    run = CliRunner().invoke
    made = run(app, ["keys", "create", "--keys", file, "--name", "laptop", "--scope", "write", "--collection", "a"])
    token = made.stdout.strip()
    key = KeyRing(Path(file)).find(token)
    assert key is not None
    assert (key.name, key.scope, key.collections) == ("laptop", "write", ("a",))
    listed = run(app, ["keys", "list", "--keys", file]).output
    assert key.id in listed
    assert token not in listed
    assert key.hash not in run(app, ["keys", "list", "--keys", file, "--json"]).output
    assert "Revoked" in run(app, ["keys", "revoke", key.id, "--keys", file]).output
    assert "no keys" in run(app, ["keys", "list", "--keys", file]).output


# --- what a request may cost ---------------------------------------------------------------------------------------


def test_a_body_over_the_limit_is_refused_with_and_without_its_length(client: TestClient) -> None:
    body = json.dumps({"query": "x" * 200_000}).encode()
    headers = {"Content-Type": "application/json"}
    assert client.post(f"{THINGS}/search", content=body, headers=headers).status_code == 413
    pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
    assert client.post(f"{THINGS}/search", content=pieces, headers=headers).status_code == 413
    line = b'{"id": "a", "text": "' + b"x" * 200_000
    lines = {"Content-Type": "application/x-ndjson"}
    for given in (line, b"\n" * 300_001):
        pieces = (given[at : at + 1000] for at in range(0, len(given), 1000))
        assert client.post(f"{THINGS}/documents", content=pieces, headers=lines).status_code == 413


def test_a_body_may_be_larger_than_what_bodies_usually_hold_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[ServeSettings] = []
    monkeypatch.setattr(run, "run", lambda settings, _: given.append(settings))
    for size in ("1", "1024"):
        assert CliRunner().invoke(app, ["serve", str(tmp_path), "--max-body", size]).exit_code == 0
    assert [(one.limits.body >> 20, one.limits.held >> 20) for one in given] == [(1, 512), (1024, 1024)]


@pytest.mark.parametrize(("kind", "said"), [(JSON, "take as much memory"), (LINES[0], "As many uploads")])
def test_what_arrives_at_the_same_time_is_limited_for_all_requests_together(
    tmp_path: Path, kind: str, said: str
) -> None:
    settings = ServeSettings(paths=(tmp_path,), limits=ServeLimits(body=10, held=15, uploads=1))
    told: list[bytes] = []

    async def body() -> Message:
        return {"type": "http.request", "body": b"x" * 10, "more_body": False}

    async def send(message: Message) -> None:
        told.append(message.get("body", b""))

    async def work() -> None:
        arrived, over = asyncio.Event(), asyncio.Event()

        async def app(_: Scope, receive: Receive, __: Send) -> None:
            await receive()
            arrived.set()
            await over.wait()

        guard = BodyGuard(app, settings, LINES)
        scope = {"type": "http", "headers": [(b"content-type", kind.encode())]}
        first = asyncio.ensure_future(guard(scope, body, send))
        await arrived.wait()
        try:
            await guard(scope, body, send)
        except Refused as error:  # from a body that is being read; a route turns it into an answer
            told.append(str(error).encode())
        over.set()
        await first
        assert said in b"".join(told).decode()
        await guard(scope, body, send)
        assert (guard.held, guard.arriving) == (0, 0)

    asyncio.run(work())


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
def test_a_compressed_body_is_not_read(client: TestClient, coding: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": coding}
    bomb = gzip.compress(b'{"query": "' + b"x" * 10_000_000 + b'"}')
    assert client.post(f"{THINGS}/search", content=bomb, headers=headers).status_code == 415


def test_a_picture_over_the_limit_of_pixels_is_skipped_before_it_is_decoded(root: Path) -> None:
    bomb = BytesIO()
    Image.new("1", (3000, 3000)).save(bomb, "PNG")
    with client_of(root, limits=ServeLimits(pixels=1_000_000)) as client:
        sent = client.post(f"{THINGS}/documents", json={"id": "bomb", "image": data_url(bomb.getvalue())}).json()
        assert "pixels" in sent["skipped"][0]["why"]
        asked = client.post(f"{THINGS}/search", json={"query": {"image": data_url(bomb.getvalue())}})
        assert asked.status_code == 422


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"query": ' * 5000, b'{"k": ' + b"9" * 5000 + b"}", b"{", b"\xff\xfe", b"NaN", b""]
)
def test_hostile_json_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post(f"{THINGS}/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


def test_json_that_would_take_far_more_memory_than_its_text_is_refused(filled: Path) -> None:
    body = b'{"query": [' + b"[]," * 5_000_000 + b"[]]}"
    with client_of(filled) as client:
        answer = client.post(f"{THINGS}/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413


def test_more_requests_than_the_rate_are_told_when_to_come_again(filled: Path) -> None:
    with client_of(filled, limits=ServeLimits(rate=0.01)) as client:
        first, second = (client.get("/v1/collections") for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 429)
    assert int(second.headers["retry-after"]) >= 1


def test_a_bucket_fills_again_with_time_and_each_client_has_its_own() -> None:
    now = 0.0
    limit = RateLimit(2.0, lambda: now)
    assert [limit.wait("a") for _ in range(5)] == [0, 0, 0, 0, 1]
    assert limit.wait("b") == 0
    now = 0.5
    assert [limit.wait("a") for _ in range(2)] == [0, 1]


# --- what an answer says -------------------------------------------------------------------------------------------


def test_every_answer_has_the_security_headers(client: TestClient) -> None:
    for place in ("/", "/health", "/v1/collections", f"{THINGS}/documents/d0-1/parts/0", "/nothing", "/openapi.json"):
        headers = client.get(place).headers
        assert {name: headers[name] for name in HEADERS} == dict(HEADERS)
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_the_page_has_no_script_inside_one_style_and_names_no_other_host(client: TestClient) -> None:
    text = client.get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|javascript:", text, re.IGNORECASE)
    assert text.count("<style") == 1  # its digest is in the policy
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)


def test_an_unexpected_error_says_nothing_but_the_id_that_the_log_has(
    filled: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Catalog) -> list[str]:
        raise RuntimeError("secret of /srv/private")

    with client_of(filled) as client:
        monkeypatch.setattr(Catalog, "names", fail)
        with caplog.at_level(logging.ERROR, "isthmus.serve"):
            answer = client.get("/v1/collections")
    assert (answer.status_code, "secret" in answer.text, "private" in answer.text) == (500, False, False)
    assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS)
    error = answer.json()["error"]
    assert answer.headers["x-request-id"] == error["request_id"]
    logged = [one for one in caplog.records if getattr(one, "request_id", "") == error["request_id"]]
    assert "secret of /srv/private" in str(logged[0].exc_info)


def test_a_request_id_is_taken_only_if_it_is_plain(client: TestClient) -> None:
    assert client.get("/health", headers={"X-Request-ID": "abc-12345"}).headers["x-request-id"] == "abc-12345"
    for wrong in ("short", "a b c d e f g h", "<script>alert(1)</script>", "x" * 65):
        assert client.get("/health", headers={"X-Request-ID": wrong}).headers["x-request-id"] != wrong


@pytest.mark.parametrize("place", ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/%00", "//etc/passwd", "/app.py"])
def test_nothing_outside_the_page_is_served(client: TestClient, place: str) -> None:
    assert client.get(place).status_code in (400, 404)


def test_what_is_no_picture_is_never_sent_as_something_a_browser_runs(root: Path) -> None:
    page = data_url(b"<html><script>alert(1)</script></html>")
    new = {"id": "page", "image": page, "vectors": {"image": [1.0] * 8}}
    with client_of(root) as client:
        client.post(f"{THINGS}/documents", json=new)
        answer = client.get(f"{THINGS}/documents/page/parts/0")
    assert answer.status_code == 422
    assert "script" not in answer.text


def test_an_uploaded_table_reads_no_file_but_those_of_its_upload(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(png(5))
    rows = [
        {"id": "absolute", "image": str(tmp_path / "secret.png")},
        {"id": "vectors", "image": str(tmp_path / "secret.png"), "vectors": {"image": [1.0] * 8}},
        {"id": "above", "image": "../../../../../../../../../../" + str(tmp_path / "secret.png")},
        {"id": "part", "parts": [{"kind": "image", "path": str(tmp_path / "secret.png")}]},
        {"id": "beside", "text": "a cat", "image": "own.png"},
    ]
    table = "".join(json.dumps(row) + "\n" for row in rows).encode()
    with client_of(root) as client:
        files = [("files", ("table.jsonl", table, "text/plain")), ("files", ("own.png", png(6), "image/png"))]
        report = client.post(f"{THINGS}/documents", files=files).json()
        ids = [one["id"] for one in client.get(f"{THINGS}/documents", params={"limit": 200}).json()["documents"]]
    assert [name for name in ids if not name.startswith("d0-")] == ["own.png", "table.jsonl#beside"]
    assert len([one for one in report["skipped"] if "not in this upload" in one["why"]]) == 4


# --- what is written down ------------------------------------------------------------------------------------------


def test_the_log_says_what_happened_and_not_what_was_asked(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, token = create_key(tmp_path / "keys.json", "test")
    with client_of(root, keys=tmp_path / "keys.json") as client, caplog.at_level(logging.INFO, "isthmus.serve"):
        headers = {"Authorization": f"Bearer {token}"}
        client.post(f"{THINGS}/search", json={"query": "my secret"}, headers=headers)
        client.get(f"{THINGS}/documents/a%0Aforged", headers=headers)
    lines = [JsonLines().format(one) for one in caplog.records]
    first, second = map(json.loads, lines)
    assert (first["route"], first["status"], first["key"]) == ("/v1/collections/{name}/search", 200, key.id)
    assert second["route"] == "/v1/collections/{name}/documents/{id}"
    assert not [line for line in lines if "secret" in line or "forged" in line or token in line or "\n" in line]


def test_every_threat_has_a_test_that_exists() -> None:
    here = Path(__file__).parent
    files = (*here.glob("test_serve*.py"), here / "test_mcp.py")
    tests = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))}
    rows = [line for line in (here.parent / "docs/security.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 20
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row.split(" | ")[-1])
        assert named, row
        assert set(named) <= tests, row
