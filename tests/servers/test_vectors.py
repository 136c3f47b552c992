"""Every server of vectors answers as the folder does, and follows what changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import CannotReach, CannotWrite
from isthmus.search import snapshot_builder
from isthmus.search.published_index import PublishedIndex
from isthmus.storage.protocols import RowFilter
from isthmus.storage.servers import opened_server
from isthmus.storage.where import parse
from stock import Counting, mixed, pixels
from vector_servers import Places

SPEC = "center+nnn(k=4)"
QUERIES = [Query("a red cat"), Query(image=pixels(500)), Query("dog", image=pixels(501))]
FILTERS: list[dict[str, Any]] = [
    {"number": 4},
    {"number": {"gte": 10, "lt": 20}},
    {"number": {"gt": 10.5}},
    {"odd": True, "number": [1, 2, 3]},
    {"not": {"odd": True}},
    {"or": [{"number": 3}, {"id": ["d0-5", "d0-6"]}]},
    {"modality": "image"},
    {"number": {"not": 5}},
    {"missing": None},
    {"number": {"exists": True}, "id": {"gt": "d0-2"}},
    {"number": "4"},
    {"id": []},
    {"a.b": "x y"},
    {"a.b": {"exists": False}},
    {"quote'\"\\": 'it\'s "so"\\'},
    {"year": 2021},
    {"year": "2021"},
    {"list": {"gt": 5}, "number": {"lt": 100}},
    {"list": {"lt": 2}},
    {"big": 2**60 + 1},
    {"big": {"gte": 2**60}},
    {"tags": ["a", "z"]},
    {"not": {"or": [{"tags": "a"}, {"number": {"lt": 30}}]}},
    {},
]


def changed(things: Collection) -> None:
    things.add(mixed(40))
    things.delete(["d0-3", "d0-4"])
    odd = {"number": 5, "tags": ["a", "b"], "a": {"b": "x y"}, "list": [1, 7], "big": 2**60 + 1}
    things.add([Document("d0-5", "a red cat on a red sofa", metadata=odd)])
    things.add([Document("odd", "the dog", metadata={"quote'\"\\": 'it\'s "so"\\', "year": "2021", "list": [3]})])
    things.calibrate(SPEC)


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, encoder: Encoder, place: Places
) -> Iterator[tuple[Collection, Collection]]:
    """The same collection in a folder alone, and with its vectors on a server."""
    folder = tmp_path_factory.mktemp("both")
    with (
        Collection.open(folder / "plain", encoder, "center", follow=False) as plain,
        Collection.open(folder / "served", encoder, "center", follow=False, vectors=place()) as served,
    ):
        for one in (plain, served):
            changed(one)
        yield plain, served


def answers(things: Collection, **options: Any) -> list[list[tuple[object, ...]]]:
    asked = [query for query in QUERIES if query.text] if options.get("hybrid") else QUERIES
    found = [things.search(query, options.pop("k", 50), **options) for query in asked]
    return [[(hit.id, round(hit.score, 4), hit.modality, hit.rank, hit.passage) for hit in hits] for hits in found]


@pytest.mark.parametrize(
    "options",
    [{}, {"hybrid": True}, {"group": True}, {"explain": True}, {"calibration": "none"}, {"offset": 7}, {"k": 3}]
    + [{"modalities": "image"}, {"modalities": "-text"}]
    + [{"where": where} for where in FILTERS]
    + [{"where": where, "hybrid": True} for where in FILTERS[:3]],
    ids=str,
)
def test_a_server_answers_as_the_folder_does(both: tuple[Collection, Collection], options: dict[str, Any]) -> None:
    plain, served = both
    assert served.snapshot().is_published
    assert answers(served, **options) == answers(plain, **options)


@pytest.mark.parametrize("where", [one for one in FILTERS if one], ids=str)
def test_a_server_counts_what_passes_a_filter_as_the_store_does(
    both: tuple[Collection, Collection], where: dict[str, Any]
) -> None:
    served = both[1]
    condition, server = parse(where), served._handle.publisher
    assert server is not None
    if not server.server.pushes(condition):
        pytest.skip("is not pushed: rows are sent instead")
    expected = set(served.store.filtered(condition).tolist())
    asked, found = np.zeros((1, _width(served)), np.float32), []
    for index in served.snapshot().built:
        assert isinstance(index, PublishedIndex)
        allowed = RowFilter(index.last, condition=condition)
        rows = index.server.search(index.key, index.modality, asked, 100, allowed)[1][0, :, 0]
        assert index.server.count(index.key, index.modality, allowed) == int((rows >= 0).sum())
        found += rows[rows >= 0].tolist()
    assert set(found) == expected


def _width(things: Collection) -> int:
    fitted = things.snapshot().calibrated.fitted
    asked = things.encoder.encode_queries(["cat"])  # type: ignore[union-attr]
    return int(fitted.fold_queries(asked).vectors.shape[1])


@pytest.fixture
def things(tmp_path: Path, counting: Counting, place: Places) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=place()) as made:
        made.add(mixed(40))
        made.search("dog")
        yield made


def ids(things: Collection, **options: Any) -> set[str]:
    return {hit.id for hit in things.search("a red cat", 100, **options)}


def test_adds_deletes_and_changes_are_followed_between_and_after_publications(things: Collection) -> None:
    for step in range(3):
        things.add([Document(f"new-{step}", "a red cat")])
        things.delete([f"d0-{step}"])
        things.update("d0-20", metadata={"step": step})
        assert ids(things) == set(things.ids())
        assert ids(things, where={"step": step}) == {"d0-20"}
        things.compact()
        assert not things.snapshot().recent
        assert ids(things) == set(things.ids())
        assert ids(things, where={"step": step}) == {"d0-20"}
        assert things.verify() == []


def test_a_calibration_and_an_encoder_are_replaced(things: Collection, other: str) -> None:
    things.calibrate("center")
    assert ids(things) == set(things.ids())
    things.reencode(other, force=True)
    assert ids(things) == set(things.ids())
    publisher = things._handle.publisher
    assert publisher is not None
    assert len(publisher.records()) == 1
    assert things.verify() == []


def test_a_collection_opened_again_finds_its_vectors(things: Collection, tmp_path: Path, counting: Counting) -> None:
    before = ids(things)
    publisher = things._handle.publisher
    assert publisher is not None
    keys = [record.key for record in publisher.records()]
    things.close()
    with Collection.open(tmp_path / "c", counting, follow=False) as again:
        assert ids(again) == before
        assert again._handle.publisher is not None
        assert [record.key for record in again._handle.publisher.records()] == keys


def test_a_collection_that_is_lost_on_the_server_is_published_again(things: Collection) -> None:
    before, publisher = ids(things), things._handle.publisher
    assert publisher is not None
    publisher.server.drop(publisher.records()[0].key)
    assert ids(things) == before
    publisher.server.drop(publisher.records()[-1].key)
    assert things.verify()
    assert things.verify() == []
    assert ids(things) == before


def test_two_that_calibrate_at_once_are_told_apart_and_no_answer_mixes_them(
    tmp_path: Path, counting: Counting, place: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every step of a calibration on the server, another one is tried, and a third process searches."""
    monkeypatch.setattr(snapshot_builder, "LONGEST_WAIT", 0.0)
    server, seen = opened_server(place()), list[list[tuple[object, ...]]]()
    with ExitStack() as stack:
        one, two, reading = (
            stack.enter_context(Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=server))
            for _ in range(3)
        )
        one.add(mixed(40))
        whole = []
        for spec in (SPEC, "center"):
            one.calibrate(spec)
            whole.append(answers(reading)[0])
        assert whole[0] != whole[1]

        def between(usual: Callable[..., Any]) -> Callable[..., Any]:
            def step(*values: Any) -> Any:
                done = usual(*values)
                with pytest.raises(CannotWrite, match="Another process has been publishing"):
                    two.calibrate("none")
                seen.append(answers(reading)[0])
                return done

            return step

        with monkeypatch.context() as patch:
            for name in ("begin", "write", "mark", "drop"):
                patch.setattr(server, name, between(getattr(server, name)))
            one.calibrate(SPEC)
        assert len(seen) > 5
        assert all(answer in whole for answer in seen)
        assert (seen[0], seen[-1]) == (whole[1], whole[0])
        two.calibrate("center")  # the later one wins
        assert [answers(each)[0] for each in (one, two, reading)] == [whole[1]] * 3
        assert one.verify() == []


@pytest.mark.parametrize("address", ["qdrant://127.0.0.1:1/things", "milvus://127.0.0.1:1/things?timeout=1"])
def test_a_server_that_is_not_there_is_named_with_what_to_do(tmp_path: Path, counting: Counting, address: str) -> None:
    with Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=address) as made:
        made.add(mixed(10))
        with pytest.raises(CannotReach, match=r"127\.0\.0\.1:1/things.* Nothing is lost.*Start the server"):
            made.search("dog")
        assert len(made) == 10


def test_a_publication_that_is_not_there_has_nothing_to_say(place: Places) -> None:
    server = opened_server(place())
    assert server.about("1-nothing") is None
    server.drop("1-nothing")
