"""What embedding services send and receive: OpenAI's, Cohere's, Voyage's and Jina's, by their documentation.

A row of ``FORMATS`` has the address, the limits, and three functions: the request for texts, the request for pictures
(data URLs), and the vectors and tokens of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from isthmus.encoders.base import Role


class WireRequest(NamedTuple):
    """A path below the service's URL, and the JSON that is posted to it."""

    path: str
    body: dict[str, object]


TextRequest: TypeAlias = Callable[[str, Sequence[str], Role], WireRequest]  # (model, texts, role)
ImageRequest: TypeAlias = Callable[[str, Sequence[str]], WireRequest]  # (model, data URLs)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """How one kind of service is asked."""

    url: str  # where the vendor's own service is
    keys: tuple[str, ...]  # environment variables with the key
    tokens: int  # of a text
    together: int  # tokens of all texts in one request
    texts: int  # in one request
    pictures: int
    reads_images: re.Pattern[str]  # the names of models that do
    text: TextRequest
    image: ImageRequest
    vectors: Callable[[Any], Sequence[Sequence[float]]]
    used: Callable[[Any], int]  # tokens that were charged for
    searches: Callable[[Any], int] = lambda _: 0  # of a reranker that charges by searches
    outputs: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # fields that ask for other numbers


def _openai_texts(model: str, texts: Sequence[str], role: Role) -> WireRequest:  # noqa: ARG001 - it knows no roles
    return WireRequest("/embeddings", {"model": model, "input": list(texts), "encoding_format": "float"})


def _no_images(model: str, urls: Sequence[str]) -> WireRequest:
    raise ValueError(f"{model} does not read {len(urls)} pictures")


def _cohere_texts(model: str, texts: Sequence[str], role: Role) -> WireRequest:
    body = {"model": model, "input_type": f"search_{role}", "texts": list(texts), "truncate": "NONE"}
    return WireRequest("/embed", {**body, "embedding_types": ["float"]})


def _cohere_images(model: str, urls: Sequence[str]) -> WireRequest:
    return WireRequest(
        "/embed", {"model": model, "input_type": "image", "images": list(urls), "embedding_types": ["float"]}
    )


def _voyage_texts(model: str, texts: Sequence[str], role: Role) -> WireRequest:
    if "multimodal" not in model:
        return WireRequest(
            "/embeddings", {"model": model, "input": list(texts), "input_type": role, "truncation": False}
        )
    return _voyage_contents(model, [{"type": "text", "text": text} for text in texts], role)


def _voyage_images(model: str, urls: Sequence[str]) -> WireRequest:
    return _voyage_contents(model, [{"type": "image_base64", "image_base64": url} for url in urls], "document")


def _voyage_contents(model: str, contents: Sequence[dict[str, str]], role: Role) -> WireRequest:
    inputs = [{"content": [content]} for content in contents]
    return WireRequest(
        "/multimodalembeddings", {"model": model, "inputs": inputs, "input_type": role, "truncation": False}
    )


def _jina_texts(model: str, texts: Sequence[str], role: Role) -> WireRequest:
    body = _jina(model, [{"text": text} for text in texts])
    if role == "query" or not model.startswith("jina-clip"):  # the CLIP models have a task for queries alone
        body["task"] = "retrieval.query" if role == "query" else "retrieval.passage"
    return WireRequest("/embeddings", body)


def _jina_images(model: str, urls: Sequence[str]) -> WireRequest:
    return WireRequest("/embeddings", _jina(model, [{"image": url.partition(",")[2]} for url in urls]))


def _jina(model: str, inputs: Sequence[dict[str, str]]) -> dict[str, object]:
    return {"model": model, "input": list(inputs), "normalized": True, "embedding_type": "float"}


def _data(answer: Any) -> Sequence[Sequence[float]]:
    """Read ``data``, whose rows may come in any order, or without numbers."""
    return [row["embedding"] for row in sorted(answer["data"], key=lambda row: row.get("index") or 0)]


def _cohere_vectors(answer: Any) -> Sequence[Sequence[float]]:
    found: Sequence[Sequence[float]] = next((rows for rows in answer["embeddings"].values() if rows), [])  # of one type
    return found


def _total_tokens(answer: Any) -> int:
    return int((answer.get("usage") or {}).get("total_tokens") or 0)


def _billed_tokens(answer: Any) -> int:
    return _billed(answer, "input_tokens") + _billed(answer, "image_tokens")


def _billed_searches(answer: Any) -> int:
    return _billed(answer, "search_units")


def _billed(answer: Any, what: str) -> int:
    """Return a count of ``meta``; servers of other makers leave it out, or write null."""
    units = (answer.get("meta") or {}).get("billed_units") or {}
    return int(units.get(what) or 0)


FORMATS: Mapping[str, WireFormat] = MappingProxyType(
    {
        "openai": WireFormat(
            url="https://api.openai.com/v1",
            keys=("ISTHMUS_OPENAI_KEY", "OPENAI_API_KEY"),
            tokens=8191,
            together=300_000,
            texts=2048,
            pictures=1,
            reads_images=re.compile(r"(?!)"),
            text=_openai_texts,
            image=_no_images,
            vectors=_data,
            used=_total_tokens,
        ),
        "cohere": WireFormat(
            url="https://api.cohere.com/v2",
            keys=("ISTHMUS_COHERE_KEY", "COHERE_API_KEY", "CO_API_KEY"),
            tokens=512,
            together=128_000,
            texts=96,
            pictures=1,
            reads_images=re.compile(r"embed-.*v[3-9].*"),
            text=_cohere_texts,
            image=_cohere_images,
            vectors=_cohere_vectors,
            used=_billed_tokens,
            searches=_billed_searches,
            outputs={"int8": {"embedding_types": ["int8"]}, "binary": {"embedding_types": ["ubinary"]}},
        ),
        "voyage": WireFormat(
            url="https://api.voyageai.com/v1",
            keys=("ISTHMUS_VOYAGE_KEY", "VOYAGE_API_KEY"),
            tokens=16_000,
            together=120_000,
            texts=1000,
            pictures=8,
            reads_images=re.compile(r".*multimodal.*"),
            text=_voyage_texts,
            image=_voyage_images,
            vectors=_data,
            used=_total_tokens,
            outputs={"int8": {"output_dtype": "int8"}, "binary": {"output_dtype": "ubinary"}},
        ),
        "jina": WireFormat(
            url="https://api.jina.ai/v1",
            keys=("ISTHMUS_JINA_KEY", "JINA_API_KEY"),
            tokens=8192,
            together=128_000,
            texts=512,
            pictures=8,
            reads_images=re.compile(r"jina-clip.*|jina-embeddings-v4.*"),
            text=_jina_texts,
            image=_jina_images,
            vectors=_data,
            used=_total_tokens,
            outputs={"binary": {"embedding_type": "ubinary"}},
        ),
    }
)
