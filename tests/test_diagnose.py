"""Diagnosing a search: measures by hand, made-up worlds with a known gap and a known hub, the page, the verb."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import isthmus.diagnose as diagnosing
from isthmus import Collection, Document, Vectors, calibration
from isthmus.cli import app
from isthmus.diagnose import (
    CollectionState,
    Evidence,
    Examination,
    Level,
    Side,
    as_text,
    changed_hands,
    diagnose,
    examine,
    flat,
    gap,
    hubs,
    moves,
    occurrences,
    page,
    skewness,
)
from isthmus.diagnose.moves import rank
from isthmus.diagnose.share import shares
from isthmus.errors import BadInput, UnknownName
from isthmus.types import Matrix
from stock import mixed, own, pixels

EACH = 40  # documents of each modality
DIM = 24


def world(cone: float = 2.0, hub: bool = False, spec: str = "center+standardize", seed: int = 0) -> Evidence:
    """Make texts and images about the same topics, ``cone`` apart, each asked for in words; perhaps with a hub."""
    rng = np.random.default_rng(seed)
    topics, text, image = rng.normal(size=(2 * EACH, DIM)), rng.normal(size=DIM), rng.normal(size=DIM)
    names = np.repeat(["image", "text"], EACH)
    directions = np.where((names == "text")[:, None], text, image)
    vectors = topics + cone * directions
    if hub:
        vectors[7] = 40 * text  # what every question has in common, and nothing else
    documents = Vectors.of(vectors, names)
    queries = Vectors.of(topics + 0.6 * rng.normal(size=topics.shape) + cone * text, "text")
    raw, fair = (_side(calibration.fit(name, documents, queries), documents, queries) for name in ("none", spec))
    return Evidence(raw, fair, names, names, {"image": EACH, "text": EACH}, np.full(2 * EACH, "text"), names)


def _side(fitted: calibration.Fitted, documents: Vectors, queries: Vectors) -> Side:
    scores = fitted.scores(queries, documents)
    mine = scores.diagonal().copy()
    others = scores.copy()
    np.fill_diagonal(others, -np.inf)
    lists = np.argsort(-others, axis=1)[:, :10]
    return Side(fitted.shift.documents(documents, np.float32), lists, rank(mine, others))


def diagnosed(evidence: Evidence, spec: str = "center+standardize") -> diagnosing.Diagnosis:
    return diagnose(evidence, CollectionState("things.isthmus", spec))


def test_the_gap_is_what_a_hand_computes() -> None:
    vectors, names = np.array([[1.0, 0.0], [1.0, 2.0], [5.0, 0.0], [5.0, 2.0]]), np.array(["a", "a", "b", "b"])
    found = gap(vectors, names)
    (pair,) = found.pairs
    assert pair.distance == pytest.approx(4.0)  # the means are (1, 1) and (5, 1)
    assert pair.cosine == pytest.approx(6 / np.sqrt(2 * 26))
    assert found.share == pytest.approx(16 / 20)  # between: 4 · 2², in all: that and 4 · 1²
    assert found.chance == pytest.approx(1 / 3)


def test_groups_drawn_by_lot_explain_about_what_chance_says() -> None:
    rng = np.random.default_rng(0)
    found = gap(rng.normal(size=(300, 30)), rng.choice(["a", "b", "c"], 300))
    assert found.share == pytest.approx(found.chance, rel=0.5)


@pytest.mark.parametrize("shape", [(50, 8), (8, 50), (1, 3), (3, 1)])
def test_flat_keeps_the_two_directions_with_the_largest_spread(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    x -= x.mean(axis=0)
    expected = np.append(np.linalg.svd(x, compute_uv=False), [0.0])[:2]
    assert np.linalg.norm(flat(x), axis=0) == pytest.approx(expected, abs=1e-6)


def test_skewness_is_scipys_and_zero_where_all_turn_up_alike() -> None:
    from scipy.stats import skew

    counts = np.random.default_rng(0).poisson(2, 200) ** 2
    assert skewness(counts) == pytest.approx(skew(counts))
    assert skewness(np.full(5, 3)) == 0


def test_hubs_are_counted_before_and_after_and_empty_places_are_nobody() -> None:
    before, after = np.array([[2, 0], [2, 1], [2, -1]]), np.array([[0, 1], [2, 1], [3, 0]])
    assert occurrences(before, 5).tolist() == [1, 1, 3, 0, 0]
    found = hubs(before, after, 5)
    assert [(hub.document, hub.before, hub.after) for hub in found.worst] == [(2, 3, 1), (0, 1, 2), (1, 1, 2)]
    after_ = [(hub.document, hub.before, hub.after) for hub in found.worst_after]
    assert after_ == [(0, 1, 2), (1, 1, 2), (2, 3, 1), (3, 0, 1)]  # one that nobody met by raw cosine is named too
    assert (found.expected, found.never_before, found.never_after) == (1.0, 0.4, 0.2)


def test_many_documents_and_few_questions_are_no_hubs_by_themselves() -> None:
    rng = np.random.default_rng(0)
    lists = np.stack([rng.choice(5000, 10, replace=False) for _ in range(300)])
    found = hubs(lists, lists, 5000)
    assert found.skew_before > 1
    assert found.skew_before == pytest.approx(found.skew_by_lot, rel=0.1)


def test_shares_count_weights_and_leave_empty_places_out() -> None:
    held = np.array(["text", "", "image", "text"])
    assert shares(held, ["image", "text"]) == pytest.approx({"image": 1 / 3, "text": 2 / 3})
    assert shares(held, ["image", "text"], np.array([1.0, 9.0, 2.0, 1.0])) == {"image": 0.5, "text": 0.5}
    assert changed_hands({"text": 1.0}, {"image": 1.0}) == 1.0


def test_a_loss_on_many_texts_does_not_hide_a_gain_on_few_images() -> None:
    before, after = np.ones(120, dtype=np.intp), np.ones(120, dtype=np.intp)
    before[:20] = 5  # all images
    after[20:30] = 2  # a tenth of the texts
    found = moves(before, after, np.repeat(["image", "text"], [20, 100]))
    assert (found.gained, found.lost) == (20, 10)
    assert found.gain == pytest.approx((1.0 - 0.1) / 2)
    assert found.certain > 2


def test_a_question_that_did_not_move_is_not_named() -> None:
    found = moves(np.array([1, 3]), np.array([1, 3]), np.array(["text", "text"]))
    assert (found.up, found.down, found.certain) == ((), (), 0.0)


def test_two_cones_are_found_unfair_and_the_calibration_corrects_them() -> None:
    found = diagnosed(world())
    assert found.gap_before.share > 0.3
    assert found.gap_after.share < 0.05
    assert found.shares[0].before["text"] > 0.8
    assert found.shares[0].after["text"] < 0.65
    assert found.advice.level is Level.CORRECTED
    assert "There is a gap" in found.advice.findings[0]
    by_modality = {one.modality: one for one in found.moves.by_modality}
    assert by_modality["image"].first_before < 0.2 < 0.8 < by_modality["image"].first_after


def test_two_cones_without_a_calibration_are_unfair_and_the_advice_is_to_calibrate() -> None:
    found = diagnosed(world(spec="none"), "none")
    assert found.advice.level is Level.UNFAIR
    assert "isthmus calibrate" in found.advice.steps[0]


def test_without_a_gap_the_advice_says_so_and_nothing_needs_to_be_done() -> None:
    found = diagnosed(world(cone=0.0))
    assert found.advice.level is Level.FAIR
    assert "no gap" in found.advice.findings[0]
    assert found.advice.steps == (
        "Nothing needs to be done. Run `isthmus diagnose` again after many documents were added or deleted.",
    )


def test_a_calibration_that_harms_is_called_so() -> None:
    better = world()
    worse = Evidence(better.calibrated, better.raw, *(getattr(better, name) for name in Evidence.__slots__[2:]))
    found = diagnosed(worse)
    assert found.advice.level is Level.UNFAIR
    assert "more harm than good" in found.advice.verdict
    assert "calibrate none" in found.advice.steps[0]


def test_a_planted_hub_is_the_first_one_named_and_nnn_takes_its_places_away() -> None:
    found = diagnosed(world(hub=True, spec="nnn(k=16,alpha=1.0)"), "nnn")
    worst = found.hubs.worst[0]
    assert worst.document == 7
    assert worst.before > 5 * found.hubs.expected
    assert worst.after < worst.before / 2
    assert found.hubs.skew_after < found.hubs.skew_before
    assert any("There are hubs" in said for said in found.advice.findings)


def unknown(evidence: Evidence, **changes: Any) -> Evidence:
    values = {name: getattr(evidence, name) for name in Evidence.__slots__}
    return Evidence(**values | {"target": np.full(2 * EACH, "")} | changes)


def test_without_known_answers_only_what_is_far_off_is_called_unfair() -> None:
    assert diagnosed(unknown(world(spec="none")), "none").advice.level is Level.UNFAIR
    assert diagnosed(unknown(world())).advice.level is Level.CORRECTED
    mild = diagnosed(unknown(world(spec="none"), corpus={"image": EACH, "text": 4 * EACH}), "none")
    assert mild.advice.level is Level.UNSURE
    assert "--queries" in mild.advice.steps[0]


def test_few_documents_are_too_few_to_tell() -> None:
    found = diagnosed(unknown(world(), corpus={"image": 3, "text": 3}))
    assert found.advice.level is Level.UNSURE
    assert "too early" in found.advice.verdict


def test_what_the_package_exports_is_sorted_and_exists() -> None:
    constants_first = sorted(diagnosing.__all__, key=lambda name: (name.islower(), name))
    assert constants_first == diagnosing.__all__
    assert all(hasattr(diagnosing, name) for name in diagnosing.__all__)


# A real collection of a tiny encoder, and its page.

EVIL = "<script>alert('1')</script>&\""


@pytest.fixture(scope="module")
def place(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("diagnose") / "things.isthmus"
    with Collection.open(folder, encoder=tiny, calibration="center+nnn(k=4)") as things:
        things.add([*mixed(60), Document(EVIL, "a cat <b>sits</b> on the red sofa & runs", pixels(5))])
        things.calibrate("center+nnn(k=4)")
    return folder


@pytest.fixture(scope="module")
def things(place: Path) -> Iterator[Collection]:
    with Collection.open(place, create=False, follow=False) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(things: Collection) -> Examination:
    return examine(things, [("cat red sofa", EVIL)] * 3 + ["a dog runs"])


class Reader(HTMLParser):
    """Notes tags that are not closed, and what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_the_page_is_whole_and_fetches_nothing(things: Collection, found: Examination) -> None:
    for text in (page(found), page(examine(things))):
        reader = read(text)
        assert {"svg", "img", "table", "style"} <= reader.tags
        assert not {"script", "link", "iframe", "object"} & reader.tags
        assert all(address.startswith("data:image/jpeg;base64,") for address in reader.fetched)
        assert not re.search(r"https?://|url\(|@import", text)
        headings = re.findall(r"<h2>(.*?)</h2>", text)
        assert len(headings) == 6
        assert "nan" not in re.sub(r'"data:[^"]*"', "", text).lower().replace("finance", "")


