"""A search gives what was asked for: hits, pages, modalities, passages, no copies; nonsense is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, BadVectors, UnknownModality, UnknownName
from stock import mixed, pixels

ASKED = [
    Query(text="a red cat on the sofa"),
    Query(image=pixels(7)),
    Query(text="dog", image=pixels(8)),
    Query(text="dog", image=pixels(8), weights={"text": 3, "image": 1}),
    Query(vectors={"text": np.arange(1.0, 9.0)}),
    Query(text="grass", vectors={"image": np.ones(8)}),
]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Iterator[Collection]:
    """A collection that tests only look at."""
    with Collection.open(tmp_path_factory.mktemp("shelf") / "c", encoder, calibration="center+standardize") as opened:
        opened.add(mixed(120))
        yield opened


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


def test_statistics_of_a_collection_say_what_is_in_it(shelf: Collection) -> None:
    shelf.search("dog")
    told = shelf.stats()
    assert told.documents == {"image": 40, "image+text": 40, "text": 40}
    assert told.calibration is not None
    assert told.calibration["spec"] == "center+standardize"
    assert told.index == {name: f"exact, {rows} rows" for name, rows in _rows(shelf).items()}
    assert (told.skipped, told.logged, told.last_error) == ((), None, "")


def _rows(things: Collection) -> dict[str, int]:
    return {shelf.modality: len(shelf) for shelf in things._snapshots.latest().built}
