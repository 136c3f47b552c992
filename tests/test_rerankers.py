"""Rerankers by name: cross-encoders, and services in Cohere's format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import CrossEncoder
from transformers import BertConfig, BertForSequenceClassification
from typer.testing import CliRunner

from embedding_service import reply
from endpoint import Answer, Service, serving
from isthmus import Collection, Document, Query
from isthmus.cli import app
from isthmus.encoders.base import Settings
from isthmus.encoders.rerankers import load_reranker
from isthmus.errors import BadFile, BadInput, CannotReach
from stock import pixels
from tiny import write_sentence_transformer
from tiny_towers import LAYERS, words

TEXTS = ["a cat sits on the red sofa", "the dog runs", "a red house", "cat and dog"]


def write_cross_encoder(folder: Path, labels: int = 1) -> Path:
    torch.manual_seed(0)
    said = words()
    config = BertConfig(vocab_size=len(said), max_position_embeddings=32, num_labels=labels, **LAYERS)
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.3)
    said.model_max_length = 32
    for each in (model, said):
        each.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def cross(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"st:{write_cross_encoder(tmp_path_factory.mktemp('cross') / 'c')}"


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(reply=reply) as running:
        yield running


@pytest.fixture(scope="module")
def things(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    with Collection.open(tmp_path_factory.mktemp("rerankers") / "c", tiny, calibration="none") as opened:
        opened.add([Document(id=f"t{at}", text=text) for at, text in enumerate(TEXTS)])
        opened.add([Document(id="i", image=pixels(1)), Document(id="b", text="the tree", image=pixels(2))])
        yield opened


def load(name: str, batch: int = 32) -> Any:
    found = load_reranker(name, Settings(batch=batch))
    assert found is not None
    return found


def documents(texts: list[str]) -> list[Document]:
    return [Document(id=str(at), text=text) for at, text in enumerate(texts)]


def test_a_cross_encoder_gives_the_scores_of_its_library(cross: str) -> None:
    bare = CrossEncoder(cross.removeprefix("st:"), device="cpu", local_files_only=True)
    right = bare.predict([("red cat", text) for text in TEXTS], show_progress_bar=False)
    for batch in (1, 3, 32):
        np.testing.assert_allclose(load(cross, batch).scores(Query.of("red cat"), documents(TEXTS)), right, atol=1e-4)
    assert np.ptp(right) > 1e-3


def test_a_long_document_is_scored_by_its_best_passage_and_a_picture_not_at_all(cross: str) -> None:
    reranker = load(cross)
    query = Query.of("red cat")
    long = " ".join(np.random.default_rng(0).choice(["cat", "dog", "sofa", "tree", "red"], 200))
    passages = reranker.passages("red cat", long)
    assert "".join(passages) == long
    assert len(passages) > 7
    each = reranker.scores(query, documents(list(passages)))
    whole, picture = reranker.scores(query, [Document(id="a", text=long), Document(id="b", image=pixels(0))])
    assert whole == pytest.approx(each.max(), abs=1e-5)
    assert np.isnan(picture)


@pytest.mark.parametrize("name", ["st", "http"])
def test_a_search_is_reranked_by_name(name: str, cross: str, things: Collection, service: Service) -> None:
    rerank = cross if name == "st" else f"http:cohere:rerank-v3.5@{service.url}"
    plain, hits = things.search("red cat", k=6), things.search("red cat", k=6, rerank=rerank)
    matched = [hit.matched for hit in hits if hit.matched is not None]
    assert matched == sorted(matched, reverse=True)
    assert len(matched) == 5
    assert [hit.rank for hit in hits if hit.id == "i"] == [hit.rank for hit in plain if hit.id == "i"]
    assert {hit.id: hit.score for hit in hits} == {hit.id: hit.score for hit in plain}


def test_the_command_line_reranks_by_a_service(things: Collection, service: Service) -> None:
    name = f"http:cohere:rerank-v3.5@{service.url}"
    done = CliRunner().invoke(app, ["search", "red house", "--in", str(things.path), "--rerank", name, "--json"])
    assert next(hit["id"] for hit in json.loads(done.stdout) if hit["modality"] == "text") == "t2", done.output
    assert service.paths == ["/v1/rerank"]
    assert service.asked[0]["top_n"] == len(service.asked[0]["documents"]) == 5


def test_a_service_that_leaves_out_documents_is_refused(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isthmus.encoders.http.TRIES", 1)
    reranker = load(f"http:jina:jina-reranker-v2@{service.url}")
    for body, said in [({"results": [{"index": 0, "relevance_score": 1}]}, "leaves out"), ({}, "no scores")]:
        service.answers = [Answer(json.dumps(body).encode())]
        with pytest.raises(CannotReach, match=said):
            reranker.scores(Query.of("cat"), documents(TEXTS))


def test_models_that_do_not_score_pairs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(BadInput, match=r"without a head for pairs\. Name a cross-encoder"):
        load(f"st:{write_sentence_transformer(tmp_path / 'encoder').parent}")
    with pytest.raises(BadInput, match="gives 3 numbers for a pair"):
        load(f"st:{write_cross_encoder(tmp_path / 'three', 3)}").scores(Query.of("cat"), documents(TEXTS))
    with pytest.raises(BadFile, match="cannot load 'no/such'"):
        load("st:no/such")
    with pytest.raises(BadInput, match=r"no format for reranking\. Write http:FORMAT:MODEL with cohere or jina"):
        load("http:openai:m")
    assert load_reranker("mini", Settings()) is None
