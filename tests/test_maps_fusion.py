"""Maps of one vector for text and image: shares are what leaving words and patches out by hand loses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.encoders import apart
from isthmus.encoders.apart import Apart
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.images import read
from isthmus.encoders.once import VectorInput
from isthmus.errors import BadInput
from isthmus.search import Map
from isthmus.types import Matrix
from stock import pixels
from tiny import IMAGE_TABLE, write_encoder, write_fusion

TEXT = "the cats sits on sofax and grass"  # cats and sofax are two tokens each
LONG = "cat dog sofa tree " * 12
ASKED = "a red cat runs on sofax and the dog"


@dataclass(frozen=True)
class Made:
    """An encoder, its folder, and the model that was exported into it."""

    folder: Path
    model: Any
    encoder: FusionEncoder

    def take(self, *given: Any) -> Apart:
        (found,) = apart.load(self.encoder).take(*given).values()
        return found


@pytest.fixture(scope="module", params=["kinds", "mean"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("maps") / "fusion"
    model = write_fusion(folder, write_encoder(folder.parent / "towers"), request.param, seed=2)
    found = encoders.load(f"onnx:{folder}")
    assert isinstance(found, FusionEncoder)
    return Made(folder, model, found)


def unit(row: Matrix) -> Matrix:
    scaled: Matrix = row / np.linalg.norm(row)
    return scaled


def numbers(tensor: torch.Tensor) -> Matrix:
    return tensor.detach().numpy().astype(np.float64)


def mean(rows: Matrix) -> Matrix:
    found: Matrix = rows.mean(axis=0) if len(rows) else np.zeros(rows.shape[1])
    return found


def lengthened(row: Matrix, like: Matrix) -> Matrix:
    """Bring a row to the length of another."""
    length = np.linalg.norm(row)
    scaled: Matrix = row * np.linalg.norm(like) / length if length else row
    return scaled


def document_by_hand(made: Made, text: str | None, image: Any, words: Sequence[int] = (), patch: int = -1) -> Matrix:
    """Pool the fused tokens without some, by numpy: the mean of each kind or of all, then the projection."""
    towers = made.encoder.towers
    passage = towers.split([text], "document")[0][0] if text else None
    fused = made.encoder.document.fuse([VectorInput(passage, None if image is None else read(image, towers.frame))])
    tokens, masks = fused.tokens[0].astype(np.float64), fused.masks[0]
    left = masks.copy()
    left[0, list(words)] = False
    if patch >= 0:
        left[1, np.flatnonzero(left[1])[patch]] = False
    weight = numbers(made.model.document.out.weight)
    if made.model.shape.pool == "mean":
        return unit(weight @ mean(tokens[left.any(axis=0)]))
    halves = np.split(weight, 2, axis=1)
    if masks.any(axis=1).all():
        turned = [
            lengthened(half @ mean(tokens[now]), half @ mean(tokens[was]))
            for half, now, was in zip(halves, left, masks, strict=True)
        ]
        return unit(np.sum(turned, axis=0))
    return unit(
        (halves[0] + halves[1]) @ mean(tokens[left.any(axis=0)])
    )  # a document of one kind has it in both halves


def query_by_hand(made: Made, text: str | None, image: Any, words: Sequence[int] = ()) -> Matrix:
    """Pool what the query's layer gives without some tokens of the text, on whichever side they stand."""
    queries, model = made.encoder.query, made.model.query
    passage = made.encoder.towers.split([text], "query")[0][0] if text else None
    pixels_ = None if image is None else read(image, made.encoder.towers.frame)
    feed = queries.feed([VectorInput(passage, pixels_)]).sides
    seen: list[Matrix] = []
    hook = model.layer.register_forward_hook(lambda _, __, out: seen.append(numbers(out[0])))
    model(*(torch.from_numpy(each) for each in feed.values()))
    hook.remove()
    (asks,) = queries.token_sides([passage])
    halves = []
    for side, tokens in enumerate(seen):
        there = feed[f"mask_{side}"][0]
        kept = there.copy()
        for at, place in enumerate(np.flatnonzero(asks[:, side])):
            kept[at] &= place not in words
        out = np.exp(numbers(model.balance)[side]) * numbers(model.out[side].weight)
        halves.append(lengthened(out @ mean(tokens[kept]), out @ mean(tokens[there])))
    return unit(np.concatenate(halves))


