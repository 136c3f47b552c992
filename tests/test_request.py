"""A search request holds every option of a search, checked, and goes through JSON unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, fields
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Image, Query, SearchRequest, Text
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.search.request import OPTIONS
from isthmus.types import Matrix
from stock import mixed

EVERY: dict[str, Any] = {
    "k": 3,
    "offset": 1,
    "where": {"odd": True},
    "modalities": ["-text"],
    "hybrid": True,
    "align": "caption",
    "rerank": "onnx:model",
    "min_probability": 0.5,
    "explain": True,
    "group": True,
    "partial": True,
}


@pytest.fixture
def things(tmp_path: Path, encoder: Encoder) -> Collection:
    made = Collection.open(tmp_path / "c", encoder, calibration="center", follow=False)
    made.add(mixed(30))
    return made


@pytest.mark.parametrize("method", ["search", "search_many"])
def test_a_search_takes_the_options_of_a_request_and_their_defaults(method: str) -> None:
    taken = signature(getattr(Collection, method)).parameters
    known = {option.name: option.default for option in fields(SearchRequest)[1:]}
    assert {name: one.default for name, one in taken.items() if name not in ("self", "query", "queries")} == known


@pytest.mark.parametrize("options", [{}, {"k": 3}, {"where": {"odd": True}, "explain": True}, {"calibration": "none"}])
def test_a_request_finds_what_the_same_options_find(things: Collection, options: dict[str, Any]) -> None:
    found = things.search("a red cat", **options)
    assert found
    assert things.search(SearchRequest("a red cat", **options)) == found
    assert things.search(SearchRequest.from_json({"query": "a red cat", **options})) == found


def test_requests_with_different_options_are_answered_each_by_its_own(things: Collection) -> None:
    requests = [SearchRequest("a cat", k=2), SearchRequest("dog", k=2), SearchRequest("a cat", where={"odd": True})]
    assert things.search_many(requests) == [things.search(request) for request in requests]
    assert things.search_many(["dog", Query("a cat")], k=2) == [
        things.search(SearchRequest(text, k=2)) for text in ("dog", "a cat")
    ]


def test_options_beside_a_request_are_rejected(things: Collection) -> None:
    with pytest.raises(BadInput, match="has its options inside"):
        things.search(SearchRequest("a cat"), k=3)
    with pytest.raises(BadInput, match="has its options inside"):
        things.search_many(["dog", SearchRequest("a cat")], explain=True)


def test_options_are_checked_where_there_is_no_query(things: Collection) -> None:
    assert things.search_many([]) == []
    with pytest.raises(BadInput, match="k is 0"):
        things.search_many([], k=0)


def test_every_option_goes_through_json_unchanged() -> None:
    for options in (EVERY, {"calibration": "none"}, {}):
        request = SearchRequest("a cat", **options)
        form = json.loads(json.dumps(request.to_json()))
        assert form == {"query": "a cat", **options}
        assert SearchRequest.from_json(form) == request
    assert {*EVERY, "calibration"} == set(OPTIONS)


def test_every_part_of_a_query_goes_through_json_unchanged() -> None:
    for query in (
        Query("a cat"),
        Query(parts=[Text("what is this"), Image("cat.jpg"), Image(b"\x89PNG")]),
        Query("green", image=b"\xff\xd8", weights={"text": 2, "image": 1}),
        Query(vectors={"text": np.array([0.25, 0.5])}),
    ):
        form = json.loads(json.dumps(SearchRequest(query).to_json()))
        assert SearchRequest.from_json(form).query == query


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"query": "a", "explian": True}, "no option 'explian'. Did you mean 'explain'?"),
        ({"query": {"txt": "a"}}, "no key 'txt'. Did you mean 'text'?"),
        ({"k": 3}, "has no 'query'"),
        ({"query": None}, "A query is an object in JSON, not None"),
        ({"query": {}}, "neither text nor image"),
        ({"query": "a", "k": "3"}, "k is '3'; it must be a whole number"),
        ({"query": "a", "where": {"year": {"above": 3}}}, "above"),
        ({"query": "a", "align": {}}, "align is {}; it must be a name"),
        ({"query": {"image": 3}}, "image of type int"),
        ({"query": {"parts": [{"kind": "image", "content": "data:;base64,%%"}]}}, "not base64"),
        ({"query": {"parts": [{"kind": "image"}]}}, "without content or path"),
        ({"query": {"parts": [{"kind": "imag", "content": "a.jpg"}]}}, "Did you mean 'image'?"),
        ({"query": {"parts": "b.jpg"}}, "give a list"),
        ({"query": {"vectors": {"text": ["a"]}}}, "must be a row of numbers"),
        ({"query": "a", "calibration": "center"}, "calibration='none'"),
        ({"query": "a", "calibration": "none", "hybrid": True}, "neither words nor probabilities"),
        ([], "A search is an object in JSON"),
    ],
)
def test_json_that_is_no_request_is_rejected_and_says_why(form: Any, said: str) -> None:
    with pytest.raises(BadInput) as error:
        SearchRequest.from_json(form)
    assert said in str(error.value)


def test_what_json_cannot_hold_is_rejected() -> None:
    class Mine:
        def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
            return np.zeros(len(documents))

    with pytest.raises(BadInput, match="only a name can be written"):
        SearchRequest("a cat", rerank=Mine()).to_json()
    with pytest.raises(BadInput, match="cannot be written as JSON"):
        SearchRequest(Query(image=np.zeros((4, 4, 3), dtype=np.uint8))).to_json()


def test_a_request_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        SearchRequest("a cat").k = 3  # type: ignore[misc]
