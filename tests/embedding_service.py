"""A local service that speaks the wire formats of OpenAI, Cohere, Voyage and Jina, and refuses what they refuse."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import numpy as np

from endpoint import Answer

DIM = 8
ROLES = {"search_query": "query", "search_document": "document", "retrieval.query": "query", "query": "query"}


def vector(content: str) -> list[float]:
    """A random vector that depends on the content alone."""
    seed = int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big")
    return [round(float(number), 6) for number in np.random.default_rng(seed).normal(size=DIM)]


def quantised(numbers: list[float], output: str) -> list[float]:
    """The numbers in 8 bits, or as packed bits."""
    if output == "int8":
        return [int(number * 30) for number in numbers]
    assert output in ("float", "ubinary")
    return numbers if output == "float" else [float(byte) for byte in np.packbits(np.array(numbers) > 0)]


def reply(path: str, body: dict[str, Any]) -> Answer:
    """Answer a request, with status 400 if it is not what the documentation asks for."""
    try:
        return Answer(json.dumps(_answers[path.removeprefix("/v1")](body)).encode())
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        return Answer(json.dumps({"message": f"bad request: {type(error).__name__} {error}"}).encode(), 400)


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    given = body["input"]
    known = {"model", "input", "encoding_format", "input_type", "truncation", "task", "normalized", "embedding_type"}
    known |= {"output_dtype"}
    assert body.keys() <= known, body.keys()
    assert len(given) <= 2048
    contents = [_jina(one) if isinstance(one, dict) else f"{_role(body)}{one}" for one in given]
    assert all(contents)
    output = body.get("output_dtype") or body.get("embedding_type") or "float"
    assert output in (("float", "int8", "ubinary") if "output_dtype" in body else ("float", "ubinary"))
    return _rows(contents, output)


def _jina(one: dict[str, str]) -> str:
    ((kind, content),) = one.items()
    assert kind in ("text", "image")
    return content if kind == "text" else _picture(content)


def _role(body: dict[str, Any]) -> str:
    return ROLES.get(body.get("input_type") or body.get("task") or "", "")


def _multimodal(body: dict[str, Any]) -> dict[str, Any]:
    assert body.keys() == {"model", "inputs", "input_type", "truncation"}
    assert body["input_type"] in ("query", "document")
    assert len(body["inputs"]) <= 1000
    contents = []
    for one in body["inputs"]:
        (content,) = one["content"]
        kind = content["type"]
        assert kind in ("text", "image_base64")
        contents.append(content[kind] if kind == "text" else _picture(content[kind].split(",")[1]))
    return _rows(contents)


def _rows(contents: list[str], output: str = "float") -> dict[str, Any]:
    rows = [
        {"object": "embedding", "index": at, "embedding": quantised(vector(one), output)}
        for at, one in enumerate(contents)
    ]
    return {"object": "list", "data": rows[::-1], "usage": {"total_tokens": sum(map(len, contents))}}


def _embed(body: dict[str, Any]) -> dict[str, Any]:
    (output,) = body["embedding_types"]
    if "images" in body:
        assert len(body["images"]) == 1
        assert body["input_type"] == "image"
        assert body["images"][0].startswith("data:image/")
        contents = [_picture(body["images"][0].split(",")[1])]
    else:
        assert body["input_type"] in ("search_query", "search_document")
        assert 0 < len(body["texts"]) <= 96
        contents = body["texts"]
    rows = [quantised(vector(one), output) for one in contents]
    return {"embeddings": {output: rows}, "meta": {"billed_units": {"input_tokens": sum(map(len, contents))}}}


def _picture(data: str) -> str:
    assert base64.b64decode(data, validate=True)[:3] == b"\xff\xd8\xff"
    return data


def _rerank(body: dict[str, Any]) -> dict[str, Any]:
    """Score by the words that query and document share, best first."""
    assert body.keys() == {"model", "query", "documents", "top_n"}
    assert all(isinstance(one, str) and one for one in body["documents"])
    wanted = set(body["query"].split())
    scores = [len(wanted & set(text.split())) / (1 + len(text.split())) for text in body["documents"]]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])[: body["top_n"]]
    results = [{"index": at, "relevance_score": scores[at]} for at in order]
    return {"id": "1", "results": results, "meta": {"billed_units": {"search_units": 1}}}


_answers = {
    "/embeddings": _embeddings,
    "/multimodalembeddings": _multimodal,
    "/embed": _embed,
    "/rerank": _rerank,
}
