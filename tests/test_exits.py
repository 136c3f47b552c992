"""How a run ends: Ctrl-C is 130 at any moment, a closed pipe is quiet, a full device is one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from isthmus import Collection
from isthmus.cli import running
from stock import mixed

# Sends itself SIGINT when the audit event EVENT mentions WHAT, in whatever thread that happens, and then goes on.
AT = """
import os, signal, sys

def hook(event, arguments):
    global hook_armed
    if hook_armed and event == EVENT and any(WHAT in str(one) for one in arguments):
        hook_armed = False
        os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job starts with Ctrl-C ignored
hook_armed = True
EVENT, WHAT, *sys.argv[1:] = sys.argv[1:]
sys.addaudithook(hook)
from isthmus.cli import main
main()
"""
RUN = "from isthmus.cli import main; main()"


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    folder = tmp_path_factory.mktemp("exits") / "things"
    with Collection.open(folder, tiny, calibration="center") as opened:
        opened.add(mixed(200, long=False))
        opened.calibrate("center")
    return folder


def ended(code: str, *arguments: str, stdout: int | None = subprocess.PIPE) -> tuple[int, str]:
    """Run a child; return its exit code and what it said on stderr."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("event", "what", "verb"),
    [
        ("import", "numpy", "search"),
        ("import", "isthmus.cli.verbs", "search"),
        ("import", "onnxruntime", "search"),
        ("sqlite3.connect", "collection.sqlite", "stats"),
        ("open", "note-7.txt", "index"),  # on the thread that reads files
        ("import", "isthmus.calibration.tune", "calibrate"),
        ("sqlite3.connect", "reencode/collection", "reencode"),
    ],
)
def test_ctrl_c_is_130_wherever_it_comes(
    things: Path, tmp_path: Path, tiny: str, other: str, event: str, what: str, verb: str
) -> None:
    for number in range(20):
        (tmp_path / f"note-{number}.txt").write_text("a cat")
    into = ["--in", str(things)]
    given = {
        "search": ["a cat", *into],
        "stats": into,
        "index": [str(tmp_path), "--into", str(tmp_path / "new.isthmus"), "--encoder", tiny],
        "calibrate": into,
        "reencode": [*into, "--encoder", other],
    }[verb]
    code, said = ended(AT, event, what, verb, *given)
    assert (code, "Traceback" in said) == (130, False), said


def test_a_reader_that_stops_reading_is_no_error(things: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        code, said = ended(RUN, "search", "a cat", "--in", str(things), "-k", "200", "--json", stdout=writing)
    finally:
        os.close(writing)
    assert (code, said) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
@pytest.mark.parametrize("verb", ["search", "--help"])
def test_a_full_device_is_one_line_and_exit_code_1(things: Path, verb: str) -> None:
    given = ["search", "a cat", "--in", str(things)] if verb == "search" else ["--help"]
    with Path("/dev/full").open("w") as full:
        code, said = ended(RUN, *given, stdout=full.fileno())
    assert (code, said.count("\n")) == (1, 1), said
    assert said.startswith("isthmus: the output cannot be written: No space left")


def test_a_closed_output_is_not_taken_for_a_file_of_the_collection(things: Path) -> None:
    command = f"exec {sys.executable} -c '{RUN}' stats --in '{things}' >&-"
    done = subprocess.run(["/bin/sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    with Collection.open(things) as opened:
        assert opened.verify() == []


def test_a_collection_that_may_only_be_read_is_not_calibrated(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from isthmus.cli import app
    from isthmus.errors import CannotWrite
    from isthmus.search import engines

    monkeypatch.setattr(engines, "_may_write", lambda _: False)
    before = (things / "collection.sqlite").read_bytes()
    done = CliRunner().invoke(app, ["calibrate", "none", "--in", str(things)])
    assert isinstance(done.exception, CannotWrite)
    assert "read-only" in str(done.exception)
    assert (things / "collection.sqlite").read_bytes() == before
    assert CliRunner().invoke(app, ["search", "a cat", "--in", str(things)]).exit_code == 0


def test_a_verb_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without() -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(running, "app", without)
    assert running.run() == 1
    assert "pip install 'isthmus[train]'" in capsys.readouterr().err
