"""What documents, files and queries say never reaches the terminal as commands, whatever verb prints it."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import isthmus.cli
from isthmus import Collection, Document
from isthmus.cli import main, terminal
from isthmus.diagnose import examine, page
from isthmus.diagnose.maps import maps_page
from isthmus.documents import Query
from isthmus.encoders import Encoder
from stock import mixed, pixels

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066\x7f"
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """A folder of files, and a collection of them, whose every field holds escapes."""
    root = tmp_path_factory.mktemp(f"hostile{ESCAPE}")
    files = root / f"files{ESCAPE}"
    files.mkdir()
    (files / f"note{ESCAPE}.txt").write_text(f"a cat {ESCAPE} on the sofa")
    (files / f"bad{ESCAPE}.xyz").write_text("nothing reads this")
    (files / f"broken{ESCAPE}.png").write_bytes(b"no picture")
    Image.fromarray(pixels(1)).save(files / f"picture{ESCAPE}.png")
    with Collection.open(root / "things", tiny, calibration="center", follow=False) as things:
        things.add(mixed(12))
        things.add([Document(f"id{ESCAPE}\nnext", f"a cat {ESCAPE} on\nthe sofa", metadata={f"m{ESCAPE}": ESCAPE})])
        things.add([Document(f"twin{ESCAPE}", f"a cat {ESCAPE} on\nthe sofa")])
        things.index(files)
        things.calibrate("center")
    return root


def ran(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    monkeypatch.setattr(sys, "argv", ["isthmus", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    return ended.value.code, out, err


VERBS: dict[str, tuple[int, list[str]]] = {
    "search": (0, ["search", f"cat {ESCAPE}", "--in", "THINGS", "-k", "50", "--explain", "--group"]),
    "search nothing": (0, ["search", "cat", "--in", "THINGS", "--where", f"no{ESCAPE}=x"]),
    "search badly": (2, ["search", "cat", "--in", "THINGS", "--where", ESCAPE]),
    "search align": (2, ["search", "cat", "--in", "THINGS", "--align", ESCAPE]),
    "search image": (1, ["search", "--image", ESCAPE, "--in", "THINGS"]),
    "search elsewhere": (1, ["search", "cat", "--in", f"no{ESCAPE}"]),
    "unknown option": (2, ["search", f"--{ESCAPE}"]),
    "unknown verb": (2, [ESCAPE]),
    "stats": (0, ["stats", "--in", "THINGS", "--verify"]),
    "doctor": (0, ["doctor", "--in", "THINGS"]),
    "diagnose": (0, ["diagnose", "--in", "THINGS"]),
    "calibrate": (0, ["calibrate", "center", "--in", "THINGS"]),
    "calibrate badly": (2, ["calibrate", ESCAPE, "--in", "THINGS"]),
    "index": (3, ["index", "FILES", "--into", "THINGS"]),
    "index nothing": (2, ["index", f"no{ESCAPE}", "--into", "THINGS"]),
    "delete nothing": (3, ["delete", f"no{ESCAPE}", "--in", "THINGS"]),
    "export": (0, ["export", "--in", "THINGS", "--to", f"TO/{ESCAPE}.jsonl"]),
    "evaluate": (2, ["evaluate", ESCAPE, "--data", "TO"]),
    "reencode": (2, ["reencode", "--in", "THINGS", "--encoder", ESCAPE]),
    "train": (1, ["train", "lens", "--data", ESCAPE]),
}


@pytest.mark.parametrize("name", VERBS)
def test_no_verb_prints_what_a_terminal_obeys(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    expected, given = VERBS[name]
    places = {"THINGS": str(hostile / "things"), "FILES": str(hostile / f"files{ESCAPE}"), "TO": str(tmp_path)}
    code, out, err = ran(monkeypatch, capsys, *(_put(one, places) for one in given))
    assert code == expected, err
    assert out + err
    assert OBEYED.findall(out + err) == []
    assert "Traceback" not in err


def _put(argument: str, places: dict[str, str]) -> str:
    for name, path in places.items():
        argument = argument.replace(name, path)
    return argument


@pytest.mark.parametrize(
    "given",
    [["search", "a cat", "-k", "50", "--explain"], ["stats"], ["calibrate", "center"], ["diagnose"], ["doctor"]],
    ids=lambda given: given[0],
)
def test_json_stays_json_and_says_the_same(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: list[str]
) -> None:
    _, out, err = ran(monkeypatch, capsys, *given, "--in", str(hostile / "things"), "--json")
    assert OBEYED.findall(out) == [], err
    read = json.loads(out)
    if given[0] == "search":
        found = {hit["id"]: hit for hit in read}
        assert found[f"id{ESCAPE}\nnext"]["metadata"] == {f"m{ESCAPE}": ESCAPE}


def test_an_id_with_line_ends_stays_on_its_line(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = ran(monkeypatch, capsys, "search", "a cat", "--in", str(hostile / "things"), "-k", "50")
    assert all(re.match(r" *\d+  ", one) for one in out.splitlines())


def test_what_anybody_writes_to_the_streams_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.guarded():
        sys.stdout.write(ESCAPE)
        sys.stderr.write(ESCAPE)
        terminal.raw_stderr().write("\x1b[2K")
    out, err = capsys.readouterr()
    assert OBEYED.findall(out) == []
    assert OBEYED.findall(err.replace("\x1b[2K", "")) == []
    assert "\x1b[2K" in err


def test_verbs_print_through_the_terminal_alone() -> None:
    for path in Path(isthmus.cli.__file__).parent.glob("*.py"):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                assert ast.unparse(node.func) not in ("print", "typer.echo", "typer.secho", "sys.stderr.write"), path


def test_pages_show_documents_as_text_and_never_run_them(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="center") as things:
        things.add([Document(f"{SCRIPT}{i}", f"a cat {SCRIPT}", pixels(i)) for i in range(4)])
        things.add([Document(f"x{i}", f"the dog {i} {SCRIPT}", metadata={SCRIPT: SCRIPT}) for i in range(8)])
        things.add([Document(f"p{i}{SCRIPT}", image=pixels(50 + i)) for i in range(8)])
        found = things.search(f"cat {SCRIPT}")
        pages = [page(examine(things, [Query(f"a cat {SCRIPT}")])), page(examine(things))]
    pages.append(maps_page(Query(f"cat {SCRIPT}", image=np.zeros((4, 4, 3), np.uint8)), [], SCRIPT))
    assert found
    for written in pages:
        assert "<script" not in written.lower()
        assert "<img src=x" not in written
        assert "&lt;script&gt;" in written
