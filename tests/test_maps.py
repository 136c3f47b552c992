"""Maps: what each word and each patch adds to a similarity, and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, encoders, samples
from isthmus.cli import app
from isthmus.diagnose.maps import maps_page
from isthmus.encoders import apart
from isthmus.encoders.apart import TowersApart
from isthmus.encoders.base import Encoder, Settings
from isthmus.encoders.images import Frame, read
from isthmus.encoders.onnx import Model
from isthmus.encoders.texts import Splitter
from isthmus.encoders.tokens import POOLED
from isthmus.encoders.tower import cut, tail
from isthmus.errors import BadFile, BadInput
from isthmus.search import Map, Shares, WordShare
from isthmus.types import Matrix
from stock import Counting
from tiny import LENGTH, tokenizer

PHOTOS = samples.folder() / "photos"
PARROT, TABBY = PHOTOS / "macaw.jpg", PHOTOS / "tabby.jpg"
ASKED = "a red parrot on a branch"


@pytest.fixture(scope="module")
def mini() -> Encoder:
    return encoders.load("mini")


@pytest.fixture(scope="module")
def takes() -> TowersApart:
    return TowersApart.open(Settings())


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = tmp_path_factory.mktemp("maps")
    gone, other = folder / "gone.jpg", folder / "other.jpg"
    for place in (gone, other):
        place.write_bytes(TABBY.read_bytes())
    with Collection.open(folder / "things.isthmus", calibration="none") as made:
        made.add(
            [
                Document(id="<script>alert(1)</script>", text="<b>Parrots</b> & their branches", image=str(PARROT)),
                Document(id="photo", image=str(PARROT)),
                Document(id="note", text="Parrots have no vocal cords. " + "They shape sounds with a muscle. " * 90),
                Document(id="gone", text="a cat", image=str(gone)),
                Document(id="other", image=str(other)),
            ]
        )
        gone.unlink()
        other.write_bytes(PARROT.read_bytes())
        yield made


def by_id(maps: list[Map]) -> dict[str, Map]:
    return {one.hit.id: one for one in maps}


@pytest.fixture(scope="module")
def found(things: Collection) -> dict[str, Map]:
    return by_id(things.maps(ASKED, things.search(ASKED)))


def unit(row: Matrix) -> Matrix:
    scaled: Matrix = row / np.linalg.norm(row)
    return scaled


def test_the_tail_behind_the_cut_gives_what_the_whole_gives() -> None:
    path = encoders.MINI / "image.onnx"
    whole = path.read_bytes()
    pixels = {"pixels": np.stack([read(photo, Frame(256)) for photo in (PARROT, TABBY)])}
    pooled = Model.open(path, ["pixels"], POOLED, Settings(), cut(whole, POOLED)).run(pixels)
    again = Model.open(path, [POOLED], "vectors", Settings(), tail(whole, POOLED)).run({POOLED: pooled})
    np.testing.assert_allclose(again, Model.open(path, ["pixels"], "vectors", Settings()).run(pixels), atol=1e-5)


def test_a_tail_that_needs_more_than_its_tensor_is_refused() -> None:
    nodes = [helper.make_node("Neg", ["x"], ["y"]), helper.make_node("Add", ["x", "y"], ["z"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "z")]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:])).SerializeToString()
    with pytest.raises(BadFile, match="depends on 'x' too, not only 'y'"):
        tail(model, "y")
    with pytest.raises(BadFile, match="no tensor called 'w'"):
        tail(model, "w")
    whole = onnx.load_from_string(tail(model, "z")).graph
    assert (len(whole.node), whole.input[0].name, whole.output[0].name) == (0, "z", "z")


def test_a_patchs_share_is_what_leaving_it_out_by_hand_loses(takes: TowersApart, mini: Encoder) -> None:
    query = mini.encode_queries([ASKED]).parts["text"][0]
    cells = takes.towers.look([read(PARROT, takes.towers.frame)]).cells[0]
    found = takes.take(None, PARROT, "document")["image"]
    assert found.patches is not None
    np.testing.assert_allclose(found.vector, mini.encode_queries([Query(image=PARROT)]).parts["image"][0], atol=1e-6)
    for patch in (0, 12, 37, 63):
        mean = np.delete(cells, patch, axis=0).mean(axis=0, keepdims=True)
        by_hand = unit(takes.tail.run({POOLED: mean})[0])
        assert (found.vector - found.patches.without[patch]) @ query == pytest.approx(
            (found.vector - by_hand) @ query, abs=1e-6
        )
    assert found.patches.pieces[12] == (1, 4)


def test_leaving_out_nothing_changes_nothing_and_equal_states_have_no_share() -> None:
    states = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(apart.without(states, [[], [0, 4]])[0], states.mean(axis=0))
    np.testing.assert_allclose(apart.without(np.ones((5, 3)), [[2], [0, 1]]), np.ones((2, 3)))


def test_a_words_share_leaves_out_all_its_tokens(takes: TowersApart) -> None:
    text = "an unquestionably red parrot"
    (passage,), (words,) = takes.towers.words(text, "document")
    assert [text[word.start : word.end] for word in words] == text.split()
    assert len(words[1].tokens) > 1
    states = takes.towers.read([passage]).states[0]
    found = takes.take(text, None, "document")["text"].words
    assert found is not None
    for place, word in enumerate(words):
        np.testing.assert_allclose(
            found.without[place], unit(np.delete(states, word.tokens, axis=0).mean(axis=0)), atol=1e-6
        )


def test_a_query_of_several_passages_is_taken_apart_as_a_whole(takes: TowersApart, mini: Encoder) -> None:
    text = "the quick brown fox and the dog " * 60
    found = takes.take(text, None, "query")["text"]
    assert found.words is not None
    np.testing.assert_allclose(found.vector, mini.encode_queries([text]).parts["text"][0], atol=1e-6)
    assert [text[start:end] for start, end in found.words.pieces] == text.split()


def test_the_words_of_every_passage_stand_where_their_tokens_do() -> None:
    text = "cats and dogs, " * 9
    passages, words = Splitter.of(tokenizer(), LENGTH, "tiny").words(text)
    assert len(passages) == len(words) > 1
    for passage, several in zip(passages, words, strict=True):
        places = [place for word in several for place in word.tokens]
        assert places == list(range(1, len(passage.tokens) - 1))
        assert all(passage.start <= word.start < word.end <= passage.end for word in several)
    said = [text[word.start : word.end] for several in words for word in several]
    assert said == ["cats", "and", "dogs", ","] * 9


def test_shares_go_through_the_fusion_of_a_document_of_both_parts(
    found: dict[str, Map], takes: TowersApart, mini: Encoder
) -> None:
    both = found["<script>alert(1)</script>"]
    query = mini.encode_queries([ASKED]).parts["text"][0]
    parts = takes.take("<b>Parrots</b> & their branches", PARROT, "document")
    text, image = parts["text"], parts["image"]
    assert text.words is not None and image.patches is not None
    whole = unit(text.vector + image.vector) @ query
    assert both.similarity == pytest.approx(both.hit.similarity, abs=1e-5) == pytest.approx(whole, abs=1e-5)
    assert both.document.words is not None and both.document.patches is not None
    at = next(place for place, (start, _) in enumerate(text.words.pieces) if start == 3)  # Parrots
    assert both.document.words[at].share == pytest.approx(
        whole - unit(text.words.without[at] + image.vector) @ query, abs=1e-5
    )
    assert both.document.patches[1, 4] == pytest.approx(
        whole - unit(text.vector + image.patches.without[12]) @ query, abs=1e-5
    )
    assert found["photo"].query.words is not None
    asked = takes.take(ASKED, None, "query")["text"]
    assert asked.words is not None
    assert found["photo"].query.words[1].share == pytest.approx(
        (asked.vector - asked.words.without[1]) @ image.vector, abs=1e-5
    )


def test_a_long_text_is_mapped_in_the_passage_that_matched(found: dict[str, Map]) -> None:
    note = found["note"]
    assert note.hit.passage is not None and note.document.words is not None
    assert note.hit.passage.start <= note.document.words[0].start
    assert note.document.words[-1].end <= note.hit.passage.stop < len(note.hit.document.text or "")
    assert note.document.patches is None


def test_a_part_that_is_gone_or_has_changed_is_said_and_the_rest_is_mapped(found: dict[str, Map]) -> None:
    assert found["gone"].document.patches is None
    assert found["gone"].document.words is not None
    assert "cannot be read" in found["gone"].notes[0]
    assert found["gone"].similarity == pytest.approx(found["gone"].hit.similarity, abs=1e-5)
    assert found["other"].document.patches is None
    assert "no longer what was indexed" in found["other"].notes[0]


def test_a_picture_as_query_has_patches_and_its_weights_count(things: Collection) -> None:
    query = Query(text="birds", image=str(PARROT), weights={"text": 0, "image": 1})
    hits = things.search(query, 2)
    first = things.maps(query, hits)[0]
    assert first.similarity == pytest.approx(first.hit.similarity, abs=1e-5)
    assert first.query.patches is not None and first.query.patches.shape == (8, 8)
    assert first.query.words is not None
    assert [word.share for word in first.query.words] == pytest.approx([0.0], abs=1e-6)  # a word of weight 0


def test_the_page_escapes_what_users_wrote_and_fetches_nothing(found: dict[str, Map]) -> None:
    page = maps_page(Query(ASKED.replace("a red", "<red>")), [*found.values()], "a<b>.isthmus")
    assert re.search(r"<(script|red|b>\.isthmus)", page) is None
    assert "&lt;script&gt;" in page
    assert re.sub(r"<[^>]*>", "", page).count("&lt;b&gt;Parrots&lt;/b&gt; &amp; their branches") == 1
    assert not re.search(r"https?://|//[a-z]|@import|url\(", re.sub(r"base64,[\w+/=]+", "", page))
    alts = re.findall(r'<img [^>]*?alt="([^"]*)"', page)
    assert any("The strongest patch is" in alt for alt in alts)
    assert page.count("strongest: <b>") == 3 + len(found)  # the words of three texts, and the query's by hit


def test_shares_that_are_rounding_have_no_colour(found: dict[str, Map]) -> None:
    photo = found["photo"]
    assert photo.document.patches is not None and photo.query.words is not None
    flat = Shares(None, np.full_like(photo.document.patches, 1e-9))
    words = Shares(tuple(WordShare(start, end, 1e-9) for start, end, _ in photo.query.words), None)
    page = maps_page(Query(ASKED), [replace(photo, document=flat, query=words)], "things")
    assert page.count("No single patch matters") == 1
    assert 'class="heat"' not in page and "patches: " not in page
    assert page.count('class="word') == 2  # those of the key


def test_the_command_writes_the_page_and_leaves_nothing_beside_it(things: Collection, tmp_path: Path) -> None:
    page = tmp_path / "maps.html"
    into = ["--in", str(things.path), "-k", "2"]
    done = CliRunner().invoke(app, ["search", ASKED, *into, "--explain-maps", str(page)])
    assert done.exit_code == 0, done.output
    assert f"The maps are in {page}" in done.stdout
    assert page.read_text().count('<section class="hit">') == 2
    assert [path.name for path in tmp_path.iterdir()] == ["maps.html"]
    failed = CliRunner().invoke(app, ["search", ASKED, *into, "--explain-maps", str(tmp_path / "no" / "maps.html")])
    assert failed.exit_code == 1
    assert "there is no folder" in str(failed.exception)


def test_an_encoder_that_cannot_is_refused_by_naming_those_that_can(tiny: str, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    with Collection.open(tmp_path / "x.isthmus", encoder=tiny, calibration="none") as others:
        others.add([Document(id="a", text="a cat"), Document(id="b", image=str(tmp_path / "a.png"))])
        with pytest.raises(
            BadInput, match=r"cannot compute what each word .* These can: mini, models of `isthmus train fusion`\."
        ):
            others.maps("a cat", others.search("a cat"))
    page = tmp_path / "maps.html"
    done = CliRunner().invoke(
        app, ["search", "a cat", "--in", str(tmp_path / "x.isthmus"), "--explain-maps", str(page)]
    )
    assert done.exit_code == 1
    assert "These can: mini" in str(done.exception)
    assert done.stdout == ""
    assert not page.exists()
    with pytest.raises(BadInput, match="A collection of vectors cannot"):
        apart.load(None)


def test_an_encoder_that_takes_its_own_vectors_apart_is_asked_itself(tiny: str) -> None:
    class Explaining(Counting):
        def takes_apart(self) -> str:
            return "its own"

    assert apart.load(Explaining(encoders.load(tiny))) == "its own"  # type: ignore[comparison-overlap]
