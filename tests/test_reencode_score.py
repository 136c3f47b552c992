"""A re-encoding shows the score before and after on the same questions, and does not switch to a worse encoder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.errors import CODES, UnknownName, WorseEncoder
from isthmus.search.comparison import FEWEST, compared, questions
from isthmus.types import Vectors
from moving import SPEC, answers
from stock import Counting, mixed, pixels
from tiny import WORDS, write_encoder

pytestmark = pytest.mark.usefixtures("small_batches")


@dataclass(eq=False)
class Renamed(Counting):
    """An encoder with the same vectors and another identity."""

    @property
    def identity(self) -> str:
        return f"another {self.inner.identity}"

    @property
    def identities(self) -> dict[str, str]:
        return {"image": "another image", "text": "another text"}


class Deaf(Renamed):
    """An encoder that understands every query alike."""

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        return self.inner.encode_queries(["the"] * len(queries))


@pytest.fixture
def texts(tmp_path: Path, tiny: str) -> Path:
    """A collection of forty different texts."""
    rng = np.random.default_rng(3)
    with Collection.open(tmp_path / "texts", tiny, calibration="none", follow=False) as things:
        things.add([Document(f"t{i}", " ".join(rng.choice(WORDS[4:], 8))) for i in range(40)])
    return tmp_path / "texts"


def test_a_worse_encoder_is_refused_and_nothing_changes(texts: Path, tiny: str) -> None:
    with Collection.open(texts, follow=False) as things:
        before = answers(things)
        with pytest.raises(WorseEncoder, match=r"worse than .*was not changed: nDCG@10 .* --force") as refused:
            things.reencode(Deaf(encoders.load(tiny)))
        assert refused.value.before is not None
        assert refused.value.after is not None
        assert refused.value.after < refused.value.before
        assert answers(things) == before
        assert things.verify() == []
        assert things.encoder is not None
        assert things.encoder.identity == encoders.load(tiny).identity
    assert CODES[WorseEncoder].exit == 1
    shown = CliRunner().invoke(app, ["stats", "--in", str(texts)]).stdout
    assert "40 of 40 documents re-encoded with" in shown
    assert "to see why the collection was not switched" in shown


def test_force_switches_and_encodes_nothing_again(texts: Path, tiny: str) -> None:
    deaf = Deaf(encoders.load(tiny))
    with Collection.open(texts, follow=False) as things:
        with pytest.raises(WorseEncoder):
            things.reencode(deaf)
        deaf.took()
        done = things.reencode(deaf, force=True)
        assert deaf.took() == (0, 0)
        assert (done.encoded, done.earlier) == (0, 40)
        assert done.score is not None
        assert done.score.worse
        assert things.encoder is not None
        assert things.encoder.identity == deaf.identity


def test_an_encoder_that_finds_the_same_is_not_worse(texts: Path, tiny: str) -> None:
    with Collection.open(texts, follow=False) as things:
        done = things.reencode(Renamed(encoders.load(tiny)))
        assert done.score is not None
        assert done.score.before == done.score.after
        assert not done.score.worse


def test_both_encoders_are_asked_the_same_questions_and_copies_are_right(texts: Path, other: str) -> None:
    with Collection.open(texts, follow=False) as things:
        asked = questions(things.store)
        assert len(asked) == 40
        assert [questions(things.store).words, questions(things.store).rows] == [asked.words, asked.rows]
        done = things.reencode(other, force=True)
        assert done.score is not None
        assert (done.score.questions, done.score.given) == (40, 0)
        assert "40 questions made from the documents" in str(done.score)


def test_own_questions_with_known_answers_are_enough(texts: Path, other: str) -> None:
    with Collection.open(texts, follow=False) as things:
        things.calibrate("none", queries=[(things.get(f"t{i}").text or "", f"t{i}") for i in range(FEWEST)])
        done = things.reencode(other, force=True)
        assert done.score is not None
        assert (done.score.questions, done.score.given) == (FEWEST, FEWEST)
        assert f"{FEWEST} questions of your own" in str(done.score)


def test_a_collection_without_texts_says_why_it_is_not_measured_and_goes_on(
    tmp_path: Path, tiny: str, other: str
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document(f"p{i}", image=pixels(i)) for i in range(20)])
    done = CliRunner().invoke(app, ["reencode", "--in", str(tmp_path / "c"), "--encoder", other])
    assert done.exit_code == 0
    assert "Score: not measured: the documents give 0 questions in words, and 16 are needed." in done.stdout


def test_an_old_encoder_that_is_gone_leaves_no_score_before(tmp_path: Path, other: str) -> None:
    old = write_encoder(tmp_path / "old")
    with Collection.open(tmp_path / "c", f"onnx:{old}", calibration=SPEC, follow=False) as things:
        things.add(mixed(30))
        things.search("cat")
    old.rename(tmp_path / "elsewhere")
    with Collection.open(tmp_path / "c", follow=False) as things:
        done = things.reencode(other)
        assert done.encoded == 30
        assert done.score is not None
        assert done.score.why.startswith("the score before cannot be measured.")


def test_a_collection_of_vectors_had_no_score(tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add([Document(f"v{i}", text=f"a cat {i}", vectors={"text": np.eye(20)[i]}) for i in range(20)])
        done = things.reencode(tiny)
        assert done.score is not None
        assert done.score.why == "the collection had no encoder, so there is no score before."


def test_it_is_measured_before_the_first_search_too_and_leaves_no_calibration_of_the_old_vectors(
    tmp_path: Path, tiny: str, other: str
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration=SPEC, follow=False) as things:
        things.add(mixed(60))
        done = things.reencode(other, force=True)
        assert done.score is not None
        assert done.score.before is not None
        assert things.verify() == []


def test_the_verb_shows_the_score_in_words_and_in_json(texts: Path, tiny: str, other: str) -> None:
    done = CliRunner().invoke(app, ["reencode", "--in", str(texts), "--encoder", other, "--force"])
    assert "Score: nDCG@10 0." in done.stdout or "Score: nDCG@10 1." in done.stdout
    done = CliRunner().invoke(app, ["reencode", "--in", str(texts), "--encoder", tiny, "--force", "--json"])
    told = json.loads(done.stdout)["score"]
    assert set(told) == {"before", "after", "low", "high", "questions", "given", "why"}
    assert told["questions"] == 40


def test_every_modality_of_documents_has_equal_weight_and_chance_is_not_called_worse() -> None:
    modality = np.array(["text"] * 90 + ["image+text"] * 10)
    before, after = np.ones(100), np.where(modality == "text", 1.0, 0.0)
    found = compared(before, after, modality)
    assert (found.before, found.after) == (1.0, 0.5)
    assert found.worse
    noisy = np.ones(100)
    noisy[0] = 0.0
    assert not compared(before, noisy, modality).worse
    assert "no certain difference: " in str(compared(before, noisy, modality))
    assert "(better: " in str(compared(after, before, modality))


def test_a_collection_of_an_encoder_that_was_removed_says_so_and_moves(texts: Path, tiny: str) -> None:
    with Collection.open(texts, follow=False) as things:
        vectors = Renamed(encoders.load(tiny))
        things.reencode(vectors)
        database = things._handle.database
        with database.writing() as connection:
            database.put(connection, encoder="mini-fusion")
    with Collection.open(texts, follow=False) as things:
        with pytest.raises(UnknownName, match=r"'mini-fusion' is not part of isthmus any more.* reencode --in FOLDER"):
            things.search("cat")
        done = things.reencode(tiny)
        assert done.encoded == 40
        assert done.score is not None and "'mini-fusion' is not part of isthmus any more" in done.score.why
        assert things.search("cat")
