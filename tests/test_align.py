"""An aligner makes of a query what is searched; collections and the command line search with it and say what it did."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from endpoint import Answer, said, serving
from isthmus import Collection, Document, Query, Text, align, documents, kinds
from isthmus.align import Aligned, Counts, Rewritten, Stages, aligner
from isthmus.align.aligner import chatty, needed
from isthmus.align.rewrite import Unchanged
from isthmus.cli import app
from isthmus.documents import ImageLike
from isthmus.errors import BadInput, MissingExtra, UnknownName
from stock import database

run = CliRunner().invoke
reads = pytest.mark.skipif(importlib.util.find_spec("rapidocr") is None, reason="needs isthmus[align]")
PAGE = ["a cat sits on the red sofa", "and the dog runs on the grass"]
STORY = "Hi all, I bought my first tree last week and I love it so much. " * 3 + "Thanks! Why does my tree lose leaves"


@dataclass
class Spoken:
    """A captioner that knows what to say of each picture."""

    said: dict[str, str]
    name: str = "spoken"
    asked: list[str] = field(default_factory=list)

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        self.asked += map(str, images)
        return [self.said[str(image)] for image in images]


@dataclass
class Last:
    """A rewriter that keeps the last word, and fails on what it was told to."""

    name: str = "last"
    fails: str = "fail"

    def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
        return [Rewritten(t, "the model failed: x") if t == self.fails else Rewritten(t.split()[-1]) for t in texts]


SEEN = {"a.png": "a red cat", "b.png": "a dog runs", "blank.png": ""}


def stages(rewriter: Any = None) -> Stages:
    return Stages(Spoken(SEEN), rewriter or Unchanged())


def aligned(query: Query, rewriter: Any = None) -> Aligned:
    return stages(rewriter).align([query])[0]


@pytest.fixture
def mini(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the embedded rewriter."""
    module = ModuleType("isthmus.align.mini")
    module.load = lambda: Last("forge-mini")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isthmus.align.mini", module)


def test_a_picture_becomes_words_and_leaves_the_query() -> None:
    found = aligned(Query(text="what is this", image="a.png", weights={"image": 2}))
    assert found.query == Query(text="what is this\nImage Description: a red cat")
    assert (found.caption, found.untouched, set(found.seconds)) == ("a red cat", None, {"caption"})


def test_all_pictures_of_a_query_are_read() -> None:
    found = aligned(Query(parts=[kinds.Image("a.png"), kinds.Image("b.png")]))
    assert found.query == Query(text="Image Description: a red cat\nImage Description: a dog runs")
    assert found.caption == "a red cat\n\na dog runs"


def test_a_picture_of_which_nothing_can_be_said_stays_a_picture() -> None:
    alone, with_words = Query(image="blank.png"), Query(text="a b", image="blank.png", weights={"text": 3})
    for query in (alone, with_words):
        assert aligned(query).query is query
        assert aligned(query).untouched == "its picture has no caption"
    assert aligned(with_words, Last()).query == Query(text="b", image="blank.png", weights={"text": 3})
    several = Query(parts=[Text("a b"), kinds.Image("blank.png"), kinds.Image("blank.png")])
    assert aligned(several, Last()).query == Query(
        parts=[Text("b"), kinds.Image("blank.png"), kinds.Image("blank.png")]
    )
    assert aligned(several).query is several
    assert Stages(None, Last()).align([several])[0].query.images == several.images  # nothing has looked at them
    beside = Query(parts=[Text("a b"), kinds.Image("a.png"), kinds.Image("blank.png")])
    assert aligned(beside, Last()).query == Query(text="cat", image="blank.png")


def test_a_sound_stays_in_a_query_whose_picture_became_words() -> None:
    query = Query(parts=[kinds.Audio("bark.wav"), kinds.Image("a.png"), Text("a b")])
    assert aligned(query, Last()).query == Query(text="cat", audio="bark.wav")


def test_a_stage_that_gives_too_few_is_refused() -> None:
    class Silent:
        name = "silent"

        def caption(self, images: Sequence[ImageLike]) -> list[str]:
            return []

    with pytest.raises(BadInput, match="silent returned 0 captions for 1"):
        Stages(Silent(), Unchanged()).align([Query(image="a.png")])


def test_an_aligner_that_gives_too_few_is_refused(tmp_path: Path) -> None:
    class Lossy:
        name = "lossy"

        def align(self, queries: Sequence[Query]) -> list[Aligned]:
            return [Aligned(query) for query in queries[1:]]

    with Collection.open(tmp_path / "things.isthmus") as things:
        things.add([Document("a", "a cat"), Document("b", "a dog")])
        with pytest.raises(BadInput, match="lossy gave 1 queries for 2"):
            things.search_many(["a cat", "a dog"], align=Lossy())


