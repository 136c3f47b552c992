"""Pictures by URL: only from listed hosts, never from private addresses, and never more than a picture may have.

A name is resolved once. Every address it has must be public, and the connection goes to an address that was checked:
a name that changes its answer between check and connection (DNS rebinding) gains nothing. A redirect is a new URL,
checked like the first. Proxies of the environment are not used: they would resolve the name again.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from threading import Timer
from typing import TypeAlias
from urllib.parse import SplitResult, urljoin, urlsplit

from isthmus._optional import offline
from isthmus.budget import MIB, mebibytes
from isthmus.errors import BadInput, CannotReach, shown

Address: TypeAlias = IPv4Address | IPv6Address
REDIRECTS = 3
LARGEST = 32 * MIB
SECONDS = 10.0  # for a picture, with its redirects
CHUNK = 65_536
PORTS = {"http": 80, "https": 443}
NAT64 = re.compile(r"64:ff9b:(?:1:)?")


def is_public(address: Address) -> bool:
    """Whether an address is of the open internet, also where an IPv4 address is wrapped in an IPv6 one.

    >>> [is_public(ip_address(each)) for each in ("93.184.216.34", "10.0.0.1", "::1", "::ffff:127.0.0.1")]
    [True, False, False, False]
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None:
            return False  # a detour that no host of pictures needs
        if NAT64.match(address.compressed) or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def addresses(host: str, port: int) -> list[Address]:
    """Return the addresses of a name."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise CannotReach(f"The host {shown(host)} is not known.") from None
    return [ip_address(str(one[4][0]).partition("%")[0]) for one in found]


def connected(address: Address, port: int, seconds: float) -> socket.socket:
    """Connect to an address."""
    return socket.create_connection((str(address), port), seconds)


@dataclass(frozen=True, slots=True)
class PictureFetcher:
    """Fetches pictures from the hosts of a list, as ``images.example.org`` or ``*.example.org``."""

    hosts: tuple[str, ...] = ()
    resolve: Callable[[str, int], list[Address]] = addresses
    public: Callable[[Address], bool] = is_public
    connect: Callable[[Address, int, float], socket.socket] = connected
    seconds: float = SECONDS
    largest: int = LARGEST

    def __call__(self, url: str, within: float | None = None) -> bytes:
        """Return the bytes of a picture; ``within``: fewer seconds than ``seconds``, if fewer are left."""
        if not self.hosts:
            raise BadInput("This server fetches no pictures. Send the picture itself, as a data: URL.")
        if offline():
            raise CannotReach("Offline is set, so no picture is fetched. Send the picture itself, as a data: URL.")
        deadline = time.monotonic() + min(self.seconds, self.seconds if within is None else within)
        for _ in range(REDIRECTS + 1):
            found = self._get(url, deadline)
            if isinstance(found, bytes):
                return found
            url = urljoin(url, found)
        raise CannotReach(f"The picture at {shown(url)} is redirected more than {REDIRECTS} times.")

    def checked(self, url: str) -> tuple[SplitResult, str, int, Address]:
        """Return a URL in parts, with its host, port and an address to connect to; reject what is not allowed."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip(".").lower(), parts.port
        except ValueError:
            raise BadInput(f"{shown(url)} is not a URL.") from None
        if parts.scheme not in PORTS or parts.username is not None or not host.isascii():
            raise BadInput(f"{shown(url)} is not a plain http or https URL.")
        if port is not None and port != PORTS[parts.scheme]:
            raise BadInput(f"{shown(url)} names a port. Pictures are fetched from the usual ports.")
        if not any(_matches(host, pattern) for pattern in self.hosts):
            raise BadInput(f"This server fetches no pictures from {shown(host)}. Send the picture as a data: URL.")
        found = self.resolve(host, PORTS[parts.scheme])
        if not found or not all(map(self.public, found)):
            raise BadInput(f"The host {shown(host)} has an address that is not public. Nothing is fetched from it.")
        return parts, host, PORTS[parts.scheme], found[0]

    def _get(self, url: str, deadline: float) -> bytes | str:
        """Return the picture, or the URL of a redirect."""
        parts, host, port, address = self.checked(url)
        left = _left(deadline, url)
        connection = _Connection(host, port, lambda: self.connect(address, port, left), tls=parts.scheme == "https")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        clock = Timer(left, connection.abort)  # a time limit of the socket starts again with every byte
        clock.start()
        try:
            connection.request("GET", path, headers={"Accept": "image/*", "User-Agent": "isthmus"})
            answer = connection.getresponse()
            if answer.status in (301, 302, 303, 307, 308):
                return answer.headers.get("Location", "")
            if answer.status != 200 or not answer.headers.get("Content-Type", "").strip().lower().startswith("image/"):
                raise CannotReach(f"{shown(url)} is not a picture: status {answer.status}.")
            return self._read(answer, url, deadline)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, CannotReach):
                raise
            raise CannotReach(f"The picture at {shown(url)} cannot be fetched ({type(error).__name__}).") from None
        finally:
            clock.cancel()
            connection.close()

    def _read(self, answer: http.client.HTTPResponse, url: str, deadline: float) -> bytes:
        data = bytearray()
        while piece := answer.read1(CHUNK):
            data += piece
            if len(data) > self.largest:
                raise CannotReach(f"The picture at {shown(url)} is larger than {mebibytes(self.largest)}.")
        _left(deadline, url)  # what was cut off by the clock is not whole
        return bytes(data)


@dataclass(slots=True, eq=False)
class PictureBudget:
    """Fetches the pictures of one request: at most ``count``, in ``seconds`` altogether."""

    fetch: Callable[[str, float], bytes]
    count: int
    seconds: float
    clock: Callable[[], float] = time.monotonic

    def __call__(self, url: str) -> bytes:
        """Return the bytes of a picture."""
        if self.count < 1 or self.seconds <= 0:
            raise BadInput("The request has more pictures to fetch than one may have. Send the others in another one.")
        self.count -= 1
        began = self.clock()
        try:
            return self.fetch(url, self.seconds)
        finally:
            self.seconds -= self.clock() - began


class _Connection(http.client.HTTPConnection):
    """A connection to an address that was checked; the certificate is checked against the name."""

    def __init__(self, host: str, port: int, connect: Callable[[], socket.socket], *, tls: bool) -> None:
        super().__init__(host, port)
        self._connect, self._tls = connect, tls
        self._open: socket.socket | None = None  # also when the answer has taken ``sock``

    def connect(self) -> None:
        """Connect to the address, not to the name."""
        self.sock = self._open = self._connect()
        if self._tls:
            context = ssl.create_default_context()
            secured = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = self._open = secured  # from here on `abort` ends it, the handshake, too
            secured.do_handshake()

    def abort(self) -> None:
        """End the connection from another thread: who reads from it gets an error or the end."""
        if self._open is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._open, socket.SHUT_RDWR)  # not TLS's own, which changes what is being read


def _left(deadline: float, url: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise CannotReach(f"The picture at {shown(url)} takes too long.")
    return left


def _matches(host: str, pattern: str) -> bool:
    """Whether a host is the one of a pattern, or below it.

    >>> _matches("a.example.org", "*.example.org"), _matches("badexample.org", "*.example.org")
    (True, False)
    """
    pattern = pattern.lower().rstrip(".")
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern
