"""Documents and queries that bring vectors of their own, with no encoder at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadInput, BadVectors, CannotFit
from stock import own, unit


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


def test_vectors_of_both_parts_can_ask_where_documents_have_both(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "c", "none") as things:
        made = [{"text": rng.normal(size=8), "image": rng.normal(size=8)} for _ in range(30)]
        things.add([Document(f"{i}", vectors=vectors) for i, vectors in enumerate(made)])
        assert things.search(Query(vectors=made[7]), k=1)[0].id == "7"


@pytest.mark.parametrize("vector", [[np.nan] * 8, [np.inf] + [0.0] * 7, [0.0] * 8, [], [[1.0] * 8]])
def test_vectors_that_are_none_are_refused(vector: object) -> None:
    with pytest.raises(BadVectors, match="Document 'a'"):
        Document("a", vectors={"text": vector})  # type: ignore[dict-item]


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