def test_words_and_captions_are_rewritten_together_and_each_stage_has_its_cost() -> None:
    found = aligned(Query(text="what is this", image="a.png"), Last())
    assert found.query == Query(text="cat")
    assert set(found.seconds) == {"caption", "rewrite"}
    assert all(cost >= 0 for cost in found.seconds.values())
    assert set(aligned(Query(text="a b"), Last()).seconds) == {"rewrite"}


def test_what_falls_back_is_searched_as_it_was_and_counted() -> None:
    both = stages(Last())
    found = both.align([Query(text="fail"), Query(text="go on")])
    assert [(one.query.text, one.fell_back) for one in found] == [("fail", "the model failed: x"), ("on", None)]
    both.align([Query(text="fail")])
    assert both.counts == Counts(3, {"the model failed": 2})
    assert found[0].counts == Counts(2, {"the model failed": 1})


def test_a_rewriter_that_fails_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    both = stages(Last())
    both.align([Query(text="go on")])
    assert not caplog.records
    for _ in range(2):
        both.align([Query(text="fail"), Query(text="fail")])
    assert [one.getMessage().partition(": ")[2] for one in caplog.records] == [
        "a query was not rewritten and is searched as it is: the model failed: x"
    ]
    assert str(both.counts).startswith("1 rewritten, 4 fell back")


def test_a_rewriter_that_says_nothing_falls_back() -> None:
    @dataclass
    class Silent:
        name: str = "silent"

        def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
            return [Rewritten(" ") for _ in texts]

    found = aligned(Query(text="a cat"), Silent())
    assert (found.query.text, found.fell_back) == ("a cat", "nothing was written")


def test_a_query_with_vectors_of_its_own_is_left_alone() -> None:
    query = Query(text="a b", image="a.png", vectors={"text": np.ones(3)})
    both = stages(Last())
    assert both.align([query]) == [Aligned(query, untouched="it has its own vectors")]


@given(text=st.text(min_size=1).filter(lambda text: bool(text.strip())))
def test_without_a_rewriter_words_alone_stay_exactly_as_they_are(text: str) -> None:
    query = Query(text=text)
    assert aligned(query).query is query
    assert align.load("none").align([query])[0].query is query


def test_queries_aligned_together_are_those_aligned_alone() -> None:
    asked = [
        Query(text="x", image="a.png"),
        Query(text="y z"),
        Query(parts=[kinds.Image("b.png"), kinds.Image("a.png")]),
    ]
    together = stages(Last()).align(asked)
    assert [one.query for one in together] == [aligned(one, Last()).query for one in asked]
    assert stages().align([]) == []


def auto() -> Stages:
    return Stages(Spoken(SEEN), Last(), needed)


def test_auto_aligns_pictures_of_text_and_long_talk_and_nothing_else() -> None:
    plain = Query(text="why do trees lose their leaves")
    photo = Query(text="the same in green", image="blank.png")
    for query in (plain, photo, Query(image="blank.png")):
        found = auto().align([query])[0]
        assert found.query is query
        assert found.untouched is not None
    assert auto().align([Query(text="what is this", image="a.png")])[0].query == Query(text="cat")
    assert auto().align([Query(text=STORY)])[0].query == Query(text="leaves")
    assert auto().align([Query(text=STORY, image="blank.png")])[0].query == Query(text="leaves", image="blank.png")


@given(text=st.lists(st.sampled_from(["I", "please", "thanks", "why", "tree", "hi"]), max_size=39).map(" ".join))
def test_what_is_short_is_never_chatty(text: str) -> None:
    assert not chatty(text)


def test_what_is_long_and_to_the_point_is_not_chatty() -> None:
    abstract = (
        "We show that dual encoders place each modality in a cone of its own, and that our calibration removes it. "
    )
    assert not chatty(abstract * 4)
    assert chatty(STORY)


def test_auto_loads_the_rewriter_for_the_first_query_that_needs_it(mini: None, tmp_path: Path) -> None:
    made = align.load("auto", cache=tmp_path)
    assert made.name == "pages+forge-mini"
    assert made.align([Query(text="why")])[0].untouched == "its words are concise"
    assert made.align([Query(text=STORY)])[0].query.text == "leaves"


