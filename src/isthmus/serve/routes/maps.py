"""``/v1/collections/{name}/documents/{id}/maps``: which words and patches made a document match a query."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.errors import BadInput, shown
from isthmus.search import Collection, SearchRequest
from isthmus.search.json_details import map_json
from isthmus.serve.answers import answer, public_text
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.errors import Refused
from isthmus.serve.forms import HasMapsJson, MapJson, MapQueryJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Id, Name, Shared, allow

router = APIRouter(prefix="/v1/collections/{name}")
LONGEST = 4000  # characters of a query's text: each of its words is left out in turn


@router.get("/maps", dependencies=[allow("read")], **described(HasMapsJson))
async def has_maps(name: Name, server: Shared) -> Response:
    """Say whether the encoder of a collection can explain its hits by maps."""
    things = await server.collection(name)
    return answer(await server.pool.run(lambda: {"maps": things.has_maps}))


@router.post("/documents/{id}/maps", dependencies=[allow("read")], **described(MapJson, MapQueryJson))
async def make_map(name: Name, document: Id, server: Shared, request: Request) -> Response:
    """Return what each word and patch of a query and a document adds to their raw similarity."""
    body = await json_body(request)
    things = await server.collection(name)

    def made() -> MapJson:
        form = parsed_object(body)
        if unknown := set(form) - {"query", "calibration"}:
            raise BadInput(f"A map has no {shown(min(unknown))}. Give query, and calibration as in the search.")
        return _map(things, document, server.reader().search({**form, "k": 1, "where": {"id": document}}))

    return answer(await server.pool.run(made))


def _map(things: Collection, document: str, request: SearchRequest) -> MapJson:
    if len(request.asked.text or "") > LONGEST:
        raise BadInput(f"The query has more than {LONGEST:,} characters, the most for a map.")
    if not things.has_maps:
        raise Refused(422, "The encoder of this collection has no maps.")
    things.get(document)  # raises an error if there is none
    made = things.maps(request.asked, things.search(request))
    if not made:
        raise Refused(404, f"{shown(document)} was deleted meanwhile, or has no vector.")
    form = map_json(made[0])
    return {**form, "notes": [public_text(note) for note in form["notes"]]}
