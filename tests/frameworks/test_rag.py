"""Retrieval-augmented generation over the sample folder, end to end, with the frameworks' own fake models."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rag_haystack
import rag_langchain
import rag_llamaindex
from llama_index.core.schema import ImageNode

from isthmus import Collection, samples
from isthmus.integrations.haystack import IsthmusDocumentStore

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


QUESTIONS = pytest.mark.parametrize(
    ("question", "answer"),
    [("a red parrot on a branch", "photos/macaw.jpg"), ("my notes on how to bake sourdough bread", "notes/sourdough")],
)


@QUESTIONS
def test_the_example_of_langchain_answers_from_the_document_that_was_found(
    things: Collection, question: str, answer: str
) -> None:
    assert rag_langchain.chain(things).invoke(question).startswith(answer)


def test_the_example_of_langchain_shows_pictures_to_the_model(things: Collection) -> None:
    found = rag_langchain.chain(things).first.invoke("a red parrot on a branch")
    _, shown = rag_langchain.messages(found)
    kinds = [part["type"] for part in shown.content]
    assert kinds[:2] == ["text", "image_url"]
    assert kinds[-1] == "text"


@QUESTIONS
def test_the_example_of_llamaindex_answers_from_the_document_that_was_found(
    things: Collection, question: str, answer: str
) -> None:
    found = rag_llamaindex.engine(things).query(question)
    first = found.source_nodes[0].node
    assert first.node_id.startswith(answer)
    assert isinstance(first, ImageNode) == answer.startswith("photos")
    assert first.text[:50] in str(found)  # the fake model repeats what it was shown
    assert question in str(found)


@QUESTIONS
def test_the_example_of_haystack_answers_from_the_document_that_was_found(
    things: Collection, question: str, answer: str
) -> None:
    assert rag_haystack.answered(things, question).startswith(answer)


def test_the_example_of_haystack_shows_pictures_to_the_model(things: Collection) -> None:
    question = "a red parrot on a branch"
    run = {"retriever": {"query": question}, "messages": {"question": question}}
    shown = rag_haystack.pipeline(things).run(run, include_outputs_from={"messages"})["messages"]["messages"][1]
    assert shown.images[0].mime_type == "image/jpeg"
    assert shown.texts[0].startswith("Document photos/macaw.jpg")
    assert shown.texts[-1] == f"Question: {question}"


@pytest.mark.parametrize("title", ["LangChain", "LlamaIndex", "Haystack"])
def test_the_quick_starts_of_the_frameworks_run(
    title: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "things.isthmus", tmp_path / "things.isthmus")
    monkeypatch.chdir(tmp_path)
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    values: dict[str, Any] = {}
    exec(code, values)  # noqa: S102 - of our own page
    if "store" in values and isinstance(values["store"], IsthmusDocumentStore):
        values["store"].things.close()
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("photos/macaw.jpg")
