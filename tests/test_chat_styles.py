"""Chats in many styles: what is asked for is there, no style of one group is in another, and a seed decides all."""

from __future__ import annotations

import re
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus.errors import BadInput, UnknownName
from isthmus.evaluate.chat import Style, grammar, habits, styled, styles
from isthmus.evaluate.chat.habits import HABITS, MEANT
from isthmus.evaluate.chat.styles import FOLDER, GROUPS
from isthmus.queries.phrases import content_words

EVERY = [style for group in ("train", "dev", "test") for style in styles(group)]
CLAIM = "Zeolites sharpen kumquat orbits near Vilnius"
RNG = np.random.default_rng


def lower(text: str) -> set[str]:
    return {word.lower() for word in content_words(text)}


@pytest.mark.parametrize("style", EVERY, ids=lambda style: style.name)
def test_every_content_word_is_in_the_message_or_on_the_screen_and_no_slot_stays_open(style: Style) -> None:
    for seed in range(25):
        (made,) = styled({"c": CLAIM}, [style], seed=seed, free=["A dog runs ."])
        text, screen = lower(made.text), lower(made.screen)
        assert lower(CLAIM) <= text | screen
        assert not lower(CLAIM) & text & screen
        assert len(lower(CLAIM) & screen) == (6 if style.hidden == 1.0 else 3)
        assert not re.search(r"\{\w+\}", made.text + made.screen)
        assert MEANT not in made.text + made.screen


@pytest.mark.parametrize("style", EVERY, ids=lambda style: style.name)
def test_any_claim_can_be_written_in_any_style(style: Style) -> None:
    for claim in ("", "of the", "Anosmia", "{who} {claim}", "猫 🐱", "a " * 300):
        (made,) = styled({"c": claim}, [style], hidden=0.0)
        assert made.claim == claim
        assert style.hidden or made.lines == ()


def test_groups_share_no_style_and_no_line() -> None:
    names = [style.name for style in EVERY]
    assert len(set(names)) == len(names) >= 20
    read = [tomllib.loads((FOLDER / name).read_text("utf-8")) for name in GROUPS.values()]
    lines = [
        {
            line.lower()
            for several in each["lists"].values()
            for line in several
            if len(line.split()) > 2 and "{" not in line
        }
        for each in read
    ]
    messages = [{line for style in each["styles"].values() for line in style["messages"]} for each in read]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert not lines[first] & lines[second]
        assert not messages[first] & messages[second]


def test_the_same_seed_writes_the_same_and_another_something_else() -> None:
    claims = {str(row): CLAIM for row in range(8)}
    assert styled(claims, EVERY, seed=3) == styled(claims, EVERY, seed=3)
    assert styled(claims, EVERY, seed=3) != styled(claims, EVERY, seed=4)
    assert styled({}, EVERY) == []
    with pytest.raises(BadInput, match="from 0 to 1"):
        styled(claims, EVERY, hidden=2)
    with pytest.raises(UnknownName, match="Did you mean 'test'"):
        styles("tset")


def test_a_slot_of_no_list_is_refused() -> None:
    with pytest.raises(UnknownName, match=r"No list of lines is called 'helo'\. Did you mean 'hello'"):
        grammar.expand("{helo}", {"hello": ["Hi"]}, RNG(0), {})


@settings(deadline=None, max_examples=50)
@given(st.text("abc XYZ.,!?\n😀", max_size=80), st.integers(0, 1000))
def test_no_habit_touches_what_is_asked_for_but_its_case(text: str, seed: int) -> None:
    marked = f"{text} {MEANT}Zeolites {MEANT}orbits {text}"
    for name, habit in HABITS.items():
        changed = habit(marked, RNG(seed)).lower()
        assert f"{MEANT}zeolites" in changed, name
        assert f"{MEANT}orbits" in changed, name


def test_habits_do_what_their_names_say() -> None:
    said = f"Hello, I am glad to see you. {MEANT}Tea helps!"
    assert habits.lower(said, RNG(0)) == f"hello, i am glad to see you. {MEANT}tea helps!"
    assert habits.upper("a b", RNG(0)) == "A B"
    assert habits.dots("So. What now?", RNG(0)) == "So ... What now ..."
    assert habits.unpunctuated("Well, (he) said:\nit's 3.5!", RNG(0)) == "Well he said it's 3.5"
    assert habits.articles("I am in the house", RNG(0)).split() == ["I", "in", "house"]
    assert habits.texting("Thanks for you", RNG(0)) == "thx 4 u"
    assert habits.typos("wonderful " * 50, RNG(0)).split().count("wonderful") < 50
    assert len(habits.hesitating("go on " * 50, RNG(0)).split()) > 100
