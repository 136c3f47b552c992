"""``/v1/embeddings`` and ``/v1/models``, in the shape of OpenAI's API: its client works with this server."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from isthmus.calibration.none import Raw
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, shown
from isthmus.registry import lookup
from isthmus.serve.answers import answer
from isthmus.serve.bodies import json_body, parsed_object
from isthmus.serve.content import ContentReader
from isthmus.serve.forms import EmbeddingsAnswerJson, EmbeddingsJson, ModelsJson
from isthmus.serve.schemas import described
from isthmus.serve.server import Server, Shared, allow
from isthmus.types import Matrix

router = APIRouter(prefix="/v1")
KEYS = ("model", "input", "encoding_format", "dimensions", "user", "input_type")
ROLES = {"document": False, "query": True, "search_document": False, "search_query": True}


@router.get("/models", dependencies=[allow("read", anywhere=True)], **described(ModelsJson))
async def models(server: Shared) -> Response:
    """List the models that requests may name and that are installed."""
    names = await server.pool.run(lambda: server.models.installed)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "isthmus"} for name in names]
    return answer({"object": "list", "data": data})


@router.post(
    "/embeddings",
    dependencies=[allow("read", anywhere=True)],
    **described(EmbeddingsAnswerJson, EmbeddingsJson),
)
async def embeddings(server: Shared, request: Request) -> Response:
    """Encode texts, and pictures as parts of chat APIs; one unit vector for each input."""
    body = await json_body(request)
    return answer(await server.pool.run(lambda: _embedded(server, parsed_object(body))))


def _embedded(server: Server, form: dict[str, Any]) -> dict[str, Any]:
    for name in form:
        lookup(dict.fromkeys(KEYS), name, "key of an embeddings request")
    written = form.get("encoding_format", "float")
    if written not in ("float", "base64"):
        raise BadInput(f"encoding_format is {shown(written)}; it is 'float' or 'base64'.")
    inputs = _inputs(form.get("input"), server.settings.limits.inputs)
    encoder = server.models.encoder(form.get("model", "mini"))
    dim = form.get("dimensions")
    if dim not in (None, encoder.dim):
        raise BadInput(f"{encoder.name} makes vectors of {encoder.dim} numbers. Leave dimensions out.")
    reader = server.reader()
    queries = [_query(reader, one) for one in inputs]
    rows = _vectors(encoder, queries, lookup(ROLES, form.get("input_type", "document"), "input type"))
    data = [{"object": "embedding", "index": at, "embedding": _written(row, written)} for at, row in enumerate(rows)]
    words = sum(len((query.text or "").split()) for query in queries)
    usage = {"prompt_tokens": words, "total_tokens": words}
    return {"object": "list", "data": data, "model": encoder.name, "usage": usage}


def _inputs(given: object, most: int) -> list[Any]:
    inputs = given if isinstance(given, list) else [given]
    if not inputs or len(inputs) > most:
        raise BadInput(f"input has {len(inputs)} texts; give 1 to {most:,}.")
    if any(isinstance(one, int) or (isinstance(one, list) and one and isinstance(one[0], int)) for one in inputs):
        raise BadInput("input has numbers of tokens, which are of another model. Send the texts themselves.")
    return inputs


def _query(reader: ContentReader, form: object) -> Query:
    query = reader.query(form)
    if query.vectors or query.weights:
        raise BadInput("An input has text, image or parts, and no vectors and no weights.")
    return query


def _vectors(encoder: Encoder, queries: list[Query], as_queries: bool) -> Matrix:
    """Return a unit vector for each input, ``(n, d)``; text and image together are fused as ``none`` does."""
    if as_queries:
        return Raw().queries(encoder.encode_queries(queries), np.float32)
    documents = [Document(str(at), parts=query.parts) for at, query in enumerate(queries)]
    return Raw().documents(encoder.encode_documents(documents), np.float32)


def _written(row: Matrix, written: str) -> list[float] | str:
    return row.tolist() if written == "float" else b64encode(row.astype("<f4").tobytes()).decode()
