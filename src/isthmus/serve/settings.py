"""The settings of a server."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from pathlib import Path

from isthmus.budget import MIB
from isthmus.encoders.runtime import Runtime
from isthmus.errors import BadInput

MODELS = ("mini", "base")  # encoders and rerankers that requests may name: those of the package
ALIGNERS = ("none", "auto", "caption", "forge-mini")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
HOST = re.compile(rf"{NAME}|(?=.*:.*:)[0-9A-Fa-f:.]+")  # without a scheme and a port
PICTURES = re.compile(rf"(?:\*\.)?{NAME}")
ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s?#@A-Z*]+")  # as browsers write it: in lower case, and no slash behind


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeLimits:
    """What one request may cost. Sizes are in bytes, times in seconds."""

    body: int = 64 * MIB  # a JSON body, a line of NDJSON, a file of an upload
    upload: int = 1024 * MIB  # a whole NDJSON stream, or all files of an upload
    held: int = 512 * MIB  # JSON bodies of all requests together, in memory
    uploads: int = 32  # NDJSON streams and uploads that arrive at the same time
    pixels: int = 50_000_000  # a picture
    duration: float = 7200.0  # a sound or a video, of those that are decoded
    seconds: float = 60.0  # the work of a request
    slow: float = 20.0  # between two pieces of a body, and for the headers of a request
    rate: float = 0.0  # requests per second and client; 0: no limit
    waiting: int = 256  # requests that run or wait for a thread
    hits: int = 1000  # k of a search
    depth: int = 10_000  # offset + k of a search
    queries: int = 256  # searches in one request
    fetches: int = 256  # pictures that are fetched by their URLs
    inputs: int = 2048  # texts of /v1/embeddings, documents of /v1/rerank

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "rate" and not value > 0:
                raise BadInput(f"The limit {name} is {value}; it must be more than 0.")
        if self.held < self.body:
            raise BadInput(f"held is {self.held:,} bytes; it must be at least body, {self.body:,} bytes.")
        if self.rate < 0:
            raise BadInput(f"The rate is {self.rate}; it must not be negative. 0 sets no limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What is served, where, and to whom.

    paths            collections, or folders whose ``*.isthmus`` subfolders are the collections
    runtime          how encoders run: device, threads, precision
    keys             the file of API keys (``isthmus keys``); without one, only this machine may ask
    models           encoders, aligners and rerankers that a request may name, beside those of the package
    picture_hosts    hosts from which pictures are fetched, as ``images.example.org`` or ``*.example.org``
    allowed_hosts    names of this server in the Host header, beside those of this machine
    allowed_origins  other origins whose pages may call this server, as ``https://app.example.org``
    batch            searches that run together at most, in one run of the encoder; 1: each runs alone
    """

    paths: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 8080
    keys: Path | None = None
    runtime: Runtime = field(default_factory=Runtime)
    workers: int = 4
    batch: int = 64
    models: tuple[str, ...] = ()
    picture_hosts: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    limits: ServeLimits = ServeLimits()

    def __post_init__(self) -> None:
        if not self.paths:
            raise BadInput("Name a collection to serve, or a folder of collections.")
        if not is_loopback(self.host) and self.keys is None:
            raise BadInput(
                f"The host {self.host} can be reached from other machines, and there are no keys. Make some with "
                "`isthmus keys create --keys keys.json --name NAME` and add --keys keys.json, or keep --host 127.0.0.1."
            )
        if self.workers < 1:
            raise BadInput(f"workers is {self.workers}; at least 1 thread is needed.")
        if self.batch < 1:
            raise BadInput(f"batch is {self.batch}; it must be at least 1, which runs each search alone.")
        for option, given, pattern, example in (
            ("allowed-host", self.allowed_hosts, HOST, "search.example.org"),
            ("allowed-origin", self.allowed_origins, ORIGIN, "https://app.example.org"),
            ("picture-host", self.picture_hosts, PICTURES, "images.example.org or *.example.org"),
        ):
            for one in given:
                if not pattern.fullmatch(one):
                    raise BadInput(f"--{option} {one} would never match. Write it as in {example}.")

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach the server."""
        return not is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine alone.

    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
