"""``http:``: what is sent in each wire format, and what is made of errors, throttling and wrong answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from embedding_service import quantised, reply, vector
from endpoint import Answer, Service, serving
from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.encoders.base import Settings
from isthmus.encoders.http import HttpEncoder, HttpModel, encoder_of
from isthmus.encoders.wire_formats import FORMATS
from isthmus.errors import BadInput, CannotReach, UnknownName
from isthmus.service import Pace

MODELS = {
    "openai": "text-embedding-3-small",
    "cohere": "embed-v4.0",
    "voyage": "voyage-multimodal-3",
    "jina": "jina-clip-v2",
}


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(reply=reply) as running:
        yield running


def patient(service: Service, waits: list[float], name: str = "openai:m") -> HttpEncoder:
    """An encoder that does not sleep."""
    model = HttpModel.parse(f"{name}@{service.url}")
    quick = replace(model.service, wait=waits.append, spread=lambda: 1.0)
    return encoder_of(replace(model, service=quick), name, Settings(cache=encoders.MemoryCache(limit=0)))


def picture(seed: int) -> Any:
    return np.random.default_rng(seed).integers(0, 255, size=(9, 7, 3), dtype=np.uint8)


def unit(rows: Any) -> Any:
    return np.array(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_vectors_of_the_service_in_order(name: str, service: Service) -> None:
    encoder: Any = encoders.load(f"http:{name}:{MODELS[name]}@{service.url}", batch=300)
    texts = [f"text {row}" for row in range(250)]
    found = encoder.encode_documents([Document(id=text, text=text) for text in texts])
    np.testing.assert_allclose(found.parts["text"], unit([vector(text) for text in texts]), atol=1e-4)
    assert encoder.usage.tokens == sum(map(len, ["a", *texts]))
    assert encoder.usage.requests == 1 + (3 if name == "cohere" else 1)  # it takes 96 texts
    assert {body["model"] for body in service.asked} == {MODELS[name]}


@pytest.mark.parametrize("name", ["cohere", "voyage", "jina"])
def test_pictures_are_sent_inline_in_requests_of_the_size_that_is_allowed(name: str, service: Service) -> None:
    encoder: Any = encoders.load(f"http:{name}:{MODELS[name]}@{service.url}")
    assert encoder.modalities == ("image", "image+text", "text")
    documents = [Document(id=str(n), image=picture(n)) for n in range(9)]
    documents.append(Document(id="both", text="a cat", image=picture(0)))
    found = encoder.encode_documents(documents)
    assert len(np.unique(found.parts["image"], axis=0)) == 9
    np.testing.assert_allclose(found.parts["text"][9], unit([vector("a cat")])[0], atol=1e-4)
    assert len(service.asked) == 2 + (9 if name == "cohere" else 2)


def test_queries_and_documents_are_told_apart_where_the_service_can(service: Service) -> None:
    for name, field, query, document in [
        ("cohere", "input_type", "search_query", "search_document"),
        ("voyage", "input_type", "query", "document"),
        ("jina", "task", "retrieval.query", None),
    ]:
        encoder = encoders.load(f"http:{name}:{MODELS[name]}@{service.url}")
        encoder.encode_queries(["a cat"])
        encoder.encode_documents([Document(id="a", text="a cat")])
        assert [body.get(field) for body in service.asked[-2:]] == [query, document]
    encoders.load(f"http:jina:jina-embeddings-v3@{service.url}")
    assert service.asked[-1]["task"] == "retrieval.passage"
    encoders.load(f"http:voyage:voyage-3-large@{service.url}")
    assert service.paths[-1] == "/v1/embeddings"


def test_models_of_words_refuse_pictures(service: Service) -> None:
    for name in ("openai:m", "voyage:voyage-3-large", "jina:jina-embeddings-v3"):
        assert encoders.load(f"http:{name}@{service.url}").modalities == ("text",)


def test_a_collection_is_made_and_searched(service: Service, tmp_path: Path) -> None:
    name = f"http:voyage:{MODELS['voyage']}@{service.url}"
    with Collection.open(tmp_path / "c", encoder=name, calibration="none") as things:
        things.add([Document(id="a", text="a cat"), Document(id="b", image=picture(1))])
    with Collection.open(tmp_path / "c") as things:
        assert things.search("a cat", k=1)[0].id == "a"
        assert things.search(Query(image=picture(1)), k=1)[0].id == "b"


def test_the_command_line_says_what_was_used(service: Service, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "cat.txt").write_text("a red cat")
    command = ["index", str(tmp_path / "notes"), "--into", str(tmp_path / "c"), "--calibration", "none"]
    done = CliRunner().invoke(app, [*command, "--encoder", f"http:openai:m@{service.url}"])
    tokens = sum(len(text) for body in service.asked for text in body["input"])
    name = f"http:openai:m@{service.url}"
    assert f"Used by {name}: {len(service.asked)} requests, {tokens:,} tokens." in done.stdout, done.output
    assert "Used" not in CliRunner().invoke(app, command).stdout  # nothing was encoded again


def test_tokens_and_search_units_become_money_where_prices_are_given(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISTHMUS_HTTP_PRICES", "m=0.02, rerank-v3.5=2")
    encoder, rerank = f"http:openai:m@{service.url}", f"http:cohere:rerank-v3.5@{service.url}"
    with Collection.open(tmp_path / "c", encoder=encoder, calibration="none") as things:
        things.add([Document(id="a", text="a red cat"), Document(id="b", text="a dog")])
        for query in ("a red cat", "a big dog"):
            things.search(query, rerank=rerank)
        spent: Any = things.usage
    tokens = len(
        "a" + "a red cat" + "a dog" + "a big dog"
    )  # the service counts letters; a query equal to a text is known
    assert set(spent) == {encoder, rerank}
    assert (spent[rerank].requests, spent[rerank].tokens, spent[rerank].searches) == (2, 0, 2)
    assert str(spent[rerank]) == "2 requests, 2 search units, 0.004 at the given price"
    assert spent[encoder].tokens >= tokens
    assert spent[encoder].cost == pytest.approx(spent[encoder].tokens * 0.02 / 1e6)


def test_a_search_on_the_command_line_says_what_its_reranker_cost(service: Service, tiny: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        things.add([Document(id="a", text="a red cat")])
        assert things.usage == {}
    rerank = f"http:cohere:rerank-v3.5@{service.url}"
    done = CliRunner().invoke(app, ["search", "cat", "--in", str(tmp_path / "c"), "--rerank", rerank])
    assert f"Used by {rerank}: 1 request, 1 search unit." in done.stderr
    jina = f"http:jina:jina-reranker-v2@{service.url}"
    service.answers = [Answer(b'{"results": [{"index": 0, "relevance_score": 0.5}], "usage": {"total_tokens": 12}}')]
    done = CliRunner().invoke(app, ["search", "cat", "--in", str(tmp_path / "c"), "--rerank", jina])
    assert f"Used by {jina}: 1 request, 12 tokens." in done.stderr


@pytest.mark.parametrize("said", ["m", "=2", "m=much", "m=-1", "m=1,dog", "m=nan", "m=inf"])
def test_prices_that_cannot_be_read_are_refused(said: str, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_HTTP_PRICES", said)
    with pytest.raises(BadInput, match=r"ISTHMUS_HTTP_PRICES has '.+'\. Write MODEL=NUMBER"):
        encoders.load(f"http:openai:m@{service.url}")


@pytest.mark.parametrize("status", [429, 500, 503])
def test_temporary_errors_are_tried_again_with_longer_waits(status: int, service: Service) -> None:
    waits: list[float] = []
    encoder = patient(service, waits)
    service.answers = [Answer(status=status)] * 3
    assert len(encoder.encode_queries(["a cat"])) == 1
    assert waits == [0.5, 1.0, 2.0]
    assert encoder.usage.requests == 2


def test_the_service_says_how_long_to_wait(service: Service) -> None:
    waits: list[float] = []
    encoder = patient(service, waits)
    later = formatdate(4102444800, usegmt=True)  # in 2100
    service.answers = [
        Answer(status=429, headers={"Retry-After": "7"}),
        Answer(status=429, headers={"Retry-After": "x"}),
    ]
    encoder.encode_queries(["a cat"])
    assert waits == [7.0, 1.0]
    service.answers = [Answer(status=429, headers={"Retry-After": later})]
    with pytest.raises(CannotReach, match="429 Too Many Requests"):
        encoder.encode_queries(["a dog"])  # nobody waits until 2100
    assert waits == [7.0, 1.0]


def test_pauses_are_spread_so_that_clients_do_not_come_back_together(service: Service) -> None:
    model = HttpModel.parse(f"openai:m@{service.url}")
    factors = {model.service.spread() for _ in range(20)}
    assert len(factors) > 10
    assert all(0.5 <= factor < 1.5 for factor in factors)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(b'{"error": {"message": "invalid key"}}', 401), "401 Unauthorized: invalid key"),
        (Answer(b'{"message": "too many texts"}', 400), "400 Bad Request: too many texts"),
        (Answer(b'{"detail": "no such model"}', 404), "404 Not Found: no such model"),
    ],
)
def test_a_wrong_request_is_made_once_and_its_answer_shown(answer: Answer, said: str, service: Service) -> None:
    encoder = patient(service, [])
    before, service.answers = len(service.asked), [answer]
    with pytest.raises(CannotReach, match=rf"m at \S+ failed: it answered {said}.*the key in OPENAI_API_KEY"):
        encoder.encode_queries(["a cat"])
    assert len(service.asked) == before + 1


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("openai:m", {}),
        ("openai:m", []),
        ("openai:m", {"data": [{"index": 0}]}),
        ("openai:m", {"data": []}),
        ("openai:m", {"data": [{"index": 0, "embedding": ["a"]}]}),
        ("openai:m", {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [2.0]}]}),
        ("cohere:embed-v4.0", {"embeddings": {}}),
        ("cohere:embed-v4.0", {"embeddings": {"float": []}}),
    ],
)
def test_an_answer_without_the_vectors_is_refused(name: str, body: object, service: Service) -> None:
    encoder = patient(service, [], name)
    service.answers = [Answer(json.dumps(body).encode())] * 6
    with pytest.raises(CannotReach, match=r"its (answer has no vectors|vectors have the shape)"):
        encoder.encode_queries(["a cat"])


def test_an_answer_of_other_makers_may_leave_out_numbers_and_counts(service: Service) -> None:
    encoder = patient(service, [])
    body = {"data": [{"embedding": [1.0] * encoder.dim}], "usage": None}
    service.answers = [Answer(json.dumps(body).encode())] * 6
    assert encoder.encode_queries(["a cat"]).parts["text"].shape == (1, encoder.dim)


def test_long_texts_are_split_and_not_cut(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_HTTP_TOKENS", "16")
    encoder = encoders.load(f"http:openai:m@{service.url}")
    long = "a cat and a dog " * 20
    places = encoder.split(long)
    assert "".join(long[start:end] for start, end in places) == long
    assert all(end - start <= 32 for start, end in places)
    monkeypatch.setenv("ISTHMUS_HTTP_TOKENS", "many")
    with pytest.raises(BadInput, match="ISTHMUS_HTTP_TOKENS is 'many'; it must be a number above 0"):
        encoders.load(f"http:openai:m@{service.url}")


def test_requests_keep_to_the_pace(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    waits: list[float] = []
    pace = Pace(30, clock=lambda: 100.0, wait=waits.append)
    for _ in range(3):
        pace.next()
    assert waits == [2.0, 4.0]
    monkeypatch.setenv("ISTHMUS_HTTP_PER_MINUTE", "600000")
    assert encoders.load(f"http:openai:m@{service.url}").dim == 8


def test_keys_come_from_the_environment_and_are_never_shown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", "co-SECRET")
    encoder: Any = encoders.load(f"http:cohere:{MODELS['cohere']}@{service.url}")
    assert service.headers[-1]["Authorization"] == "Bearer co-SECRET"
    assert "SECRET" not in f"{encoder!r} {encoder.text!r} {encoder.name} {encoder.identity}"


def test_offline_only_this_machine_is_asked(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    assert encoders.load(f"http:openai:m@{service.url}").dim == 8
    with pytest.raises(CannotReach, match="is not on this machine, and offline is set"):
        encoders.load("http:openai:text-embedding-3-small")


@pytest.mark.parametrize("name", ["openai", "openai:", "openai:m@https://", ":m"])
def test_names_without_a_service_are_refused(name: str) -> None:
    with pytest.raises(BadInput, match=r"names no service|No wire format"):
        encoders.load(f"http:{name}")


def test_unknown_formats_and_urls_with_secrets_are_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'openai'"):
        encoders.load("http:opnai:m")
    with pytest.raises(BadInput, match="contains a password"):
        encoders.load("http:openai:m@https://me:secret@example.org/v1")


def test_the_identity_follows_the_model_and_the_place(service: Service) -> None:
    first, other = (encoders.load(f"http:openai:{name}@{service.url}").identity for name in ("a", "b"))
    assert first == encoders.load(f"http:openai:a@{service.url}").identity != other


@pytest.mark.parametrize("name", ["cohere/int8:embed-v4.0", "voyage/int8:voyage-3.5"])
def test_vectors_of_8_bits_become_unit_rows(name: str, service: Service) -> None:
    encoder = encoders.load(f"http:{name}@{service.url}")
    found = encoder.encode_documents([Document(id="a", text="a cat")]).parts["text"]
    np.testing.assert_allclose(found, unit([quantised(vector("a cat"), "int8")]), atol=1e-6)
    assert encoder.identity != encoders.load(f"http:{name.replace('/int8', '')}@{service.url}").identity


@pytest.mark.parametrize("name", ["cohere/binary:embed-v4.0", "voyage/binary:voyage-3.5", "jina/binary:jina-clip-v2"])
def test_packed_bits_become_rows_of_equal_numbers_of_either_sign(name: str, service: Service) -> None:
    encoder = encoders.load(f"http:{name}@{service.url}")
    found = encoder.encode_documents([Document(id="a", text="a cat")]).parts["text"][0]
    right = [1.0 if number > 0 else -1.0 for number in vector("a cat")]
    np.testing.assert_allclose(found, np.array(right) / np.sqrt(8), atol=1e-6)


@pytest.mark.parametrize("name", ["cohere/int8:embed-v4.0", "voyage/binary:voyage-3.5", "jina/binary:jina-clip-v2"])
def test_queries_of_words_are_floats_whatever_documents_are(name: str, service: Service) -> None:
    encoder = encoders.load(f"http:{name}@{service.url}")
    plain = encoders.load(f"http:{name.replace('/int8', '').replace('/binary', '')}@{service.url}")
    asked = [Query("a cat"), Query("a cat")]
    one, other = (each.encode_queries(asked).parts["text"] for each in (encoder, plain))
    np.testing.assert_array_equal(one, other)
    document = encoder.encode_documents([Document(id="a", text="a cat")]).parts["text"][0]
    assert np.abs(document - one[0]).max() > 1e-3


def test_outputs_that_a_service_has_not_are_refused(service: Service) -> None:
    for name, says in {
        "openai/int8:m": "No output of http:openai is called 'int8'",
        "jina/int8:jina-clip-v2": "No output of http:jina is called 'int8'",
        "voyage/int8:voyage-multimodal-3": "return float vectors only",
    }.items():
        with pytest.raises((UnknownName, BadInput), match=says):
            encoders.load(f"http:{name}@{service.url}")