def test_a_documents_name_and_words_are_escaped(found: Examination) -> None:
    text = page(found)
    assert EVIL in {one.source.id for one in (*found.up, *found.down)} | {card.id for card in found.cards.values()}
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_the_rankings_are_those_that_the_collection_gives(things: Collection) -> None:
    words = "a cat sits"
    right = things.search(words)[3].id
    found = examine(things, [(words, right)])
    (before,) = [hit.rank for hit in things.search(words, calibration="none", k=100) if hit.id == right]
    assert found.diagnosis.moves.questions == 1
    one = [*found.up, *found.down]
    assert [(moved.before, moved.after) for moved in one] == ([(before, 4)] if before != 4 else [])


def test_a_collection_of_vectors_alone_and_one_modality_can_be_diagnosed(tmp_path: Path) -> None:
    rows: Matrix = np.random.default_rng(0).normal(size=(40, 8))
    with Collection.open(tmp_path / "v.isthmus", encoder="none") as things:
        things.add(own(rows))
        found = examine(things)
    assert found.diagnosis.advice.level is Level.FAIR
    assert "only text" in found.diagnosis.advice.verdict
    assert "there can be no gap" in page(found)


def test_what_cannot_be_diagnosed_says_so(things: Collection, tiny: str, tmp_path: Path) -> None:
    with Collection.open(tmp_path / "e.isthmus", encoder=tiny) as empty, pytest.raises(BadInput, match="is empty"):
        examine(empty)
    with pytest.raises(UnknownName, match="No document is called"):
        examine(things, [("a cat", "nobody")])


