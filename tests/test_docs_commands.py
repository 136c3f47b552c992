"""The commands of the docs exist, with all of their options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from isthmus.cli.verbs import app

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "reproduce").glob("*.md")])
OPTION = re.compile(r"(?<![\w\"'])--[a-z][a-z-]*")


def commands(text: str) -> list[str]:
    """Return what follows ``isthmus`` in code, without remarks."""
    text = re.sub(r"\s*\\\n\s*", " ", text)
    found = [*re.findall(r"`isthmus ([a-z][^`]*)`", text), *re.findall(r"^    isthmus ([a-z].*)$", text, re.MULTILINE)]
    return [" ".join(re.split(r" {4,}|\t| #", command.replace("\n", " "))[0].split()) for command in found]


def found(words: list[str]) -> Any:
    """Return the command that words begin with, such as ``train fusion``."""
    command: Any = typer.main.get_command(app)
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None:
            break
        command = inner
    return command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for text in commands(page.read_text()):
        command = found(text.split())
        assert command.name in text.split()[:2], f"isthmus {text}"
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        wrong = [option for option in OPTION.findall(text) if option not in known | {"--help"}]
        assert not wrong, f"isthmus {text}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_script_of_a_page_exists(page: Path) -> None:
    scripts = re.findall(r"python ((?:bench|examples|reproduce|tools)/\w+\.py)", page.read_text())
    scripts += [f"reproduce/{name}.py" for name in re.findall(r"make reproduce-([a-z]\w+)", page.read_text())]
    scripts = [script for script in scripts if script != "reproduce/list.py"]  # make reproduce-list is a list
    assert [script for script in scripts if not (ROOT / script).exists()] == []


def test_commands_are_read_from_lines_and_from_code() -> None:
    lines = "    isthmus search x --in DIR     # remark --no\n    isthmus index \\\n  --into y\n"
    assert commands(f"`isthmus stats --in\nDIR`\n\n{lines}") == [
        "stats --in DIR",
        "search x --in DIR",
        "index --into y",
    ]
