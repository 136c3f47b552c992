"""The files of the page: all English in one file, text shown as text, nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from isthmus.serve.app import PAGE

MODULES = sorted(PAGE.glob("*.js"))
OTHERS = [file for file in MODULES if file.name != "words.js"]
HTML = (PAGE / "index.html").read_text("utf-8")
WORDS = (PAGE / "words.js").read_text("utf-8")


def code(file: Path) -> str:
    """Return a module without its comments."""
    return re.sub(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", "", file.read_text("utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.name)
def test_a_module_never_writes_html_or_runs_text(file: Path) -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|localStorage"
    )
    assert not re.search(forbidden, code(file))


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.name)
def test_a_module_names_no_other_host(file: Path) -> None:
    addresses = set(re.findall(r"https?://[^\s\"'`]+", code(file))) - {"http://www.w3.org/2000/svg"}
    assert not addresses


@pytest.mark.parametrize("file", OTHERS, ids=lambda file: file.name)
def test_english_stands_in_words_js_alone(file: Path) -> None:
    strings = re.findall(r"\"([^\"\n]*)\"", code(file))
    sentences = [text for text in strings if re.match(r"[A-Z][a-z]+ [a-z]", text) and "scale(" not in text]
    assert not sentences


def test_the_html_has_no_words_but_the_name_and_the_note_for_browsers_without_scripts() -> None:
    body = re.sub(r"<noscript>.*?</noscript>|<title>.*?</title>", "", HTML, flags=re.DOTALL)
    assert re.sub(r"<[^>]*>", " ", body).split() == ["isthmus", "/"]


def test_every_word_of_the_html_exists() -> None:
    named = set(re.findall(r"data-(?:word|label|placeholder)=\"(\w+)\"", HTML))
    known = set(re.findall(r"^  (\w+)[:,(]", WORDS, flags=re.MULTILINE))
    assert named <= known


def test_every_word_that_a_module_uses_exists_and_every_word_is_used() -> None:
    known = set(re.findall(r"^  (\w+)[:,(]", WORDS, flags=re.MULTILINE))
    text = "\n".join(map(code, OTHERS))
    used = set(re.findall(r"\bwords\.(\w+)", text)) - {"js"}
    assert used <= known
    named = set(re.findall(r"data-(?:word|label|placeholder)=\"(\w+)\"", HTML))
    within = set(re.findall(r"\bwords\.(\w+)", WORDS))
    assert known <= used | named | within


def test_every_module_is_loaded_without_waiting_for_another() -> None:
    loaded = set(re.findall(r"(?:modulepreload\" href|script type=\"module\" src)=\"([\w.]+)\"", HTML))
    assert loaded == {file.name for file in MODULES}


def test_every_icon_that_is_used_is_in_the_sheet() -> None:
    text = HTML + "\n".join(map(code, OTHERS))
    used = set(re.findall(r"#i-(\w+)", HTML)) | set(re.findall(r"\bicon\(\"(\w+)\"\)", text))
    assert used <= set(re.findall(r"symbol id=\"i-(\w+)\"", HTML))


def test_a_module_is_one_idea() -> None:
    assert not [file.name for file in MODULES if len(file.read_text("utf-8").splitlines()) > 300]