def test_a_document_whose_picture_is_gone_is_shown_without(tmp_path: Path) -> None:
    from isthmus.diagnose.collection import thumbnail

    assert thumbnail(str(tmp_path / "gone.png")) is None
    assert (thumbnail(pixels(1)) or b"").startswith(b"\xff\xd8")


def test_the_terminal_summary_is_short(found: Examination) -> None:
    lines = as_text(found).splitlines()
    assert len(lines) < 25
    assert lines[0] == found.diagnosis.advice.verdict


def test_the_verb_prints_writes_the_page_and_speaks_json(place: Path, tmp_path: Path) -> None:
    out, asked = tmp_path / "report.html", tmp_path / "queries.jsonl"
    asked.write_text('{"query": "the red sofa", "id": "d0-0"}\na dog on the grass\n')
    done = CliRunner().invoke(app, ["diagnose", "--in", str(place), "--report", str(out)])
    assert done.exit_code == 0, done.output
    assert "equal chance" in done.stdout
    assert str(out) in done.stdout
    read(out.read_text())
    done = CliRunner().invoke(app, ["diagnose", "--in", str(place), "--queries", str(asked), "--json"])
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert value["collection"]["documents"] == {"image": 20, "image+text": 21, "text": 20}
    assert value["shares"][0]["questions"] == 2
    assert value["moves"]["questions"] == 1
    assert value["level"] in {str(level) for level in Level}


def test_a_report_that_cannot_be_written_is_an_error(place: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["diagnose", "--in", str(place), "--report", str(tmp_path / "no" / "r.html")])
    assert done.exit_code == 1
    assert "cannot be written" in str(done.exception)
