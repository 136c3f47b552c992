"""Queries in other words: what is taken from a model's answer, when the query stays as it was, and who is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.align import Counts, Rewritten, joined, rewrite
from isthmus.align.base import DESCRIPTION
from isthmus.align.prompts import Prompt, read
from isthmus.align.rewrite import METHODS, Prompted, cleaned
from isthmus.errors import BadFile, BadInput, UnknownName


@dataclass
class Pen:
    """A language model that is a function."""

    made: Callable[[str], str]
    name: str = "pen"
    together: int = 2

    def write(self, prompt: Prompt, text: str) -> str:
        return self.made(text)


def prompted(method: str, made: Callable[[str], str]) -> Prompted:
    how = METHODS[method]
    return Prompted(method=method, writer=Pen(made), prompt=read(how.prompt), words=how.limits.words, put=how.put)


words = st.text(alphabet="ab \n\"'`:*#<>/think", max_size=60)


@given(written=words)
def test_cleaning_twice_is_cleaning_once_and_adds_nothing(written: str) -> None:
    once = cleaned(written)
    assert cleaned(once) == once
    left = iter(written)
    assert all(letter in left for letter in once)  # in the order in which they were written


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("  numpy broadcasting error\n", "numpy broadcasting error"),
        ('"numpy broadcasting error"', "numpy broadcasting error"),
        ('"exact" and "phrases"', '"exact" and "phrases"'),
        ("Rewritten search query: tin whiskers", "tin whiskers"),
        ("**Query:** tin whiskers", "tin whiskers"),
        ("query complexity of SQL joins", "query complexity of SQL joins"),
        ("```text\ntin whiskers\n```", "tin whiskers"),
        ("<think>hm\nhm</think> tin whiskers", "tin whiskers"),
        ("<think>it never ends", ""),
        ("Query: ''", ""),
    ],
)
def test_what_stands_around_a_query_goes_and_the_query_stays(written: str, left: str) -> None:
    assert cleaned(written) == left


@given(query=st.text(min_size=1), written=st.one_of(words, st.integers(195, 205).map(lambda n: "word " * n)))
def test_a_rewritten_query_is_short_and_not_empty_or_the_query_itself_with_a_reason(query: str, written: str) -> None:
    found = prompted("forge", lambda _: written).rewrite([query])[0]
    if found.fell_back is None:
        assert 0 < len(found.text.split()) <= 200
    else:
        assert found.text == query


def test_each_reason_to_fall_back_is_named_and_counted() -> None:
    def fails(text: str) -> str:
        raise RuntimeError(f"out of {text}")

    found = [
        *prompted("forge", fails).rewrite(["memory", "time"]),
        *prompted("forge", lambda _: "<think>").rewrite(["a"]),
        *prompted("forge", lambda _: "word " * 201).rewrite(["b"]),
        *prompted("forge", lambda _: "word " * 200).rewrite(["c"]),
    ]
    assert [one.fell_back for one in found] == [
        "the model failed: out of memory",
        "the model failed: out of time",
        "nothing was written",
        "more than 200 words: 201",
        None,
    ]
    counted = Counts().plus(found).plus([Rewritten("d")])
    assert counted.total == 6
    assert counted.fell_back == {"the model failed": 2, "nothing was written": 1, "more than 200 words": 1}
    assert "2 rewritten, 4 fell back" in str(counted)
    assert str(Counts(3)) == "3 rewritten, 0 fell back"


def test_hyde_searches_the_passage_and_query2doc_the_query_with_it() -> None:
    def said(method: str) -> str:
        return prompted(method, lambda _: "Passage: water boils at 100 °C").rewrite(["when does water boil"])[0].text

    assert said("hyde") == "water boils at 100 °C"
    assert said("query2doc") == "when does water boil [SEP] water boils at 100 °C"
    assert said("query2doc-words") == "when does water boil " * 5 + "water boils at 100 °C"


def test_none_leaves_every_query_as_it_is() -> None:
    assert rewrite.load("none").rewrite([" a ", ""]) == [Rewritten(" a "), Rewritten("")]


@given(question=st.one_of(st.none(), st.text()), captions=st.lists(st.text()))
def test_a_question_comes_first_and_every_caption_that_says_something_after_it(
    question: str | None, captions: list[str]
) -> None:
    text = joined(question, captions)
    assert text.startswith((question or "").strip())
    said = [caption.strip() for caption in captions if caption.strip()]
    assert text.endswith("\n".join(DESCRIPTION + caption for caption in said))
    assert bool(text) == bool((question or "").strip() or said)


@pytest.mark.parametrize("chat", [True, False])
def test_a_local_model_rewrites_the_same_query_the_same_way(
    chat: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiny_hf

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tiny_hf.llama(tmp_path, tiny_hf.CHAT if chat else None)
    made = rewrite.load(f"forge:hf:{folder}", tokens=6)
    one, other = made.rewrite(["what is wrong here"] * 2)
    assert one == other
    assert one.fell_back is None
    assert 0 < len(one.text.split()) <= 6
    assert "what is wrong here" not in one.text


def test_limits_come_from_the_call_then_from_the_model_then_from_the_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tiny_hf

    def limits(name: str, place: Path | None = None, **given: int) -> tuple[int, int]:
        made = rewrite.load(f"{name}:hf:{place or folder}", **given)  # type: ignore[arg-type]
        assert isinstance(made, Prompted)
        return made.writer.tokens, made.words  # type: ignore[attr-defined]

    folder = tiny_hf.llama(tmp_path)
    assert limits("forge") == (256, 200)  # as BRIDGE prints
    assert limits("hyde") == (512, 300)
    (folder / "limits.json").write_text('{"tokens": 6, "words": 3}')
    assert limits("forge") == (6, 3)
    monkeypatch.setenv("HOME", str(folder.parent))  # a shell leaves ~ as it is after a colon
    assert limits("forge", Path("~", folder.name)) == (6, 3)
    assert limits("hyde") == (512, 300)  # it was trained for forge
    assert limits("forge", words=9) == (6, 9)
    assert limits("query2doc", tokens=7, words=9) == (7, 9)
    for damaged in ("{", '{"tokens": "many"}', '{"letters": 5}', '{"words": 0}', "[]"):
        (folder / "limits.json").write_text(damaged)
        with pytest.raises(BadFile, match=r"limits\.json cannot be read"):
            limits("forge")


def test_a_local_model_that_cannot_take_so_much_falls_back(tmp_path: Path) -> None:
    import tiny_hf

    found = rewrite.load(f"forge:hf:{tiny_hf.llama(tmp_path)}").rewrite(["\ud800"])[0]
    assert found.text == "\ud800"
    assert found.fell_back is not None
    assert found.fell_back.startswith("the model failed: ")


def test_rewriters_by_name_and_the_nearest_to_a_wrong_one() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'query2doc'"):
        rewrite.load("query2docs:hf:a")
    with pytest.raises(UnknownName, match="Did you mean 'openai'"):
        rewrite.load("hyde:opnai:m@http://h")
    for name in ("forge", "hyde:", "query2doc:hf", "forge:hf:"):
        with pytest.raises(BadInput, match="needs a model"):
            rewrite.load(name)
    for name in ("none:hf:a", "forge-mini:hf:a"):
        with pytest.raises(BadInput, match="takes no model"):
            rewrite.load(name)


def test_forge_mini_is_imported_when_it_is_named_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class First:
        name: str = "forge-mini"

        def rewrite(self, texts: Sequence[str]) -> list[Rewritten]:
            return [Rewritten(text.split()[0]) for text in texts]

    module = ModuleType("isthmus.align.mini")
    module.load = First  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "isthmus.align.mini", module)
    assert rewrite.load("forge-mini").rewrite(["segfault in numpy"]) == [Rewritten("segfault")]
    monkeypatch.setitem(sys.modules, "isthmus.align.mini", None)
    with pytest.raises(BadFile, match="'forge-mini' is not in this installation"):
        rewrite.load("forge-mini")


@pytest.mark.parametrize("name", ["caption", "forge", "hyde", "query2doc"])
def test_every_prompt_is_there_without_what_is_said_to_people(name: str) -> None:
    text = read(name).text
    assert len(text.split()) > 30
    assert not any(line.startswith("#") for line in text.splitlines())
