"""What forge-mini reads: the words of a text, their tokens, and what they look like."""

from __future__ import annotations

import numpy as np
import pytest

from isthmus.align.base import DESCRIPTION, joined
from isthmus.align.reading import ROOM, SIGNS, Window, padded, reader
from isthmus.train.forge_mini import DIM


def words(text: str) -> list[str]:
    return [word for window in reader().read(text) for word in window.words]


def check(window: Window) -> None:
    """Words and their first tokens line up, and every token has its inputs."""
    lengths = np.diff([*window.first, len(window.inputs)])
    assert len(window.first) == len(window.words)
    assert window.inputs.shape == (lengths.sum(), DIM + SIGNS)
    assert 0 < len(window.inputs) <= ROOM
    assert np.isfinite(window.inputs).all()
    for word, length in zip(window.words, lengths, strict=True):
        alone = reader().tokenizer.encode(word.encode("utf-8", "replace").decode(), add_special_tokens=False)
        assert length == min(ROOM, len(alone.ids))


def test_a_text_is_read_as_its_words_and_tokens_line_up_with_them() -> None:
    (window,) = reader().read("Hyperlipidaemia, in 14 cats!")
    assert window.words == ["Hyperlipidaemia,", "in", "14", "cats!"]
    check(window)


def test_what_a_word_looks_like_stands_beside_its_vector() -> None:
    (window,) = reader().read("Does HDL help Ann? Yes, 3x\nImage Description: it does")
    caption, digit, name, capitals, opens, stop, length = window.inputs[window.first, DIM : DIM + 7].T
    assert window.words == ["Does", "HDL", "help", "Ann?", "Yes,", "3x", "it", "does"]
    assert caption.tolist() == [0, 0, 0, 0, 0, 0, 1, 1]
    assert digit.tolist() == [0, 0, 0, 0, 0, 1, 0, 0]
    assert name.tolist() == [0, 1, 0, 1, 0, 0, 0, 0]
    assert capitals.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert opens.tolist() == [1, 0, 0, 0, 1, 0, 1, 0]
    assert stop.tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    np.testing.assert_allclose(length * 20, [4, 3, 4, 4, 4, 2, 2, 4], rtol=1e-6)


def test_the_context_of_a_word_stands_there_too() -> None:
    (window,) = reader().read("So the HDL, hm. HDL\nImage Description: the LDL helps hdl")
    small, again, both, _, place, long, share, size, stops, start = window.inputs[window.first, DIM + 7 :].T
    assert window.words == ["So", "the", "HDL,", "hm.", "HDL", "the", "LDL", "helps", "hdl"]
    assert small.tolist() == [1, 1, 0, 0, 0, 1, 0, 0, 0]  # a stop word
    assert again.tolist() == [0, 1, 1, 0, 1, 1, 0, 0, 1]  # is said again
    assert both.tolist() == [0, 1, 1, 0, 1, 1, 0, 0, 1]  # in the message and in a caption
    np.testing.assert_allclose(place * 9, range(9), atol=1e-5)
    np.testing.assert_allclose([long[0] * 5, share[0]], [np.log(9), 4 / 9], rtol=1e-5)
    np.testing.assert_allclose(size * 20, [4, 4, 4, 4, 1, 4, 4, 4, 4], rtol=1e-5)
    np.testing.assert_allclose(stops, [0.5, 0.5, 0.5, 0.5, 0, 0.25, 0.25, 0.25, 0.25], rtol=1e-5)
    np.testing.assert_allclose(start * 9, [0, 0, 0, 0, 4, 5, 5, 5, 5], atol=1e-5)


def test_the_mark_before_a_caption_is_no_word_but_inside_a_line_it_is() -> None:
    assert words(joined("what is this", ["a red sofa", "a cat"])) == [
        "what",
        "is",
        "this",
        "a",
        "red",
        "sofa",
        "a",
        "cat",
    ]
    assert words(DESCRIPTION) == []
    assert words("an Image Description: helps") == ["an", "Image", "Description:", "helps"]


def test_a_text_longer_than_a_window_keeps_all_its_words() -> None:
    text = [f"word{number}" for number in range(1000)]
    windows = reader().read(" ".join(text))
    assert len(windows) > 3
    assert [word for window in windows for word in window.words] == text
    for window in windows:
        check(window)


@pytest.mark.parametrize("odd", ["x" * 5000, "a" + "." * 5000, "🐱", "👨‍👩‍👧", "猫" * 900, "\ud800"])
def test_odd_words_are_words(odd: str) -> None:
    windows = reader().read(f"the {odd} sleeps")
    assert [word for window in windows for word in window.words] == ["the", odd, "sleeps"]
    for window in windows:
        check(window)


@pytest.mark.parametrize("text", ["", " \n\t ", "\u200b", "\x00"])
def test_of_nothing_nothing_is_read(text: str) -> None:
    assert reader().read(text) == []


def test_padding_is_told_from_tokens() -> None:
    short, long = reader().read("a cat")[0], reader().read("a cat on a red sofa")[0]
    inputs, mask = padded([short, long])
    assert inputs.shape == (2, 6, DIM + SIGNS)
    assert mask.sum(axis=1).tolist() == [2, 6]
    assert not inputs[0, 2:].any()