@pytest.mark.parametrize(("text", "image"), [(TEXT, None), (None, pixels(1)), (TEXT, pixels(1))])
def test_a_document_without_a_word_or_a_patch_is_what_its_tokens_give_without_it(
    made: Made, text: str | None, image: Any
) -> None:
    found = made.take(text, image, "document")
    np.testing.assert_allclose(found.vector, document_by_hand(made, text, image), atol=1e-5)
    assert (found.words is None, found.patches is None) == (text is None, image is None)
    if text is not None and found.words is not None:
        _, (words,) = made.encoder.towers.words(text, "document")
        assert [text[start:end] for start, end in found.words.pieces] == text.split()
        assert [len(word.tokens) for word in words] == [1, 2, 1, 1, 2, 1, 1]
        by_hand = [document_by_hand(made, text, image, word.tokens) for word in words]
        np.testing.assert_allclose(found.words.without, by_hand, atol=1e-5)
    if found.patches is not None:
        assert found.patches.pieces == tuple(product(range(4), range(4)))
        by_hand = [document_by_hand(made, text, image, patch=patch) for patch in range(16)]
        np.testing.assert_allclose(found.patches.without, by_hand, atol=1e-5)
        assert np.abs(found.patches.without - found.vector).max(axis=1).min() > 1e-4  # each of them counts


@pytest.mark.parametrize(("text", "image"), [(ASKED, None), (ASKED, pixels(1)), (None, pixels(1))])
def test_a_query_without_a_word_is_what_its_sides_give_without_it(made: Made, text: str | None, image: Any) -> None:
    found = made.take(text, image, "query")
    np.testing.assert_allclose(found.vector, query_by_hand(made, text, image), atol=1e-5)
    query = Query(text, image)
    np.testing.assert_allclose(found.vector, made.encoder.encode_queries([query]).parts[query.modality][0], atol=1e-5)
    assert found.patches is None
    assert (found.words is None) == (text is None)
    assert bool(found.notes) == (image is not None)
    if text is not None and found.words is not None:
        (passage,), (words,) = made.encoder.towers.words(text, "query")
        assert [text[start:end] for start, end in found.words.pieces] == text.split()
        by_hand = [query_by_hand(made, text, image, word.tokens) for word in words]
        np.testing.assert_allclose(found.words.without, by_hand, atol=1e-5)
        asks = made.encoder.query.token_sides([passage])[0][1:-1]
        assert {tuple(row) for row in asks.tolist()} == (
            {(True, False), (False, True), (True, True)} if made.model.shape.pool == "kinds" else {(True,)}
        )


def test_a_query_of_several_passages_is_taken_apart_as_a_whole(made: Made) -> None:
    found = made.take(LONG, pixels(2), "query")
    row = made.encoder.encode_queries([Query(LONG, pixels(2))]).parts["image+text"][0]
    np.testing.assert_allclose(found.vector, row, atol=1e-5)
    assert found.words is not None and [LONG[start:end] for start, end in found.words.pieces] == LONG.split()


def test_a_document_taken_apart_whole_loses_a_patch_beside_every_passage(made: Made) -> None:
    whole, image = made.take(LONG, pixels(2), "document"), pixels(2)
    np.testing.assert_allclose(
        whole.vector, made.encoder.encode_documents([Document("a", LONG, image)]).parts["image+text"][0], atol=1e-5
    )
    passages = [made.take(LONG, image, "document", number) for number in range(len(made.encoder.split(LONG)))]
    each = [one.patches.without[5] for one in passages if one.patches is not None]
    assert whole.patches is not None and len(each) == len(passages) > 3
    np.testing.assert_allclose(whole.patches.without[5], unit(np.sum(each, axis=0)), atol=1e-6)


