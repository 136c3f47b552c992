"""Chats made of claims: every word is kept, half of them on the screenshot alone, and the same seed says the same."""

from __future__ import annotations

import io
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from isthmus.errors import BadInput, UnknownName
from isthmus.evaluate import chat
from isthmus.evaluate.chat import FEWEST, Chat, Split, chats, drawn
from isthmus.evaluate.chat.base import LINE, WIDTH, wrapped
from isthmus.queries.phrases import content_words

FOLDER = Path(chat.__file__).parent
CLAIMS = {
    "vitamin": "Vitamin D deficiency raises the risk of asthma attacks.",
    "twice": "Cells that lack Notch signals become B cells, and cells with Notch become T cells.",
    "slash": "High/low doses of aspirin: low doses help, high ones harm.",
    "one": "Anosmia",
    "none": "It is not that.",
    "empty": "",
    "long": " ".join(f"gene{number} binds" for number in range(400)),
    "letters": "pneumono" * 40,
    "foreign": "Вакцины снижают риск 猫 のノミ 🐱 naïve façade β-catenin",
}
WORDS = st.text("abcXYZß0.,-/'猫🐱 \n", max_size=60)


def lines(split: str) -> dict[str, list[str]]:
    return tomllib.loads((FOLDER / f"{split}.toml").read_text("utf-8"))


def lower(text: str) -> set[str]:
    return {word.lower() for word in content_words(text)}


def noise(split: str) -> set[str]:
    """Every word that may stand around a claim; the clock and the battery are numbers."""
    said = {word for several in lines(split).values() for line in several for word in lower(line)}
    return said | {str(number) for number in range(100)} | {f"{number:02d}" for number in range(10)}


def check(made: Chat, split: str, share: float) -> None:
    """All words are there, no word is on both sides, and that share of them is on the screen."""
    by_chance, meant = noise(split), lower(made.claim)
    text, screen = lower(made.text), lower(made.screen)
    assert meant <= text | screen
    assert not ((meant - by_chance) & text & screen)
    if not meant & by_chance and not any(len(content_words(word)) > 1 for word in made.claim.split()):
        assert len(meant & screen) == int(len(meant) * share)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", CLAIMS)
def test_every_content_word_is_in_the_message_or_on_the_screen_and_never_on_both(
    name: str, share: float, split: Split
) -> None:
    for seed in range(5):
        (made,) = chats({name: CLAIMS[name]}, split=split, seed=seed, hidden=share)
        assert (made.id, made.claim) == (name, CLAIMS[name])
        check(made, split, share)


@settings(deadline=None, max_examples=60)
@given(claim=WORDS, seed=st.integers(0, 2**40), share=st.floats(0, 1))
def test_so_it_is_with_any_claim(claim: str, seed: int, share: float) -> None:
    (made,) = chats({"c": claim}, split="test", seed=seed, hidden=share)
    check(made, "test", share)
    assert made == chats({"c": claim}, split="test", seed=seed, hidden=share)[0]


def test_a_word_that_a_claim_says_twice_is_hidden_twice() -> None:
    hidden = [lower(chats(CLAIMS, split="test", seed=seed)[1].screen) for seed in range(20)]
    assert any("cells" in words for words in hidden)
    assert any("cells" not in words for words in hidden)
    for seed in range(20):
        made = chats(CLAIMS, split="test", seed=seed)[1]
        assert [made.text.lower().count("cells"), made.screen.lower().count("cells")] in ([4, 0], [0, 4])


def test_the_words_on_the_screen_stand_in_their_order() -> None:
    (made,) = chats({"c": "alpha beta gamma delta epsilon zeta"}, split="test", hidden=1.0)
    assert "alpha beta gamma delta epsilon zeta" in made.lines


def test_one_word_stays_in_the_message_and_nothing_needs_no_screenshot() -> None:
    one, none = chats({name: CLAIMS[name] for name in ("one", "none")}, split="test")
    assert "Anosmia" in one.text
    assert "It is not that" in none.text
    assert len(none.lines) >= 4  # a screenshot with nothing of the claim


def test_the_same_seed_makes_the_same_chats_and_another_others() -> None:
    assert chats(CLAIMS, split="train", seed=3) == chats(CLAIMS, split="train", seed=3)
    others = zip(chats(CLAIMS, split="train", seed=3), chats(CLAIMS, split="train", seed=4), strict=True)
    assert all(a.text != b.text for a, b in others)
    assert chats({}, split="train") == []


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_message_has_noise_enough_and_no_gap_left_open(split: Split) -> None:
    for seed in range(40):
        for made in chats(CLAIMS, split=split, seed=seed, hidden=1.0):
            left = [word for word in made.claim.split() if not content_words(word)]
            assert len(made.text.split()) - len(left) >= FEWEST
            assert "{}" not in made.text


def test_everyday_sentences_are_among_the_tangents_and_never_hold_the_claim() -> None:
    several = [
        chats({"c": "Anosmia"}, split="train", seed=seed, tangents=["A dog runs {} on grass ."]) for seed in range(40)
    ]
    said = [made.text for (made,) in several if "A dog runs" in made.text]
    assert 5 < len(said) < 40
    assert all("A dog runs {} on grass ." in text and text.count("Anosmia") == 1 for text in said)


def test_train_and_test_share_no_line() -> None:
    train, test = lines("train"), lines("test")
    assert set(train) == set(test)
    flat = [{line.lower().strip() for several in split.values() for line in several} for split in (train, test)]
    assert flat[0] & flat[1] == set()
    for split in (train, test):
        assert all(line.split().count("{}") == 1 for line in split["hedges"])
        assert not any("{}" in line for kind, several in split.items() if kind != "hedges" for line in several)
        assert all(len(set(several)) == len(several) for several in split.values())


@pytest.mark.parametrize("name", CLAIMS)
def test_a_screenshot_is_a_png_as_high_as_its_lines_and_the_same_each_time(name: str) -> None:
    (made,) = chats({name: CLAIMS[name]}, split="train", hidden=1.0)
    assert made.image == made.image == drawn(made.lines)
    with Image.open(io.BytesIO(made.image)) as picture:
        rows = sum(len(wrapped(line)) for line in made.lines)
        assert (picture.format, picture.size) == ("PNG", (WIDTH, LINE * (rows + 1)))
        assert min(picture.convert("L").tobytes()) < 100  # something is written


@settings(deadline=None)
@given(st.text(max_size=300))
def test_a_wrapped_line_loses_nothing_and_fits(line: str) -> None:
    rows = wrapped(line)
    assert "".join("".join(rows).split()) == "".join(line.split())
    assert max(map(len, rows)) <= 60


def test_a_share_that_is_none_and_a_split_that_is_not_there_are_refused() -> None:
    with pytest.raises(BadInput, match="from 0 to 1"):
        chats(CLAIMS, split="test", hidden=1.5)
    with pytest.raises(UnknownName, match="Did you mean 'train'"):
        chats(CLAIMS, split="trian")  # type: ignore[arg-type]
