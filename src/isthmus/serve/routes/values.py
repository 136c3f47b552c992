"""``/v1/collections/{name}/values``: the values of fields with how many documents have each, for filters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from isthmus.errors import BadInput
from isthmus.search import Collection
from isthmus.search.json_details import values_json
from isthmus.serve.answers import answer
from isthmus.serve.forms import ValuesJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Name, Shared, allow
from isthmus.storage.values import LISTED, FieldValues

router = APIRouter(prefix="/v1/collections/{name}/values")
FIELDS = 30  # of one answer
HIDDEN = ("path",)  # where a file was on this machine


@router.get("", dependencies=[allow("read")], **described(ValuesJson))
async def values(
    name: Name,
    server: Shared,
    field: Annotated[list[str] | None, Query(description="names of fields; default: the first 30")] = None,
    count: Annotated[int, Query(ge=1, le=LISTED, description="values of a field")] = 20,
) -> Response:
    """Return the most frequent values of fields, and the ranges of their numbers and dates."""
    if field is not None and len(field) > FIELDS:
        raise BadInput(f"{len(field)} fields are asked for; {FIELDS} is the most at once.")
    things = await server.collection(name)

    def counted() -> dict[str, Any]:
        names = [one for one in things.fields() if one != "id"][:FIELDS] if field is None else field
        return {"fields": [values_json(_shown(things, one, count)) for one in names]}

    return answer(await server.pool.run(counted))


def _shown(things: Collection, name: str, count: int) -> FieldValues:
    return FieldValues(name, more=True) if name in HIDDEN else things.values(name, count)
