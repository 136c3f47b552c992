"""``/health``, ``/ready`` and ``/metrics``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from isthmus import __version__
from isthmus.serve.answers import answer
from isthmus.serve.errors import Refused
from isthmus.serve.forms import HealthJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Shared, allow

router = APIRouter()


@router.get("/health", **described(HealthJson))
async def health() -> Response:
    """Say that the process answers."""
    return answer({"status": "ok", "version": __version__})


@router.get("/ready", **described(HealthJson))
async def ready(server: Shared) -> Response:
    """Say whether requests are taken: 503 while the server stops or has too many."""
    if server.stopping:
        raise Refused.later(503, "The server is stopping.", 5)
    server.pool.check()
    await server.pool.run(server.catalog.names)
    return answer({"status": "ready", "version": __version__})


@router.get("/metrics", dependencies=[allow("read")], **described(media="text/plain"))
async def metrics(server: Shared) -> Response:
    """Return counters in Prometheus's format."""
    server.metrics.busy.set(server.pool.busy)
    return Response(server.metrics.written(), media_type="text/plain; version=0.0.4; charset=utf-8")
