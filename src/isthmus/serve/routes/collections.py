"""``/v1/collections``: list, create, describe, delete; statistics."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.errors import BadInput, IsthmusError, shown
from isthmus.search import Collection
from isthmus.serve.answers import answer, last_name, public_text
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.errors import LOG
from isthmus.serve.forms import CollectionJson, CollectionsJson, NewCollectionJson, StatsJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Name, Server, Shared, allow

router = APIRouter(prefix="/v1/collections")


@router.get("", dependencies=[allow("read", anywhere=True)], **described(CollectionsJson))
async def list_collections(server: Shared, request: Request) -> Response:
    """List the collections that the key may read and that can be opened."""
    key = request.scope["isthmus.key"]

    def listed() -> list[CollectionJson]:
        names = [name for name in server.catalog.names() if key is None or key.may("read", name)]
        found: list[CollectionJson] = []
        problem: IsthmusError | None = None
        for name in names:
            try:
                found.append(collection_json(server, name))
            except IsthmusError as error:  # unfinished, damaged, or deleted meanwhile: the others can be used
                LOG.warning("a collection cannot be opened", exc_info=error, extra={"collection": name})
                problem = error
        if problem is not None and not found:
            raise problem  # which says more than an empty list
        return found

    return answer({"collections": await server.pool.run(listed)})


@router.post("", dependencies=[allow("admin")], **described(CollectionJson, NewCollectionJson, status=201))
async def create_collection(server: Shared, request: Request) -> Response:
    """Make an empty collection."""
    body = await json_body(request)

    def created() -> CollectionJson:
        form = parsed_object(body)
        if unknown := set(form) - {"name", "encoder", "calibration"}:
            raise BadInput(f"A new collection has no {shown(min(unknown))}. Give name, encoder, calibration.")
        server.catalog.create(form.get("name", ""), form.get("encoder"), form.get("calibration", "auto"))
        return collection_json(server, form["name"])

    return answer(await server.pool.run(created), status=201)


@router.get("/{name}", dependencies=[allow("read")], **described(CollectionJson))
async def get_collection(name: Name, server: Shared) -> Response:
    """Describe a collection."""
    return answer(await server.pool.run(lambda: collection_json(server, name)))


@router.delete("/{name}", dependencies=[allow("admin")], **described(status=204))
async def delete_collection(name: Name, server: Shared) -> Response:
    """Delete a collection with all its documents."""

    def deleted() -> None:
        server.catalog.delete(name)
        server.jobs.drop(name)

    try:
        await server.pool.run(deleted)
    finally:
        server.forget(name)
    return Response(status_code=204)


@router.get("/{name}/stats", dependencies=[allow("read")], **described(StatsJson))
async def stats(name: Name, server: Shared) -> Response:
    """Return counts, sizes, the encoder, the calibration, drift, and what was skipped."""
    return answer(await server.pool.run(lambda: stats_json(name, server.catalog.get(name))))


def collection_json(server: Server, name: str) -> CollectionJson:
    """Return a collection in short."""
    things = server.catalog.get(name)
    counts = things.store.counts()
    now = things.calibration
    return {
        "name": name,
        "documents": sum(counts.values()),
        "modalities": dict(counts),
        "encoder": public_text(str(things.store.database.manifest("encoder")["encoder"])),
        "calibration": None if now is None else str(now.fitted.spec),
    }


def stats_json(name: str, things: Collection) -> dict[str, Any]:
    """Return the statistics of a collection, without paths of this machine, and the names that filters may use."""
    facts = things.stats()
    sources: dict[str, int] = {}
    for root, count in facts.sources.items():
        short = last_name(root)
        sources[short] = sources.get(short, 0) + count
    form = asdict(facts) | {"path": name, "sources": sources, "last_error": public_text(facts.last_error)}
    form["vectors"] = facts.vectors.partition(":")[0]  # not where the server of vectors is
    form["encoder"] = {**form["encoder"], "encoder": public_text(str(facts.encoder["encoder"]))}
    form["skipped"] = [
        {"id": last_name(place) if place.startswith("/") else public_text(place), "why": public_text(why)}
        for place, why in facts.skipped
    ]
    return form | {"fields": things.fields()}
