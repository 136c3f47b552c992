"""The server: collections, documents and searches over HTTP."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import weakref
from base64 import b64encode
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from shutil import copytree
from threading import Event, Thread
from urllib.parse import quote

import httpx2
import pytest
from PIL import Image
from starlette.testclient import TestClient
from starlette.types import Message

from isthmus import Collection, Document, Query
from isthmus.kinds import Image as Picture
from isthmus.search import Hits, SearchRequest, Stats
from isthmus.search.json_forms import hit_json
from isthmus.serve.app import create_app
from isthmus.serve.catalog import Catalog
from isthmus.serve.content import ContentReader
from isthmus.serve.errors import Refused
from isthmus.serve.jobs import UNFINISHED
from isthmus.serve.pictures import PartSender
from isthmus.serve.settings import ServeLimits, ServeSettings
from isthmus.serve.uploads import FIELDS
from serving import THINGS, client_of, data_url, fill, png, until


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    root = tmp_path_factory.mktemp("served")
    fill(root, tiny)
    return root


@pytest.fixture
def root(filled: Path, tmp_path: Path) -> Path:
    return copytree(filled, tmp_path / "root")


@pytest.fixture
def client(root: Path, tiny: str) -> Iterator[TestClient]:
    with client_of(root, models=(tiny,)) as client:
        yield client


def test_an_unfinished_copy_is_listed_when_it_is_complete(client: TestClient, root: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def listed() -> list[str]:
        return [one["name"] for one in client.get("/v1/collections").json()["collections"]]

    with Collection.open(root / "things.isthmus", create=False, follow=False) as things:
        with pytest.raises(KeyboardInterrupt):
            things.copy_to(root / "copy.isthmus", progress=lambda _: interrupt)
        assert listed() == ["things"]
        answer = client.get("/v1/collections/copy")
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "UnfinishedCopy")
        assert str(root) not in answer.text
        things.copy_to(root / "copy.isthmus")
    assert listed() == ["copy", "things"]


def test_collections_are_made_listed_and_deleted(client: TestClient, root: Path, tiny: str) -> None:
    made = client.post("/v1/collections", json={"name": "new", "encoder": tiny, "calibration": "center"})
    assert (made.status_code, made.json()["documents"]) == (201, 0)
    assert [one["name"] for one in client.get("/v1/collections").json()["collections"]] == ["new", "things"]
    assert client.post("/v1/collections", json={"name": "new", "encoder": tiny}).status_code == 409
    assert client.delete("/v1/collections/new").status_code == 204
    assert client.get("/v1/collections/new").status_code == 404
    assert sorted(path.name for path in root.iterdir() if not path.name.startswith(".")) == ["things.isthmus"]


def test_a_partial_answer_names_the_shards_that_are_missing(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Collection.search_many

    def searched(things: Collection, asked: list[SearchRequest]) -> list[Hits]:
        return [
            Hits(one, ["shard 2"] if by.partial else ()) for by, one in zip(asked, usual(things, asked), strict=True)
        ]

    monkeypatch.setattr(Collection, "search_many", searched)
    asked = {"query": "a red cat", "k": 2}
    assert "missing" not in client.post(f"{THINGS}/search", json=asked).json()
    several = client.post(f"{THINGS}/search", json={"searches": [asked, {**asked, "partial": True}]}).json()["results"]
    assert [(len(one["hits"]), one.get("missing")) for one in several] == [(2, None), (2, ["shard 2"])]
    similar = client.post(f"{THINGS}/documents/d0-1/similar", json={"k": 2, "partial": True}).json()
    assert (len(similar["hits"]), similar["missing"]) == (2, ["shard 2"])


def test_a_collection_that_cannot_be_opened_leaves_the_others_in_the_list(
    client: TestClient, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "damaged.isthmus").mkdir()
    (root / "damaged.isthmus" / "collection.sqlite").write_bytes(b"no database" * 1000)
    answer = client.get("/v1/collections")
    assert (answer.status_code, [one["name"] for one in answer.json()["collections"]]) == (200, ["things"])
    logged = [one for one in caplog.records if getattr(one, "collection", None) == "damaged"]
    assert [one.levelname for one in logged] == ["WARNING"]
    assert client.get("/v1/collections/damaged").status_code == 500
    assert client.delete(THINGS).status_code == 204
    assert client.get("/v1/collections").status_code == 500  # an empty list would say that there is none


def test_a_collection_that_another_process_deletes_or_replaces_is_opened_again(root: Path, tiny: str) -> None:
    served = Catalog(ServeSettings(paths=(root,)))
    old = served.get("things")
    assert served.serves("things", old)
    Catalog(ServeSettings(paths=(root,))).delete("things")
    assert not served.serves("things", old)
    with pytest.raises(Refused, match="No collection is called"):
        served.get("things")
    fill(root, tiny, count=3)
    new = served.get("things")
    assert (len(new), served.serves("things", new)) == (3, True)
    served.close()


def test_a_deleted_collection_leaves_the_memory(client: TestClient) -> None:
    assert client.post(f"{THINGS}/search", json={"query": "a red cat"}).status_code == 200
    held = weakref.ref(client.app.state.server.catalog.get("things"))  # type: ignore[attr-defined]
    assert client.delete(THINGS).status_code == 204
    gc.collect()
    assert held() is None


def test_an_open_collection_is_found_while_another_one_is_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Catalog(ServeSettings(paths=(root,)))
    things = served.get("things")
    opening, go, found = Event(), Event(), list[Collection]()

    def slow(*_: object, **__: object) -> Collection:
        opening.set()
        go.wait()
        return things

    monkeypatch.setattr(served, "_opened", slow)
    copytree(root / "things.isthmus", root / "other.isthmus")
    other = Thread(target=served.get, args=("other",), daemon=True)
    other.start()
    opening.wait()
    meanwhile = Thread(target=lambda: found.append(served.get("things")), daemon=True)
    meanwhile.start()
    meanwhile.join(10)
    assert found == [things]
    go.set()
    other.join()
    served.close()


@pytest.mark.parametrize("name", ["../other", "..", ".hidden", "a/b", "", "a" * 65, "x\0y", "con fusion", "a..b", 5])
def test_no_name_from_outside_becomes_a_path(client: TestClient, root: Path, name: object) -> None:
    before = sorted(path for path in root.parent.rglob("*") if "sqlite" not in path.name)
    assert client.post("/v1/collections", json={"name": name}).status_code == 400
    if name and isinstance(name, str) and name != "..":
        assert client.get(f"/v1/collections/{quote(name, safe='')}/stats").status_code in (400, 404)
        assert client.delete(f"/v1/collections/{quote(name, safe='')}").status_code in (400, 404)
    assert sorted(path for path in root.parent.rglob("*") if "sqlite" not in path.name) == before


def test_a_search_answers_what_the_library_answers(client: TestClient, root: Path) -> None:
    found = client.post(f"{THINGS}/search", json={"query": "a red cat", "k": 5, "where": {"odd": True}}).json()["hits"]
    with Collection.open(root / "things.isthmus", follow=False) as things:
        right = [hit_json(hit) for hit in things.search("a red cat", k=5, where={"odd": True})]
    assert len(right) == 5
    hidden = ("image", "parts")
    assert [{k: v for k, v in hit.items() if k not in hidden} for hit in found] == json.loads(
        json.dumps([{k: v for k, v in hit.items() if k not in hidden} for hit in right])
    )


def test_words_a_picture_and_both_are_searched_in_every_form(client: TestClient) -> None:
    picture = data_url(png(4))
    forms = [
        {"image": picture},
        {"image": b64encode(png(4)).decode()},
        {"parts": [{"kind": "image", "content": picture}]},
        {"content": [{"type": "image_url", "image_url": {"url": picture}}]},
        [{"type": "input_image", "image_url": picture}],
        [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture.split(",")[1]}}],
    ]
    found = [client.post(f"{THINGS}/search", json={"query": form, "k": 3}).json()["hits"] for form in forms]
    assert found[0][0]["id"] == "d0-4"
    assert all(one == found[0] for one in found)
    both = [{"type": "text", "text": "dog"}, {"type": "image_url", "image_url": {"url": picture}}]
    short = {"text": "dog", "image": picture}
    asked = [client.post(f"{THINGS}/search", json={"query": form}).json()["hits"] for form in (both, short)]
    assert asked[0] == asked[1] != found[0]


def test_several_searches_are_answered_in_their_order(client: TestClient) -> None:
    several = [{"query": "cat", "k": 2}, {"query": "dog", "k": 3, "explain": True}, {"query": "cat", "k": 2}]
    found = client.post(f"{THINGS}/search", json={"searches": several}).json()["results"]
    assert [len(one["hits"]) for one in found] == [2, 3, 2]
    assert found[0] == found[2] == client.get(f"{THINGS}/search", params={"q": "cat", "k": 2}).json()
    assert "explanation" in found[1]["hits"][0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"query": "cat", "explian": True}, "Did you mean 'explain'?"),
        ({"query": {"image": "/etc/passwd"}}, "Paths are not read"),
        ({"query": {"image": "cat.jpg"}}, "Paths are not read"),
        ({"query": {"parts": [{"kind": "image", "path": "/etc/passwd"}]}}, "Paths are not read"),
        ({"query": {"image": "http://127.0.0.1/a.png"}}, "fetches no pictures"),
        ({"query": "cat", "k": 10**9}, "at most here"),
        ({"query": "cat", "rerank": "onnx:/tmp"}, "This server has no reranker called"),
        ({"query": "cat", "align": "caption:chat:x@http://10.0.0.1"}, "This server has no aligner called"),
        ({"query": "cat", "where": {"year": {"about": 1}}}, "operator of a filter"),
        ({}, "no 'query'"),
        ([], "object"),
    ],
)
def test_a_bad_search_says_what_to_write_instead(client: TestClient, body: object, said: str) -> None:
    answer = client.post(f"{THINGS}/search", json=body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]


def test_documents_are_added_read_changed_and_deleted(client: TestClient) -> None:
    new = {"id": "photos/a cat?.jpg", "text": "a cat", "image": data_url(png(900)), "metadata": {"lang": "en"}}
    report = client.post(f"{THINGS}/documents", json=new).json()
    assert report == {"added": 1, "updated": 0, "unchanged": 0, "skipped": [], "documents": 31}
    place = f"{THINGS}/documents/{quote(new['id'], safe='')}"  # type: ignore[call-overload]
    read = client.get(place).json()
    assert (read["id"], read["text"], read["metadata"]) == (new["id"], "a cat", {"lang": "en"})
    assert [part["path"] for part in read["parts"]] == [None, None]
    assert client.get(read["image"]).content == png(900)
    changed = client.patch(place, json={"metadata": {"year": 2001}}).json()
    assert changed["metadata"] == {"lang": "en", "year": 2001}
    changed = client.patch(place, json={"text": "a dog"}).json()
    assert (changed["text"], len(changed["parts"])) == ("a dog", 2)
    assert client.delete(place).status_code == 204
    assert client.delete(place).status_code == client.get(place).status_code == 404


def test_what_cannot_be_added_is_skipped_and_listed(client: TestClient) -> None:
    broken = {"id": "broken", "image": data_url(b"\x89PNG\r\n\x1a\nnothing")}
    several = [{"id": "good", "text": "a tree"}, broken, {"text": "no id"}, {"id": "path", "image": "/etc/passwd"}, 7]
    report = client.post(f"{THINGS}/documents", json={"documents": several}).json()
    assert (report["added"], report["documents"]) == (1, 31)
    assert [one["id"] for one in report["skipped"]] == ["broken", "document 2", "path", "document 4"]


def test_lines_of_json_are_added_as_they_come(client: TestClient) -> None:
    body = b'{"id": "n1", "text": "a cat"}\n\nnot json\n{"id": "n2", "text": "a dog"}'
    sent = client.post(f"{THINGS}/documents", content=body, headers={"Content-Type": "application/x-ndjson"})
    assert sent.json()["added"] == 2
    assert sent.json()["skipped"][0]["id"] == "line 2"


def test_documents_are_listed_by_page_and_filter(client: TestClient) -> None:
    seen: list[str] = []
    after: int | None = -1
    while after is not None:
        page = client.get(f"{THINGS}/documents", params={"limit": 12, "after": after}).json()
        seen += [one["id"] for one in page["documents"]]
        after = page["next"]
    assert seen == [f"d0-{i}" for i in range(30)]
    some = client.get(f"{THINGS}/documents", params={"where": '{"number": {"lt": 3}}'}).json()
    assert [one["id"] for one in some["documents"]] == ["d0-0", "d0-1", "d0-2"]


def test_documents_are_read_and_deleted_by_a_list_of_ids(client: TestClient) -> None:
    found = client.post(f"{THINGS}/documents/get", json={"ids": ["d0-2", "nobody", "d0-1"]}).json()["documents"]
    assert [one["id"] for one in found] == ["d0-2", "d0-1"]
    gone = client.post(f"{THINGS}/documents/delete", json={"ids": ["d0-2", "nobody"]}).json()
    assert gone == {"deleted": 1, "unknown": ["nobody"]}


def test_a_part_is_sent_as_what_it_is(client: TestClient) -> None:
    picture = client.get(f"{THINGS}/documents/d0-1/parts/0")
    assert (picture.headers["content-type"], picture.headers["x-content-type-options"]) == ("image/png", "nosniff")
    again = client.get(f"{THINGS}/documents/d0-1/parts/0", headers={"If-None-Match": picture.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    small = client.get(f"{THINGS}/documents/d0-1/parts/0", params={"size": 16})
    assert small.headers["content-type"] == "image/jpeg"
    assert max(Image.open(BytesIO(small.content)).size) <= 16
    text = client.get(f"{THINGS}/documents/d0-0/parts/0")
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    for wrong in ("d0-1/parts/7", "d0-1/parts/-1", "nobody/parts/0"):
        assert client.get(f"{THINGS}/documents/{wrong}").status_code == 404
    assert client.get(f"{THINGS}/documents/d0-1/parts/0", params={"size": 10**6}).status_code == 400


def test_similar_documents_are_found_by_a_documents_own_content(client: TestClient, root: Path) -> None:
    found = client.get(f"{THINGS}/documents/d0-1/similar", params={"k": 4}).json()["hits"]
    with Collection.open(root / "things.isthmus", follow=False) as things:
        mine = things.get("d0-1")
        right = [hit.id for hit in things.search(Query(parts=mine.parts), k=5) if hit.id != "d0-1"]
    assert [hit["id"] for hit in found] == right[:4]
    assert [hit["rank"] for hit in found] == [1, 2, 3, 4]
    page = client.post(f"{THINGS}/documents/d0-1/similar", json={"k": 2, "offset": 2}).json()["hits"]
    assert [(hit["id"], hit["rank"]) for hit in page] == [(right[2], 3), (right[3], 4)]


def test_no_answer_shows_a_path_of_this_machine(client: TestClient, root: Path, tmp_path: Path) -> None:
    Image.open(BytesIO(png(77))).save(tmp_path / "secret.png")
    with Collection.open(root / "things.isthmus", follow=False) as things:
        things.add([Document("file", image=tmp_path / "secret.png")])
    (tmp_path / "secret.png").unlink()
    answers = [
        client.get(f"{THINGS}/documents/file"),
        client.get(f"{THINGS}/documents/nobody"),
        client.get(f"{THINGS}/documents/file/parts/0"),
        client.get(f"{THINGS}/documents/file/similar"),
        client.get(f"{THINGS}/stats"),
        client.get("/v1/collections"),
    ]
    assert [one.status_code for one in answers] == [200, 404, 422, 422, 200, 200]
    assert not [one.text for one in answers if str(tmp_path) in one.text]


def diagnosed(client: TestClient, job: str) -> httpx2.Response | None:
    """Return the answer about a job that has ended."""
    found = client.get(f"{THINGS}/jobs/{job}")
    return None if found.json()["state"] in UNFINISHED else found


def test_no_answer_about_files_that_were_indexed_shows_their_folder_even_if_its_name_has_spaces(
    tmp_path: Path, tiny: str
) -> None:
    hidden = tmp_path / "my secret" / "secret photos"
    copytree(tiny.removeprefix("onnx:"), hidden / "tiny")
    (hidden / "in").mkdir()
    (hidden / "in" / "a.png").write_bytes(png(1))
    (hidden / "in" / "note.txt").write_text("a red cat")
    (hidden / "in" / "broken.png").write_bytes(b"no picture")
    with Collection.open(hidden / "things.isthmus", f"onnx:{hidden / 'tiny'}", "center", follow=False) as things:
        assert len(things.index(hidden / "in", ocr="never").skipped) == 1
        things.search("cat")
        (picture,) = (one.id for one in things if one.modality == "image")
    (hidden / "in" / "a.png").unlink()
    with client_of(hidden) as client:
        job = client.post(f"{THINGS}/diagnose", json={}).json()["id"]
        answers = [
            client.post(f"{THINGS}/search", json={"query": "cat", "explain": True}),
            client.post(f"{THINGS}/search", json={"query": "cat", "rerank": "onnx:/nowhere/x"}),
            client.post(f"{THINGS}/documents/get", json={"ids": [picture]}),
            client.post(f"{THINGS}/calibration", json={"spec": "wrong"}),
            client.post("/v1/collections", json={"name": "things"}),
            until(lambda: diagnosed(client, job)),
        ]
        about = ("", "/stats", "/values", "/values?field=path", "/calibration", "/diagnose", "/jobs", "/documents")
        parts = ("", "/parts/0", "/parts/0?size=64", "/similar")
        places = [f"{THINGS}{one}" for one in about] + [f"{THINGS}/documents/{picture}{one}" for one in parts]
        places += ["/v1/collections", "/v1/models", "/metrics", "/ready", "/health"]
        answers += [client.get(one) for one in places]
    assert {one.status_code for one in answers} == {200, 400, 409, 422}
    assert not [one.text for one in answers if "secret" in one.text or tmp_path.name in one.text]


def test_statistics_and_health_are_served(client: TestClient) -> None:
    stats = client.get(f"{THINGS}/stats").json()
    assert (stats["path"], stats["documents"]) == ("things", {"image": 10, "image+text": 10, "text": 10})
    assert "number" in stats["fields"]
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json()["status"] == "ready"


def test_counters_say_how_many_requests_of_which_route_ended_how(root: Path) -> None:
    with client_of(root) as client:
        for word in ("cat", "dog"):
            client.post(f"{THINGS}/search", json={"query": word})
        client.post(f"{THINGS}/search", json={"query": ""})
        client.get(f"{THINGS}/documents/none")
        client.get("/no/such/page")
        client.request("BREW", "/health")
        lines = set(client.get("/metrics").text.splitlines())
    total, search = "isthmus_requests_total", 'route="/v1/collections/{name}/search"'
    wanted = [
        f'{total}{{method="POST",{search},status="200"}} 2.0',
        f'{total}{{method="POST",{search},status="400"}} 1.0',
        f'{total}{{method="GET",route="/v1/collections/{{name}}/documents/{{id}}",status="404"}} 1.0',
        f'{total}{{method="GET",route="page",status="404"}} 1.0',
        f"isthmus_request_seconds_count{{{search}}} 3.0",
        f'isthmus_request_seconds_bucket{{le="+Inf",{search}}} 3.0',
        "isthmus_search_batch_size_count 2.0",
        "isthmus_search_batch_size_sum 2.0",
        "isthmus_busy 0.0",
        f"# TYPE {total.removesuffix('_total')}_total counter",
    ]
    assert [line for line in wanted if line not in lines] == [], sorted(lines)
    assert any(line.startswith(f'{total}{{method="other"') for line in lines)


def test_a_server_is_not_ready_while_it_has_too_many_requests_or_stops(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go = Event(), Event()
    stats = Collection.stats

    def slow(things: Collection) -> Stats:
        began.set()
        go.wait()
        return stats(things)

    monkeypatch.setattr(Collection, "stats", slow)
    with client_of(root, limits=ServeLimits(waiting=1)) as client:
        assert client.get("/ready").status_code == 200
        busy = Thread(target=client.get, args=(f"{THINGS}/stats",))
        busy.start()
        began.wait()
        refused = client.get("/ready")
        assert client.get("/health").status_code == 200
        go.set()
        busy.join()
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert client.get("/ready").status_code == 200
        client.app.state.server.stopping = True  # type: ignore[attr-defined]  # as close does
        refused = client.get("/ready")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["error"]["message"] == "The server is stopping."


def test_every_route_stands_in_openapi_with_its_forms(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert "/v1/collections/{name}/documents/{id}/parts/{part}" in described["paths"]
    used = set(json.dumps(described).split("#/components/schemas/")[1:])
    names = {one.split('"')[0] for one in used}
    assert names <= set(described["components"]["schemas"])


def test_every_route_describes_its_errors_and_what_it_takes_and_sends_if_that_is_no_json(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for place, operations in paths.items():
        for method, one in operations.items():
            assert {"4XX", "5XX"} <= set(one["responses"]), (method, place)

    def sent(place: str, method: str, status: str) -> list[str]:
        return list(paths[place][method]["responses"][status].get("content", {}))

    documents = "/v1/collections/{name}/documents"
    assert sent("/metrics", "get", "200") == ["text/plain"]
    assert sent(f"{documents}/{{id}}/parts/{{part}}", "get", "200") == ["*/*"]
    assert sent(documents, "post", "200") == sent(documents, "post", "202") == ["application/json"]
    assert sent(f"{documents}/{{id}}", "delete", "204") == []
    taken = list(paths[documents]["post"]["requestBody"]["content"])
    assert taken == ["application/json", "application/x-ndjson", "multipart/form-data"]


def test_uploaded_files_become_documents(client: TestClient) -> None:
    files = [
        ("files", ("../../etc/cat.png", png(901), "image/png")),
        ("files", ("cat.txt", b"a cat on a sofa", "text/plain")),  # beside the picture: its words
        ("files", ("note.md", b"# a dog runs", "text/markdown")),
        ("files", ("broken.png", b"\x89PNG\r\n\x1a\nnothing", "image/png")),
        ("files", ("film.xyz", b"film", "video/x")),
        ("files", ("note.md", b"another", "text/markdown")),
    ]
    report = client.post(f"{THINGS}/documents", files=files).json()
    assert (report["added"], report["documents"]) == (2, 32)
    assert sorted(one["id"] for one in report["skipped"]) == ["broken.png", "film.xyz", "note.md"]  # as a name twice
    read = client.get(f"{THINGS}/documents/cat.png").json()
    assert (read["text"], set(read["metadata"])) == ("a cat on a sofa", {"name", "type", "bytes"})
    assert client.get(read["image"]).content == png(901)
    assert client.post(f"{THINGS}/documents", files=[], data={"a": "b"}).status_code in (400, 415)


def test_uploaded_files_keep_their_folders(client: TestClient) -> None:
    names = ["2023/cat.png", "2024/cat.png", "2024", "2024/cat.png/x.txt"]
    files = [("files", (name, png(910 + at), "image/png")) for at, name in enumerate(names)]
    report = client.post(f"{THINGS}/documents?ids=true", files=files).json()
    assert (report["ids"]["added"], [one["id"] for one in report["skipped"]]) == (names[:2], names[2:])
    assert client.get(f"{THINGS}/documents/2024%2Fcat.png/parts/0").content == png(911)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        ("multipart/form-data", b"", "boundary"),
        ("multipart/form-data; boundary=x", b"no part", "The upload cannot be read"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\n\r\n--x--\r\n", "The upload cannot be read"),
        ("multipart/form-data; boundary=x", b"", "no files"),
    ],
)
def test_an_upload_that_cannot_be_read_says_why(client: TestClient, kind: str, body: bytes, said: str) -> None:
    answer = client.post(f"{THINGS}/documents", content=body, headers={"Content-Type": kind})
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True), answer.text


def test_an_upload_of_many_fields_is_refused_before_they_fill_the_memory(client: TestClient) -> None:
    fields = {f"field{number}": "x" for number in range(FIELDS + 1)}
    answer = client.post(f"{THINGS}/documents", data=fields, files={"files": ("a.txt", b"a cat")})
    assert (answer.status_code, "Too many fields" in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson", "multipart/form-data; boundary=x"])
def test_a_client_that_leaves_while_it_sends_is_no_error_of_the_server(
    root: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    app = create_app(ServeSettings(paths=(root,)))
    begun: Message = {"type": "http.request", "body": b"--x\r\n", "more_body": True}
    come = iter([begun, {"type": "http.disconnect"}])
    headers = [(b"host", b"localhost"), (b"content-type", kind.encode())]
    scope = {"type": "http", "method": "POST", "scheme": "http", "path": f"{THINGS}/documents", "headers": headers}

    async def receive() -> Message:
        return next(come)

    async def send(_: Message) -> None:
        """Send nothing: nobody is there."""

    async def work() -> None:
        await app({**scope, "query_string": b"", "root_path": ""}, receive, send)
        await app.state.server.close()

    with caplog.at_level(logging.INFO, "isthmus.serve"):
        asyncio.run(work())
    told = [(one.levelname, vars(one).get("status")) for one in caplog.records if one.name == "isthmus.serve"]
    assert told == [("INFO", 499)]


@pytest.mark.parametrize(
    ("method", "place", "status"),
    [
        ("POST", f"{THINGS}/serch", 404),
        ("GET", f"{THINGS}/nothing", 404),
        ("POST", "/v1/collections/", 404),
        ("GET", "/v1/rerank", 405),
        ("PUT", "/v1/collections", 405),
        ("POST", "/", 405),
        ("HEAD", "/", 200),
        ("HEAD", "/health", 200),
        ("HEAD", f"{THINGS}/documents/d0-1/parts/0", 200),
    ],
)
def test_an_address_that_there_is_not_and_a_method_that_it_does_not_take_are_told_apart(
    client: TestClient, method: str, place: str, status: int
) -> None:
    answer = client.request(method, place, follow_redirects=False)
    assert (answer.status_code, "allow" in answer.headers) == (status, status == 405)


def test_pictures_are_kept_up_to_a_size() -> None:
    pictures = PartSender(room=1000)
    made = [pictures.part(Picture(png(seed)), 16) for seed in range(5)]
    assert pictures.part(Picture(png(4)), 16) is made[4]
    assert pictures.part(Picture(png(0)), 16) is not made[0]
    assert pictures.part(Picture(png(0)), 16).data == made[0].data


def test_what_is_left_of_a_deleted_collection_goes_when_the_server_starts(root: Path) -> None:
    left, other = root / f".old.isthmus.{'0' * 16}.deleted", root / ".mine.deleted"
    for folder in (left, other):
        folder.mkdir()
        (folder / "collection.sqlite").touch()
    with client_of(root) as client:
        assert [one["name"] for one in client.get("/v1/collections").json()["collections"]] == ["things"]
    assert (left.exists(), other.exists()) == (False, True)


def test_sounds_and_videos_are_given_like_pictures(tmp_path: Path) -> None:
    reader = ContentReader(ServeSettings(paths=(tmp_path,)), lambda url: b"")
    sound, film = b64encode(b"RIFF").decode(), f"data:video/mp4;base64,{b64encode(b'ftyp').decode()}"
    made = reader.document({"id": "a", "text": "rain", "audio": sound, "video": film})
    assert made == Document("a", "rain", audio=b"RIFF", video=b"ftyp")
    assert reader.query({"audio": sound}) == Query(audio=b"RIFF")


def test_a_search_by_get_refuses_options_that_it_would_ignore(client: TestClient) -> None:
    assert client.get(f"{THINGS}/search", params={"q": "cat", "k": 1}).status_code == 200
    refused = client.get(f"{THINGS}/search", params={"q": "cat", "hybrid": "true"})
    assert (refused.status_code, "by POST" in refused.json()["error"]["message"]) == (400, True)