@pytest.fixture(scope="module")
def things(made: Made, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = tmp_path_factory.mktemp("things")
    for name in ("kept", "gone", "other"):
        Image.fromarray(pixels(3)).save(folder / f"{name}.png")
    own = np.arange(1.0, made.encoder.dim + 1)
    with Collection.open(folder / "c", f"onnx:{made.folder}", calibration="none") as opened:
        opened.add(
            [
                Document("both", TEXT, str(folder / "kept.png")),
                Document("words", "a dog on the grass"),
                Document("picture", image=str(folder / "kept.png")),
                Document("long", LONG, str(folder / "kept.png")),
                Document("gone", "a cat", str(folder / "gone.png")),
                Document("other", "a cat", str(folder / "other.png")),
                Document("given", "a cat", str(folder / "kept.png"), vectors={"image+text": own}),
            ]
        )
        (folder / "gone.png").unlink()
        Image.fromarray(pixels(4)).save(folder / "other.png")
        yield opened


def maps(things: Collection, query: Query) -> dict[str, Map]:
    return {one.hit.id: one for one in things.maps(query, things.search(query))}


def opened(one: Map) -> str:
    """Say which parts of a document were taken apart."""
    found = {"words": one.document.words, "patches": one.document.patches}
    return " ".join(name for name, shares in found.items() if shares is not None)


@pytest.mark.parametrize("query", [Query(ASKED), Query(ASKED, pixels(1)), Query(image=pixels(1))])
def test_a_share_is_what_the_similarity_loses(made: Made, things: Collection, query: Query) -> None:
    found = maps(things, query)
    asked = query_by_hand(made, query.text, query.image)
    for name, one in found.items():
        assert one.similarity == pytest.approx(one.hit.similarity, abs=1e-5), name
    both, picture = found["both"], str(things.path.parent / "kept.png")
    assert both.document.words is not None and both.document.patches is not None
    assert [opened(found[name]) for name in ("words", "picture", "both")] == ["words", "patches", "words patches"]
    _, (words,) = made.encoder.towers.words(TEXT, "document")
    whole = document_by_hand(made, TEXT, picture) @ asked
    for share, word in zip(both.document.words, words, strict=True):
        without = document_by_hand(made, TEXT, picture, word.tokens)
        assert (share.start, share.end) == (word.start, word.end)
        assert share.share == pytest.approx(whole - without @ asked, abs=1e-5)
    without = document_by_hand(made, TEXT, picture, patch=6)
    assert both.document.patches[1, 2] == pytest.approx(whole - without @ asked, abs=1e-5)
    if query.text is not None and both.query.words is not None:
        _, (words,) = made.encoder.towers.words(ASKED, "query")
        less = query_by_hand(made, query.text, query.image, words[5].tokens) @ document_by_hand(made, TEXT, picture)
        assert both.query.words[5].share == pytest.approx(whole - less, abs=1e-5)


def test_a_long_text_is_mapped_in_the_passage_that_matched_beside_the_picture(things: Collection) -> None:
    one = maps(things, Query(ASKED))["long"]
    assert one.hit.passage is not None and one.document.words is not None and one.document.patches is not None
    assert one.hit.passage.start <= one.document.words[0].start
    assert one.document.words[-1].end <= one.hit.passage.stop


def test_what_cannot_be_taken_apart_is_said(things: Collection) -> None:
    found = maps(things, Query(ASKED, pixels(1)))
    for name, said in {
        "gone": "Its image and text cannot be taken apart: ",
        "other": "Its image or text is no longer what was indexed",
        "given": "The vector of its image and text was given, not encoded",
    }.items():
        assert opened(found[name]) == ""
        assert found[name].notes[0].startswith(said)
    assert found["both"].notes == ("The query's picture is one token of its vector: it has no patches to leave out.",)
    with pytest.raises(BadInput, match=r"makes one vector of image\+text"):
        things.maps(Query("cat", pixels(1), weights={"text": 2, "image": 1}), things.search("cat"))


def test_a_picture_that_is_cropped_has_no_patches_over_all_of_it(tmp_path: Path) -> None:
    towers = write_encoder(tmp_path / "towers", image=IMAGE_TABLE.replace("squash", "crop"))
    write_fusion(tmp_path / "fusion", towers)
    found = apart.load(encoders.load(f"onnx:{tmp_path / 'fusion'}")).take("a cat", pixels(1), "document")["image+text"]
    assert found.patches is None and found.words is not None
    assert found.notes[0].startswith("Its picture has no map")


def test_the_command_writes_the_page(things: Collection, tmp_path: Path) -> None:
    page, shown = tmp_path / "maps.html", tmp_path / "asked.png"
    Image.fromarray(pixels(1)).save(shown)
    into = ["--in", str(things.path), "--image", str(shown), "--explain-maps", str(page)]
    done = CliRunner().invoke(app, ["search", ASKED, *into])
    assert done.exit_code == 0, done.output
    written = page.read_text()
    assert written.count('<section class="hit">') == 7
    assert written.count("The query&#x27;s picture is one token") == 7
    assert written.count("<figcaption>The strongest patch") == 3  # both, picture, long
    assert written.count("strongest: <b>") == 3 + 7  # both, words, long; the query's by hit
