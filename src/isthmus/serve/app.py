"""``create_app``: the routes, the guards around them, and what they share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from isthmus import __version__
from isthmus.serve.bodies import LINES, UPLOAD
from isthmus.serve.errors import LOG, add_handlers
from isthmus.serve.guards import QUERY, BodyGuard, OriginGuard, RequestGuard, is_api
from isthmus.serve.limits import length_limit, pixel_limit
from isthmus.serve.page_files import PageFiles
from isthmus.serve.routes import (
    calibration,
    collections,
    documents,
    embeddings,
    health,
    jobs,
    maps,
    rerank,
    search,
    values,
)
from isthmus.serve.schemas import describe
from isthmus.serve.server import Server
from isthmus.serve.settings import ServeSettings

PAGE = Path(__file__).parent / "page"
METHODS = ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS")


class Application(FastAPI):
    """Keeps what follows the ? of an address, such as the words of a search, out of the spans that FastAPI sends."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; ``RequestGuard`` takes the query back."""
        if scope["type"] == "http":
            scope = {**scope, "query_string": b"", QUERY: scope["query_string"]}
        await super().__call__(scope, receive, send)


class PageRoute(Route):
    """The route of the page's files. It takes no address of the API: one that there is not, or not for a method."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match whatever is not of the API."""
        return (Match.NONE, {}) if scope["type"] == "http" and is_api(scope["path"]) else super().matches(scope)


def create_app(settings: ServeSettings) -> FastAPI:
    """Return the ASGI application of a server."""
    server = Server(settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with pixel_limit(settings.limits.pixels), length_limit(settings.limits.duration):
            try:
                await asyncio.to_thread(server.jobs.start)
                yield
            finally:
                await server.close()

    def seen(scope: Scope, status: int, seconds: float) -> None:
        _tell(server, scope, status, seconds)

    guards = [
        Middleware(RequestGuard, seen=seen),
        *_cors(settings),
        Middleware(OriginGuard, settings=settings),
        Middleware(BodyGuard, settings=settings, uploads=(*LINES, UPLOAD)),
    ]
    app = Application(
        title="isthmus",
        version=__version__,
        description="One search over text, images and documents that hold both, ranked fairly.",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy that speaks TLS, the other address would be one without
        lifespan=lifespan,
        middleware=guards,
    )
    app.state.server = server
    for module in (health, collections, documents, search, maps, values, calibration, jobs, embeddings, rerank):
        app.include_router(module.router)
    add_handlers(app)
    describe(app)
    app.router.routes.append(PageRoute("/{file:path}", PageFiles(PAGE).answer, name="page"))  # after all others
    return app


def _cors(settings: ServeSettings) -> list[Middleware]:
    """Let pages of the allowed origins read the answers."""
    if not settings.allowed_origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=METHODS,
            allow_headers=("Authorization", "Content-Type", "X-Request-ID"),
            expose_headers=("Location", "Retry-After", "X-Request-ID"),
        )
    ]


def _tell(server: Server, scope: Scope, status: int, seconds: float) -> None:
    """Log and count a finished request; of its address the route alone, which has no ids in it."""
    route = getattr(scope.get("route"), "path", None) or "page"
    method = scope["method"] if scope["method"] in METHODS else "other"
    key = scope.get("isthmus.key")
    server.metrics.seen(method, route, status, seconds)
    facts = {
        "request_id": scope["isthmus.request_id"],
        "method": method,
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 2),
        "client": scope["client"][0] if scope.get("client") else None,
        "key": None if key is None else key.id,
    }
    LOG.log(logging.WARNING if status >= 500 else logging.INFO, "request", extra=facts)
