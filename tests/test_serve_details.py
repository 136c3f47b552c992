"""The values of fields and maps of hits over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from isthmus import Collection, Document, samples
from isthmus.kinds import Image, Text
from isthmus.search import Map
from isthmus.serve.keys import create_key
from serving import THINGS, client_of, data_url, fill, png
from stock import pixels

FEW = "/v1/collections/few"
LAKE = "photos/lake.jpg"
QUERY = "snowy mountains and a lake"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """A collection of an encoder without maps, and one of an encoder that has them."""
    root = tmp_path_factory.mktemp("details")
    fill(root, tiny)
    lake = samples.folder() / LAKE
    with Collection.open(root / "few.isthmus", follow=False) as few:
        pieces = [Text("Snow on the peaks above a lake."), Image(pixels(3)), Image(lake)]
        few.add([Document(LAKE, image=lake, metadata={"path": str(lake)}), Document("several", parts=pieces)])
        few.add([Document("pictures", parts=pieces[1:]), Document("note", "Snow on the peaks of Montana.")])
    return root


@pytest.fixture(scope="module")
def client(root: Path) -> Iterator[TestClient]:
    with client_of(root) as client:
        yield client


def mapped(client: TestClient, document: str, query: object = QUERY) -> dict[str, Any]:
    found = client.post(f"{FEW}/documents/{document.replace('/', '%2F')}/maps", json={"query": query})
    assert found.status_code == 200, found.text
    form: dict[str, Any] = found.json()
    return form


def test_a_map_is_what_the_library_computes(client: TestClient, root: Path) -> None:
    assert client.get(f"{FEW}/maps").json() == {"maps": True}
    form = mapped(client, "note")
    with Collection.open(root / "few.isthmus") as few:
        made: list[Map] = few.maps(QUERY, few.search(QUERY, where={"id": "note"}))
    assert form["similarity"] == pytest.approx(made[0].similarity)
    words = [(one["start"], one["end"], one["share"]) for one in form["document"]["words"]]
    assert words == [(a, b, pytest.approx(share, abs=1e-6)) for a, b, share in made[0].document.words or ()]
    assert (form["document"]["patches"], form["parts"]) == (None, {"words": 0, "patches": None})
    best = max(form["document"]["words"], key=lambda one: one["share"])
    assert "Snow on the peaks of Montana."[best["start"] : best["end"]] == "Snow"


def test_a_map_of_a_picture_has_a_row_of_shares_for_each_row_of_patches(client: TestClient) -> None:
    form = mapped(client, LAKE)
    assert [len(row) for row in form["document"]["patches"]] == [8] * 8
    assert len(form["query"]["words"]) == 5
    alone = mapped(client, LAKE, {"image": data_url(png(3))})
    assert (alone["query"]["words"], len(alone["query"]["patches"])) == (None, 8)


@pytest.mark.parametrize(("document", "text"), [("several", 0), ("pictures", None)])
def test_of_several_pictures_the_one_that_matched_is_mapped(
    client: TestClient, document: str, text: int | None
) -> None:
    form, lake = mapped(client, document), mapped(client, LAKE)
    last = 2 if text == 0 else 1
    assert form["parts"] == {"words": text, "patches": last}
    if text is None:
        assert form["document"]["patches"] == lake["document"]["patches"]


def test_an_encoder_without_maps_says_so(client: TestClient) -> None:
    assert client.get(f"{THINGS}/maps").json() == {"maps": False}
    refused = client.post(f"{THINGS}/documents/d0-1/maps", json={"query": "dog"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        422,
        "The encoder of this collection has no maps.",
    )


@pytest.mark.parametrize(
    ("document", "body", "status"),
    [
        ("note", {}, 400),
        ("note", {"query": "dog", "k": 5}, 400),
        ("note", {"query": "x" * 4001}, 400),
        ("note", {"query": {"image": "no picture"}}, 400),
        ("none", {"query": "dog"}, 404),
    ],
)
def test_a_map_that_cannot_be_made_is_refused(client: TestClient, document: str, body: object, status: int) -> None:
    assert client.post(f"{FEW}/documents/{document}/maps", json=body).status_code == status


def test_values_are_counted_for_all_fields_or_for_those_named(client: TestClient) -> None:
    fields = {one["name"]: one for one in client.get(f"{THINGS}/values").json()["fields"]}
    assert sorted(fields) == ["modality", "number", "odd"]
    assert fields["odd"]["values"] == [{"value": 0, "documents": 15}, {"value": 1, "documents": 15}]
    assert (fields["number"]["numbers"], fields["number"]["more"]) == ([0, 29], True)
    named = client.get(f"{THINGS}/values", params={"field": ["odd", "none"], "count": 1}).json()["fields"]
    assert [(one["name"], len(one["values"]), one["more"]) for one in named] == [("odd", 1, True), ("none", 0, False)]


@pytest.mark.parametrize("params", [{"count": 0}, {"count": 101}, {"field": ["a"] * 31}])
def test_more_values_than_allowed_are_refused(client: TestClient, params: dict[str, Any]) -> None:
    assert client.get(f"{THINGS}/values", params=params).status_code == 400


def test_values_do_not_tell_paths_of_this_machine(client: TestClient) -> None:
    told = client.get(f"{FEW}/values", params={"field": "path"})
    assert told.json()["fields"] == [{"name": "path", "values": [], "more": True, "numbers": None, "dates": None}]
    assert str(samples.folder()) not in client.get(f"{FEW}/values").text


def test_values_and_maps_need_a_key_that_may_read(root: Path, tmp_path: Path) -> None:
    _, token = create_key(tmp_path / "keys.json", "other", "read", ("few",))
    with client_of(root, keys=tmp_path / "keys.json") as client:
        own = {"Authorization": f"Bearer {token}"}
        assert client.get(f"{FEW}/values").status_code == 401
        assert client.get(f"{FEW}/values", headers=own).status_code == 200
        assert client.get(f"{THINGS}/values", headers=own).status_code == 403
        assert client.get(f"{THINGS}/maps", headers=own).status_code == 403
        refused = client.post(f"{THINGS}/documents/d0-1/maps", json={"query": "dog"}, headers=own)
        assert refused.status_code == 403
