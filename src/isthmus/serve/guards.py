"""What every request passes before a route sees it, and every response on its way out.

RequestGuard     gives the request an id, writes the log and the counters, adds security headers to the response, also
                 to that of an error that nobody expected
OriginGuard      refuses other hosts (DNS rebinding), other origins (CSRF), encoded bodies (zip bombs), smuggling
BodyGuard        refuses bodies that are too large, that arrive too slowly, or that are too many at the same time
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from isthmus.errors import IsthmusError
from isthmus.serve.errors import LOG, Refused, error_answer, failed
from isthmus.serve.keys import ApiKey, KeyRing
from isthmus.serve.settings import LOOPBACK, ServeSettings

API_POLICY = "default-src 'none'; frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
)
REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
API = ("/v1", "/v2", "/health", "/ready", "/metrics", "/openapi.json")
CLOSE: Mapping[str, str] = MappingProxyType({"Connection": "close"})  # what is left of the body is not read
SLASH = "\0"  # a slash inside one piece of a path, until the route has matched; no id contains it
QUERY = "isthmus.query"  # where the application keeps the query of the address until a request is here
Seen = Callable[[Scope, int, float], None]  # a finished request: its status, and its seconds


def is_api(path: str) -> bool:
    """Whether a path is of the API, not of the page."""
    return any(path == start or path.startswith(f"{start}/") for start in API)


class RequestGuard:
    """Ids, security headers, and what is told about each request."""

    def __init__(self, app: ASGIApp, seen: Seen) -> None:
        self.app, self.seen = app, seen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope["query_string"] = scope.pop(QUERY)
        given = Headers(scope=scope).get("x-request-id", "")
        scope["isthmus.request_id"] = given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        began, status, started = time.perf_counter(), 500, False

        async def guarded(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                _add_headers(MutableHeaders(scope=message), scope)
            await send(message)

        try:
            if scope["method"] == "HEAD":  # the protocol leaves the body of the answer out
                scope["method"] = "GET"
            if _keep_slashes(scope):
                await self.app(scope, receive, guarded)
            else:
                await _refuse(Refused(400, "The address has a NUL in it."), scope, receive, guarded)
        except Exception as error:
            if started:
                raise  # what has been sent is all there is: the connection is closed
            await failed(error, 500, scope["isthmus.request_id"])(scope, receive, guarded)
        finally:
            self.seen(scope, status, time.perf_counter() - began)


def _add_headers(headers: MutableHeaders, scope: Scope) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers["X-Request-ID"] = scope["isthmus.request_id"]
    headers.setdefault("Content-Security-Policy", API_POLICY if is_api(scope["path"]) else PAGE_POLICY)
    headers.setdefault("Cache-Control", "no-store" if is_api(scope["path"]) else "no-cache")


def _keep_slashes(scope: Scope) -> bool:
    """Keep ``%2F`` inside its piece of the path: the id ``photos/cat.jpg`` is one piece. False for a NUL."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.partition(b"?")[0].decode("latin-1")
    if "%00" in path or "\0" in path:
        return False
    if is_api(path):
        scope["path"] = unquote(re.sub("%2[fF]", "%00", path))
    return True


async def _refuse(error: Refused, scope: Scope, receive: Receive, send: Send) -> None:
    asked = scope.get("isthmus.request_id", "")
    headers = {**error.headers, **CLOSE}
    await error_answer("Refused", str(error), error.status, asked, headers)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class OriginGuard:
    """Checks where a request is for and where it comes from."""

    app: ASGIApp
    settings: ServeSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http":
            try:
                self.check(scope, Headers(scope=scope))
            except Refused as error:
                await _refuse(error, scope, receive, send)
                return
        await self.app(scope, receive, send)

    def check(self, scope: Scope, headers: Headers) -> None:
        """Raise ``Refused`` for a request that must not be answered."""
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_ours(host):
            raise Refused(421, "This server has another name. Add --allowed-host NAME if the name is right.")
        if "transfer-encoding" in headers and "content-length" in headers:
            raise Refused(400, "The request has a Content-Length and a Transfer-Encoding. Send one of them.")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused(415, "Compressed bodies are not read. Send it without Content-Encoding.")
        origin = headers.get("origin")
        if origin is not None and origin not in (f"{scope['scheme']}://{host}", *self.settings.allowed_origins):
            raise Refused(403, "A page of another site may not call this server. Add --allowed-origin to allow it.")
        if origin is None and headers.get("sec-fetch-site") in ("cross-site", "same-site") and is_api(scope["path"]):
            raise Refused(403, "A page of another site may not call this server. Add --allowed-origin to allow it.")

    def _is_ours(self, host: str) -> bool:
        if self.settings.is_open and not self.settings.allowed_hosts:
            return True  # keys are needed there, which another site does not have
        own = () if self.settings.is_open else (self.settings.host,)  # such as 127.0.0.2
        return host_name(host) in (*LOOPBACK, *own, *(name.lower() for name in self.settings.allowed_hosts))


