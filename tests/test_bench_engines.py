"""The benchmark of engines runs at a tiny scale, and its exit status says whether a target was missed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench" / "engines.py"


def measured(*only: str) -> tuple[list[tuple[str, str, str]], str]:
    """Run it; return the rows that have a target, and all it said."""
    command = [sys.executable, str(BENCH), "--only", *only, "--rows", "600", "--queries", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)  # a limit for a hang; it takes seconds
    rows = re.findall(r"^\| (.+?) \| (\S+) \| (?:≥|≤) \S+ \| (yes|no) \|$", done.stdout, re.MULTILINE)
    assert done.returncode == int("no" in [met for *_, met in rows]), done.stdout + done.stderr
    return rows, done.stdout


@pytest.mark.install
def test_the_benchmark_measures_a_folder_and_a_database_and_finds_what_exact_search_finds() -> None:
    rows, said = measured("embedded", "pgvector")
    assert len(rows) == 8, said
    assert [value for name, value, _ in rows if name.startswith("recall@10")] == ["1"] * 5
    assert "| isthmus, calibrated | " in said and '"pgvector_indexed_rows_per_second": ' in said
