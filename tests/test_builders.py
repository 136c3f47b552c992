"""Corpora for experiments: their ratios, what is replaced, how fusion is weighed and how ranks fall."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from isthmus import Document
from isthmus.errors import BadInput
from isthmus.evaluate.builders import LINES, fusion_weights, mixed, penalized, pushed_down, replaced, screenshot
from isthmus.types import Vectors

PAIRS = [Document(f"d{n}", f"text {n}", f"{n}.jpg", {"n": n}) for n in range(100)]
TEXTS = [Document(f"d{n}", f"text {n}") for n in range(100)]


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    ("ratio", "counts"),
    [((1, 1, 1), (33, 34, 33)), ((7, 2, 1), (70, 20, 10)), ((1, 0, 0), (100, 0, 0)), ((0.5, 0, 0.5), (50, 0, 50))],
)
def test_a_mixed_corpus_has_the_ratio_it_was_asked_for(ratio: tuple[float, ...], counts: tuple[int, int, int]) -> None:
    modality = Counter(document.modality for document in mixed(PAIRS, ratio, rng=rng()))
    assert (modality["text"], modality["image"], modality["image+text"]) == counts


def test_mixing_keeps_order_ids_and_metadata_and_the_parts_it_keeps() -> None:
    made = mixed(PAIRS, rng=rng())
    assert [(document.id, document.metadata) for document in made] == [(pair.id, pair.metadata) for pair in PAIRS]
    for document, pair in zip(made, PAIRS, strict=True):
        assert document.text in (None, pair.text)
        assert document.image in (None, pair.image)


def test_the_same_seed_mixes_in_the_same_way_and_another_does_not() -> None:
    assert mixed(PAIRS, rng=rng()) == mixed(PAIRS, rng=rng())
    assert mixed(PAIRS, rng=rng()) != mixed(PAIRS, rng=np.random.default_rng(8))


def test_a_document_of_one_part_is_not_mixed() -> None:
    made = mixed([*TEXTS[:3], *PAIRS[3:6]], (0, 1, 0), rng=rng())
    assert [document.modality for document in made] == ["text"] * 3 + ["image"] * 3


@pytest.mark.parametrize("ratio", [(1, 1), (0, 0, 0), (1, -1, 1), (1, float("nan"), 1)])
def test_a_ratio_that_is_none_is_refused(ratio: tuple[float, ...]) -> None:
    with pytest.raises(BadInput, match="texts : images : both"):
        mixed(PAIRS, ratio, rng=rng())


def test_a_larger_p_replaces_what_a_smaller_one_does_and_more() -> None:
    photos = {text.id: f"{text.id}.jpg" for text in TEXTS}
    steps = [
        {document.id for document in replaced(TEXTS, photos, p, rng=rng()) if document.modality == "image"}
        for p in (0.0, 0.3, 0.6, 1.0)
    ]
    assert [len(step) for step in steps][:: len(steps) - 1] == [0, 100]
    assert all(fewer < more for fewer, more in pairwise(steps))


def test_only_texts_are_replaced_and_each_by_its_own_image() -> None:
    made = replaced([TEXTS[1], PAIRS[2]], {"d1": "one.jpg"}, 1.0, rng=rng())
    assert made == [Document("d1", image="one.jpg"), PAIRS[2]]
    with pytest.raises(BadInput, match="no image for 'd1'"):
        replaced([TEXTS[1]], {}, 1.0, rng=rng())
    with pytest.raises(BadInput, match="probability"):
        replaced([TEXTS[1]], None, 1.5, rng=rng())


def test_without_images_a_text_becomes_a_picture_of_itself() -> None:
    (made,) = replaced([TEXTS[1]], None, 1.0, rng=rng())
    assert made.modality == "image"
    assert made.image == screenshot("text 1") != screenshot("text 2")


def drawn(text: str) -> Image.Image:
    return Image.open(io.BytesIO(screenshot(text)))


def test_a_screenshot_wraps_its_text_and_grows_downwards() -> None:
    short, long, word = drawn("a cat"), drawn("a cat and a dog " * 40), drawn("w" * 400)
    assert short.width == long.width == word.width
    assert short.height < min(word.height, long.height)
    ink = np.asarray(word) < 128
    assert ink.any()
    assert not ink[:, :8].any()
    assert not ink[:, -8:].any()


def test_a_screenshot_of_a_book_ends_somewhere_and_one_of_nothing_is_blank() -> None:
    assert drawn("line\n" * 10 * LINES).height == drawn("line\n" * LINES).height
    assert np.asarray(drawn("")).min() == 255


def test_fusion_weighs_documents_of_both_parts_alone() -> None:
    vectors = Vectors(
        {"text": np.eye(3), "image": np.ones((3, 3))},
        {"text": np.array([True, True, False]), "image": np.array([False, True, True])},
    )
    for alpha, made in fusion_weights(vectors, [0.0, 0.25, 1.0]):
        assert made.weights is not None
        assert made.weights["text"].tolist() == [1, alpha, 1]
        assert made.weights["image"].tolist() == [1, 1 - alpha, 1]
        assert made.modality.tolist() == vectors.modality.tolist()
    with pytest.raises(BadInput, match="from 0 to 1"):
        list(fusion_weights(vectors, [1.2]))
    with pytest.raises(BadInput, match="a text and another part"):
        list(fusion_weights(Vectors.of(np.eye(2), "text"), [0.5]))


def test_the_module_can_be_imported_first() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import isthmus.evaluate.builders"], capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_several_other_parts_share_what_the_text_leaves() -> None:
    there = np.array([True, True, False])
    vectors = Vectors(
        {"text": np.eye(3), "video": np.ones((3, 3)), "audio": np.ones((3, 3))},
        {"audio": there},
    )
    [(_, made)] = fusion_weights(vectors, [0.5])
    assert made.weights is not None
    assert made.weights["text"].tolist() == [0.5] * 3
    assert made.weights["audio"].tolist()[:2] == [0.25, 0.25]
    assert made.weights["video"].tolist() == [0.25, 0.25, 0.5]


def test_documents_of_another_cone_push_the_right_one_down_and_fair_ones_do_not() -> None:
    own = rng().normal(size=(400, 100))
    right = own.max(axis=1)
    alike = np.random.default_rng(1).normal(size=(400, 100))
    fair = pushed_down(right, own, alike, [0, 50, 100], rng=rng())
    apart = pushed_down(right, own, alike + 2, [0, 50, 100], rng=rng())
    assert fair[0].tolist() == apart[0].tolist() == [1] * 400
    assert fair[2].mean() < 3
    assert apart[1].mean() > 10
    assert (np.diff(apart, axis=0) >= 0).all()
    assert apart.shape == (3, 400)


def test_a_rank_grows_as_much_as_modality_blind_scores_say() -> None:
    scores = rng().random((500, 200))
    right = scores[:, 0]
    ranks = pushed_down(right, scores[:, :100], scores[:, 100:], [0, 100], rng=rng())
    assert np.isclose((ranks[1] - 1).mean(), 2 * (ranks[0] - 1).mean(), rtol=0.05)


def test_impossible_pushes_are_refused() -> None:
    own = np.ones((2, 3))
    with pytest.raises(BadInput, match="0 to 3"):
        pushed_down(np.ones(2), own, own, [4], rng=rng())
    with pytest.raises(BadInput, match="right documents"):
        pushed_down(np.ones(3), own, own, [1], rng=rng())
    with pytest.raises(BadInput, match="down"):
        penalized(own, np.array([True]))


def test_penalized_documents_come_last_and_the_rest_stays() -> None:
    scores = rng().random((5, 6)) + 0.1
    down = np.array([True, False, False, True, False, False])
    made = penalized(scores, down)
    assert (made[:, down].max(axis=1) < made[:, ~down].min(axis=1)).all()
    assert (made[:, ~down] == scores[:, ~down]).all()
