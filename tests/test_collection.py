"""A collection holds what was put in: documents come back, are changed, and are taken out."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, UnknownName
from stock import Counting, mixed, pixels, unit


def test_documents_come_back_as_they_were_put_in(things: Collection, tmp_path: Path) -> None:
    picture = tmp_path / "ü \n猫.png"
    _png(picture)
    given = [
        Document("text", "a cat", metadata={"lang": "en", "deep": {"a": [1, None, "x"]}}),
        Document("file", image=picture),
        Document("bytes", "two\nlines", picture.read_bytes(), {"n": 1.5, "no": None, "yes": True}),
        Document("own", "words", vectors={"text": np.arange(1.0, 9.0)}),
        Document("both", "words", picture, vectors={"image": np.arange(1.0, 9.0)}),
        Document("joint", vectors={"text+image": np.arange(2.0, 10.0)}),
    ]
    assert things.add(given).added == tuple(document.id for document in given)
    assert [things.get(document.id) for document in given] == given
    assert list(things)[-len(given) :] == given
    assert len(things) == 40 + len(given)
    assert "bytes" in things
    assert "nothing" not in things


def test_an_empty_collection_finds_nothing_and_then_what_is_put_in(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="center") as things:
        assert things.search("cat", k=3, hybrid=True, min_probability=0.5, explain=True) == []
        assert things.search(Query(image=pixels(1)), calibration="none") == []
        assert (len(things), list(things), things.calibration, things.delete(["a"])) == (0, [], None, 0)
        assert things.add([]).added == ()
        things.calibrate()
        things.add([Document("a", "a cat")])
        assert [hit.id for hit in things.search("cat")] == ["a"]
        assert [hit.id for hit in things.search(Query(image=pixels(1)))] == ["a"]
        assert things.calibration is not None
        assert str(things.calibration.fitted.spec) == "center"


def test_a_collection_can_be_emptied_and_filled_again(things: Collection) -> None:
    assert things.search("dog")
    assert things.delete(document.id for document in list(things)) == 40
    assert (len(things), things.search("dog"), things.search("dog", where={"odd": True})) == (0, [], [])
    things.add([Document("a", "a cat")])
    assert [hit.id for hit in things.search("dog", explain=True)] == ["a"]


def test_one_document_is_found_by_every_calibration_that_can_be_fitted(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder) as things:
        things.add([Document("a", "a cat on a sofa", pixels(1))])
        assert [hit.id for hit in things.search("cat")] == ["a"]
        for spec in ("none", "center", "standardize", "auto"):
            things.calibrate(spec)
            assert [hit.id for hit in things.search("cat", group=True, explain=True)] == ["a"]


def test_adding_again_says_what_is_new_what_changed_and_what_did_not(things: Collection, counting: Counting) -> None:
    some = mixed(40)
    changed = Document(some[2].id, "another text", some[2].image, some[2].metadata)
    told = Document(some[3].id, some[3].text, some[3].image, {"said": "otherwise"})
    done = things.add([*some[:2], changed, told, Document("new", "a house")])
    assert (done.added, done.updated, done.unchanged) == (("new",), (some[2].id, some[3].id), (some[0].id, some[1].id))
    assert len(done) == 3
    assert sorted(counting.texts) == ["a house", "another text"]
    assert counting.images == 0
    assert things.get(told.id).metadata == {"said": "otherwise"}


def test_adding_the_same_again_encodes_nothing_and_changes_nothing(things: Collection, counting: Counting) -> None:
    before = things.stats().changes
    assert len(things.add(mixed(40)).unchanged) == 40
    assert counting.took() == (0, 0)
    assert things.stats().changes == before


def test_the_last_of_two_documents_with_one_id_stays(things: Collection) -> None:
    done = things.add([Document("twice", "a cat"), Document("twice", "a dog")])
    assert (done.added, done.updated) == (("twice",), ("twice",))
    assert things.get("twice").text == "a dog"


def test_changing_one_part_encodes_that_part_alone(things: Collection, counting: Counting) -> None:
    both = next(document for document in mixed(40) if document.modality == "image+text")
    things.update(Document(both.id, text="a tree"))
    assert counting.took() == (1, 0)
    things.update(Document(both.id, image=pixels(99)))
    assert counting.took() == (0, 1)
    things.update(both.id, metadata={"more": 1})
    assert counting.took() == (0, 0)
    after = things.get(both.id)
    assert (after.text, after.metadata) == ("a tree", {**both.metadata, "more": 1})
    same = Collection.open(things.path.with_name("same"), counting, calibration="center")
    with same:
        same.add([Document("x", "a tree", pixels(99))])
        asked = Query(text="tree", image=pixels(99))
        similarity = {hit.id: hit.similarity for hit in things.search(asked, k=50)}
        assert similarity[both.id] == pytest.approx(same.search(asked)[0].similarity, abs=1e-6)


def test_a_documents_own_vectors_outlive_a_change_of_its_metadata(things: Collection, counting: Counting) -> None:
    vector = unit(np.arange(1.0, 9.0))
    things.add([Document("own", "words", pixels(1003), vectors={"text": vector})])
    counting.took()
    things.update("own", metadata={"lang": "en"})
    assert counting.took() == (0, 0)
    assert np.array_equal(things.get("own").vectors["text"], vector)
    asked = Query(vectors={"text": vector})
    things.update(Document("own", image=pixels(1004)))
    assert counting.took() == (0, 1)
    things.update(Document("own", text="other words"))
    assert counting.took() == (1, 0)
    assert things.get("own").vectors == {}
    things.update(Document("own", vectors={"image+text": vector}))
    assert counting.took() == (0, 0)
    assert things.search(asked, k=1, calibration="none")[0].id == "own"


def test_update_and_get_of_an_unknown_id_name_the_nearest(things: Collection) -> None:
    with pytest.raises(UnknownName, match=r"'d0-1x'.*Did you mean 'd0-1"):
        things.get("d0-1x")
    with pytest.raises(UnknownName, match="No id begins like it"):
        things.update("zebra", metadata={})
    with pytest.raises(BadInput, match="inside the Document"):
        things.update(Document("d0-0", "a cat"), metadata={})


def test_what_was_deleted_is_not_found(things: Collection) -> None:
    best = things.search("dog", k=3)
    assert things.delete([best[0].id, best[0].id, "nobody"]) == 1
    assert [hit.id for hit in things.search("dog", k=2)] == [hit.id for hit in best[1:]]
    assert things.delete(best[1].id) == 1
    with pytest.raises(UnknownName):
        things.get(best[0].id)


def test_documents_that_cannot_be_encoded_are_skipped_and_the_others_are_not(things: Collection) -> None:
    bad = [
        Document("no file", image="/nowhere/at/all.png"),
        Document("no picture", image=b"GIF89a and then nothing"),
        Document("no json", "a cat", metadata={"x": {1, 2}}),
        Document("half \ud800", "a cat"),
        Document("odd pixels", image=np.zeros((2, 2, 7), np.uint8)),
        Document("deep", "a cat", metadata=_nested(5000)),
    ]
    good = [Document("fine", "a \ud800 cat"), Document("large", "a cat", metadata={"n": 10**400, "\ud800": 1})]
    done = things.add([*bad[:3], good[0], *bad[3:], good[1]])
    assert done.added == ("fine", "large")
    assert {skipped.id for skipped in done.skipped} == {document.id for document in bad}
    assert all(skipped.why for skipped in done.skipped)
    assert things.get("fine").text == "a ? cat"
    assert things.ids({"n": {"gt": 1e300}}) == things.ids({"?": 1}) == ["large"]


def test_pictures_in_memory_are_kept(things: Collection) -> None:
    from PIL import Image

    grey = Image.fromarray(pixels(1)).convert("L")
    things.add(
        [Document("array", image=pixels(5)), Document("grey", image=grey), Document("cmyk", image=grey.convert("CMYK"))]
    )
    things.add([Document("fractions", image=pixels(5) / 255)])
    for name in ("array", "fractions"):
        image = things.get(name).image
        assert isinstance(image, bytes)
        hit = things.search(Query(image=pixels(5)), calibration="none", k=1, where={"id": name})[0]
        assert hit.similarity == pytest.approx(1, abs=1e-4)


def test_documents_can_be_changed_while_they_are_listed(things: Collection) -> None:
    longer = (Document(document.id, f"{document.text} more", document.image) for document in things)
    assert len(things.add(longer).updated) == 40
    assert all(str(document.text).endswith(" more") for document in things)


def test_documents_that_are_made_as_they_come_are_made_on_the_callers_thread(things: Collection) -> None:
    rows = sqlite3.connect(":memory:")  # which refuses other threads
    made = (Document(f"row{number}", "a cat") for (number,) in rows.execute("VALUES (1), (2)"))
    assert things.add(made).added == ("row1", "row2")
    again = (Document(f"again{number}", things.get(f"row{number}").text) for number in (1, 2))
    assert len(things.add(again)) == 2


def test_the_modalities_of_the_store_are_those_that_it_counts(things: Collection) -> None:
    assert things._store.modalities() == set(things._store.counts()) == {"image", "image+text", "text"}
    things.delete(list(things.ids()))
    assert things._store.modalities() == set()


def _png(path: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels(1)).save(path)


def _nested(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner
