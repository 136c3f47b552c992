"""``Server``: what the routes of one application share, and who may call them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Path, Request

from isthmus.encoders.runtime import ModelPool
from isthmus.search import Collection
from isthmus.serve.batching import SearchBatcher
from isthmus.serve.catalog import Catalog
from isthmus.serve.content import ContentReader
from isthmus.serve.errors import Refused
from isthmus.serve.fetching import PictureBudget, PictureFetcher
from isthmus.serve.guards import SLASH, find_key
from isthmus.serve.jobs import JobRunner
from isthmus.serve.keys import KeyRing
from isthmus.serve.limits import RateLimit
from isthmus.serve.long_work import kinds
from isthmus.serve.metrics import Metrics
from isthmus.serve.models import Models
from isthmus.serve.pictures import PartSender
from isthmus.serve.settings import ServeSettings
from isthmus.serve.work import WorkPool


class Server:
    """The collections, threads, keys and counters of one application."""

    def __init__(self, settings: ServeSettings) -> None:
        limits = settings.limits
        self.settings = settings
        runtime = replace(settings.runtime, pool=ModelPool())  # collections and requests share models
        self.catalog = Catalog(settings, runtime)
        self.pool = WorkPool(settings.workers, limits.waiting, limits.seconds)
        self.keys = KeyRing(settings.keys)
        self.rate = RateLimit(limits.rate)
        self.fetch = PictureFetcher(settings.picture_hosts)
        self.models = Models(settings, runtime)
        self.pictures = PartSender()
        self.metrics = Metrics()
        self.jobs = JobRunner(self.catalog.state_folder / "jobs", kinds(self))
        self.stopping = False
        self._batchers: dict[str, SearchBatcher] = {}

    def reader(self) -> ContentReader:
        """Return what reads the content of one request; half of its time, at most, goes into fetching pictures."""
        limits = self.settings.limits
        return ContentReader(self.settings, PictureBudget(self.fetch, limits.fetches, limits.seconds / 2))

    async def collection(self, name: str) -> Collection:
        """Return a collection, opened on a thread if need be."""
        return await self.pool.run(lambda: self.catalog.get(name))

    async def batcher(self, name: str) -> SearchBatcher:
        """Return what gathers the searches of a collection."""
        there = self._batchers.get(name)
        if there is None or not self.catalog.serves(name, there.things):
            things = await self.collection(name)
            there = SearchBatcher(things, self.pool, self.settings.batch, self.metrics.batches.observe)
            self._batchers[name] = there
        return there

    def forget(self, name: str) -> None:
        """Let go of what is kept for a collection that is deleted: its vectors, above all."""
        self._batchers.pop(name, None)

    def authorize(self, request: Request, scope: str, collection: str | None, *, anywhere: bool = False) -> None:
        """Raise ``Refused`` unless the caller's key allows this, and its rate."""
        client = request.client.host if request.client else "unknown"
        key = None if self.keys.path is None else find_key(self.keys, request.headers)
        request.scope["isthmus.key"] = key
        wait = self.rate.wait(f"key {key.id}" if key is not None else client)
        if wait:
            raise Refused.later(429, "Too many requests. Wait, or ask for several things at once.", wait)
        if self.keys.path is None:
            return
        if key is None:
            sent = "authorization" in request.headers
            said = "The key that was sent is wrong, or was revoked." if sent else "This server needs a key."
            said += " Send the header Authorization: Bearer KEY."
            raise Refused(401, said, {"WWW-Authenticate": "Bearer"})
        if not any(key.may(scope, one) for one in (key.collections if anywhere else [collection])):
            where = "for all collections" if collection is None else "here"
            raise Refused(403, f"The key {key.name!r} may not do this: it needs the scope {scope!r} {where}.")

    async def close(self) -> None:
        """Finish what was accepted, and close the collections."""
        self.stopping = True
        await asyncio.to_thread(self.jobs.close)
        await asyncio.to_thread(self.pool.close)
        await asyncio.to_thread(self.catalog.close)


async def server_of(request: Request) -> Server:  # async like all dependencies: FastAPI runs others on threads
    """Return the server of an application."""
    found: Server = request.app.state.server
    return found


def allow(scope: str, *, anywhere: bool = False) -> Any:
    """Return a dependency that lets only keys of a scope pass; ``anywhere``: for any collection."""

    async def check(request: Request) -> None:
        name = request.path_params.get("name")
        (await server_of(request)).authorize(request, scope, name, anywhere=anywhere)

    return Depends(check)


async def document_id(id: Annotated[str, Path(description="the document's id; a slash in it is written %2F")]) -> str:  # noqa: A002 - its name in the URL
    """Return a document's id from the URL."""
    return id.replace(SLASH, "/")


Shared = Annotated[Server, Depends(server_of)]
Name = Annotated[str, Path(description="the collection's name")]
Id = Annotated[str, Depends(document_id)]
