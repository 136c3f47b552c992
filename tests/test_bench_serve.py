"""The benchmark of the server runs at a tiny scale, and its exit status says whether a target was missed."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parent.parent / "bench"
ROW, TOLD = (runpy.run_path(str(BENCH / "targets.py"))[name] for name in ("Row", "told"))


@pytest.mark.parametrize(
    ("value", "least", "most", "met"),
    [
        *((1.5, None, 1.5, True), (1.51, None, 1.5, False), (2, 2, None, True), (1.99, 2, None, False)),
        *((float("nan"), None, 3, False), (None, 2, None, False), (None, None, None, True), (9, None, None, True)),
    ],
)
def test_a_target_that_is_not_reached_is_missed(
    value: float | None, least: float | None, most: float | None, met: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    good, row = ROW("good", 0, most=0), ROW("row", value, least=least, most=most)
    assert TOLD([good, row, good]) is met
    last = capsys.readouterr().out.splitlines()[3]
    assert last.endswith("|  |  |" if least is None and most is None else "| yes |" if met else "| no |")


@pytest.mark.install
def test_the_benchmark_runs_and_ends_with_the_status_that_its_table_says() -> None:
    command = [sys.executable, str(BENCH / "serve.py"), "--seconds", "0.5", "--documents", "30"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    rows = re.findall(r"^\| (?!---)(.+?) \| (\S.*?) \| (.*?) \| (yes|no|) \|$", done.stdout, re.MULTILINE)
    assert len(rows) == 17, done.stdout + done.stderr
    assert done.returncode == int("no" in [met for *_, met in rows])
    exact = {name: value for name, value, aim, _ in rows if aim == "≤ 0"}
    assert len(exact) == 4
    assert set(exact.values()) == {"0"}
