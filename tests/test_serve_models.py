"""Embeddings in OpenAI's shape and reranking in Cohere's."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders import clip_source
from isthmus.encoders.base import Settings
from isthmus.encoders.matching import Matcher
from isthmus.encoders.runtime import ModelPool
from serving import client_of, data_url, fill, png
from tiny import write_encoder, write_fusion


@pytest.fixture(scope="module")
def fusion(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("models")
    write_fusion(root / "fusion", write_encoder(root / "towers"))
    return f"onnx:{root / 'fusion'}"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, tiny: str, fusion: str) -> Iterator[TestClient]:
    root = tmp_path_factory.mktemp("served")
    fill(root, tiny, count=6)
    with client_of(root, models=(tiny, fusion)) as client:
        yield client


def test_texts_and_pictures_become_the_vectors_of_the_encoder(client: TestClient, tiny: str) -> None:
    picture = {"image": data_url(png(3))}
    body = {"model": tiny, "input": ["a cat", picture]}
    answer = client.post("/v1/embeddings", json=body).json()
    made = encoders.load(tiny).encode_documents([Document("a", "a cat"), Document("b", image=png(3))])
    right = np.stack([made.parts["text"][0], made.parts["image"][1]])
    rows = [one["embedding"] for one in answer["data"]]
    np.testing.assert_allclose(rows, right, atol=1e-6)
    packed = client.post("/v1/embeddings", json={**body, "encoding_format": "base64"}).json()["data"]
    np.testing.assert_allclose(np.frombuffer(b64decode(packed[1]["embedding"]), "<f4"), right[1], atol=1e-6)
    asked = client.post("/v1/embeddings", json={"model": tiny, "input": "a cat", "input_type": "query"}).json()
    expected = encoders.load(tiny).encode_queries([Query("a cat")]).parts["text"][0]
    np.testing.assert_allclose(asked["data"][0]["embedding"], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"input": [1, 2, 3]}, "numbers of tokens"),
        ({"input": []}, "give 1 to"),
        ({"input": "a", "model": "onnx:/etc"}, "model of this server"),
        ({"input": "a", "model": "http:openai:x@http://10.0.0.1"}, "model of this server"),
        ({"input": {"image": "/etc/passwd"}}, "Paths are not read"),
        ({"input": "a", "encoding_format": "hex"}, "'float' or 'base64'"),
    ],
)
def test_a_bad_embeddings_request_says_why(client: TestClient, tiny: str, body: dict[str, object], said: str) -> None:
    answer = client.post("/v1/embeddings", json={"model": tiny, **body})
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


def test_documents_are_ordered_by_cosine_or_by_the_matcher(client: TestClient, tiny: str, fusion: str) -> None:
    documents = ["a dog runs", "a red cat", {"text": "a tree", "image": data_url(png(1))}]
    for place in ("/v1/rerank", "/v2/rerank"):
        body = {"model": tiny, "query": "red cat", "documents": documents}
        found = client.post(place, json=body).json()["results"]
        scores = [one["relevance_score"] for one in found]
        assert scores == sorted(scores, reverse=True)
        assert found[0]["index"] == 1
    matched = client.post("/v1/rerank", json={**body, "model": fusion, "top_n": 2, "return_documents": True}).json()
    assert len(matched["results"]) == 2
    assert matched["results"][0]["document"]["text"] in ("a dog runs", "a red cat", "a tree")
    wrong = client.post("/v1/rerank", json={"model": tiny, "query": "x", "documents": []})
    assert wrong.status_code == 400


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the encoders that are loaded, in order."""
    names: list[str] = []
    real = encoders.open_named

    def counted(name: str, settings: Settings) -> encoders.Encoder:
        names.append(name)
        return real(name, settings)

    monkeypatch.setattr(encoders, "open_named", counted)
    return names


def test_collections_and_requests_share_one_encoder(tmp_path: Path, tiny: str, loads: list[str]) -> None:
    for name in ("one", "two", "three"):
        fill(tmp_path, tiny, name, count=3)
    loads.clear()
    with client_of(tmp_path, models=(tiny,)) as client:
        for name in ("one", "two", "three"):
            assert client.post(f"/v1/collections/{name}/search", json={"query": "a cat"}).status_code == 200
        assert client.post("/v1/embeddings", json={"input": "a cat", "model": tiny}).status_code == 200
        body = {"query": "a cat", "documents": ["a red cat", "a dog"], "model": tiny}
        assert client.post("/v1/rerank", json=body).status_code == 200
        assert client.post("/v1/collections", json={"name": "four", "encoder": tiny}).status_code == 201
    assert loads == [tiny]


def test_a_matcher_is_opened_once(client: TestClient, fusion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[None] = []
    real = Matcher.open
    monkeypatch.setattr(Matcher, "open", lambda *given: opened.append(None) or real(*given))  # type: ignore[func-returns-value]
    body = {"query": "a cat", "documents": ["a red cat", "a dog"], "model": fusion}
    first = client.post("/v1/rerank", json=body).json()["results"]
    assert client.post("/v1/rerank", json=body).json()["results"] == first
    assert len(opened) <= 1  # another test may have opened it


def test_a_pool_loads_an_encoder_again_when_its_files_have_changed(tmp_path: Path, loads: list[str]) -> None:
    write_encoder(tmp_path / "model")
    name, pool = f"onnx:{tmp_path / 'model'}", ModelPool()
    with (
        Collection.open(tmp_path / "a", name, pool=pool) as one,
        Collection.open(tmp_path / "b", name, pool=pool) as two,
    ):
        first = one.encoder
        assert first is two.encoder
    assert loads == [name]
    write_encoder(tmp_path / "model", dim=12)
    with Collection.open(tmp_path / "c", name, pool=pool) as three:
        assert three.encoder is not None and three.encoder.dim == 12
    with Collection.open(tmp_path / "d", name):  # without a pool, its own
        assert loads == [name] * 3


def test_a_pool_sees_a_change_in_a_folder_of_the_model(tmp_path: Path) -> None:
    weights = tmp_path / "model" / "0_Transformer" / "weights"
    weights.parent.mkdir(parents=True)
    made: list[str] = []
    name, pool = f"st:{tmp_path / 'model'}", ModelPool()
    for content in ("one", "one", "three"):
        if not made or content != weights.read_text():
            weights.write_text(content)
        pool.once(("encoder", name), name, lambda: made.append(weights.read_text()))
    assert made == ["one", "three"]


def test_only_models_that_can_be_loaded_are_listed(
    client: TestClient, tiny: str, fusion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> list[str]:
        return [one["id"] for one in client.get("/v1/models").json()["data"]]

    monkeypatch.delenv(clip_source.VARIABLE, raising=False)
    monkeypatch.setattr(clip_source, "_installed", lambda: None)
    monkeypatch.setenv("ISTHMUS_CACHE", str(tmp_path))
    assert listed() == ["mini", tiny, fusion]
    monkeypatch.setenv(clip_source.VARIABLE, str(tmp_path))
    assert listed() == ["mini", "base", tiny, fusion]
