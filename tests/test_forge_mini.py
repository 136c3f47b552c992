"""forge-mini: what it keeps of a query."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.align import mini
from isthmus.align.base import Rewritten, joined
from isthmus.align.mini import ForgeMini
from isthmus.errors import BadFile
from isthmus.evaluate.chat import chats
from isthmus.train.onnx import write
from test_reading import words

TEXTS = st.lists(
    st.sampled_from(
        ["cat", "Sofa", "14", "naïve", "猫", "🐱", "\u200b", "\ud800", "hi,", "…", "Image", "Description:", "\n"]
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def shipped() -> ForgeMini:
    return mini.load()


@pytest.mark.parametrize(
    "query", ["a cat on a red sofa", "two dogs playing in snow", "segmentation fault in numpy", "dogs"]
)
def test_what_is_short_and_clean_stays_as_it_is(query: str, shipped: ForgeMini) -> None:
    assert shipped.rewrite([query]) == [Rewritten(query)]


def test_talk_goes_and_what_is_asked_for_stays(shipped: ForgeMini) -> None:
    (chat,) = chats({"c": "Vitamin D deficiency raises the risk of asthma attacks."}, split="test")
    text = joined(chat.text, [chat.screen])
    (new,) = shipped.rewrite([text])
    assert new.fell_back is None
    assert len(new.text.split()) < len(text.split()) / 2
    assert {"Vitamin", "deficiency", "asthma"} <= set(new.text.split())
    assert shipped.rewrite([text]) == [new]


@settings(deadline=None, max_examples=30)
@given(TEXTS)
def test_each_word_that_is_kept_was_there_in_that_order(several: list[str]) -> None:
    text = " ".join(several)
    (new,) = mini.load().rewrite([text])
    if new.fell_back:
        assert new.text == text
    left = iter(text.split())
    assert all(word in left for word in new.text.split())  # a subsequence: each is looked for behind the one before
    assert [word for word, _ in mini.load().likely(text)] == words(text)
    assert all(0 <= chance <= 1 for _, chance in mini.load().likely(text))


@pytest.mark.parametrize("text", ["", "  ", "\n", "\u200b"])
def test_nothing_stays_nothing_and_says_so(text: str, shipped: ForgeMini) -> None:
    assert shipped.rewrite([text]) == [Rewritten(text, "no word was kept")]
    assert shipped.rewrite([]) == []


def test_three_thousand_words_are_rewritten(shipped: ForgeMini) -> None:
    text = "Hi all, thanks for reading, my cat has asthma since Sunday. " * 272
    assert len(text.split()) > 2990
    (new,) = shipped.rewrite([text])
    assert 0 < len(new.text.split()) < len(text.split())


def test_a_model_of_other_inputs_is_refused(tmp_path: Path) -> None:
    class Narrow(torch.nn.Module):
        def forward(self, inputs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return inputs[..., 0] * mask

    free = {0: "n", 1: "t"}
    given = (torch.zeros(1, 8, 5), torch.ones(1, 8, dtype=torch.bool))
    write(Narrow(), given, tmp_path / "old.onnx", {"inputs": free, "mask": free}, {"logits": free})
    with pytest.raises(BadFile, match=r"reads 5 numbers per token.*Train it again"):
        mini.load(tmp_path / "old.onnx")


@pytest.mark.parametrize(
    "message",
    [
        "Ticket 4411\nPriority: low\nSummary: sourdough starter smells of acetone\nDevice: kiosk\nThanks for looking",
        "hi all, hope you are well. i was wondering about {} if anybody knows, thanks a lot, kind regards, tom".format(
            "sourdough starter that smells of acetone"
        ),
    ],
)
def test_a_message_of_another_style_keeps_what_is_asked_for(message: str, shipped: ForgeMini) -> None:
    (new,) = shipped.rewrite([message])
    assert {"sourdough", "starter", "smells", "acetone"} <= set(new.text.replace(",", "").split())
    assert len(new.text.split()) < len(message.split())


def test_the_shipped_model_is_small() -> None:
    assert mini.MODEL.stat().st_size < 10e6
