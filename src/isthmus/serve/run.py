"""Run an application under uvicorn until it is told to stop; what was accepted is finished first."""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from isthmus.errors import CannotWrite
from isthmus.serve.app import create_app
from isthmus.serve.errors import error_answer
from isthmus.serve.guards import HEADERS
from isthmus.serve.logs import log_to_stderr
from isthmus.serve.settings import ServeSettings

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

KEEP_ALIVE = 15  # seconds that an idle connection stays open
STOPPING = 30  # seconds for requests that were accepted before the stop
CONNECTIONS = 1000  # at the same time; a request on another one is answered with 503
HEADER_BYTES = 65_536
BACKLOG = 2048
PATIENCE = 3  # looks at an answer that is not read; each after the time that a slow client has
AT_ONCE = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)  # a connection that is closed is reset


def bind(settings: ServeSettings) -> socket.socket:
    """Take the address; port 0 takes a free port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle's delay on
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((settings.host, settings.port))
        taken.listen(BACKLOG)  # what comes before the server is ready waits
    except (OSError, OverflowError) as error:
        taken.close()
        why = getattr(error, "strerror", None) or str(error)
        raise CannotWrite(
            f"{settings.host}:{settings.port} cannot be used: {why}. Choose another --port, or --port 0 for a free one."
        ) from None
    return taken


def url_of(settings: ServeSettings, taken: socket.socket) -> str:
    """Return the address of the page."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{taken.getsockname()[1]}/"


def run(settings: ServeSettings, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; ``ready`` is given the address before the first request."""
    app = create_app(settings)
    log_to_stderr()
    with bind(settings) as taken:
        ready(url_of(settings, taken))
        uvicorn.Server(configured(app, settings)).run(sockets=[taken])


def configured(app: ASGIApp, settings: ServeSettings) -> uvicorn.Config:
    """Return how uvicorn runs the application."""
    slow = settings.limits.slow
    return uvicorn.Config(
        app,
        http=protocol(slow),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # a client could claim any address
        timeout_keep_alive=min(KEEP_ALIVE, math.ceil(slow)),
        timeout_graceful_shutdown=STOPPING,
        h11_max_incomplete_event_size=HEADER_BYTES,
        lifespan="on",
    )


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request on a connection too many; uvicorn's own 503 does not say when to come again."""
    headers = {"Retry-After": "1", "Connection": "close", **HEADERS}
    said = "The server has as many connections as it may. Try again."
    await error_answer("Refused", said, 503, "", headers)(scope, receive, send)


class _WatchedProtocol(H11Protocol):
    """Cuts off a client that takes nothing of its answer; closing the connection would wait for it."""

    seconds: float  # between two looks
    watch: asyncio.TimerHandle | None = None
    unsent = 0
    looks = 0  # that have found the same unsent

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.watch is not None:
            self.watch.cancel()
        super().connection_lost(exc)

    def resume_writing(self) -> None:
        self.unsent = 0
        super().resume_writing()

    def _watch(self) -> None:
        """Compare what is unsent with what was unsent at the last look: the system takes much at once, or nothing."""
        left = self.transport.get_write_buffer_size()
        self.looks = self.looks + 1 if left and left == self.unsent else 0
        if self.looks == PATIENCE:
            taken = self.transport.get_extra_info("socket")
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)  # or the system keeps what it has to send
            self.transport.abort()
            return
        self.unsent = left
        self.watch = self.loop.call_later(self.seconds, self._watch)


def protocol(slow: float, connections: int = CONNECTIONS) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on connections and on the time that a client may take."""

    class TimedProtocol(_WatchedProtocol):
        """Closes a connection whose request does not begin in time, too."""

        seconds = slow

        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self.deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
            super().connection_made(transport)
            if len(self.connections) > connections:
                self.app = _busy
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._wait()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
            super().connection_lost(exc)

        def _wait(self) -> None:
            """Start the clock where headers are expected and none runs; stop it when a request has begun."""
            waiting = self.cycle is None or self.cycle.response_complete
            if waiting and self.deadline is None:
                self.deadline = self.loop.call_later(slow, self.transport.close)
            elif not waiting and self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return TimedProtocol
