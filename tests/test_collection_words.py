"""A search that weighs the words themselves, and how likely a hit is where a filter is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import CannotFit
from isthmus.search import hybrid
from isthmus.storage.sqlite.database import Database
from isthmus.storage.sqlite.words import SqliteWords
from stock import own, unit
from tiny import WORDS


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


def test_a_reading_connection_keeps_its_temporary_tables_for_the_next_search(tmp_path: Path) -> None:
    database = Database(tmp_path)
    words = SqliteWords(database)
    for _ in range(2):
        with database.reading():
            words.search(["cat"], 3)
    with database.reading():
        assert database.one("SELECT count(*) FROM temp.sqlite_master WHERE name = 'question'") == (1,)
    database.close()
