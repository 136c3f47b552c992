"""Long texts become passages, and nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from isthmus.encoders.byte_splitter import byte_splitter
from isthmus.encoders.texts import Splitter, Strings, TextPassage
from isthmus.encoders.word_splitter import WordSplitter
from isthmus.errors import BadFile
from tiny import LENGTH, WORDS, tokenizer

SPLITTER = Splitter.of(tokenizer(), LENGTH, "tiny")
ROOM = LENGTH - 2
CLS, SEP = 2, 3


def inner(passages: list[TextPassage]) -> list[int]:
    return [token for passage in passages for token in passage.tokens.tolist()[1:-1]]


def whole(text: str) -> list[int]:
    return list(SPLITTER.tokenizer.encode(text, add_special_tokens=False).ids)


def test_a_short_text_is_one_passage_framed_by_the_tokenizers_own_tokens() -> None:
    ((passage,),) = SPLITTER.split(["a cat sits"])
    assert (passage.start, passage.end) == (0, 10)
    assert passage.tokens.tolist() == [CLS, 4, 8, 14, SEP]


def test_settings_saved_with_a_tokenizer_cut_and_pad_nothing() -> None:
    assert len(tokenizer().encode("cat " * 30).ids) == 6
    assert len(inner(SPLITTER.split(["cat " * 30])[0])) == 30


@given(st.lists(st.sampled_from([*WORDS, "cats", "doging", "zebra", "!?", "🐱‍👤", "\u202bשלום\u202c"]), max_size=90))
def test_the_passages_of_any_text_hold_all_its_tokens_once_and_in_order(words: list[str]) -> None:
    text = " ".join(words)
    (passages,) = SPLITTER.split([text])
    assert inner(passages) == whole(text)
    assert all(3 <= len(passage.tokens) <= LENGTH for passage in passages)
    if passages:
        assert "".join(text[p.start : p.end] for p in passages) == text
        assert len(passages) <= -(-len(whole(text)) // ROOM) + 1 + len(passages) // 2


def test_passages_have_about_the_same_length() -> None:
    (passages,) = SPLITTER.split(["cat " * (ROOM + 1)])
    assert [len(p.tokens) - 2 for p in passages] == [6, 5]


def test_a_passage_ends_where_a_word_does() -> None:
    text = "a " * 5 + "catsing " + "a " * 4  # cat ##s ##ing would lie across the middle
    (passages,) = SPLITTER.split([text])
    assert [text[p.start : p.end] for p in passages] == ["a " * 5, "catsing " + "a " * 4]


def test_a_word_longer_than_a_passage_is_divided_not_cut() -> None:
    text = "cat" + "s" * 25
    (passages,) = SPLITTER.split([text])
    assert inner(passages) == whole(text) == [8] + [24] * 25
    assert "".join(text[p.start : p.end] for p in passages) == text


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000", "\u200b", "\0\x01"])
def test_a_text_with_nothing_to_read_has_no_passage(text: str) -> None:
    assert SPLITTER.split([text]) == [[]]


def test_a_hundred_thousand_words_are_read_to_the_end() -> None:
    words = np.random.default_rng(0).choice(WORDS, 100_000)
    (passages,) = SPLITTER.split([" ".join(words)])
    assert len(passages) == 100_000 // ROOM
    assert len(inner(passages)) == 100_000


def test_a_prefix_stands_before_every_passage_and_takes_its_room() -> None:
    (passages,) = SPLITTER.split(["cat " * 20], prefix="the red")
    assert [p.tokens.tolist()[:3] for p in passages] == [[CLS, 5, 10]] * 3
    assert sum(len(p.tokens) - 4 for p in passages) == 20
    with pytest.raises(BadFile, match="leaves no room"):
        SPLITTER.split(["cat"], prefix="the " * 10)


def test_a_tokenizer_that_frames_nothing_or_leaves_no_room_is_understood() -> None:
    plain = Tokenizer(models.WordLevel({"x": 0, "?": 1}, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    assert [p.tokens.tolist() for p in Splitter.of(plain, 2, "plain").split(["x y x"])[0]] == [[0, 1], [0]]
    with pytest.raises(BadFile, match="special tokens around each passage fill it"):
        Splitter.of(tokenizer(), 2, "tiny")


def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BadFile, match=r"tokenizer\.json is not a tokenizer"):
        Splitter.from_file(tmp_path / "tokenizer.json", 8)


def test_texts_split_together_have_the_passages_they_have_alone() -> None:
    splitter = Splitter.of(tokenizer(), 8, "tiny")
    texts = ["a cat", "", "a cat on the red sofa and a dog on the grass " * 4, "\t", "a dog", "x" * 300]
    assert splitter.split(texts) == [splitter.split([text])[0] for text in texts]
    strings = Strings(splitter, {"document": "", "query": "a dog "})
    for role in ("document", "query"):
        assert strings.split(texts, role) == [strings.split([text], role)[0] for text in texts]


@pytest.mark.parametrize("text", ["a cat" + " " * 90 + "a dog", " " * 90 + "a cat", "a cat" + "\n" * 90])
def test_white_space_longer_than_a_passage_is_no_passage(text: str) -> None:
    strings = Strings(byte_splitter(8, "tiny"), {"document": "", "query": ""})
    words = WordSplitter(lambda part: [0] * len(part), 16)
    for passages in (strings.split([text], "document")[0], words.split([text])[0]):
        pieces = [text[one.start : one.end] for one in passages]
        assert all(piece.strip() for piece in pieces)
        assert " ".join(pieces).split() == text.split()
