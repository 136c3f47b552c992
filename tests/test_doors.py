"""What is handed in from outside is checked where it comes in: names of parts, ids, depth, length, number."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query, Vectors, types
from isthmus.align import Aligned
from isthmus.errors import BadInput, BadVectors, CannotEncode
from isthmus.search import arguments, ingest
from isthmus.storage import facts, where
from isthmus.storage.sqlite import schema
from isthmus.storage.sqlite.database import ChangedMeanwhile
from isthmus.types import MAX_PARTS_OF_ONE

BAD_NAMES = [
    "/somewhere/pwned",
    "../../../evil",
    "a\0b",
    "a\ud800",
    "a b",
    "a.b",
    "",
    "+",
    "text+",
    "-text",
    "é",
    "x" * 33,
    5,
]
VECTOR = np.arange(1.0, 9.0)


@pytest.fixture
def things(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", "none", calibration="none") as opened:
        opened.add([Document(f"v{i}", metadata={"n": i, "a": "x"}, vectors={"text": VECTOR + i}) for i in range(20)])
        yield opened


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["document", "query", "reference query", "references"])
def test_a_part_is_called_by_an_identifier(things: Collection, kind: str, name: Any) -> None:
    use: Callable[[Any], object] = {
        "document": lambda parts: Document("d", vectors=parts),
        "query": lambda parts: things.search(Query(vectors=parts)),
        "reference query": lambda parts: things.calibrate("none", queries=[Query(vectors=parts)]),
        "references": lambda parts: things.references([(Query(vectors=parts), None)]),
    }[kind]
    with pytest.raises(BadInput, match="not a part's name"):
        use({name: VECTOR})
    with pytest.raises(BadInput, match="not a part's name"):
        use({"text": VECTOR, f"image+{name}" if isinstance(name, str) and name else name: VECTOR})


def test_good_names_of_parts_are_taken() -> None:
    names = ["audio", "Text", "page_2", "clip-l14", "x" * 32, "3d", "text+image"]
    assert Document("d", vectors=dict.fromkeys(names, VECTOR)).vectors.keys() == {*names[:-1], "image+text"}


@pytest.mark.parametrize("name", ["PLACE/pwned", "../../../evil"])
def test_a_row_cannot_write_outside_its_collection(tmp_path: Path, name: str) -> None:
    given = name.replace("PLACE", str(tmp_path))
    rows = [{"id": "good", "text": "a", "vectors": {"text": VECTOR.tolist()}}]
    rows += [{"id": "bad", "vectors": {given: VECTOR.tolist()}}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = {path.name for path in tmp_path.iterdir()} | {"c"}
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        report = things.index(tmp_path / "rows.jsonl")
        things.search(Query(vectors={"text": VECTOR}))
        things.refresh()
        assert [("not a part's name" in one.why) for one in report.skipped] == [True]
        assert [document.id for document in things] == ["good"]
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_document_has_at_most_eight_parts() -> None:
    names = [f"p{i}" for i in range(MAX_PARTS_OF_ONE + 1)]
    assert len(Document("d", vectors=dict.fromkeys(names[:-1], VECTOR)).vectors) == MAX_PARTS_OF_ONE
    with pytest.raises(BadInput, match="9 parts; 8 is the most"):
        Document("d", vectors=dict.fromkeys(names, VECTOR))
    with pytest.raises(BadInput, match="9 parts; 8 is the most"):
        Document("d", vectors={"+".join(names): VECTOR})


def test_a_collection_with_many_names_refuses_new_ones_and_stays_usable(things: Collection) -> None:
    rows = [Document(f"p{i}", vectors={f"p{i}": VECTOR}) for i in range(ingest.PARTS + 5)]
    done = things.add(rows)
    assert len(done.added) == ingest.PARTS - 1  # text is there already
    assert all("at most 12 different parts" in one.why for one in done.skipped)
    things.calibrate()
    assert things.search(Query(vectors={"text": VECTOR}), k=3)
    assert things.search(Query(vectors={"p3": VECTOR}), modalities="p3")[0].id == "p3"
    again = things.add([Document("more", vectors={"p99": VECTOR}), Document("fine", vectors={"p1": VECTOR})])
    assert (again.added, [one.id for one in again.skipped]) == (("fine",), ["more"])


def test_a_collection_with_many_combinations_refuses_new_ones(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MODALITIES", 3)
    several = [("a",), ("b",), ("a", "b"), ("b", "text")]
    done = things.add([Document("+".join(parts), vectors=dict.fromkeys(parts, VECTOR)) for parts in several])
    assert (done.added, [one.id for one in done.skipped]) == (("a", "b"), ["a+b", "b+text"])


@pytest.mark.parametrize("calibration", ["none", "center"])
@pytest.mark.parametrize("part", ["clip.b32", "my part", "odd\0name", "../../../evil"])
def test_a_part_name_of_an_earlier_version_can_be_searched_and_updated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, calibration: str
) -> None:
    with Collection.open(tmp_path / "deep" / "c", "none", calibration=calibration) as things:
        with monkeypatch.context() as patch:
            patch.setattr(types, "PART_NAME", re.compile(".*", re.DOTALL))
            vectors = np.random.default_rng(0).normal(size=(20, 8))
            things.add([Document(f"d{row}", vectors={part: vector}) for row, vector in enumerate(vectors)])
        asked = Query(vectors={part: vectors[3]})
        things.calibrate(calibration, queries=[asked, Query(vectors={part: VECTOR})])
        assert things.search(asked, k=1)[0].id == "d3"
        assert things.update("d3", {"a": 1}).updated == ("d3",)
        assert things.update(Document("d3", "a cat", metadata={"b": 2})).updated == ("d3",)
        changed = things.get("d3")
        assert (changed.text, changed.metadata, list(changed.vectors)) == ("a cat", {"a": 1, "b": 2}, [part])
        assert things.search(asked, where={"a": 1}, modalities=part)[0].id == "d3"
        things.refresh()
        with pytest.raises(BadInput, match="not a part's name"):
            things.update(Document("d3", vectors={part: VECTOR}))
    assert [path.name for path in tmp_path.rglob("*") if "evil" in path.name or "clip" in path.name] == []


@pytest.mark.parametrize("part", ["my part", "odd\0name", "../../../evil"])
def test_a_bad_name_of_an_earlier_version_can_be_listed_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        with monkeypatch.context() as patch:
            patch.setattr(types, "PART_NAME", re.compile(".*", re.DOTALL))
            things.add([Document("good", vectors={"text": VECTOR}), Document("old", vectors={part: VECTOR})])
        with things.store.database.writing() as connection:
            connection.execute("UPDATE documents SET id = ? WHERE id = 'old'", ("old\0id",))
            connection.execute(f"UPDATE documents SET content = {schema.CONTENT}, origin = {schema.ORIGIN}")
        assert things.ids() == ["good", "old\0id"]
        assert [document.modality for document in things] == ["text", part]
        assert "old\0id" in things
        assert things.get("old\0id").vectors.keys() == {part}
        assert things.delete(["old\0id", "good"]) == 2
        assert len(things) == 0


def test_documents_of_more_parts_than_fit_together_can_be_deleted_together(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "PARTS", 40)
    several = [Document(f"p{i}", vectors={f"p{i}": VECTOR}) for i in range(20)]
    for one in several:
        things.add([one])
    assert things.delete([one.id for one in several]) == 20
    assert things.search(Query(vectors={"text": VECTOR}))


def test_a_stored_document_is_not_refused_for_its_metadata(things: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = "x"
    for _ in range(100):
        deep = {"a": deep}
    with monkeypatch.context() as patch:
        patch.setattr(facts, "DEEPEST", 1000)
        things.add([Document("deep", metadata=deep, vectors={"text": VECTOR})])
    assert things.get("deep").metadata == deep
    assert things.delete("deep") == 1


@pytest.mark.parametrize("depth", [65, 850, 50_000])
@pytest.mark.parametrize("kind", [dict, list])
def test_metadata_is_nested_at_most_64_levels(things: Collection, depth: int, kind: type) -> None:
    deep: Any = "x"
    for _ in range(depth - 1):
        deep = {"a": deep} if kind is dict else [deep]
    done = things.add([Document("deep", metadata={"m": deep}, vectors={"text": VECTOR})])
    assert ["more than 64 levels" in one.why for one in done.skipped] == [True]
    with pytest.raises(BadInput, match="more than 64 levels"):
        things.update("v1", metadata={"m": deep})


def test_metadata_of_64_levels_is_stored(things: Collection) -> None:
    deep: Any = "x"
    for _ in range(64):
        deep = {"a": deep}
    things.add([Document("deep", metadata=deep, vectors={"text": VECTOR})])
    assert things.get("deep").metadata == deep
    assert things.ids({".".join("a" * 64): "x"}) == ["deep"]


def nested(depth: int, kind: str) -> dict[str, Any]:
    where: dict[str, Any] = {"n": 3}
    for number in range(depth):
        one: Any = {"not": where, "and": [where, {"a": "x"}], "or": [where, {"n": -number}]}[kind]
        where = {kind: one}
    return where


@pytest.mark.parametrize("kind", ["not", "and", "or"])
def test_filters_are_read_to_64_levels_and_refused_beyond(things: Collection, kind: str) -> None:
    right = ["v3"] if kind != "or" else ["v0", "v3"]
    for depth in (6, 10, 40, 62):
        assert things.ids(nested(depth, kind)) == right
    for depth in (64, 300, 50_000):
        with pytest.raises(BadInput, match="more than 64 levels deep"):
            things.ids(nested(depth, kind))
    operator: Any = {"eq": 3}
    for _ in range(300):
        operator = {"not": operator}
    with pytest.raises(BadInput, match="more than 64 levels deep"):
        things.ids({"n": operator})


def test_a_nested_filter_holds_in_searches_by_words_too(tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "words", tiny, calibration="center") as things:
        things.add([Document(f"d{i}", "a cat on the sofa", metadata={"n": i, "a": "x"}) for i in range(20)])
        assert [hit.id for hit in things.search("cat", where=nested(30, "and"), hybrid=True)] == ["d3"]


def test_filters_of_many_conditions_and_values_work_up_to_a_stated_number(things: Collection) -> None:
    assert len(things.ids({"or": [{"n": i} for i in range(2000)]})) == 20
    with pytest.raises(BadInput, match="more than 5,000 conditions"):
        things.ids({"or": [{"n": i} for i in range(where.CONDITIONS + 1)]})
    with pytest.raises(BadInput, match="30,000 is the most"):
        things.ids({"n": [f"{i}\0" for i in range(40_000)]})
    assert len(things.ids({"n": list(range(40_000))})) == 20
    assert things.ids({"n": np.int64(3)}) == ["v3"]


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-200, 1e200])
def test_a_list_of_many_floats_matches_exactly(things: Collection, scale: float) -> None:
    some = np.random.default_rng(5).normal(size=200) * scale
    near = np.nextafter(some, np.inf)
    for prefix, values in (("same", some), ("near", near)):
        several = enumerate(values.tolist())
        things.add([Document(f"{prefix}{row}", metadata={"x": x}, vectors={"text": VECTOR}) for row, x in several])
    more = (np.arange(20_000) * scale * 7).tolist()
    found = things.ids({"x": {"in": [*more, *some.tolist(), float("inf"), float("nan"), "a\0", "b", 3]}})
    assert found == [f"same{row}" for row in range(200)]


def test_a_list_may_hold_40000_floats(things: Collection) -> None:
    assert things.ids({"n": [i + 0.5 for i in range(40_000)]}) == []
    assert things.ids({"n": [*(i + 0.5 for i in range(40_000)), 3.0]}) == ["v3"]


def test_a_query_has_at_most_131072_characters(things: Collection) -> None:
    words = " ".join(map(str, range(1_000_000)))
    for ask in (
        lambda: things.search(words, hybrid=True),
        lambda: things.search_many(["a", Query(text=words, vectors={"text": VECTOR})]),
        lambda: things.calibrate(queries=[words]),
        lambda: things.search(words, align=Shortening(len(words))),
    ):
        with pytest.raises(BadInput, match="131,072 is the most"):
            ask()
    longest = Query(text="x" * arguments.LONGEST, vectors={"text": VECTOR})
    assert len(things.search(longest, k=3)) == 3


class Shortening:
    """Keeps the first characters of a query."""

    name = "shortening"

    def __init__(self, most: int) -> None:
        self.most = most

    def align(self, queries: Sequence[Query]) -> list[Aligned]:
        return [Aligned(Query(text=(query.text or "")[: self.most], vectors={"text": VECTOR})) for query in queries]


def test_a_long_query_may_be_shortened_by_alignment(things: Collection) -> None:
    words = "word " * arguments.LONGEST
    assert things.align(words, Shortening(40)).query.text == words[:40]
    assert len(things.search(words, k=3, align=Shortening(40))) == 3
    assert things.align(words, "none").query.text == words


def test_queries_and_modalities_come_in_any_iterable(things: Collection) -> None:
    asked = Query(vectors={"text": VECTOR})
    right = [[hit.id for hit in things.search(asked, k=3)]] * 2
    for several in ((asked for _ in range(2)), {"a": asked, "b": asked}.values(), iter([asked, asked])):
        assert [[hit.id for hit in hits] for hits in things.search_many(several, k=3)] == right
    for modalities in ({"text"}, frozenset({"text"}), (name for name in ["text"]), np.array(["text"])):
        many = things.search_many([asked] * 2, k=3, modalities=modalities)
        assert [[hit.id for hit in hits] for hits in many] == right


def test_an_option_that_is_none_is_off(things: Collection) -> None:
    asked = Query(vectors={"text": VECTOR})
    off: Any = None
    assert things.search(asked, hybrid=off, explain=off, group=off) == things.search(asked)
    with pytest.raises(BadInput, match="on is None"):
        things.log_queries(off)


def test_work_that_meets_changes_is_given_up_after_ten_tries(things: Collection) -> None:
    tries = []

    def work() -> None:
        tries.append(1)
        raise ChangedMeanwhile("It was changed while it was read. Try again.")

    with pytest.raises(ChangedMeanwhile, match="Try again"):
        things.retry_if_reencoded(work)
    assert len(tries) == 10


def test_work_is_given_up_where_each_try_meets_another_encoder(things: Collection) -> None:
    tries = []

    def work() -> None:
        tries.append(1)
        with things.store.database.writing() as connection:
            things.store.database.put(connection, encoding=len(tries))

    with pytest.raises(ChangedMeanwhile, match="re-encoded 10 times"):
        things.retry_if_reencoded(work)
    assert len(tries) == 10


@pytest.mark.parametrize("vector", [[[1.0, 2.0], [3.0]], [1e300, 1.0], [1e-300], [True, False], ["a"], [None], 5, {}])
def test_what_is_no_row_of_numbers_is_refused(vector: Any) -> None:
    with pytest.raises(BadVectors):
        Document("d", vectors={"text": vector})
    if not isinstance(vector, list) or isinstance(vector[0], list):
        with pytest.raises(BadVectors):
            Vectors({"text": vector})


def test_an_id_holds_no_nul() -> None:
    with pytest.raises(BadInput, match="NUL"):
        Document("a\0b", "text")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_picture_that_never_ends_is_skipped(tmp_path: Path, tiny: str, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "endless", "image": str(path)}) + "\n")
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        done = things.add([Document("endless", image=path), Document("fine", "a cat")])
        assert (done.added, ["not a regular file" in one.why for one in done.skipped]) == (("fine",), [True])
        report = things.index(tmp_path / "rows.jsonl")
        assert ["not a regular file" in one.why for one in report.skipped] == [True]


def test_reencoding_names_what_an_earlier_version_took(tmp_path: Path, tiny: str, other: str) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document("good", "a cat"), Document("old", "a dog")])
        with things.store.database.writing() as connection:
            connection.execute("UPDATE documents SET id = ? WHERE id = 'old'", ("old\0id",))
            connection.execute(f"UPDATE documents SET content = {schema.CONTENT}, origin = {schema.ORIGIN}")
        with pytest.raises(CannotEncode) as refused:
            things.reencode(other)
        assert [name for name, _ in refused.value.skipped] == ["old\0id"]
        things.delete("old\0id")
        things.reencode(other)
        assert [hit.id for hit in things.search("a cat")] == ["good"]
