"""Tables of numbers in the docs come from reproduce/expected, and every table and figure of a paper has its command."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
import typer

from isthmus.cli.verbs import app
from isthmus.evaluate.benchmarks import BENCHMARKS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import doc_tables as tables  # noqa: E402 - the tools are not installed

PAPERS = sorted((ROOT / "docs/papers").glob("*.md"))
# Tables of numbers whose columns are not those of a file, and what keeps them true.
ELSEWHERE = {
    ("align.md", "set"): "test_docs: one column per way of aligning",
    ("bridge.md", "set"): "test_docs: one column per retriever",
    ("benchmarks.md", None): "speed: bench/, of one run",
    ("encoders.md", ""): "speed: bench/, of one run",
    ("gr_clip.md", "measure"): "test_docs: beside GR-CLIP's own numbers",
    ("mini.md", "measure"): "test_docs: two encoders side by side",
    ("mini.md", "thing"): "test_docs: two columns of things",
    ("sharding.md", ""): "speed: bench/shards.py, of one run",
    ("vectors.md", "calibration"): "test_docs: a column with another name",
}
# Numbers of the tables and figures that a paper has.
NUMBERED: dict[str, dict[str, Iterable[int | str]]] = {
    "bridge": {"Figure": range(1, 4), "Table": range(1, 5)},
    "gr_clip": {"Figure": range(1, 8), "Table": range(1, 8)},
    "mr_right": {"Figure": range(1, 10), "Table": range(1, 7)},
    "nnn": {
        "Figure": [1, 2, 3, "A1", "A2"],
        "Table": [1, 2, 3, *(f"A{n}" for n in range(1, 16))],
    },
    "standardize": {"Figure": range(1, 15), "Table": range(1, 7)},
}


@pytest.fixture(scope="module")
def files() -> list[tables.Expected]:
    return tables.expected()


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_the_tables_of_every_page_have_the_expected_numbers(page: Path, files: list[tables.Expected]) -> None:
    text = page.read_text()
    assert tables.renewed(text, files) == text, "run: make tables"


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_a_table_of_numbers_has_a_file_or_says_that_the_numbers_are_a_papers(
    page: Path, files: list[tables.Expected]
) -> None:
    for table in tables.tables(page.read_text()):
        known = {(page.name, table.header[0]), (page.name, None)} & ELSEWHERE.keys()
        if table.numbers < 3 or known or table.header[0].startswith("paper"):
            continue
        file = table.source(files)
        assert file is not None, f"no file in reproduce/expected has the columns {table.header}"
        assert table.found(file) == len(table.rows), f"rows that {file.name}.csv does not have: {table.header}"


def test_a_script_that_needs_packs_is_skipped_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described = importlib.util.spec_from_file_location("reproduce_tables", ROOT / "reproduce/tables.py")
    assert described is not None and described.loader is not None
    module = importlib.util.module_from_spec(described)
    described.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISTHMUS_PACKS", raising=False)
    monkeypatch.setattr(sys, "argv", ["things.py", "--data", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        module.arguments("Things.", {"packs": "packed sets"})
    assert (ended.value.code, "things.py: skipped, it needs --packs" in capsys.readouterr().out) == (0, True)
    monkeypatch.setenv("ISTHMUS_PACKS", "elsewhere")
    assert module.arguments("Things.", {"packs": "packed sets"}).packs == "elsewhere"


def test_a_changed_number_a_new_row_and_a_table_of_all_are_written() -> None:
    file = tables.Expected("toy", ["method", "k", "R@1"], [["none", "", "0.500"], ["nnn", "4", "0.750"]])
    some = "before\n\n| method | R@1 |\n| --- | ---: |\n| nnn | 0.1 |\n| other | 0.2 |\n\nafter\n"
    assert tables.renewed(some, [file]) == some.replace("| 0.1 |", "| 0.750 |")
    every = "<!-- all of toy.csv -->\n\n| method | k | R@1 |\n| --- | --- | ---: |\n| none |  | 0.500 |\n"
    assert tables.renewed(every, [file]) == every + "| nnn | 4 | 0.750 |\n"
    assert tables.renewed(some, []) == some


def test_the_list_names_every_paper_and_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    tables.main(["--list"])
    shown = capsys.readouterr().out
    assert re.search(r"Tables A3, A4: R@1 over k +make reproduce-nnn_settings\n", shown)
    assert re.search(r"Table 5: MMEB +not here: MMEB", shown)
    assert all(page.read_text().splitlines()[0].removeprefix("# ") in shown for page in PAPERS)


def numbers(name: str) -> set[tuple[str, str]]:
    """Return the tables and figures that the first cell of a row names.

    >>> sorted(numbers("Figures 5 and 7 to 8, Table A1: vectors"))
    [('Figure', '5'), ('Figure', '7'), ('Figure', '8'), ('Table', 'A1')]
    """
    found: set[tuple[str, str]] = set()
    for kind, listed in re.findall(r"(Figure|Table)s? ((?:A?\d+(?: to |, | and )?)+)", name.partition(":")[0]):
        for letter, first, last in re.findall(r"(A?)(\d+)(?: to A?(\d+))?", listed):
            found |= {(kind, f"{letter}{n}") for n in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize("paper", NUMBERED)
def test_every_table_and_figure_of_a_paper_has_a_row(paper: str) -> None:
    rows = tables.repeated(ROOT / f"docs/papers/{paper}.md")
    found = set().union(*(numbers(row[0]) for row in rows))
    assert found == {(kind, str(number)) for kind, several in NUMBERED[paper].items() for number in several}


ROWS = [row for page in PAPERS for row in tables.repeated(page)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_command_of_a_table_exists_and_its_result_is_here(row: list[str]) -> None:
    _, commands, here, missing = row
    given = re.findall(r"`([^`]+)`", commands)
    assert given or missing, "neither a command nor what is missing"
    for command in given:
        runs(command)
    made = any(command.startswith("make") for command in given)
    assert not made or ".csv" in here or ".png" in here  # that the links lead somewhere is a test of its own


def runs(command: str) -> None:
    """Check that the script, or the verb, of a command and its options exist."""
    program, first, *rest = command.split()
    options = {word.strip('"').removeprefix("OPTIONS=").strip('"') for word in rest if "--" in word}
    if program == "isthmus":
        verb = typer.main.get_command(app).get_command(click.Context(click.Group()), first)  # type: ignore[attr-defined]
        assert rest[0].partition(":")[0] in BENCHMARKS
        assert options <= {each for parameter in verb.params for each in parameter.opts}
        return
    script = ROOT / (first if program == "python" else f"reproduce/{first.removeprefix('reproduce-')}.py")
    assert script.exists(), command
    assert all(option.removeprefix("--") in script.read_text() for option in options), command
