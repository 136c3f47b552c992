"""Retrieval-augmented generation over the sample folder, end to end, with the frameworks' own fake models."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import rag_langchain

from isthmus import Collection, samples

PAGE = (Path(__file__).parents[2] / "docs" / "quickstarts.md").read_text("utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rag")
    with Collection.open(folder / "things.isthmus", calibration="center+standardize") as things:
        things.index(samples.folder(), ocr="never")
        things.search("a cat")
    return folder


@pytest.fixture
def things(folder: Path) -> Iterator[Collection]:
    with Collection.open(folder / "things.isthmus") as opened:
        yield opened


@pytest.mark.parametrize(
    ("question", "answer"),
    [("a red parrot on a branch", "photos/macaw.jpg"), ("my notes on how to bake sourdough bread", "notes/sourdough")],
)
def test_the_example_answers_from_the_document_that_was_found(things: Collection, question: str, answer: str) -> None:
    assert rag_langchain.chain(things).invoke(question).startswith(answer)


def test_the_example_shows_pictures_to_the_model(things: Collection) -> None:
    found = rag_langchain.chain(things).first.invoke("a red parrot on a branch")
    _, shown = rag_langchain.messages(found)
    kinds = [part["type"] for part in shown.content]
    assert kinds[:2] == ["text", "image_url"]
    assert kinds[-1] == "text"


def test_the_quick_start_of_langchain_runs(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "things.isthmus", tmp_path / "things.isthmus")
    monkeypatch.chdir(tmp_path)
    section = PAGE.split("## LangChain")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    exec(code, {})  # noqa: S102 - of our own page
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("photos/macaw.jpg")
