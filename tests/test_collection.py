"""A collection does what it says: put documents in, find them, change them, take them out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, BadInput, BadVectors, CannotFit, CannotWrite, UnknownModality, UnknownName
from isthmus.search import hybrid, schema
from stock import Counting, mixed, own, pixels, unit
from tiny import WORDS, write_encoder


@pytest.fixture(scope="module")
def encoder(tiny: str) -> Encoder:
    return encoders.load(tiny)


@pytest.fixture
def counting(encoder: Encoder) -> Counting:
    return Counting(encoder)


@pytest.fixture
def things(tmp_path: Path, counting: Counting) -> Iterator[Collection]:
    """A small collection of its own for each test, calibrated by a fixed spec."""
    with Collection.open(tmp_path / "things.isthmus", counting, calibration="center") as opened:
        opened.add(mixed(40))
        counting.took()
        yield opened


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Iterator[Collection]:
    """A collection that tests only look at."""
    with Collection.open(tmp_path_factory.mktemp("shelf") / "c", encoder, calibration="center+standardize") as opened:
        opened.add(mixed(120))
        yield opened


ASKED = [
    Query(text="a red cat on the sofa"),
    Query(image=pixels(7)),
    Query(text="dog", image=pixels(8)),
    Query(text="dog", image=pixels(8), weights={"text": 3, "image": 1}),
    Query(vectors={"text": np.arange(1.0, 9.0)}),
    Query(text="grass", vectors={"image": np.ones(8)}),
]


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


def test_a_hit_says_what_was_found_and_why(shelf: Collection) -> None:
    hits = shelf.search("a red cat", k=5, explain=True)
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    for hit in hits:
        assert hit.document == shelf.get(hit.id)
        assert hit.modality == hit.document.modality
        assert -1.00001 <= hit.similarity <= 1.00001
        assert hit.explanation is not None
        assert f"now rank {hit.rank}" in str(hit.explanation)
        assert hit.probability is None or 0 <= hit.probability <= 1


@pytest.mark.parametrize("asked", ASKED, ids=lambda query: query.modality)
def test_pages_are_stretches_of_one_list(shelf: Collection, asked: Query) -> None:
    whole = shelf.search(asked, k=120)
    assert len({hit.id for hit in whole}) == 120
    pages = [hit for offset in range(0, 120, 25) for hit in shelf.search(asked, k=25, offset=offset)]
    assert pages == whole


@pytest.mark.parametrize(
    "options",
    [{}, {"where": {"odd": True}}, {"modalities": "image"}, {"hybrid": True}, {"calibration": "none"}, {"group": True}],
    ids=str,
)
def test_many_queries_at_once_are_answered_as_one_by_one(shelf: Collection, options: dict[str, object]) -> None:
    together = shelf.search_many(ASKED, 10, **options)  # type: ignore[arg-type]
    alone = [shelf.search(query, 10, **options) for query in ASKED]  # type: ignore[arg-type]
    assert [[hit.id for hit in hits] for hits in together] == [[hit.id for hit in hits] for hits in alone]
    np.testing.assert_allclose(
        [hit.score for hits in together for hit in hits], [hit.score for hits in alone for hit in hits], atol=1e-5
    )


def test_weights_say_how_much_each_part_of_a_query_counts(shelf: Collection) -> None:
    def scores(**weights: float) -> list[tuple[str, float]]:
        asked = Query(text="dog", image=pixels(8), weights=weights or None)
        return [(hit.id, round(hit.similarity, 5)) for hit in shelf.search(asked, calibration="none")]

    alone = [(hit.id, round(hit.similarity, 5)) for hit in shelf.search("dog", calibration="none")]
    assert scores(text=1, image=0) == alone
    assert scores(text=1, image=1) == scores() != alone


def test_modalities_can_be_chosen_or_left_out(shelf: Collection) -> None:
    found = {hit.modality for hit in shelf.search("dog", k=120, modalities=["text", "text+image"])}
    assert found == {"text", "image+text"}
    assert {hit.modality for hit in shelf.search("dog", k=120, modalities="-text")} == {"image", "image+text"}
    assert len(shelf.search("dog", k=120, modalities="image")) == 40
    with pytest.raises(UnknownName, match=r"'txt'.*Did you mean 'text'"):
        shelf.search("dog", modalities="txt")
    with pytest.raises(BadInput, match="empty"):
        shelf.search("dog", modalities=[])


def test_a_modality_that_nobody_has_finds_nothing(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none") as texts:
        texts.add([Document("a", "a cat")])
        assert texts.search("cat", modalities="image") == []
        assert [hit.id for hit in texts.search(Query(image=pixels(1)))] == ["a"]


@pytest.mark.parametrize(("name", "value"), [("k", 0), ("k", -1), ("k", 1.5), ("k", True), ("offset", -1)])
def test_numbers_that_mean_nothing_are_refused(shelf: Collection, name: str, value: int) -> None:
    with pytest.raises(BadInput, match=name):
        shelf.search("dog", **{name: value})  # type: ignore[arg-type]


def test_other_nonsense_is_refused_with_what_to_do(shelf: Collection) -> None:
    for wrong in ("", "  ", "\n"):
        with pytest.raises(BadInput, match="neither text nor image"):
            shelf.search(wrong)
    with pytest.raises(BadInput, match="between 0 and 1"):
        shelf.search("dog", min_probability=2)
    with pytest.raises(BadInput, match="calibrate"):
        shelf.search("dog", calibration="center")
    with pytest.raises(BadInput, match="list of queries"):
        shelf.search_many("dog")
    with pytest.raises(BadVectors, match=r"3 dimensions.*has 8"):
        shelf.search(Query(vectors={"text": np.ones(3)}))
    with pytest.raises(UnknownModality, match="audio"):
        shelf.search(Query(vectors={"audio": np.ones(8)}))
    with pytest.raises(BadInput, match="not a Document"):
        shelf.add(["dog"])  # type: ignore[list-item]
    assert shelf.search_many([]) == []


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


def test_one_reference_query_is_too_few_for_some_calibrations_and_enough_for_a_search(tmp_path: Path) -> None:
    asked = Query(vectors={"text": np.ones(4)})
    with Collection.open(tmp_path / "c", "none") as things:
        things.add([Document("a", vectors={"text": np.ones(4)})])
        assert [hit.id for hit in things.search(asked)] == ["a"]
        with pytest.raises(CannotFit, match="reference queries"):
            things.calibrate("standardize")
        with pytest.raises(CannotFit, match="reference queries"):
            things.calibrate("nnn(k=2)")
        assert [hit.id for hit in things.search(asked)] == ["a"]


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


def test_vectors_of_ones_own_need_no_encoder(tmp_path: Path) -> None:
    rows = unit(np.random.default_rng(0).normal(size=(30, 6)))
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        things.add(own(rows))
        for row in (0, 7):
            hits = things.search(Query(vectors={"text": rows[row]}), k=30)
            assert hits[0].id == f"v{row}"
            np.testing.assert_allclose([hit.score for hit in hits], np.sort(rows @ rows[row])[::-1], atol=1e-6)
        with pytest.raises(BadInput, match="no encoder"):
            things.search("words")
        with pytest.raises(BadVectors, match=r"'x'.*5 dimensions but the collection has 6"):
            things.add([Document("x", vectors={"text": np.ones(5)})])
        assert things.add([Document("words", "no vector")]).skipped[0].id == "words"
        assert things.update("v3", metadata={"a": 1}).updated == ("v3",)
        assert things.encoder is None
    with Collection.open(tmp_path / "c") as again:
        assert len(again) == 30
        assert np.array_equal(again.get("v3").vectors["text"], rows[3])


def test_the_first_vector_decides_how_many_dimensions_there_are(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        with pytest.raises(BadVectors, match=r"'b'.*5 dimensions but the collection has 6"):
            things.add([Document("a", vectors={"text": np.ones(6)}), Document("b", vectors={"text": np.ones(5)})])
        assert len(things) == 0
        things.add([Document("a", vectors={"text": np.ones(5)})])
        assert things.stats().encoder["dim"] == 5


@pytest.mark.parametrize("part", ["text", "image", "audio", "image+text", "audio+video"])
def test_vectors_of_any_part_can_be_searched(tmp_path: Path, part: str) -> None:
    rows = unit(np.random.default_rng(0).normal(size=(40, 6)))
    with Collection.open(tmp_path / "c", "none") as things:
        things.add(own(rows, part))
        assert things.search(Query(vectors={part: rows[3]}), k=1, explain=True)[0].id == "v3"


@pytest.mark.parametrize("vector", [[np.nan] * 8, [np.inf] + [0.0] * 7, [0.0] * 8, [], [[1.0] * 8]])
def test_vectors_that_are_none_are_refused(vector: object) -> None:
    with pytest.raises(BadVectors, match="Document 'a'"):
        Document("a", vectors={"text": vector})  # type: ignore[dict-item]


def test_passages_say_where_they_stand_and_a_document_comes_once(things: Collection, encoder: Encoder) -> None:
    text = (
        " ".join(["the house and the tree"] * 6) + " a red cat sits on the sofa " + " ".join(["grass of the dog"] * 6)
    )
    things.add([Document("long", text)])
    hits = things.search("a red cat sits on the sofa", k=60)
    assert [hit.id for hit in hits].count("long") == 1
    passage = next(hit.passage for hit in hits if hit.id == "long")
    assert passage is not None
    assert "red cat sits" in passage.text
    assert (passage.start, passage.stop) == encoder.split(text)[passage.number]
    assert passage.number > 0
    for hit in hits:
        assert (hit.passage is None) == (hit.document.text is None)
        if hit.passage is not None and hit.document.text is not None:
            assert hit.passage.text == hit.document.text[hit.passage.start : hit.passage.stop]


def test_a_documents_similarity_is_that_of_its_best_passage(things: Collection, encoder: Encoder) -> None:
    asked = encoder.encode_queries(["a red cat sits"]).parts["text"][0]
    raw = {hit.id: hit.similarity for hit in things.search("a red cat sits", k=40, calibration="none")}
    for document in mixed(40):
        if document.modality == "text":
            vectors, _ = encoder.encode_passages([document])
            assert raw[document.id] == pytest.approx(float((vectors.parts["text"] @ asked).max()), abs=1e-5)


def test_near_duplicates_stand_under_the_first_of_them(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add([Document(f"cat{i}", "a red cat", metadata={"copy": i}) for i in range(30)])
        things.add([Document(f"d{i}", text) for i, text in enumerate(["a red dog", "a tree", "the house", "on grass"])])
        plain = things.search("a red cat", k=3)
        assert [hit.id for hit in plain] == ["cat0", "cat1", "cat2"]
        hits = things.search("a red cat", k=3, group=True)
        assert hits[0].id == "cat0"
        assert set(hits[0].duplicates) == {f"cat{i}" for i in range(1, 30)}
        assert [hit.rank for hit in hits] == [1, 2, 3]
        assert not any(hit.duplicates for hit in hits[1:])
        assert things.search("a red cat", k=2, offset=1, group=True) == hits[1:]


def test_a_rare_shared_word_lifts_a_text_and_leaves_images_where_they_are(things: Collection) -> None:
    things.add([Document(f"t{i}", f"the house and the tree number{i}") for i in range(20)])
    plain = {hit.id: hit for hit in things.search("dog number7", k=60)}
    joined = {hit.id: hit for hit in things.search("dog number7", k=60, hybrid=True, explain=True)}
    assert joined["t7"].rank < plain["t7"].rank
    assert joined["t7"].score > plain["t7"].score
    images = [name for name, hit in joined.items() if hit.modality == "image"]
    assert images
    for name in images:
        assert joined[name].score == pytest.approx(plain[name].score)
        explanation = joined[name].explanation
        assert explanation is not None
        assert explanation.words is None


@pytest.mark.parametrize("odd", ["_", '"', "* OR NEAR(", "a AND", "-", "猫", "🐱 \x01", "NOT", "^x", "col:y"])
def test_words_that_mean_something_to_a_database_are_only_words(things: Collection, odd: str) -> None:
    assert len(things.search(f"{odd} cat", hybrid=True)) == 10


def test_hybrid_needs_words_to_weigh(tmp_path: Path) -> None:
    rows = unit(np.random.default_rng(0).normal(size=(30, 6)))
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        things.add(own(rows))
        with pytest.raises(CannotFit, match="too few texts"):
            things.search(Query(vectors={"text": rows[0]}), hybrid=True)


def test_a_collection_goes_with_its_encoder(tmp_path: Path, tiny: str, encoder: Encoder) -> None:
    Collection.open(tmp_path / "c", tiny).close()
    with pytest.raises(BadFile, match=r"made with the encoder onnx:.*opened with mini"):
        Collection.open(tmp_path / "c", "mini")
    with pytest.raises(BadFile, match="do not mix"):
        Collection.open(tmp_path / "c", "none")
    Collection.open(tmp_path / "c", encoder).close()  # the same one under another name
    with pytest.raises(UnknownName, match="Did you mean 'mini'"):
        Collection.open(tmp_path / "new", "minni")


def test_another_version_of_the_encoder_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    name = f"onnx:{write_encoder(tmp_path / 'encoder')}"
    with Collection.open(tmp_path / "c", name, calibration="none") as things:
        things.add([Document("a", "a cat")])
    toml = tmp_path / "encoder" / "encoder.toml"
    toml.write_text(toml.read_text().replace("length = 12", "length = 10"))
    with Collection.open(tmp_path / "c") as things:
        assert things.get("a").text == "a cat"
        with pytest.raises(BadFile, match="another version of the encoder"):
            things.search("cat")
        with pytest.raises(BadFile, match="another version of the encoder"):
            things.add([Document("b", "a dog")])


def test_a_folder_that_is_no_collection_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match=r"not a collection and is not empty.*letter\.txt"):
        Collection.open(tmp_path)
    with pytest.raises(BadInput, match="There is no collection"):
        Collection.open(tmp_path / "none", create=False)
    with pytest.raises(CannotWrite, match="cannot be made"):
        Collection.open(tmp_path / "letter.txt" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_newer_tables_are_refused_and_older_ones_brought_up_to_date(
    tmp_path: Path, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none") as things:
        things.add([Document("a", "a cat")])
    monkeypatch.setattr(schema, "VERSION", 3)
    steps = {n: lambda c, n=n: c.execute("INSERT INTO manifest VALUES (?, 1)", (f"step{n}",)) for n in (1, 2)}
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    with Collection.open(tmp_path / "c") as things:
        assert (things.stats().schema, things.get("a").text) == (3, "a cat")
        assert things._opened.database.one("SELECT count(*) FROM manifest WHERE name LIKE 'step%'") == (2,)
    monkeypatch.setattr(schema, "VERSION", 1)
    with pytest.raises(BadFile, match="newer isthmus"):
        Collection.open(tmp_path / "c")


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: object) -> None:
        raise RuntimeError

    Collection.open(tmp_path / "c", "none").close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "VERSION", 2)
        patch.setattr(schema, "MIGRATIONS", {1: fails})
        with pytest.raises(RuntimeError):
            Collection.open(tmp_path / "c")
    with Collection.open(tmp_path / "c") as things:
        assert things.stats().schema == 1


def test_documents_can_be_changed_while_they_are_listed(things: Collection) -> None:
    longer = (Document(document.id, f"{document.text} more", document.image) for document in things)
    assert len(things.add(longer).updated) == 40
    assert all(str(document.text).endswith(" more") for document in things)


def test_a_closed_collection_says_so_and_may_be_closed_again(tmp_path: Path) -> None:
    things = Collection.open(tmp_path / "c", "none")
    things.close()
    things.close()
    with pytest.raises(CannotWrite, match="was closed"):
        things.get("a")
    with pytest.raises(CannotWrite, match="was closed"):
        things.add([Document("a", vectors={"text": np.ones(3)})])


def test_statistics_of_a_collection_say_what_is_in_it(shelf: Collection) -> None:
    shelf.search("dog")
    told = shelf.stats()
    assert told.documents == {"image": 40, "image+text": 40, "text": 40}
    assert told.calibration is not None
    assert told.calibration["spec"] == "center+standardize"
    assert told.index == {name: f"exact, {rows} rows" for name, rows in _rows(shelf).items()}
    assert (told.skipped, told.logged, told.trouble) == ((), None, "")


def _rows(things: Collection) -> dict[str, int]:
    return {shelf.modality: len(shelf) for shelf in things._keeper.served().shelves}


def _png(path: Path) -> None:
    from PIL import Image

    Image.fromarray(pixels(1)).save(path)


def _nested(depth: int) -> dict[str, object]:
    inner: dict[str, object] = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


def test_documents_that_are_made_as_they_come_are_made_on_the_callers_thread(things: Collection) -> None:
    rows = sqlite3.connect(":memory:")  # which refuses other threads
    made = (Document(f"row{number}", "a cat") for (number,) in rows.execute("VALUES (1), (2)"))
    assert things.add(made).added == ("row1", "row2")
    again = (Document(f"again{number}", things.get(f"row{number}").text) for number in (1, 2))
    assert len(things.add(again)) == 2


def test_vectors_of_both_parts_can_ask_where_documents_have_both(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "c", "none") as things:
        made = [{"text": rng.normal(size=8), "image": rng.normal(size=8)} for _ in range(30)]
        things.add([Document(f"{i}", vectors=vectors) for i, vectors in enumerate(made)])
        assert things.search(Query(vectors=made[7]), k=1)[0].id == "7"


def test_a_filter_does_not_change_how_likely_a_hit_is(tmp_path: Path, encoder: Encoder) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add([Document(f"{i}", " ".join(rng.choice(WORDS, 5)), metadata={"n": i}) for i in range(150)])
        for both in (False, True):
            whole = things.search("red cat house", k=150, hybrid=both)
            assert whole[0].probability is not None
            for hit in (whole[0], whole[70]):
                where = {"n": hit.document.metadata["n"]}
                (one,) = things.search("red cat house", where=where, hybrid=both)
                assert one.score == pytest.approx(hit.score)
                assert one.probability == pytest.approx(hit.probability)


def test_words_count_in_documents_that_many_others_come_before(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add([Document(f"{i}", f"a cat {'the dog ' * (i % 5)}", metadata={"n": i}) for i in range(40)])
        whole = {hit.id: hit.score for hit in things.search("cat runs", k=40, hybrid=True)}
        monkeypatch.setattr(hybrid, "WORDS", 3)
        few = {hit.id: hit.score for hit in things.search("cat runs", k=40, hybrid=True)}
        assert few == pytest.approx(whole)
        (one,) = things.search("cat runs", hybrid=True, where={"n": 24})
        assert one.score == pytest.approx(whole["24"])


def test_the_modalities_of_the_store_are_those_that_it_counts(things: Collection) -> None:
    assert things._store.modalities() == set(things._store.counts()) == {"image", "image+text", "text"}
    things.delete(list(things.ids()))
    assert things._store.modalities() == set()