def test_aligners_by_name_and_the_nearest_to_a_wrong_one(mini: None) -> None:
    assert align.load("caption").name == "embedded+none"
    assert align.load("forge-mini").name == "embedded+forge-mini"
    assert align.load("caption+forge-mini").name == "embedded+forge-mini"
    here = "openai:m@http://localhost:1/v1"
    assert align.load(f"caption:{here}+hyde:{here}").name == f"{here}+hyde:{here}"
    mine = stages()
    assert align.load(mine) is mine
    for name in ("forge_mini", "captions", "atuo", "caption+forge-mimi"):
        with pytest.raises(UnknownName, match="Did you mean"):
            align.load(name)
    for name in ("caption+caption", "forge-mini+caption", "auto+forge-mini", "caption+none+none", "caption+auto"):
        with pytest.raises(BadInput, match="cannot be composed"):
            align.load(name)
    with pytest.raises(BadInput, match="int does not"):
        align.load(3)  # type: ignore[arg-type]


def test_pictures_stay_beside_the_rewrite_if_they_are_to_be_kept(mini: None) -> None:
    kept = align.load("forge-mini+image")
    assert kept.name == "embedded+forge-mini+image"
    assert align.load("caption:openai:m@http://localhost:1/v1+image").name.endswith("+none+image")
    query = Query(parts=[Text("what is"), documents.Image("b.png"), documents.Image("a.png")])
    mine = Stages(Spoken(SEEN), Last(), keep_images=True)
    (gone,), (there,) = stages(Last()).align([query]), mine.align([query])
    assert there.query == Query(parts=[Text(gone.query.text or ""), *query.parts[1:]])
    assert (gone.caption, gone.query.images) == (there.caption, ())


def test_every_name_can_be_read_in_the_table() -> None:
    assert set(aligner.NAMES) == {
        *("none", "auto", "caption", "forge", "forge-mini", "hyde", "query2doc", "query2doc-words")
    }


@pytest.fixture
def things(tiny: str, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things.isthmus", tiny) as made:
        texts = ["a cat", "the dog runs", "a red sofa", "the grass", "a tree", "the house"]
        pixels = np.random.default_rng(0).integers(0, 255, (3, 12, 12, 3), dtype=np.uint8)
        made.add([Document(id=text, text=text) for text in texts])
        made.add([Document(id=f"{row}", image=image) for row, image in enumerate(pixels)])
        yield made


def test_a_search_finds_what_the_aligned_query_finds_and_explains_it(things: Collection) -> None:
    query = Query(text="what is", image="b.png")
    found = things.search(query, 3, align=stages(Last()), explain=True)
    assert [(hit.id, hit.score) for hit in found] == [(hit.id, hit.score) for hit in things.search("runs", 3)]
    for hit in found:
        assert hit.explanation is not None
        assert hit.explanation.aligned is not None
        assert (hit.explanation.aligned.query.text, hit.explanation.aligned.caption) == ("runs", "a dog runs")
    assert things.search(query, 3, align=stages(Last()))[0].explanation is None
    assert things.align(query, stages(Last())).query == Query(text="runs")


def test_several_searches_are_aligned_together(things: Collection) -> None:
    both = stages(Last())
    many = things.search_many(["a cat", Query(image="a.png")], 2, align=both)
    assert both.counts.total == 2
    assert [[hit.id for hit in hits] for hits in many] == [[hit.id for hit in things.search("cat", 2)]] * 2


@pytest.mark.parametrize("name", [None, "none"])
def test_without_alignment_a_query_is_searched_as_it_is(name: str | None, things: Collection) -> None:
    plain = things.search("a cat", 3, explain=True)
    same = things.search("a cat", 3, align=name, explain=True)
    assert same == plain
    assert same[0].explanation is not None
    assert same[0].explanation.aligned is None
    assert things.align("a cat", "none").query == Query(text="a cat")


def test_several_pictures_are_searched_by_their_mean(things: Collection) -> None:
    one, other = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 200, np.uint8)
    several = Query(parts=[kinds.Image(one), kinds.Image(other)])
    encoder = things.encoder
    assert encoder is not None
    both = encoder.encode_queries([Query(image=one), Query(image=other)]).parts["image"]
    mean = Query(vectors={"image": both.sum(axis=0)})
    expected, found = things.search(mean), things.search(several)
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=1e-5)
    assert several == Query(parts=[kinds.Image(one.copy()), kinds.Image(other)])
    assert several != Query(image=one)


def test_an_aligner_is_loaded_once_by_a_collection(things: Collection, mini: None) -> None:
    for _ in range(2):
        found = things.search("go fail", 1, align="forge-mini", explain=True)
    told = found[0].explanation
    assert told is not None
    assert told.aligned is not None
    assert told.aligned.counts == Counts(2)
    with pytest.raises(UnknownName, match="Did you mean 'forge-mini'"):
        things.search("a cat", align="forge-miny")


