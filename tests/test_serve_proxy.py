"""The server behind the proxies of docs/operate.md, as they are documented; ``make test-all`` has Debian's programs."""

from __future__ import annotations

import json
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

import needed
from serving import THINGS, address_of, fill, until
from test_serve_process import HIDDEN, SMUGGLING

pytestmark = pytest.mark.install
DOCS = Path(__file__).parent.parent / "docs/operate.md"
NAME = "search.example.org"
ORIGIN = f"https://{NAME}"


@dataclass(frozen=True)
class Proxy:
    """A proxy on a port of this machine, as a client that trusts any certificate sees it."""

    port: int

    def connected(self) -> ssl.SSLSocket:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        return trusting.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 30), server_hostname=NAME)

    def ask(self, method: str, place: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Send a request of the page; a body that is no object is sent in chunks."""
        connection = HTTPSConnection("127.0.0.1", self.port, timeout=60)
        connection.sock = self.connected()
        given = {"Host": NAME, "Content-Type": "application/json", "Origin": ORIGIN}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            data = json.dumps(body).encode() if isinstance(body, dict) else body
            connection.request(method, place, data, given, encode_chunked=True)
            answer = connection.getresponse()
            said = answer.read()
            return answer.status, json.loads(said) if said.startswith(b"{") else said
        finally:
            connection.close()

    def talk(self, sent: bytes) -> bytes:
        """Send bytes, and return everything that comes until the proxy closes the connection."""
        said = b""
        with self.connected() as connection, suppress(OSError):
            connection.sendall(sent)
            while piece := connection.recv(65536):
                said += piece
        return said


def documented(kind: str) -> str:
    """Return the configuration in the documentation."""
    found = re.search(rf"```{kind}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def nginx(folder: Path, port: int, server: str) -> list[str]:
    """Write nginx's configuration, with the documented server in it, and return the command."""
    made = ["-keyout", str(folder / "search.key"), "-out", str(folder / "search.pem"), "-subj", f"/CN={NAME}"]
    command = [needed.program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *made]
    subprocess.run(command, check=True, capture_output=True)
    own = replaced(
        documented("nginx"),
        {"listen 443 ssl": f"listen 127.0.0.1:{port} ssl", "/etc/ssl/": f"{folder}/", "http://127.0.0.1:8080": server},
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}{own}}}\n"
    )
    command = [
        needed.program("nginx"),
        "-p",
        str(folder),
        "-c",
        str(folder / "nginx.conf"),
        "-e",
        str(folder / "errors"),
    ]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr
    return command


def caddy(folder: Path, port: int, server: str) -> list[str]:
    """Write Caddy's configuration, with certificates of its own, and return the command."""
    given = documented("caddy")
    settings = f"{{\nadmin off\nskip_install_trust\nauto_https disable_redirects\nstorage file_system {folder}\n}}\n"
    site = f"https://{NAME}:{port} {{\nbind 127.0.0.1\ntls internal\n"
    changed = replaced(given, {f"{NAME} {{": settings + site, "127.0.0.1:8080": server.removeprefix("http://")})
    for name, text in (("documented", given), ("Caddyfile", changed)):
        (folder / name).write_text(text)
        command = [needed.program("caddy"), "adapt", "--adapter", "caddyfile", "--config", str(folder / name)]
        checked = subprocess.run(command, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
    return [needed.program("caddy"), "run", "--adapter", "caddyfile", "--config", str(folder / "Caddyfile")]


def replaced(text: str, names: dict[str, str]) -> str:
    for old, new in names.items():
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def running(command: list[str], proxy: Proxy, folder: Path) -> Iterator[Proxy]:
    def answers() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        with suppress(OSError, HTTPException):
            return proxy.ask("GET", "/health")[0] == 200
        return False

    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, env={"HOME": str(folder), "PATH": "/usr/bin"})
    try:
        until(answers)
        yield proxy
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    root = tmp_path_factory.mktemp("behind")
    fill(root, tiny, count=6)
    with address_of(root, allowed_hosts=(NAME,), allowed_origins=(ORIGIN,)) as address:
        yield address


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Proxy]:
    folder, port = tmp_path_factory.mktemp("proxy"), free_port()
    with running(request.param(folder, port, server), Proxy(port), folder) as proxy:
        yield proxy


def test_the_documented_proxy_passes_searches_and_the_page_on_but_no_metrics(proxy: Proxy) -> None:
    status, found = proxy.ask("POST", f"{THINGS}/search", {"query": "a red cat", "k": 2})
    assert (status, len(found["hits"])) == (200, 2)
    assert proxy.ask("GET", "/")[0] == 200
    assert proxy.ask("GET", "/metrics")[0] == 403
    assert proxy.ask("GET", "/health", Origin="https://evil.example")[0] == 403


def test_the_documented_proxy_passes_documents_on_while_they_arrive(proxy: Proxy, server: str) -> None:
    host, _, port = server.removeprefix("http://").partition(":")

    def count() -> int:
        connection = HTTPConnection(host, int(port), timeout=60)
        connection.request("GET", THINGS)
        found = json.loads(connection.getresponse().read())
        connection.close()
        return int(found["documents"])

    before = count()

    def lines() -> Iterator[bytes]:
        for number in range(300):
            yield f'{{"id": "n{proxy.port}-{number}", "text": "a cat"}}\n'.encode()
        until(lambda: count() >= before + 256)  # the first batch is there before the last line has been sent
        yield f'{{"id": "n{proxy.port}-last", "text": "a cat"}}\n'.encode()

    kind = "application/x-ndjson"
    status, report = proxy.ask("POST", f"{THINGS}/documents", lines(), Content_Type=kind, Transfer_Encoding="chunked")
    assert (status, report["added"]) == (200, 301)


@pytest.mark.parametrize("name", SMUGGLING)
def test_no_request_that_a_proxy_refuses_is_smuggled_through_it(proxy: Proxy, server: str, name: str) -> None:
    """The proxy refuses /metrics: whoever gets them by a request hidden in another one has smuggled it."""
    hidden = f"GET /metrics HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n".encode()
    sent = SMUGGLING[name][0]
    assert HIDDEN in sent
    before = told_metrics(server)
    assert b"isthmus_requests" not in proxy.talk(sent.replace(HIDDEN, hidden).replace(b"localhost", NAME.encode()))
    for _ in range(3):  # what was left on a connection to the server would come before these
        assert proxy.ask("GET", THINGS)[0] == 200
    assert told_metrics(server) == before + 1  # that of the line above


def told_metrics(server: str) -> int:
    """Ask the server itself how often it has told its metrics."""
    host, _, port = server.removeprefix("http://").partition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", "/metrics", headers={"Host": NAME})
    said = connection.getresponse().read().decode()
    connection.close()
    found = re.search(r'isthmus_requests_total\{method="GET",route="/metrics",status="200"\} (\d+)', said)
    return 0 if found is None else int(found[1])
