"""Progress: a bar on a terminal, lines elsewhere, nothing with --quiet; the library tells how far it has come."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from isthmus import Collection
from isthmus.cli import app, progress
from isthmus.diagnose import examine
from isthmus.search import Indexed

run = CliRunner().invoke


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_a_bar_with_total_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with progress.counting("encoding", "documents") as tell:
        tell(20, 100)
    drawn = terminal.getvalue()
    assert "encoding" in drawn
    assert re.search(r"━+.*20 of 100 documents, [\d.,]+/s, \d+:\d\d left", drawn)


def test_elsewhere_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.counting("encoding", "documents") as tell:
        tell(1, 10)  # too soon for another line
        monkeypatch.setattr(progress, "EVERY", 0.0)
        tell(2, 10)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "encoding …"
    assert [line.split(" documents")[0] for line in lines[1:]] == ["encoding: 2 of 10"]


def test_what_an_earlier_run_did_counts_for_neither_rate_nor_time_left() -> None:
    meter = progress.Meter("documents", clock=iter([0.0, 10.0]).__next__)
    meter.before, meter.share_before = 50, 0.5
    assert meter.text(60, 100, 0.6) == "60 of 100 documents, 1.0/s, 0:40 left"


def test_an_index_run_tells_how_many_files_there_are(tmp_path: Path, tiny: str) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"a cat {number}")
    (folder / "film.swf").write_bytes(b"film")
    seen: list[tuple[int, int, int]] = []
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:

        def tell(report: Indexed) -> None:
            seen.append((report.files, report.listed, report.listing))

        things.index(folder, progress=tell)
        things.index(folder, progress=tell)
    assert seen[-1] == (6, 6, 0)
    assert {one for one in seen if one[2] == 0} == {(6, 6, 0)}


def test_a_calibration_tells_its_steps(things: Collection) -> None:
    steps: list[tuple[int, int]] = []
    things.calibrate("center", progress=lambda done, total: steps.append((done, total)))
    assert steps[0][0] == 0
    assert steps[-1][0] == steps[-1][1]
    assert sorted(steps) == steps


@pytest.mark.parametrize("verb", ["index", "calibrate", "reencode", "diagnose", "export", "compact"])
def test_quiet_verbs_show_no_progress(thirty: Path, photos: Path, other: str, verb: str) -> None:
    given = {
        "index": [str(photos), "--into", str(thirty)],
        "calibrate": ["center", "--in", str(thirty)],
        "reencode": ["--in", str(thirty), "--encoder", other],
        "diagnose": ["--in", str(thirty)],
        "export": ["--in", str(thirty), "--to", str(thirty.parent / "all.jsonl")],
        "compact": ["--in", str(thirty)],
    }[verb]
    done = run(app, [verb, *given, "--quiet"])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert done.stdout


def test_a_diagnosis_counts_two_rankings_for_each_query(things: Collection) -> None:
    calls: list[tuple[int, int]] = []
    examine(things, ["a cat", "a dog", "a tree"], progress=lambda done, total: calls.append((done, total)))
    assert calls == [(3, 6), (6, 6)]


def test_an_export_counts_its_documents(
    thirty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    done = run(app, ["export", "--in", str(thirty), "--to", str(tmp_path / "all.jsonl")])
    lines = (capsys.readouterr().err + done.stderr).splitlines()
    assert lines[0] == "exporting …"
    assert lines[-1].startswith("exporting: 30 of 30 documents")


def test_work_of_unknown_length_shows_its_name(thirty: Path) -> None:
    done = run(app, ["compact", "--in", str(thirty)])
    assert done.stderr == "compacting …\n"
