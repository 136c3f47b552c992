"""Run an MCP server: on standard input and output, or over HTTP at ``/mcp``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from isthmus.serve.errors import Refused, error_answer
from isthmus.serve.guards import OriginGuard, find_key
from isthmus.serve.keys import KeyRing
from isthmus.serve.logs import log_to_stderr
from isthmus.serve.run import bind, configured, url_of
from isthmus.serve.settings import ServeSettings

PLACE = "/mcp"


def run_stdio(server: MCPServer[Any]) -> None:
    """Serve one client on standard input and output until it closes them."""
    anyio.run(server.run_stdio_async)


@dataclass(frozen=True, slots=True)
class NeededKey:
    """What a key must be allowed to do: ``scope`` in ``collection``."""

    scope: str
    collection: str


def run_http(server: MCPServer[Any], settings: ServeSettings, needed: NeededKey, ready: Callable[[str], None]) -> None:
    """Serve over streamable HTTP until Ctrl-C or SIGTERM; if the settings have keys, only those that may do this."""
    app = http_app(server, settings, needed)
    log_to_stderr()
    with bind(settings) as taken:
        ready(f"{url_of(settings, taken).rstrip('/')}{PLACE}")
        uvicorn.Server(configured(app, settings)).run(sockets=[taken])


def http_app(server: MCPServer[Any], settings: ServeSettings, needed: NeededKey) -> ASGIApp:
    """Return the ASGI application: other hosts and origins are refused, and calls without a key if there are keys.

    Hosts and origins are checked as ``isthmus serve`` does: the SDK does not on 127.0.0.2 or open addresses.
    """
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PLACE,
        max_request_body_size=settings.limits.body,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    keyed = app if settings.keys is None else KeyGuard(app, KeyRing(settings.keys), needed)
    return OriginGuard(keyed, settings)


class KeyGuard:
    """Lets only requests with a key that is allowed to do this pass."""

    def __init__(self, app: ASGIApp, keys: KeyRing, needed: NeededKey) -> None:
        self.app, self.keys, self.needed = app, keys, needed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refused = self._refused(Headers(scope=scope)) if scope["type"] == "http" else None
        if refused is None:
            await self.app(scope, receive, send)
        else:
            await error_answer("Refused", str(refused), refused.status, "", refused.headers)(scope, receive, send)

    def _refused(self, headers: Headers) -> Refused | None:
        try:
            key = find_key(self.keys, headers)
        except Refused as error:
            return error
        if key is None:
            said = "This server needs a key. Send the header Authorization: Bearer KEY."
            return Refused(401, said, {"WWW-Authenticate": "Bearer"})
        if not key.may(self.needed.scope, self.needed.collection):
            return Refused(403, f"The key {key.name!r} may not do this: it needs the scope {self.needed.scope!r} here.")
        return None
