"""The client: collections on a server, used like those on this machine. ``test_engines.py`` has the common contract."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from endpoint import Answer, serving
from isthmus import Collection, Document, Query, SearchRequest, calibration, connect, connect_async, encoders
from isthmus.client.async_remote import AsyncRemoteCollection
from isthmus.client.forms import RemotePart, read_document
from isthmus.client.remote import RemoteCollection
from isthmus.client.sessions import ConnectSettings
from isthmus.errors import (
    CODES,
    BadInput,
    BadSpec,
    CannotReach,
    CannotRead,
    Closed,
    UnknownDocument,
    UnknownName,
)
from isthmus.kinds import Image, Text
from isthmus.search import SearchInterface
from isthmus.serve.keys import create_key
from isthmus.serve.settings import ServeLimits
from serving import address_of, fill, png
from stock import mixed, pixels

FOUND = b'{"hits": []}'
DELETED = b'{"deleted": 1, "unknown": []}'
BUSY = json.dumps({"error": {"type": "Refused", "message": "The server is busy.", "request_id": "1"}}).encode()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    root = tmp_path_factory.mktemp("served")
    fill(root, tiny)
    with address_of(root, models=(tiny,), limits=ServeLimits(body=200_000)) as address:
        yield address


@pytest.fixture
def things(address: str) -> Iterator[RemoteCollection]:
    with connect(address, "things") as things:
        yield things


@pytest.fixture
def fresh(address: str, tiny: str, request: pytest.FixtureRequest) -> Iterator[RemoteCollection]:
    with connect(address, request.node.originalname[-60:], create=True, encoder=tiny) as things:
        yield things


def test_both_kinds_of_collections_have_one_interface(things: RemoteCollection, tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "c", tiny) as local:
        several: list[SearchInterface] = [things, local]
        assert all(isinstance(one, SearchInterface) for one in several)


def methods(kind: type) -> dict[str, list[tuple[str, object, object]]]:
    """Return the public methods of a class, each with the names, kinds and defaults of its parameters."""
    return {
        name: [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


def returned(kind: type, name: str) -> object:
    return inspect.signature(getattr(kind, name)).return_annotation


@pytest.mark.parametrize("kind", [Collection, RemoteCollection, AsyncRemoteCollection])
def test_a_collection_takes_what_the_common_interface_takes_and_more_only_by_default(kind: type) -> None:
    own = methods(kind)
    for name, wanted in methods(SearchInterface).items():
        assert [one for one in own[name] if one in wanted] == wanted, name
        assert all(one[2] is not inspect.Parameter.empty for one in own[name] if one not in wanted), name
        assert returned(kind, name) == returned(SearchInterface, name)


def test_both_clients_have_the_same_methods_with_the_same_parameters_and_those_of_a_collection() -> None:
    here, there, waiting = (methods(kind) for kind in (Collection, RemoteCollection, AsyncRemoteCollection))
    as_methods = {"count", "has", "calibration", "calibration_spec", "drifted"}  # len, in, and properties
    assert waiting == there | {name: waiting[name] for name in as_methods}
    assert set(there) - set(here) == {"load"}
    for name in set(there) & set(here):
        assert [one for one in here[name] if one in there[name]] == there[name], name
        assert returned(AsyncRemoteCollection, name) == returned(RemoteCollection, name), name


def test_a_collection_is_found_by_its_name_its_url_or_because_it_is_the_only_one(address: str, tmp_path: Path) -> None:
    assert connect(address, "things").name == "things"
    assert connect(f"{address}/v1/collections/things/").name == "things"
    with pytest.raises(UnknownName, match="Did you mean 'things'"):
        connect(address, "thing")
    with pytest.raises(BadInput, match="names the collection 'things' already"):
        connect(f"{address}/v1/collections/things", "other")
    with address_of(tmp_path) as empty, pytest.raises(UnknownName, match="no collection"):
        connect(empty)


def test_a_new_collection_is_made_when_that_is_asked_for(address: str, tiny: str) -> None:
    with pytest.raises(UnknownName):
        connect(address, "made")
    for _ in range(2):
        with connect(address, "made", create=True, encoder=tiny) as made:
            assert made.add([Document("a", "a cat")]).skipped == ()
            assert (len(made), "a" in made, "b" in made, 5 in made) == (1, True, False, False)


def test_a_collection_on_a_server_answers_as_it_does_here(things: RemoteCollection, tiny: str, tmp_path: Path) -> None:
    fill(tmp_path, tiny)
    request = SearchRequest(Query("a red cat", image=pixels(500)), k=5, where={"number": {"gte": 3}}, explain=True)
    with Collection.open(tmp_path / "things.isthmus") as local:
        for query in ("dog", Query(image=pixels(500)), request):
            here, there = local.search(query), things.search(query)
            assert [(hit.id, hit.modality, hit.rank, hit.segments, hit.passage) for hit in there] == [
                (hit.id, hit.modality, hit.rank, hit.segments, hit.passage) for hit in here
            ]
            assert [hit.score for hit in there] == pytest.approx([hit.score for hit in here])
            assert [str(hit.explanation) for hit in there] == [str(hit.explanation) for hit in here]
        assert things.search_many([]) == []
        many = things.search_many(["dog"] * 300, k=2)
        assert len(many) == 300
        assert [hit.id for hit in many[-1]] == [hit.id for hit in local.search("dog", 2)]


def test_pictures_are_fetched_when_they_are_needed(things: RemoteCollection, tmp_path: Path) -> None:
    hit = next(hit for hit in things.search("dog", 30) if hit.modality == "image")
    (part,) = hit.document.parts
    assert isinstance(part, RemotePart)
    assert (part.path, part.is_empty) == (None, False)
    assert "<at /v1/collections/things" in repr(hit.document)
    assert hit.document.image.startswith(b"\x89PNG")
    assert "bytes>" in repr(hit.document)
    assert hit.document == things.get(hit.id) == things.load(hit.document)
    assert things.search(Query(image=hit.document.image), 1)[0].id == hit.id


def test_documents_go_there_with_their_pictures_and_come_back(fresh: RemoteCollection, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png(1))
    article = Document("a/b", parts=[Text("Two dogs."), Image(tmp_path / "a.png"), Image(png(2))], metadata={"n": [1]})
    report = fresh.add([article, Document("gone", image=tmp_path / "gone.png"), Document("none", image=b"no picture")])
    assert (report.added, [one.id for one in report.skipped]) == (("a/b",), ["none", "gone"])
    assert "gone.png" in report.skipped[1].why
    back = fresh.get("a/b")
    assert [part.content for part in back.parts] == ["Two dogs.", png(1), png(2)]
    assert back.metadata == {"n": [1]}
    assert fresh.add([back]).unchanged == ("a/b",)
    assert fresh.update(Document("a/b", "Three dogs.")).updated == ("a/b",)
    assert fresh.update("a/b", metadata={"n": [1]}).unchanged == ("a/b",)
    assert fresh.get("a/b").text == "Three dogs."
    assert fresh.update(Document("a/b", image=b"no picture")).skipped[0].id == "a/b"


@pytest.mark.parametrize("name", ["a/b", "..", ".", "100%", "a?b#c", "猫", "a b", "x" * 3000, "a.b", "/"])
def test_any_id_can_be_added_got_changed_and_deleted(address: str, tiny: str, name: str) -> None:
    with connect(address, "names", create=True, encoder=tiny) as things:
        assert things.add([Document(name, "a cat")]).added == (name,)
        assert (name in things, things.get(name).id) == (True, name)
        assert things.update(name, {"n": 1}).updated == (name,)
        assert things.delete(name) == 1
        with pytest.raises(UnknownDocument):
            things.get(name)


def test_what_is_added_is_read_while_it_is_sent(fresh: RemoteCollection) -> None:
    made, told = [0], list[tuple[int, int]]()

    def several() -> Iterator[Document]:
        for number in range(600):
            made[0] += 1
            yield Document(f"n{number}", f"cat {number}")

    report = fresh.add(several(), progress=lambda count: told.append((count, made[0])))
    assert len(report) == len(fresh) == 600
    assert [count for count, _ in told] == [256, 512, 600]
    assert told[0][1] < 300


def test_a_document_that_is_too_large_is_skipped_and_the_others_are_added(
    fresh: RemoteCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus.client.operations.BYTES", 10_000)
    report = fresh.add([Document("a", "a cat"), Document("large", "a cat " * 50_000), Document("b", "a dog")])
    assert report.added == ("a", "b")
    assert [(one.id, "bytes" in one.why) for one in report.skipped] == [("large", True)]


RAISED: dict[str, tuple[type[Exception], Callable[[RemoteCollection], object]]] = {
    "an unknown document": (UnknownDocument, lambda things: things.get("none")),
    "a wrong option": (BadInput, lambda things: things.search("cat", k=0)),
    "a limit of the server": (BadInput, lambda things: things.search("cat", k=5000)),
    "a wrong filter": (BadInput, lambda things: things.search("cat", where={"number": {"around": 3}})),
    "a wrong filter of a list": (BadInput, lambda things: things.ids({"number": {"around": 3}})),
    "an unknown modality": (BadInput, lambda things: things.search("cat", modalities=["smell"])),
    "a wrong spec": (BadSpec, lambda things: things.calibrate("center(")),
    "an unknown calibration": (UnknownName, lambda things: things.use_calibration(99)),
    "an unknown answer": (BadInput, lambda things: things.calibrate("center", [("a cat", "none")])),
    "an aligner that is an object": (BadInput, lambda things: things.search("cat", rerank=_Reranker())),  # type: ignore[arg-type]
    "a picture that is not there": (CannotRead, lambda things: things.search(Query(image="none.png"))),
    "no documents": (BadInput, lambda things: things.add("a cat")),  # type: ignore[arg-type]
}


class _Reranker:
    def scores(self) -> None:
        """Score nothing."""


@pytest.mark.parametrize("case", RAISED)
def test_errors_of_the_server_are_the_exceptions_of_the_library(things: RemoteCollection, case: str) -> None:
    kind, ask = RAISED[case]
    if case == "an unknown answer":  # a job says only what happened
        kind = ValueError
    with pytest.raises(kind):
        ask(things)


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_every_error_comes_back_as_what_it_was(kind: type[Exception]) -> None:
    form = {"error": {"type": kind.__name__, "message": "What, why, what to do.", "request_id": "1"}}
    answer = Answer(json.dumps(form).encode(), CODES[kind].status)  # type: ignore[index]
    with scripted([answer], tries=1) as (things, _, _), pytest.raises(kind, match="What, why, what to do") as raised:
        things.search("cat")
    assert type(raised.value) is kind


def test_a_server_with_keys_wants_one_of_the_right_scope(tmp_path: Path, tiny: str) -> None:
    fill(tmp_path, tiny, count=3)
    _, reader = create_key(tmp_path / "keys.json", "reader", "read")
    with address_of(tmp_path, keys=tmp_path / "keys.json") as address:
        with pytest.raises(CannotReach, match="needs a key"):
            connect(address)
        with connect(address, key=reader) as things:
            assert len(things.search("cat")) == 3
            with pytest.raises(CannotReach, match="403"):
                things.add([Document("a", "a cat")])
            assert reader not in repr(things) + repr(vars(things))
    with pytest.raises(BadInput, match="invalid characters"):
        connect(address, key="a\nb")


class scripted:  # noqa: N801 - used as a function
    """A client of a server with scripted answers: the client, the service, and the seconds it has waited."""

    def __init__(self, answers: list[Answer], **settings: Any) -> None:
        self.context, self.settings = serving(answers), settings

    def __enter__(self) -> tuple[RemoteCollection, Any, list[float]]:
        service, waited = self.context.__enter__(), list[float]()
        given = ConnectSettings(url=service.url.removesuffix("/v1"), sleep=waited.append, **self.settings)
        self.things = RemoteCollection("things", given)
        return self.things, service, waited

    def __exit__(self, *error: Any) -> None:
        self.things.close()
        self.context.__exit__(*error)


def test_a_busy_server_is_asked_again_after_the_time_it_names() -> None:
    busy = [Answer(BUSY, 503, {"Retry-After": "2"}), Answer(BUSY, 429, {"Retry-After": "3"}), Answer(FOUND)]
    with scripted(busy) as (things, service, waited):
        assert things.search("cat") == []
        assert (len(service.asked), waited) == (3, [2.0, 3.0])


def test_a_partial_answer_names_what_is_missing() -> None:
    with scripted([Answer(b'{"hits": [], "missing": ["shard 2"]}'), Answer(FOUND)]) as (things, service, _):
        assert things.search("cat", partial=True).missing == ("shard 2",)
        assert things.search("cat").missing == ()
        assert [asked.get("partial") for asked in service.asked] == [True, None]


def test_a_server_that_stays_busy_is_an_error_after_all_tries() -> None:
    with scripted([Answer(BUSY, 503)], tries=4) as (things, service, waited):
        with pytest.raises(CannotReach, match="The server is busy"):
            things.search("cat")
        assert (len(service.asked), waited) == (4, [0.5, 1.0, 2.0])


def test_what_might_have_been_done_is_not_done_twice() -> None:
    with scripted([Answer(BUSY, 503), Answer(DELETED)]) as (things, service, _):
        with pytest.raises(CannotReach):
            things.delete("a")
        assert len(service.asked) == 1
    with scripted([Answer(BUSY, 429), Answer(DELETED)]) as (things, service, _):  # refused before it began
        assert things.delete("a") == 1
        assert len(service.asked) == 2


def test_a_server_that_does_not_answer_is_left_after_the_timeout() -> None:
    with scripted([Answer(never=True)], timeout=0.05, tries=2) as (things, service, waited):
        with pytest.raises(CannotReach, match="does not answer"):
            things.search("cat")
        assert (len(service.asked), len(waited)) == (2, 1)
        with pytest.raises(CannotReach, match="does not answer"):
            things.delete("a")
        assert len(service.asked) == 3


def test_no_server_and_strange_servers_are_named() -> None:
    with pytest.raises(CannotReach, match="Is `isthmus serve` running there"):
        connect("http://127.0.0.1:9", tries=1)
    with scripted([Answer(b"<html>")]) as (things, _, _), pytest.raises(CannotReach, match="not JSON"):
        things.search("cat")
    with scripted([Answer(b"<html>", 418)]) as (things, _, _), pytest.raises(CannotReach, match="status 418"):
        things.search("cat")
    elsewhere = Answer(b"", 307, {"Location": "http://127.0.0.1:9/"})
    with scripted([elsewhere], key="secret") as (things, service, _):
        with pytest.raises(CannotReach, match="redirects"):
            things.search("cat")
        assert len(service.paths) == 1


@pytest.mark.parametrize("url", ["https://evil.example/v1/a", "//evil.example/v1/a", "evil.example/a", 5])
def test_bytes_are_fetched_from_the_server_alone(url: object) -> None:
    part = {"kind": "image", "content": None, "path": None, "url": url}
    with pytest.raises(CannotReach, match="another host"):
        read_document({"id": "a", "parts": [part], "metadata": {}}, lambda _: b"")


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://localhost", "http://a:b@localhost", "http://h?x=1", "", "x"])
def test_what_is_not_the_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="URL"):
        connect(url)


def test_offline_only_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_OFFLINE", "1")
    with pytest.raises(CannotReach, match="offline is set"):
        connect("http://example.org")


def test_versions_of_the_calibration_can_be_listed_and_used_again(fresh: RemoteCollection) -> None:
    fresh.add(mixed(9))
    told: list[tuple[int, int]] = []
    first = fresh.calibrate("center", progress=lambda *steps: told.append(steps))
    second = fresh.calibrate("none")
    assert told
    assert [one.spec for one in fresh.calibrations()][-2:] == ["center", "none"]
    assert fresh.calibration == second
    again = fresh.use_calibration(first.version)
    assert (again.spec, again.version) == ("center", second.version + 1)
    assert fresh.drifted is False
    with connect(fresh.url, "empty", create=True, encoder="none") as empty, pytest.raises(BadInput, match="is empty"):
        empty.calibrate()


def test_means_of_other_documents_are_subtracted_as_in_the_library(fresh: RemoteCollection, tiny: str) -> None:
    fresh.add(mixed(9))
    others = mixed(6, seed=7)
    encoder = encoders.load(tiny)
    vectors = encoder.encode_documents(others)
    with Collection.open(":memory:", encoder, follow=False) as things:
        things.add(mixed(9))
        things.calibrate("center", means=others)
        wanted = [(hit.id, round(hit.score, 5)) for hit in things.search("dog", 9)]
        things.calibrate("center")
        assert [(hit.id, round(hit.score, 5)) for hit in things.search("dog", 9)] != wanted
    fresh.calibrate("center", means=others)
    assert [(hit.id, round(hit.score, 5)) for hit in fresh.search("dog", 9)] == wanted
    fresh.calibrate("center", means=vectors)
    assert [(hit.id, round(hit.score, 5)) for hit in fresh.search("dog", 9)] == wanted
    with pytest.raises(BadInput, match="is not sent to a server"):
        fresh.calibrate("center", means=calibration.fit("center", vectors, encoder.encode_queries(["a", "b"])))


def test_the_asynchronous_client_does_the_same(address: str, tiny: str) -> None:
    async def work() -> None:
        async with await connect_async(address, "async", create=True, encoder=tiny) as things:
            assert "async at http" in repr(things)
            report = await things.add(mixed(9))
            assert (len(report), await things.count(), len(await things.ids())) == (9, 9, 9)
            await things.calibrate("center")
            hits, (again,) = await asyncio.gather(things.search("dog", 9), things.search_many(["dog"], 9))
            assert [hit.id for hit in hits] == [hit.id for hit in again]
            picture = next(hit for hit in hits if hit.modality == "image")
            with pytest.raises(BadInput, match="Fetch them"):
                _ = picture.document.image
            assert (await things.load(picture.document)).image == (await things.get(picture.id)).image
            assert [document.id async for document in things] == [document.id for document in mixed(9)]
            assert (await things.update("d0-1", {"lang": "en"})).updated == ("d0-1",)
            assert "lang" in await things.fields()
            assert (await things.values("lang")).top == (("en", 1),)
            now = await things.calibration()
            assert now is not None
            assert (now.spec, await things.calibration_spec(), await things.drifted()) == ("center", "center", False)
            assert (await things.use_calibration(now.version)).version == now.version + 1
            assert len(await things.calibrations()) >= 2
            assert (await things.stats()).documents == {"image": 3, "image+text": 3, "text": 3}
            assert (await things.delete(["d0-1", "none"]), await things.has("d0-1")) == (1, False)
            with pytest.raises(UnknownDocument):
                await things.get("d0-1")
        with pytest.raises(Closed):
            await things.count()

    asyncio.run(work())


def test_the_asynchronous_client_takes_an_asynchronous_stream(address: str, tiny: str) -> None:
    told: list[int] = []

    async def several() -> AsyncIterator[Document]:
        for number in range(300):
            yield Document(f"n{number}", f"cat {number}")

    async def work() -> None:
        async with await connect_async(address, "stream", create=True, encoder=tiny) as things:
            assert len(await things.add(several(), progress=told.append)) == 300

    asyncio.run(work())
    assert told == [256, 300]


def test_the_asynchronous_client_tries_again_too() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async def work(url: str) -> None:
        settings = ConnectSettings(url=url, async_sleep=sleep)
        async with AsyncRemoteCollection("things", settings) as things:
            assert await things.search("cat") == []
            with pytest.raises(CannotReach):
                await things.delete("a")

    with serving([Answer(BUSY, 503, {"Retry-After": "2"}), Answer(FOUND), Answer(BUSY, 503)]) as service:
        asyncio.run(work(service.url.removesuffix("/v1")))
    assert waited == [2.0]
