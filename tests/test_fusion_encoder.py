"""One vector for text and image: what is exported is what runs, whatever stands beside it; and a matcher for pairs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders.folder import DESCRIPTION
from isthmus.encoders.fusion import FusionEncoder
from isthmus.encoders.heads import chosen_sides
from isthmus.encoders.images import read
from isthmus.encoders.once import VectorInput
from isthmus.encoders.tokens import TokenTowers
from isthmus.errors import BadFile, BadImage, BadInput
from isthmus.train.fusion.matcher import alike
from isthmus.train.fusion.model import Fusion, TowerFeatures
from stock import mixed, pixels
from tiny import write_encoder, write_fusion

LONG = "cat dog sofa tree " * 12
SHORT = Document("short", "a cat", pixels(1))
GIVEN = [
    SHORT,
    Document("long", LONG, pixels(2)),
    Document("words", "the red sofa"),
    Document("picture", image=pixels(3)),
    Document("same picture", "dog and tree", pixels(1)),
]


@dataclass(frozen=True)
class Made:
    """A folder, and the model that was exported into it."""

    folder: Path
    model: Fusion

    def load(self, **options: Any) -> FusionEncoder:
        found = encoders.load(f"onnx:{self.folder}", **options)
        assert isinstance(found, FusionEncoder)
        return found


@pytest.fixture(scope="module")
def below(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("below") / "towers")


@pytest.fixture(scope="module", params=["kinds", "mean"])
def made(request: pytest.FixtureRequest, below: Path) -> Made:
    folder = below.parent / request.param
    return Made(folder, write_fusion(folder, below, request.param))


@pytest.fixture(scope="module")
def two(below: Path) -> Made:
    """Queries of two sides."""
    return Made(below.parent / "two", write_fusion(below.parent / "two", below, seed=1))


@pytest.fixture(scope="module")
def encoder(made: Made) -> FusionEncoder:
    return made.load()


def seen(towers: TokenTowers, document: Document) -> list[TowerFeatures]:
    """What the model of torch is given for each passage of a document, alone and without any padding."""
    passages = towers.split([document.text or ""], "document")[0]
    picture = towers.look([read(document.image, towers.frame)]) if document.image is not None else None
    none = torch.zeros(1, 1, towers.dim), torch.zeros(1, 1, dtype=torch.bool)
    cells: tuple[Any, ...] = (torch.zeros(1, 1, 3), none[1], none[0][0])
    if picture is not None:
        grid = torch.from_numpy(picture.cells)
        cells = (grid, torch.ones(grid.shape[:2], dtype=torch.bool), torch.from_numpy(picture.vectors))
    words = [tuple(map(torch.from_numpy, towers.read([passage]))) for passage in passages] or [none]
    return [TowerFeatures(*each, *cells) for each in words]


@torch.no_grad()
def test_what_is_exported_is_what_was_trained(made: Made, encoder: FusionEncoder) -> None:
    vectors, owner = encoder.encode_passages(GIVEN)
    assert vectors.modality.tolist() == [GIVEN[row].modality for row in owner]
    rows = [made.model.document(each).vectors[0].numpy() for given in GIVEN for each in seen(encoder.towers, given)]
    found = np.sum([matrix * vectors.present[part][:, None] for part, matrix in vectors.parts.items()], axis=0)
    np.testing.assert_allclose(found, rows, atol=1e-4)
    assert np.abs(np.diff(found, axis=0)).max(axis=1).min() > 1e-3  # no two are alike


@torch.no_grad()
def test_what_is_exported_on_the_towers_of_mini_is_what_was_trained(tmp_path: Path) -> None:
    made = Made(tmp_path, write_fusion(tmp_path, encoders.MINI))
    encoder = made.load()
    document = Document("a", "a cat on a red sofa", pixels(4))
    (row,) = encoder.encode_documents([document]).parts["image+text"]
    (given,) = seen(encoder.towers, document)
    np.testing.assert_allclose(row, made.model.document(given).vectors[0].numpy(), atol=1e-4)
    assert encoder.encode_queries(["a red sofa"]).dim == encoder.dim == 768
    assert np.isfinite(encoder.matcher().scores("a red sofa", [document])).all()


def test_text_and_image_together_have_one_vector_which_is_none_of_theirs_alone(encoder: FusionEncoder) -> None:
    alone = encoder.encode_documents([Document("t", SHORT.text), Document("i", image=SHORT.image)])
    together = encoder.encode_documents([SHORT])
    assert (together.modality.tolist(), alone.modality.tolist()) == (["image+text"], ["text", "image"])
    assert [part for part, there in together.present.items() if there[0]] == ["image+text"]
    row = together.parts["image+text"][0]
    assert max(float(row @ alone.parts["text"][0]), float(row @ alone.parts["image"][1])) < 0.99


def test_a_long_document_is_the_unit_mean_of_its_passages_beside_the_picture(encoder: FusionEncoder) -> None:
    passages = encoder.encode_passages([GIVEN[1]])[0].parts["image+text"]
    assert len(passages) == len(encoder.split(LONG)) > 3
    mean = passages.mean(axis=0)
    whole = encoder.encode_documents([GIVEN[1]]).parts["image+text"][0]
    np.testing.assert_allclose(whole, mean / np.linalg.norm(mean), atol=1e-5)


def test_what_else_is_asked_does_not_change_a_query(made: Made) -> None:
    queries = [Query("a cat"), Query(LONG), Query(image=pixels(1)), Query("dog", pixels(2)), Query("the red sofa")]
    forgetful = made.load(cache=encoders.MemoryCache(limit=0))
    together = forgetful.encode_queries(queries)
    assert together.modality.tolist() == ["text", "text", "image", "image+text", "text"]
    for row, query in enumerate(queries):
        alone = forgetful.encode_queries([query]).parts[query.modality][0]
        np.testing.assert_allclose(together.parts[query.modality][row], alone, atol=1e-5)


@torch.no_grad()
def test_a_query_of_two_sides_reads_each_sides_words_apart(two: Made) -> None:
    encoder = two.load()
    towers = encoder.towers
    for text in ("a cat sits on the red sofa", "dog", "tree and house and grass"):
        (passage,) = towers.split([text], "query")[0]
        whole = [torch.from_numpy(each) for each in towers.read([passage])]
        logits = two.model.chooser(*whole)[0, 1:-1].numpy()
        asks = [
            [token for token, one in zip(text.split(), side, strict=True) if one] for side in chosen_sides(logits).T
        ]
        assert encoder.sides(text) == {"text": " ".join(asks[0]), "image": " ".join(asks[1])}
        sides: list[Any] = []
        for words in asks:
            none = [torch.zeros(1, 1, towers.dim), torch.zeros(1, 1, dtype=torch.bool)]
            states = towers.read(towers.split([" ".join(words)], "query")[0]) if words else None
            sides += none if states is None else [torch.from_numpy(each) for each in states]
        row = two.model.query(*sides).vectors[0].numpy()
        np.testing.assert_allclose(encoder.encode_queries([text]).parts["text"][0], row, atol=1e-4)


def test_a_token_asks_for_what_is_above_0_or_else_for_the_larger() -> None:
    logits = np.random.default_rng(0).normal(size=(500, 2))
    asks = chosen_sides(logits)
    assert asks.any(axis=1).all()
    positive = (logits > 0).any(axis=1)
    np.testing.assert_array_equal(asks[positive], logits[positive] > 0)
    np.testing.assert_array_equal(asks[~positive].argmax(axis=1), logits[~positive].argmax(axis=1))
    assert (asks[~positive].sum(axis=1) == 1).all()


def test_a_model_that_does_not_part_its_queries_asks_everything_of_both(below: Path) -> None:
    folder = below.parent / "whole"
    write_fusion(folder, below, "mean")
    assert Made(folder, None).load().sides("a red sofa") == {"text": "a red sofa", "image": "a red sofa"}  # type: ignore[arg-type]


@torch.no_grad()
def test_a_picture_asks_for_the_image_and_counts_as_much_as_the_words_beside_it(two: Made) -> None:
    encoder = two.load()
    vector = torch.from_numpy(encoder.towers.look([read(pixels(5), encoder.towers.frame)]).vectors)[None]  # (1, 1, d)
    there = torch.ones(1, 1, dtype=torch.bool)
    assert encoder.sides(Query(image=pixels(5))) == {"text": "", "image": ""}
    (row,) = encoder.encode_queries([Query(image=pixels(5))]).parts["image"]
    nothing = torch.zeros_like(vector), ~there
    np.testing.assert_allclose(row, two.model.query(*nothing, vector, there).vectors[0].numpy(), atol=1e-4)
    fed = encoder.query.feed(
        [VectorInput(encoder.towers.split(["red cat"], "query")[0][0], read(pixels(5), encoder.towers.frame))]
    )
    words, mask = fed.sides["words_1"][0], fed.sides["mask_1"][0]
    assert mask[-1]
    assert not fed.sides["words_0"].shape[1] > fed.sides["words_1"].shape[1]  # the picture is on the image's side alone
    np.testing.assert_allclose(np.linalg.norm(words[-1]), max(mask[:-1].sum(), 1), rtol=1e-4)
    if mask[:-1].any():
        np.testing.assert_allclose(np.linalg.norm(words[:-1][mask[:-1]].mean(axis=0)), 1, rtol=1e-4)


ECHO = (0.5, 0.25)


@pytest.fixture
def echoing(two: Made, tmp_path: Path) -> FusionEncoder:
    """The same models with an echo."""
    name = changed(two, tmp_path / "echoing", "echo = [0.0, 0.0]", f"echo = {list(ECHO)}")
    return Made(Path(name.removeprefix("onnx:")), two.model).load()


def sided(encoder: FusionEncoder, side: str) -> str:
    """Return a query whose words are all about one side; skip the test if the model knows none."""
    for said in ("a cat", "the red sofa", "dog", "tree", "a red dog", "sofa and tree", "blue", "the", "cat", "on"):
        sides = encoder.sides(said)
        if sides[side] and not any(words for name, words in sides.items() if name != side):
            return said
    pytest.skip(f"no words are about the {side}")


@pytest.mark.parametrize("side", ["text", "image"])
def test_words_about_one_part_are_compared_with_the_other_by_the_echo(
    two: Made, echoing: FusionEncoder, side: str
) -> None:
    plain, own = two.load(), int(side == "image")
    said = sided(plain, side)
    assert echoing.sides(said) == plain.sides(said)
    assert echoing.identity != plain.identity
    halves = np.split(plain.encode_queries([said]).parts["text"][0], 2)
    assert not halves[1 - own].any()
    found = np.split(echoing.encode_queries([said]).parts["text"][0], 2)
    assert np.linalg.norm(np.concatenate(found)) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(found[own] / np.linalg.norm(found[own]), halves[own], atol=1e-4)
    fed = echoing.query.feed([VectorInput(echoing.towers.split([said], "query")[0][0])])
    raw = np.split(echoing.query.model.run(fed.sides)[0], 2)
    ratio = np.linalg.norm(found[1 - own]) / np.linalg.norm(found[own])
    assert ratio == pytest.approx(ECHO[own] * np.linalg.norm(raw[1 - own]) / np.linalg.norm(raw[own]), rel=1e-3)
    added = echoing.query.added(VectorInput(echoing.towers.split([said], "query")[0][0]))
    np.testing.assert_allclose(added.shares.sum(axis=0), np.concatenate(found), atol=1e-4)


@pytest.mark.parametrize("side", ["text", "image"])
def test_the_matcher_adds_the_logit_of_the_other_side_by_the_echo(two: Made, echoing: FusionEncoder, side: str) -> None:
    plain, own = two.load(), int(side == "image")
    said = sided(plain, side)
    found, before = echoing.matcher().scores(said, [SHORT]), plain.matcher().scores(said, [SHORT])
    inputs = echoing.matcher().query_inputs(Query(said))
    assert [one.weight for one in inputs] == ([1.0, ECHO[0]] if own == 0 else [ECHO[1], 1.0])
    matcher = echoing.matcher()
    (item,) = (item for _, item in matcher.inputs([SHORT]))
    other = matcher.logits([inputs[1 - own]], matcher.documents.fuse([item]))
    np.testing.assert_allclose(found, before + other, atol=1e-3)


def test_words_beside_a_picture_do_not_echo_to_its_side(echoing: FusionEncoder) -> None:
    passage = echoing.towers.split([sided(echoing, "text")], "query")[0][0]
    fed = echoing.query.feed([VectorInput(passage, read(pixels(1), echoing.towers.frame)), VectorInput(passage)])
    np.testing.assert_allclose(fed.weights, np.array([[1.0, 1.0], [1.0, ECHO[0]]]))
    assert fed.sides["mask_1"][0].sum() == 1  # the picture alone


def test_weights_of_what_is_one_vector_are_refused(encoder: FusionEncoder) -> None:
    with pytest.raises(BadInput, match="query 1: tiny-fusion makes one vector of words and picture"):
        encoder.encode_queries(["a", Query("cat", pixels(1), weights={"text": 2, "image": 1})])


def test_a_damaged_picture_takes_its_document_out_and_no_other(encoder: FusionEncoder, tmp_path: Path) -> None:
    for name in ("bad.png", "again.png"):
        (tmp_path / name).write_bytes(b"no picture")
    bad = [Document("a", LONG, tmp_path / "bad.png"), Document("b", LONG, tmp_path / "again.png")]
    skipped: list[int] = []
    vectors, owner = encoder.encode_passages(
        [bad[0], SHORT, bad[1], Document("c", image=tmp_path / "none.png")], skip=lambda row, _: skipped.append(row)
    )
    assert (sorted(skipped), owner.tolist()) == ([0, 2, 3], [1])
    np.testing.assert_allclose(vectors.parts["image+text"], encoder.encode_documents([SHORT]).parts["image+text"])
    with pytest.raises(BadImage, match=r"document 'a': .*bad\.png is not an image"):
        encoder.encode_documents([SHORT, bad[0]])


def test_a_query_is_not_taken_for_a_document_that_says_the_same(encoder: FusionEncoder) -> None:
    asked, held = encoder.encode_queries(["a cat"]), encoder.encode_documents([Document("a", "a cat")])
    assert np.abs(asked.parts["text"] - held.parts["text"]).max() > 1e-3


def changed(made: Made, folder: Path, old: str, new: str) -> str:
    shutil.copytree(made.folder, folder)
    text = (folder / DESCRIPTION).read_text()
    assert old in text
    (folder / DESCRIPTION).write_text(text.replace(old, new).replace('"../towers"', f'"{made.folder.parent}/towers"'))
    return f"onnx:{folder}"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('identity = "', 'identity = "0', "was trained on towers with the checksum 0.* or train it again on this one"),
        ("sides = 2", "sides = 3", "sides is 3; it must be one of"),
        ("\necho = [0.0, 0.0]", "\necho = [0.5, 2]", r"echo is \[0.5, 2\]; it must be two numbers from 0 to 1"),
        ("sides = 2", "side = 2", "no setting of .fusion. is called 'side'. Did you mean 'sides'"),
        ('text = "each"', 'text = "eech"', "has no tensor called 'eech'"),
        ('"../towers"', '"minni"', r"minni is not a folder"),
        (
            "[fusion]",
            '[text]\nmodel = "a"\ntokenizer = "b"\nlength = 3\n[fusion]',
            r"and its own \[text\] or \[image\]",
        ),
        ('"match.onnx" = "', '"match.onnx" = "0', r"match\.onnx is damaged"),
        ('"match.onnx" = ', '"query.onn" = ', r"no checksum of match\.onnx"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(two: Made, tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        encoders.load(changed(two, tmp_path / "changed", old, new))


@torch.no_grad()
def test_a_matcher_gives_the_trained_models_logit_of_the_best_passage(two: Made) -> None:
    encoder, asked = two.load(), "a cat on the red sofa"
    found = encoder.matcher().scores(Query(asked), GIVEN)
    query = torch.from_numpy(encoder.encode_queries([asked]).parts["text"])
    fed = encoder.query.feed([VectorInput(encoder.towers.split([asked], "query")[0][0])])
    words = [torch.from_numpy(each) for each in fed.sides.values()]
    for document, logit in zip(GIVEN, found, strict=True):
        fused = [two.model.document(each) for each in seen(encoder.towers, document)]
        right = [float(two.model.matcher(f.tokens, f.masks, alike(query, f.vectors, 2), *words)) for f in fused]
        assert float(logit) == pytest.approx(max(right), abs=1e-3)


def test_a_matchers_batches_do_not_matter_and_what_cannot_be_read_is_nan(two: Made, tmp_path: Path) -> None:
    gone = [Document("gone", image=tmp_path / "gone.png"), Document("own", vectors={"text": np.ones(2)})]
    left = Document("left", "a cat", tmp_path / "gone.png")
    one, many = (two.load(batch=batch).matcher().scores("cat", [*GIVEN, *gone, left]) for batch in (1, 32))
    np.testing.assert_allclose(one, many, atol=1e-3)
    assert np.isnan(one).tolist() == [False] * 5 + [True, True, False]
    (words,) = two.load().matcher().scores("cat", [Document("words", "a cat")])
    assert one[-1] == pytest.approx(words, abs=1e-3)
    assert len(two.load().matcher().scores("cat", [])) == 0
    with pytest.raises(BadInput, match="A matcher reads words, and the query has none"):
        two.load().matcher().scores(Query(image=pixels(1)), GIVEN)


@pytest.fixture
def things(two: Made, tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", f"onnx:{two.folder}", follow=False) as opened:
        opened.add(mixed(45))
        yield opened


def test_a_collection_is_filled_calibrated_searched_and_changed(things: Collection) -> None:
    things.calibrate("center+nnn(k=8)+standardize")
    asked = [Query("a red cat"), Query(image=pixels(500)), Query("dog", pixels(501))]
    for query in asked:
        hits = things.search(query, k=45, explain=True)
        assert len(hits) == 45
        assert {hit.modality for hit in hits} == {"image", "image+text", "text"}
    things.update(Document("d0-2", text="tree tree grass"))
    assert things.get("d0-2").modality == "image+text"
    before, after = (
        [hit.score for hit in things.search(Query(words), k=45, calibration="none") if hit.id == "d0-2"]
        for words in ("sofa sofa cat", "tree tree grass")
    )
    assert after > before  # the new words are searched
    things.delete("d0-2")
    assert len(things.search("dog", k=45)) == 44
    assert things.verify() == []


def test_a_device_that_is_not_there_is_refused(two: Made) -> None:
    with pytest.raises(BadInput, match="onnxruntime has no device 'tpu'"):
        two.load(device="tpu")