def find_key(keys: KeyRing, headers: Headers) -> ApiKey | None:
    """Return the key that a request has, None if there is no such key; raise ``Refused`` if keys cannot be read."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    try:
        return keys.find(token.strip() if kind.lower() == "bearer" else "")
    except IsthmusError as error:
        LOG.error("the keys cannot be read", exc_info=error)
        raise Refused.later(503, "The server cannot read its keys. Its log says why.", 5) from None


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    >>> host_name("localhost:8080"), host_name("[::1]:8080"), host_name("example.org")
    ('localhost', '::1', 'example.org')
    """
    found = re.fullmatch(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<name>[^:\[\]@/]+))(?::\d{1,5})?", host)
    return "" if found is None else (found["six"] or found["name"]).lower()


@dataclass(slots=True)
class BodyGuard:
    """Limits the size of a body, the time between its pieces, and what arrives at the same time."""

    app: ASGIApp
    settings: ServeSettings
    uploads: Sequence[str]  # media types of streams, which may be larger
    held: int = 0  # bytes of JSON bodies whose requests have not ended
    arriving: int = 0  # streams whose requests have not ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; a body over the limits ends in ``Refused``, which a route passes on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, limits = Headers(scope=scope), self.settings.limits
        streams = headers.get("content-type", "").partition(";")[0].strip().lower() in self.uploads
        body = _Body(self, receive, limits.upload if streams else limits.body, streams)
        size = headers.get("content-length", "0")
        if size.isdigit() and int(size) > body.limit:
            await _refuse(too_large(body.limit), scope, receive, send)
        elif streams and self.arriving >= limits.uploads:
            said = "As many uploads arrive already as may at the same time. Try again."
            await _refuse(Refused.later(503, said), scope, receive, send)
        else:
            self.arriving += streams
            try:
                await self.app(scope, body.receive, send)
            finally:
                self.arriving -= streams
                self.held -= body.held


class _Body:
    """One body, counted while it arrives."""

    def __init__(self, guard: BodyGuard, receive: Receive, limit: int, streams: bool) -> None:
        self.guard, self.limit, self.streams = guard, limit, streams
        self.held = 0  # bytes that stay in memory until the request has ended
        self._receive, self._count, self._whole = receive, 0, False

    async def receive(self) -> Message:
        """Return the next piece."""
        if self._whole:
            return await self._receive()  # only the end of the connection is waited for
        slow = self.guard.settings.limits.slow
        try:
            message = await asyncio.wait_for(self._receive(), slow)
        except TimeoutError:
            raise Refused(408, f"No byte of the body came for {slow:g} seconds.", CLOSE) from None
        if message["type"] == "http.request":
            self._take(len(message.get("body", b"")))
            self._whole = not message.get("more_body", False)
        return message

    def _take(self, size: int) -> None:
        self._count += size
        if self._count > self.limit:
            raise too_large(self.limit)
        if self.streams:
            return
        if self.guard.held + size > self.guard.settings.limits.held:
            said = "The bodies that have come take as much memory as they may. Try again."
            raise Refused(503, said, {"Retry-After": "1", **CLOSE})
        self.held += size
        self.guard.held += size


def too_large(limit: int) -> Refused:
    """Return the refusal of a body over a limit."""
    return Refused(413, f"The body has more than {limit:,} bytes. Send less at once, or raise --max-body.", CLOSE)
