"""``/v1/collections/{name}/search``, and documents similar to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from isthmus.errors import BadInput, shown
from isthmus.search import Hits, SearchRequest
from isthmus.serve.answers import answer, encoded, served_hit
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.content import more_like
from isthmus.serve.forms import HitsJson, ResultsJson, SearchesJson, SearchJson, SearchOptionsJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Id, Name, Server, Shared, allow

router = APIRouter(prefix="/v1/collections/{name}")
Read = TypeVar("Read")
WORDS = ("q", "k", "offset")  # what a search by GET takes
SMALL = 65_536  # bytes of a body that is read on the event loop: it takes less time than to change threads


@router.get("/search", dependencies=[allow("read")], **described(HitsJson))
async def search_words(
    name: Name,
    server: Shared,
    asked: Request,
    q: Annotated[str, Query(description="what to look for, in words")],
    k: Annotated[int, Query(description="number of hits")] = 10,
    offset: Annotated[int, Query(description="number of first hits to skip")] = 0,
) -> Response:
    """Search by words; all other options are those of POST."""
    for other in asked.query_params:
        if other not in WORDS:
            raise BadInput(
                f"GET takes {', '.join(WORDS)}, not {shown(other)}. Send a search with other options by POST."
            )
    request = server.reader().search({"query": q, "k": k, "offset": offset})
    return answer(await _hits(server, name, request))


@router.post("/search", dependencies=[allow("read")], **described(HitsJson | ResultsJson, SearchJson | SearchesJson))
async def search(name: Name, server: Shared, request: Request) -> Response:
    """Search by words, a picture, both or vectors; ``searches`` are several at once."""
    body = await json_body(request)
    limit = server.settings.limits.queries

    def read() -> SearchRequest | list[SearchRequest]:
        form, reader = parsed_object(body), server.reader()
        if "searches" not in form:
            return reader.search(form)
        several = form["searches"]
        if set(form) != {"searches"} or not isinstance(several, list) or len(several) > limit:
            raise BadInput(f"searches is a list of at most {limit} searches, and nothing stands beside it.")
        return [reader.search(one) for one in several]

    asked = await _read(server, body, read)
    if isinstance(asked, SearchRequest):
        return answer(await _hits(server, name, asked))
    things = await server.collection(name)

    def answered() -> bytes:
        found = things.search_many(asked)
        return b'{"results":[' + b",".join(_written(name, hits) for hits in found) + b"]}"

    return answer(await server.pool.run(answered))


@router.post("/documents/{id}/similar", dependencies=[allow("read")], **described(HitsJson, SearchOptionsJson))
async def similar_by(name: Name, document: Id, server: Shared, request: Request) -> Response:
    """Search by a document's own content, with the options of a search."""
    body = await json_body(request)
    form = parsed_object(body)
    if "query" in form:
        raise BadInput("The query is the document. Leave 'query' out, or use /search.")
    return answer(await _similar(server, name, document, form))


@router.get("/documents/{id}/similar", dependencies=[allow("read")], **described(HitsJson))
async def similar(
    name: Name,
    document: Id,
    server: Shared,
    k: Annotated[int, Query(description="number of hits")] = 10,
) -> Response:
    """Search by a document's own content."""
    return answer(await _similar(server, name, document, {"k": k}))


async def _similar(server: Server, name: str, document: str, form: dict[str, Any]) -> bytes:
    request = server.reader().search({**form, "query": "any"})
    batcher = await server.batcher(name)
    asked = await server.pool.run(lambda: more_like(batcher.things.get(document), request))

    def finish(hits: Hits) -> bytes:
        others = [hit for hit in hits if hit.id != document]
        ranked = [replace(hit, rank=rank) for rank, hit in enumerate(others, 1)]
        return _written(name, Hits(ranked[request.offset : request.offset + request.k], hits.missing))

    return await batcher.search(asked, finish)


async def _hits(server: Server, name: str, request: SearchRequest) -> bytes:
    """Search, together with others that come at the same time; what takes long anyway runs alone."""
    batcher = await server.batcher(name)
    if request.align is None and request.rerank is None and not request.explain:
        return await batcher.search(request, lambda hits: _written(name, hits))
    things = batcher.things
    return await server.pool.run(lambda: _written(name, things.search(request)))


def _written(name: str, hits: Hits) -> bytes:
    form: HitsJson = {"hits": [served_hit(name, hit) for hit in hits]}
    return encoded(form if not hits.missing else {**form, "missing": list(hits.missing)})


async def _read(server: Server, body: bytes, read: Callable[[], Read]) -> Read:
    """Read a body: a small one at once, others on a thread; so are those for which pictures may be fetched."""
    if len(body) <= SMALL and not server.settings.picture_hosts:
        return read()
    return await server.pool.run(read)
