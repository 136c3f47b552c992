"""``/v1/rerank`` and ``/v2/rerank``, in the shape of Cohere's API: its client works with this server."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.documents import Document
from isthmus.errors import BadInput, shown
from isthmus.kinds import TEXT
from isthmus.registry import lookup
from isthmus.serve.answers import answer
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.content import ContentReader
from isthmus.serve.forms import RerankAnswerJson, RerankJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Server, Shared, allow

router = APIRouter()
COHERE = ("max_tokens_per_doc", "max_chunks_per_doc", "rank_fields", "priority")  # taken and not needed
KEYS = ("model", "query", "documents", "top_n", "return_documents", *COHERE)


@router.post("/v1/rerank", dependencies=[allow("read", anywhere=True)], **described(RerankAnswerJson, RerankJson))
@router.post("/v2/rerank", dependencies=[allow("read", anywhere=True)], **described(RerankAnswerJson, RerankJson))
async def rerank(server: Shared, request: Request) -> Response:
    """Order documents by how well they answer a query."""
    body = await json_body(request)
    return answer(await server.pool.run(lambda: _reranked(server, parsed_object(body))))


def _reranked(server: Server, form: dict[str, Any]) -> dict[str, Any]:
    for name in form:
        lookup(dict.fromkeys(KEYS), name, "key of a rerank request")
    given, most = form.get("documents"), server.settings.limits.inputs
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        raise BadInput(f"documents is a list of 1 to {most:,} documents.")
    top = form.get("top_n")
    if top is not None and (not isinstance(top, int) or isinstance(top, bool) or top < 1):
        raise BadInput(f"top_n is {shown(top)}; it must be a whole number of at least 1.")
    reader = server.reader()
    query = reader.query(form.get("query"))
    documents = [_document(reader, one, at) for at, one in enumerate(given)]
    scores = server.models.relevance(form.get("model", "mini"), query, documents)
    best = np.argsort(-scores, kind="stable")[:top].tolist()
    results = [{"index": at, "relevance_score": float(scores[at])} for at in best]
    if form.get("return_documents"):
        results = [{**one, "document": {TEXT: documents[int(one["index"])].text or ""}} for one in results]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}
    return {"id": secrets.token_hex(16), "results": results, "meta": meta}


def _document(reader: ContentReader, form: object, at: int) -> Document:
    query = reader.query(form)
    return Document(str(at), vectors=query.vectors, parts=query.parts)
