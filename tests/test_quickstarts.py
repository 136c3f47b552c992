"""The quick starts work as they are written: their blocks are read from the page and run."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from typer.testing import CliRunner

import isthmus
import needed
from isthmus import samples
from isthmus.cli.verbs import app
from serving import address_of

PAGE = (Path(__file__).parent.parent / "docs" / "quickstarts.md").read_text("utf-8")
SERVER = "http://localhost:8080"
FILES = ("photos/macaw.jpg", "photos/tabby.jpg", "photos/break.jpg", "notes/parrots.md", "notes/espresso.md")


def blocks(title: str, language: str) -> list[str]:
    """Return the code of a section of the page."""
    section = next(part for part in re.split(r"^#+ ", PAGE, flags=re.MULTILINE) if part.startswith(title))
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[list[str]]:
    """Return the commands of a block, as words."""
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the first block makes: a collection of a folder ``photos``."""
    folder = tmp_path_factory.mktemp("quick")
    for name in FILES:
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(samples.folder(), name), folder / "photos" / name)
    install, index = commands(blocks("Quick starts", "sh")[0])
    assert install[:2] == ["pip", "install"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = CliRunner().invoke(app, index[1:])
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with address_of(folder / "things.isthmus") as address:
        yield address


def curl(words: list[str], address: str) -> httpx2.Response:
    """Send what a curl command sends, by the options that the page uses."""
    method, headers, data, url = "GET", dict[str, str](), None, ""
    rest = iter(words[1:])
    for word in rest:
        if word == "-X":
            method = next(rest)
        elif word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            method, data = "POST", next(rest)
        elif word != "-s":
            url = word
    return httpx2.request(method, url.replace(SERVER, address), headers=headers, content=data)


def test_the_curl_commands_do_what_the_page_says(address: str) -> None:
    first, second = blocks("curl", "sh")
    (words,) = commands(first)
    assert curl(words, address).json()["hits"][0]["id"] == "photos/macaw.jpg"
    add, search, delete = commands(second)
    assert curl(add, address).json()["added"] == 1
    assert [hit["id"] for hit in curl(search, address).json()["hits"]] == ["note-1"]
    assert curl(delete, address).status_code == 204


def test_curl_itself_sends_the_commands_of_the_page(address: str) -> None:
    program = needed.program("curl")
    answers = []
    for words in [words for block in blocks("curl", "sh") for words in commands(block)]:
        sent = [program, "--noproxy", "*", "--fail-with-body", *(word.replace(SERVER, address) for word in words[1:])]
        done = subprocess.run(sent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        answers.append(json.loads(done.stdout or "null"))
    first, added, found, deleted = answers
    assert (first["hits"][0]["id"], added["added"], deleted) == ("photos/macaw.jpg", 1, None)
    assert [hit["id"] for hit in found["hits"]] == ["note-1"]


def test_the_python_example_runs(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("Python", "python")
    values: dict[str, object] = {}
    exec(code.replace(SERVER, address), values)  # noqa: S102 - of our own page
    assert capsys.readouterr().out.startswith("1 photos/macaw.jpg image 0.")
    assert next(hit.id for hit in values["similar"]) == "photos/macaw.jpg"  # type: ignore[attr-defined]


def test_claude_desktops_settings_start_a_server_with_tools(folder: Path) -> None:
    (settings,) = blocks("Claude Desktop", "json")
    server = json.loads(settings)["mcpServers"]["isthmus"]
    assert server["command"] == "isthmus"
    arguments = [one.replace("/full/path/to", str(folder)) for one in server["args"]]
    source = {"PYTHONPATH": str(Path(isthmus.__file__).parent.parent)}
    command = StdioServerParameters(command=sys.executable, args=["-m", "isthmus", *arguments], env=source)

    async def work() -> None:
        async with Client(stdio_client(command)) as client:
            found = await client.call_tool("search", {"query": "a red parrot on a branch", "k": 1})
            assert '"id": "photos/macaw.jpg"' in found.content[0].text  # type: ignore[union-attr]
            assert found.content[1].type == "image"

    asyncio.run(work())
