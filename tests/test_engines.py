"""One battery over every engine that a collection can live on: what is promised, and that they answer alike.

A collection on a server, through either client, is one of them; tests of what only a collection in this process can do
take ``local``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres_server
from awaited import awaited
from isthmus import Collection, Document, Query, connect
from isthmus.client.remote import RemoteCollection
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, CannotWrite, Closed, UnknownName
from isthmus.storage.memory.published import MemoryVectors
from serving import address_of
from stock import Counting, mixed, pixels

ENGINES: dict[str, Callable[[Path], dict[str, Any]]] = {  # what opens a collection there
    "folder": lambda folder: {"path": str(folder / "c")},
    "memory": lambda _: {"path": ":memory:"},
    "folder+vectors": lambda folder: {"path": str(folder / "v"), "vectors": MemoryVectors()},
    "memory+vectors": lambda _: {"path": ":memory:", "vectors": MemoryVectors()},
}
SERVERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "postgres": lambda _: {"path": postgres_server.server().collection()},
    "postgres-half": lambda _: {"path": postgres_server.server().collection(), "vectors": "database-half"},
    "postgres-shards": lambda _: {"path": postgres_server.sharded()},
    "postgres-apart": lambda _: {"path": postgres_server.server().collection(), "vectors": "folder"},
}
ON_SERVERS = [pytest.param(name, marks=pytest.mark.install) for name in SERVERS]
PLACES = {**ENGINES, **SERVERS}
SERVED, AWAITED = "served", "served, asynchronously"
NUMBERS = count()
QUERIES = [Query("a red cat"), Query(image=pixels(500)), Query("dog", image=pixels(501))]
FILTERS: list[dict[str, Any]] = [
    {"number": 4},
    {"number": {"gte": 10, "lt": 20}},
    {"odd": True, "number": [1, 2, 3]},
    {"not": {"odd": True}},
    {"or": [{"number": 3}, {"id": ["d0-5", "d0-6"]}]},
    {"modality": "image"},
    {"number": {"not": 5}},
    {"missing": None},
    {"number": {"exists": True}, "id": {"gt": "d0-2"}},
    {"number": "4"},
    {},
]


@pytest.fixture(params=[*ENGINES, *ON_SERVERS])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Iterator[str]:
    """A server over a folder in which tests make collections."""
    with address_of(tmp_path_factory.mktemp("served"), models=(tiny,)) as address:
        yield address


def connected(client: str, address: str, encoder: str) -> RemoteCollection:
    """Make a collection on the server."""
    name = f"c{next(NUMBERS)}"
    if client == AWAITED:
        return awaited(address, name, encoder)
    return connect(address, name, create=True, encoder=encoder)


@pytest.fixture
def local(engine: str, tmp_path: Path, counting: Counting) -> Iterator[Collection]:
    there = PLACES[engine](tmp_path)
    with Collection.open(encoder=counting, calibration="center+nnn(k=4)", follow=False, **there) as opened:
        opened.add(mixed(40))
        yield opened


@pytest.fixture(params=[*ENGINES, SERVED, AWAITED, *ON_SERVERS])
def things(
    request: pytest.FixtureRequest, tmp_path: Path, counting: Counting, address: str, tiny: str
) -> Iterator[Collection | RemoteCollection]:
    at = PLACES.get(request.param)
    if at is None:
        opened: Collection | RemoteCollection = connected(request.param, address, tiny)
    else:
        opened = Collection.open(encoder=counting, calibration="center+nnn(k=4)", follow=False, **at(tmp_path))
    with opened:
        opened.add(mixed(40))
        if not isinstance(opened, Collection):
            opened.calibrate("center+nnn(k=4)")
        yield opened


@pytest.fixture(scope="module", params=[SERVED, AWAITED, *ON_SERVERS])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, encoder: Encoder, address: str, tiny: str
) -> Iterator[list[Collection | RemoteCollection]]:
    """The same collection on several engines, to be read."""
    tmp_path = tmp_path_factory.mktemp("both")
    places = [*ENGINES.values(), *([SERVERS[request.param]] if request.param in SERVERS else [])]
    made: list[Collection | RemoteCollection] = [
        Collection.open(encoder=encoder, calibration="center", follow=False, **at(tmp_path)) for at in places
    ]
    if request.param in (SERVED, AWAITED):
        made.append(connected(request.param, address, tiny))
    for one in made:
        one.add(mixed(40))
        one.delete(["d0-3", "d0-4"])
        one.add([Document("d0-5", "a red cat on a red sofa", metadata={"number": 5, "tags": ["a", "b"]})])
        one.calibrate("center+nnn(k=4)")
    with ExitStack() as stack:
        for one in made:
            stack.enter_context(one)
        yield made


def answers(things: Collection | RemoteCollection, **options: Any) -> list[list[tuple[object, ...]]]:
    asked = [query for query in QUERIES if query.text] if options.get("hybrid") else QUERIES
    found = [things.search(query, 50, **options) for query in asked]
    return [[(hit.id, round(hit.score, 4), hit.modality, hit.rank, hit.passage) for hit in hits] for hits in found]


@pytest.mark.parametrize(
    "options",
    [{}, {"hybrid": True}, {"group": True}, {"explain": True}, {"calibration": "none"}, {"offset": 7}]
    + [{"where": where} for where in FILTERS]
    + [{"where": where, "hybrid": True} for where in FILTERS[:3]],
    ids=str,
)
def test_all_engines_give_the_same_answers(both: list[Collection | RemoteCollection], options: dict[str, Any]) -> None:
    first, *others = (answers(one, **options) for one in both)
    assert all(other == first for other in others)


def test_all_engines_hold_the_same(both: list[Collection | RemoteCollection]) -> None:
    first, *others = both
    for other in others:
        assert list(other) == list(first)
        assert (len(other), other.ids(), other.fields()) == (len(first), first.ids(), first.fields())
        assert [other.ids(where) for where in FILTERS] == [first.ids(where) for where in FILTERS]
        assert [other.values(name) for name in other.fields()] == [first.values(name) for name in first.fields()]
        assert other.get("d0-5") == first.get("d0-5")
        one, two = other.stats(), first.stats()
        assert (one.documents, one.changes, one.encoder["dim"]) == (two.documents, two.changes, two.encoder["dim"])
        if isinstance(other, Collection):
            assert (other.verify(), one.encoder) == ([], two.encoder)


KINDS = [  # metadata of one document each
    {
        "lang": "en",
        "year": "1999",
        "day": "2024-05-31",
        "draft": True,
        "n": 5,
        "by": {"name": "Ada"},
        "tags": ["a", "b"],
    },
    {
        "lang": "en",
        "year": "2021",
        "day": "2023-01-02",
        "draft": False,
        "n": 5.0,
        "tags": ["b", "b"],
        "long": "x" * 201,
    },
    {"lang": "de", "year": 2021, "day": "2024-05-31T10:00", "draft": True, "n": -2.5, "tags": [], "mixed": "a"},
    {"lang": "日本", "mixed": 7, "by": {"name": "Ada"}, "long": "x" * 201},
]


def test_values_are_counted_with_their_ranges(things: Collection | RemoteCollection) -> None:
    things.delete(things.ids())
    things.add([Document(f"k{n}", "cat", metadata=metadata) for n, metadata in enumerate(KINDS)])
    tops = {name: list(map(tuple, things.values(name).top)) for name in things.fields()}
    assert tops["lang"] == [("en", 2), ("de", 1), ("日本", 1)]
    assert tops["year"] == [(2021, 2), (1999, 1)]  # a text that looks like a number is counted as the number
    assert tops["draft"] == [(1, 2), (0, 1)]
    assert tops["n"] == [(5, 2), (-2.5, 1)]
    assert tops["tags"] == [("b", 2), ("a", 1)]  # twice in one document is once
    assert tops["by.name"] == [("Ada", 2)]
    assert tops["mixed"] == [(7, 1), ("a", 1)]
    assert tops["long"] == []
    assert tops["modality"] == [("text", 4)]
    assert tops["id"] == [(f"k{n}", 1) for n in range(4)]
    ranges = {name: (things.values(name).numbers, things.values(name).dates) for name in ("year", "day", "n", "lang")}
    assert ranges["year"] == ((1999, 2021), None)
    assert ranges["day"] == (None, ("2023-01-02", "2024-05-31T10:00"))
    assert ranges["n"] == ((-2.5, 5), None)
    assert ranges["lang"] == (None, None)


def test_values_follow_every_change(things: Collection | RemoteCollection) -> None:
    before = things.values("number")
    assert (before.numbers, len(before.top), before.more) == ((0, 39), 20, True)
    assert not things.values("number", 100).more
    things.delete("d0-39")
    assert things.values("number").numbers == (0, 38)
    things.update("d0-1", {"number": 1000})
    assert things.values("number").numbers == (0, 1000)
    assert things.values("missing").top == ()


def test_values_of_what_is_no_field_are_refused(things: Collection | RemoteCollection) -> None:
    for name, most in ((5, 20), ("number", 0), ("number", 101), ("number", "many")):
        with pytest.raises(BadInput):
            things.values(name, most)  # type: ignore[arg-type]


def test_documents_are_added_changed_and_deleted(things: Collection | RemoteCollection, counting: Counting) -> None:
    counting.took()
    assert things.add(mixed(40)).unchanged == tuple(document.id for document in mixed(40))
    assert counting.took() == (0, 0)
    things.update("d0-2", metadata={"lang": "en"})
    assert things.get("d0-2").metadata["lang"] == "en"
    assert [hit.id for hit in things.search("dog", where={"lang": "en"})] == ["d0-2"]
    assert things.delete(["d0-2", "none"]) == 1
    assert "d0-2" not in things
    with pytest.raises(UnknownName, match="d0-2"):
        things.get("d0-2")
    assert {hit.id for hit in things.search("dog", k=100)} == {document.id for document in things}


def test_what_is_changed_in_a_document_that_was_given_out_changes_nothing(
    things: Collection | RemoteCollection,
) -> None:
    found = things.get("d0-1")
    assert isinstance(found.metadata, dict)
    found.metadata["number"] = "changed"
    assert things.get("d0-1").metadata["number"] == 1


def test_a_change_that_fails_changes_nothing(local: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(local)

    def fails(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(local.store), "touched", fails)
        for change in (lambda: local.add(mixed(3, seed=9)), lambda: local.delete("d0-1")):
            with pytest.raises(KeyboardInterrupt):
                change()
    assert list(local) == before
    assert len(local.search("dog", k=100)) == len(before)


def test_searches_see_one_state_while_all_is_replaced(things: Collection | RemoteCollection) -> None:
    def generation(number: int) -> list[Document]:
        return [Document(f"g{i}", f"a red cat {i}", metadata={"g": number}) for i in range(10)]

    things.add(generation(-1))
    things.search("cat")
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(lambda: [things.add(generation(number)) for number in range(20)])
        while not writing.done():
            hits = things.search("a red cat", k=10, where={"g": {"gte": -1}})
            assert len(hits) == 10
            assert len({hit.document.metadata["g"] for hit in hits}) == 1
        writing.result()


def test_iterating_meets_the_documents_as_they_were_at_the_start(local: Collection) -> None:
    met = []
    for document in local:
        met.append(document.id)
        local.add([Document(document.id, "another text")])
    assert met == [document.id for document in mixed(40)]


def test_a_calibration_is_kept_and_served(things: Collection | RemoteCollection) -> None:
    made = things.calibrate("center", queries=["a red cat", ("the dog", "d0-0")])
    assert things.calibration is not None
    assert things.calibration.version == made.version
    assert things.calibration_spec == "center"
    again = things.calibrate("none")
    assert again.version == made.version + 1
    assert [hit.score for hit in things.search("dog", 3)] == pytest.approx(
        [hit.similarity for hit in things.search("dog", 3)], abs=1e-5
    )


def test_queries_are_logged_when_that_is_switched_on(local: Collection) -> None:
    local.search("a red cat")
    assert local.stats().logged is None
    local.log_queries()
    local.search("a red cat")
    assert local.stats().logged == 1
    local.log_queries(False)
    assert local.stats().logged is None


def test_a_source_is_followed(local: Collection, tmp_path: Path) -> None:
    rows = [{"id": f"r{i}", "text": f"a note about tea {i}"} for i in range(5)]
    table = tmp_path / "rows.jsonl"
    table.write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    report = local.index(table)
    assert (report.added, len(report.skipped)) == (5, 1)
    assert local.stats().sources == {str(table): 1}
    assert [place for place, _ in local.stats().skipped] == ["rows.jsonl, line 6"]
    table.write_text("\n".join(map(json.dumps, rows[:3])) + "\n")
    report = local.index(table)
    assert (report.unchanged, report.removed, report.skipped) == (3, 2, [])
    assert local.index(table).unchanged == 3
    assert len(local) == 43


def test_it_can_be_reencoded(local: Collection, other: str) -> None:
    done = local.reencode(other)
    assert done.encoded == 40
    assert local.stats().encoder["dim"] == 12
    assert {hit.id for hit in local.search("dog", k=100)} == {document.id for document in local}
    local.add([Document("new", "a cat")])
    local.delete("d0-1")
    assert len(local.search("dog", k=100)) == len(local) == 40
    assert local.reencode(other).already


def test_vectors_are_exported(local: Collection, tmp_path: Path) -> None:
    count = local.export_vectors(tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as rows:
        assert len(rows["vectors"]) == count
        assert set(rows["id"]) == {document.id for document in local}


def test_it_can_be_compacted_and_closed(local: Collection) -> None:
    local.compact()
    assert len(local.search("dog", k=100)) == 40
    local.close()
    with pytest.raises(CannotWrite, match="closed"):
        local.get("d0-1")


def test_another_encoder_or_a_bad_document_is_refused(things: Collection | RemoteCollection) -> None:
    with pytest.raises(BadInput):
        things.add(["a text"])  # type: ignore[list-item]
    assert things.add([Document("bad", image=b"no picture")]).skipped
    assert len(things) == 40


def test_a_closed_collection_raises_closed_on_every_engine(things: Collection | RemoteCollection) -> None:
    things.close()
    with pytest.raises(Closed, match="was closed"):
        things.search("a cat")


def test_an_engine_without_a_collection_makes_none_when_told_not_to(engine: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="There is no collection at"):
        Collection.open(encoder="none", create=False, **PLACES[engine](tmp_path))
    assert list(tmp_path.iterdir()) == []
