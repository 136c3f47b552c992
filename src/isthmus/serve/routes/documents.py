"""``/v1/collections/{name}/documents``: add, get, change, delete, list; and the bytes of their parts."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from isthmus.documents import Document
from isthmus.errors import BadInput, UnknownDocument, shown
from isthmus.search import Collection
from isthmus.search.json_forms import DocumentJson
from isthmus.serve import adding, uploads
from isthmus.serve.answers import answer, served_document
from isthmus.serve.bodies import JSON, LINES, UPLOAD, content_type, json_body, parsed, parsed_object
from isthmus.serve.errors import Refused
from isthmus.serve.forms import (
    AddedJson,
    ChangeJson,
    DeletedJson,
    IdsJson,
    JobJson,
    NewDocumentJson,
    NewDocumentsJson,
    PageJson,
)
from isthmus.serve.ranges import part_answer
from isthmus.serve.schemas import described
from isthmus.serve.server import Id, Name, Shared, allow
from isthmus.storage.where import parse

router = APIRouter(prefix="/v1/collections/{name}/documents")
LARGEST_PAGE = 200
STREAMS = {  # bodies that are not JSON, in OpenAPI
    LINES[0]: {"type": "string", "description": "A NewDocumentJson on each line."},
    UPLOAD: {
        "type": "object",
        "properties": {"file": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}},
        "required": ["file"],
        "description": "Files with their names; the names of the fields do not matter.",
    },
}
WithIds = Annotated[bool, Query(description="list the ids that were added, updated and left unchanged, too")]


@router.post(
    "",
    dependencies=[allow("write")],
    **described(AddedJson, NewDocumentJson | NewDocumentsJson, also={202: JobJson}, bodies=STREAMS),
)
async def add(
    name: Name,
    server: Shared,
    request: Request,
    job: Annotated[bool, Query(description="add JSON lines as a job, and answer before they are added")] = False,
    ids: WithIds = False,
) -> Response:
    """Add documents: JSON, a stream of JSON lines (application/x-ndjson), or files (multipart/form-data)."""
    things = await server.collection(name)
    kind = content_type(request)
    if kind == JSON:
        body = await request.body()
        report = await server.pool.run(lambda: adding.add(things, _documents(parsed(body)), server.reader()))
    elif kind in LINES and job:
        made = await adding.add_later(server, name, request)
        return answer(made, status=202, headers={"Location": f"/v1/collections/{name}/jobs/{made['id']}"})
    elif kind in LINES:
        report = await adding.add_lines(server, things, request)
    elif kind == UPLOAD:
        report = await uploads.add_files(server, things, request)
    else:
        types = ", ".join((JSON, LINES[0], UPLOAD))
        raise Refused(415, f"Documents come as one of {types}. Set the Content-Type.")
    return answer(adding.added_json(report, things, ids=ids))


def _documents(form: Any) -> list[Any]:
    """Return the documents in a body: one, a list, or an object with ``documents``."""
    if isinstance(form, dict) and "documents" in form:
        if set(form) != {"documents"} or not isinstance(form["documents"], list):
            raise BadInput("documents is a list of documents, and nothing stands beside it.")
        return list(form["documents"])
    return form if isinstance(form, list) else [form]


@router.get("", dependencies=[allow("read")], **described(PageJson))
async def list_documents(
    name: Name,
    server: Shared,
    after: Annotated[int, Query(description="'next' of the page before")] = -1,
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="documents of a page")] = 50,
    where: Annotated[str | None, Query(description="a filter by metadata, as JSON")] = None,
) -> Response:
    """List documents in the order they were added."""
    things = await server.collection(name)

    def page() -> dict[str, Any]:
        with things.store.database.reading():
            rows = _rows(things, after, limit + 1, where)
            found = things.store.documents(rows[:limit])
        documents = [served_document(name, found[row]) for row in rows[:limit] if row in found]
        return {"documents": documents, "next": rows[limit - 1] if len(rows) > limit else None}

    return answer(await server.pool.run(page))


def _rows(things: Collection, after: int, count: int, where: str | None) -> list[int]:
    after = max(-1, min(after, 2**62))
    if where is None:
        return things.store.page(after, count)
    allowed = np.sort(things.store.filtered(parse(parsed(where.encode("utf-8", "replace")))))
    return [int(row) for row in allowed[allowed > after][:count]]


@router.post("/get", dependencies=[allow("read")], **described(PageJson, IdsJson))
async def get_several(name: Name, server: Shared, request: Request) -> Response:
    """Return documents by their ids, those that exist; for ids that do not fit into a URL, too."""
    body = await json_body(request)
    things = await server.collection(name)

    def found() -> dict[str, Any]:
        ids = _ids(body, LARGEST_PAGE)
        with things.store.database.reading():
            rows = things.store.rows_of(ids)
            documents = things.store.documents(list(rows.values()))
        there = [documents[rows[one]] for one in ids if rows.get(one) in documents]
        return {"documents": [served_document(name, one) for one in there], "next": None}

    return answer(await server.pool.run(found))


@router.post("/delete", dependencies=[allow("write")], **described(DeletedJson, IdsJson))
async def delete_several(name: Name, server: Shared, request: Request) -> Response:
    """Delete documents by their ids."""
    body = await json_body(request)
    things = await server.collection(name)

    def deleted() -> dict[str, Any]:
        ids = _ids(body, 10_000)
        unknown = [one for one in ids if one not in things]
        return {"deleted": things.delete(ids), "unknown": unknown}

    return answer(await server.pool.run(deleted))


def _ids(body: bytes, most: int) -> list[str]:
    form = parsed_object(body)
    ids = form.get("ids")
    if set(form) != {"ids"} or not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise BadInput(f"Give ids, a list of strings, not {shown(form)}.")
    if len(ids) > most:
        raise BadInput(f"There are {len(ids):,} ids; {most:,} is the most at once.")
    return list(dict.fromkeys(ids))


@router.get("/{id}", dependencies=[allow("read")], **described(DocumentJson))
async def get(name: Name, document: Id, server: Shared) -> Response:
    """Return a document."""
    things = await server.collection(name)
    return answer(await server.pool.run(lambda: served_document(name, things.get(document))))


@router.patch("/{id}", dependencies=[allow("write")], **described(DocumentJson | AddedJson, ChangeJson))
async def change(
    name: Name,
    document: Id,
    server: Shared,
    request: Request,
    ids: Annotated[bool, Query(description="answer as for added documents, with ids, not with the document")] = False,
) -> Response:
    """Change a document: parts that are given replace its own, the others stay; metadata are merged."""
    body = await json_body(request)
    things = await server.collection(name)

    def changed() -> Any:
        form = parsed_object(body)
        if set(form) <= {"id", "metadata"}:
            server.reader().document({**form, "content": "any"}, document)  # checks the id and the metadata
            report = things.update(document, metadata=form.get("metadata", {}))
        else:
            report = things.update(server.reader().document(form, document))
        if ids:
            return adding.added_json(report, things, ids=True)
        if report.skipped:
            raise Refused(422, f"The document was not changed: {report.skipped[0].why}")
        return served_document(name, things.get(document))

    return answer(await server.pool.run(changed))


@router.delete("/{id}", dependencies=[allow("write")], **described(status=204))
async def delete(name: Name, document: Id, server: Shared) -> Response:
    """Delete a document."""
    things = await server.collection(name)

    def deleted() -> None:
        if not things.delete([document]):
            raise UnknownDocument(f"No document is called {shown(document)} in {name}.")

    await server.pool.run(deleted)
    return Response(status_code=204)


@router.get("/{id}/parts/{part}", dependencies=[allow("read")], **described(media="*/*", also={206: None, 304: None}))
async def get_part(
    name: Name,
    document: Id,
    part: int,
    server: Shared,
    request: Request,
    size: Annotated[int | None, Query(description="a picture's longer side in pixels; default: as it is")] = None,
) -> Response:
    """Return the bytes of a part: a picture, smaller with ``size``; a sound; a text; or a range of them."""
    things = await server.collection(name)

    def found() -> Response:
        whole: Document = things.get(document)
        if not 0 <= part < len(whole.parts):
            raise UnknownDocument(f"The document {shown(document)} has {len(whole.parts)} parts, counted from 0.")
        return part_answer(server.pictures.opened(whole.parts[part], size), request.headers)

    return await server.pool.run(found)
