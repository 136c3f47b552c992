"""A document is a sequence of parts: several of one kind, in order; segments of different parts pair by nearness."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture
from typer.testing import CliRunner

from isthmus import Collection, Document, Image, Part, Query, Text
from isthmus.cli import app
from isthmus.documents import MAX_DOCUMENT_PARTS
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.search.ingest import pairs
from isthmus.storage.segments import Segment, assembled, combinations
from stock import Counting, Fusing, database, dense, looked_at, mixed, pixels

ENGINES = ["folder", "memory"]
CAT, DOG = "a red cat on a sofa", "the dog runs on the grass"


def article(name: str = "article") -> Document:
    return Document(name, parts=[Text(CAT), Image(pixels(1)), Text(DOG), Image(pixels(2))], metadata={"n": 1})


@pytest.fixture(params=ENGINES)
def things(request: pytest.FixtureRequest, tmp_path: Path, counting: Counting) -> Iterator[Collection]:
    place = ":memory:" if request.param == "memory" else tmp_path / "c"
    with Collection.open(place, counting, calibration="center+nnn(k=4)", follow=False) as opened:
        opened.add(mixed(30))
        yield opened
    if request.param == "folder":
        assert looked_at(tmp_path / "c") == []


def test_text_and_image_are_the_short_way() -> None:
    short = Document("a", CAT, "cat.png")
    assert short == Document("a", parts=[Text(CAT), Image("cat.png")])
    assert (short.text, short.image, short.images) == (CAT, "cat.png", ("cat.png",))
    assert article().text == f"{CAT}\n\n{DOG}"
    assert len(article().images) == 2
    assert repr(short) == f"Document(id='a', text={CAT!r}, image='cat.png')"
    assert repr(Document("b", parts=[Image("a.png"), Image("b.png")])) == (
        "Document(id='b', parts=[Part('image', 'a.png'), Part('image', 'b.png')])"
    )
    assert pickle.loads(pickle.dumps(short)) == short  # noqa: S301 - our own
    assert pickle.loads(pickle.dumps(Query(CAT, "cat.png"))) == Query(CAT, "cat.png")  # noqa: S301 - our own
    assert replace(short, metadata={"a": 1}).parts == short.parts


def test_parts_that_cannot_be_used_are_refused_in_words() -> None:
    with pytest.raises(BadInput, match="has parts as well as text or image"):
        Document("a", CAT, parts=[Text(CAT)])
    with pytest.raises(BadInput, match="write Text"):
        Document("a", parts=[CAT])  # type: ignore[list-item]
    with pytest.raises(BadInput, match=r"parts=\[Text"):
        Document("a", parts=Text(CAT))  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="neither text nor image"):
        Document("a", parts=[Text("  ")])
    assert len(Document("a", parts=[Text(CAT)] * MAX_DOCUMENT_PARTS).parts) == MAX_DOCUMENT_PARTS
    with pytest.raises(BadInput, match="257 parts; 256 is the most"):
        Document("a", parts=[Text(CAT)] * (MAX_DOCUMENT_PARTS + 1))
    with pytest.raises(AttributeError, match="never changes"):
        Text(CAT).content = DOG


def test_an_article_is_stored_and_read_back_in_its_order(things: Collection) -> None:
    things.add([article()])
    back = things.get("article")
    assert [part.kind for part in back.parts] == ["text", "image", "text", "image"]
    assert [part.content for part in back.parts if part.kind == "text"] == [CAT, DOG]
    assert all(isinstance(image, bytes) for image in back.images)
    assert things.stats().documents["image+text"] == 11
    assert things.add([article()]).unchanged == ("article",)
    assert things.add([replace(article(), parts=article().parts[::-1])]).updated == ("article",)
    assert [part.kind for part in things.get("article").parts] == ["image", "text", "image", "text"]


def test_every_part_is_encoded_once_and_found(things: Collection, counting: Counting) -> None:
    counting.took()
    things.add([article()])
    row = things.store.rows_of(["article"])["article"]
    segments = things.store.segments([row])[row]
    assert [(one.name, one.parts) for one in segments] == [
        ("text", (0,)),
        ("image", (1,)),
        ("text", (2,)),
        ("image", (3,)),
    ]
    for query, part in ((CAT, 0), (DOG, 2)):
        (hit,) = things.search(query, 1, where={"n": 1})
        assert (hit.id, hit.modality) == ("article", "image+text")
        assert hit.passage is not None
        assert (hit.passage.part, hit.passage.text) == (part, hit.document.parts[part].content)
    for seed, part in ((1, 1), (2, 3)):
        (hit,) = things.search(Query(image=pixels(seed)), 1, where={"n": 1})
        assert [one.parts for one in hit.segments if one.name == "image"] == [(part,)]


def test_a_score_is_that_of_the_best_row_of_neighbours(things: Collection, encoder: Encoder) -> None:
    things.calibrate("center")
    things.add([article()])
    query = Query(DOG, pixels(2))
    parts = article().parts
    alone = [Document(f"r{row}", parts=[parts[at] for at in row]) for row in ((0, 1), (2, 1), (2, 3))]
    expected = dense(things, encoder, alone, query)
    (hit,) = things.search(query, 1, where={"n": 1})
    assert hit.score == pytest.approx(max(expected.values()), abs=1e-4)
    assert hit.passage is not None and hit.passage.number == 2


def test_what_is_known_is_not_encoded_again(things: Collection, counting: Counting) -> None:
    things.add([article()])
    counting.took()
    things.add([article("copy"), Document("alone", CAT), Document("picture", image=pixels(2))])
    assert counting.took() == (0, 0)


def test_an_update_replaces_the_parts_of_its_kinds(things: Collection) -> None:
    things.add([article()])
    things.update(Document("article", "a new text"))
    assert [part.kind for part in things.get("article").parts] == ["text", "image", "image"]
    assert things.get("article").text == "a new text"
    things.update(Document("article", parts=[Image(pixels(5))]))
    assert len(things.get("article").images) == 1


def test_words_of_all_texts_are_found_by_hybrid_search(things: Collection) -> None:
    things.add([article()])
    things.calibrate("center")
    hits = things.search("grass", k=50, where={"n": 1}, hybrid=True)
    assert [hit.id for hit in hits] == ["article"]


def test_one_vector_for_both_is_made_of_neighbours(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "f", Fusing(encoder), calibration="none", follow=False) as things:
        things.add([*mixed(30), article()])
        row = things.store.rows_of(["article"])["article"]
        made = [(one.name, one.parts) for one in things.store.segments([row])[row]]
        assert made == [("image+text", (0, 1)), ("image+text", (2, 1)), ("image+text", (2, 3))]
        (hit,) = things.search(Query(DOG, pixels(2)), 1, where={"n": 1})
        assert [one.parts for one in hit.segments] == [(2, 3)]
        assert things.reencode(encoder).encoded == 31
        assert len(things.store.segments([row])[row]) == 4


def test_own_vectors_cover_all_parts_of_their_kind(things: Collection, counting: Counting) -> None:
    counting.took()
    vector = np.ones(counting.dim)
    things.add([Document("own", parts=[Text(CAT), Image(pixels(7)), Image(pixels(8))], vectors={"image": vector})])
    assert counting.took()[1] == 0
    back = things.get("own")
    np.testing.assert_array_equal(back.vectors["image"], vector)
    assert len(back.images) == 2


PARTS = st.lists(st.sampled_from(["text", "image", "tone"]), min_size=1, max_size=12)


@given(kinds=PARTS, spans=st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_rows_hold_every_segment_and_every_kind_and_are_few(kinds: list[str], spans: list[int]) -> None:
    segments = [
        Segment((part,), kind, np.full(3, part + 1.0), float(at), float(at + 1))
        for part, kind in enumerate(kinds)
        for at in range(spans[part])
    ]
    rows = combinations(segments)
    assert {place for row in rows for place in row} == set(range(len(segments)))
    assert all(sorted({segments[place].name for place in row}) == sorted(set(kinds)) for row in rows)
    assert all(len(row) == len(set(kinds)) for row in rows)
    assert len(rows) == len(set(rows)) <= len(segments)
    vectors, owner = assembled([segments, segments])
    assert len(vectors) == 2 * len(rows)
    assert len(set(vectors.modality.tolist())) == 1
    assert owner.tolist() == [0] * len(rows) + [1] * len(rows)


@given(kinds=PARTS)
def test_a_segment_pairs_with_the_nearest_of_every_other_kind(kinds: list[str]) -> None:
    parts = [Part.restored(kind, "x") for kind in kinds]
    rows = pairs(parts, range(len(parts)))
    for number, kind in enumerate(kinds):
        mine = [row for row in rows if number in row]
        for other in set(kinds) - {kind}:
            places = [at for at, name in enumerate(kinds) if name == other]
            nearest = min(places, key=lambda at: (abs(at - number), at))
            assert any(nearest in row for row in mine)
    assert pairs(parts, range(len(parts)), alone=True) == [(at,) for at in range(len(parts))]


def test_parts_survive_an_export_and_another_index(tmp_path: Path, encoder: Encoder) -> None:
    Picture.fromarray(pixels(6)).save(tmp_path / "cat.png")
    with Collection.open(tmp_path / "a", "mini", calibration="none", follow=False) as things:
        file = Document("file", parts=[Image(tmp_path / "cat.png"), Text(CAT), Image(pixels(3))])
        things.add([article(), file, Document("plain", DOG, pixels(4))])
    assert (
        CliRunner().invoke(app, ["export", "--to", str(tmp_path / "all.jsonl"), "--in", str(tmp_path / "a")]).exit_code
        == 0
    )
    with (
        Collection.open(tmp_path / "a", create=False, follow=False) as things,
        Collection.open(tmp_path / "b", "mini", calibration="none", follow=False) as again,
    ):
        assert again.index(tmp_path / "all.jsonl").added == 3
        assert [document.parts for document in again] == [document.parts for document in things]
    for row, why in (
        ('{"id": "x", "parts": [{"kind": "image"}]}', "without content or path"),
        ('{"id": "x", "parts": [{"kind": "smell", "content": "x"}]}', "No kind of part"),
        ('{"id": "x", "parts": [{"kind": "text", "content": 5}]}', "must be a string"),
    ):
        (tmp_path / "bad.jsonl").write_text(row)
        with Collection.open(":memory:", encoder, calibration="none") as things:
            assert why in things.index(tmp_path / "bad.jsonl").skipped[0].why


def test_the_words_of_one_document_are_read_without_looking_at_the_others(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none", follow=False) as things:
        things.add([*mixed(20), article()])
        row = things.store.rows_of(["article"])["article"]
        plan = database(things).all("EXPLAIN QUERY PLAN SELECT text FROM texts WHERE row IN (?)", row)
        assert not [step for *_, step in plan if step.startswith("SCAN parts")], plan
        assert things.store.texts([row]) == {row: f"{CAT}\n\n{DOG}"}