def test_the_log_keeps_what_was_asked_and_nothing_of_the_picture(things: Collection) -> None:
    things.log_queries()
    things.search(Query(text="what is", image="b.png"), align=stages())
    things.stats()  # which writes what waits
    assert database(things).all("SELECT text FROM query_log") == [("what is",)]


def test_a_picture_that_cannot_be_captioned_is_an_error_and_not_another_search(things: Collection) -> None:
    with serving([Answer(status=404)]) as service:
        image = np.zeros((4, 4, 3), np.uint8)
        with pytest.raises(OSError, match="404"):
            things.search(Query(text="a cat", image=image), align=f"caption:openai:m@{service.url}")


@pytest.fixture
def place(things: Collection) -> str:
    things.close()
    return str(things.path)


def asked(*arguments: str) -> Any:
    done = run(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_line_shows_caption_query_and_cost(place: str, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        Image.fromarray(np.full((4, 4), ord(name[0]), np.uint8)).save(tmp_path / name)
    pictures = [part for name in ("a.png", "b.png") for part in ("--image", str(tmp_path / name))]
    with serving([said("a red\ncat")]) as service:
        how = ["--in", place, "-k", "2", "--align", f"caption:openai:m@{service.url}", "--explain"]
        shown = run(app, ["search", "what is", *pictures, *how])
        told = asked("search", "what is", *pictures, *how)
        assert "explanation" not in asked("search", "what is", *pictures, *how[:-1])[0]
    assert shown.exit_code == 0, shown.output
    caption, searched, *hits = shown.stdout.splitlines()
    assert caption.startswith("caption      a red cat a red cat (")
    assert caption.endswith(" s)")
    assert searched == "searched     what is Image Description: a red cat Image Description: a red cat"
    assert len(hits) == 4
    found = told[0]["explanation"]["aligned"]
    assert (found["caption"], found["untouched"], found["fell_back"]) == ("a red\ncat\n\na red\ncat", None, None)
    assert found["query"].startswith("what is\nImage Description: a red")
    assert found["seconds"].keys() == {"caption"}
    assert "aligned" not in asked("search", "a cat", "--in", place, "--explain")[0]["explanation"]


def test_the_command_line_says_when_a_model_failed_and_when_nothing_was_found(place: str) -> None:
    with serving([Answer(status=404)]) as service:
        how = ["--in", place, "--align", f"forge:openai:m@{service.url}", "--explain"]
        shown = run(app, ["search", "a cat", *how])
        nothing = run(app, ["search", "a cat", *how, "--where", "no=body"])
        quiet = run(app, ["search", "a cat", *how[:-1]])
    assert "fell back    the model failed" in shown.stdout
    assert "so far       0 rewritten, 1 fell back (the model failed: 1)" in shown.stdout
    assert "The query was not rewritten: the model failed" in quiet.stderr
    assert "the model failed" not in quiet.stdout
    assert nothing.stdout.startswith("searched     a cat (")
    assert "Nothing found." in nothing.stdout


def test_the_command_line_names_the_nearest_aligner_and_a_missing_extra(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = run(app, ["search", "a cat", "--in", place, "--align", "captoin"])
    assert isinstance(wrong.exception, UnknownName)
    assert "Did you mean 'caption'?" in str(wrong.exception)
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    missing = run(app, ["search", "--image", str(tmp_path / "a.png"), "--in", place, "--align", "caption"])
    assert isinstance(missing.exception, MissingExtra)
    assert "isthmus[align]" in str(missing.exception)
    assert run(app, ["search", "a cat", "--in", place, "--align", "caption"]).exit_code == 0  # nothing is to be read
    two = run(app, ["search", *["--image", str(tmp_path / "a.png")] * 2, "--in", place])
    assert two.exit_code == 0, two.output  # several pictures are searched by their mean


@reads
def test_a_screenshot_is_asked_with_from_end_to_end(place: str, tmp_path: Path, mini: None) -> None:
    shot = Image.new("RGB", (560, 150), "white")
    for row, line in enumerate(PAGE):
        ImageDraw.Draw(shot).text((20, 20 + 60 * row), line, fill="black", font=ImageFont.load_default(size=34))
    shot.save(tmp_path / "shot.png")
    how = ["--image", str(tmp_path / "shot.png"), "--in", place, "--explain", "--threads", "1"]
    found = asked("search", "what is this", *how, "--align", "auto")
    assert found[0]["explanation"]["aligned"]["caption"] == "\n".join(PAGE)
    assert found[0]["explanation"]["aligned"]["query"] == "grass"
    assert found[0]["id"] == asked("search", "grass", "--in", place)[0]["id"]
