"""Compare the speed of two versions of isthmus, and check that both find the same.

    python bench/compare.py OLD_SRC NEW_SRC [--only search_small …] [--turns 7] [--rows 50000]

OLD_SRC and NEW_SRC are `src` folders, as `git worktree add` makes them. Each version runs in a process of its own, with
collections of its own. The two alternate on each task (`bench/compare_worker.py`), so other load on the machine slows
both. A ratio is the median over turns of new / old, with its quartiles. The ratio of CPU time varies less where the
machine is shared.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

WORKER = Path(__file__).with_name("compare_worker.py")


class Version:
    """A process that runs tasks with the package in ``source``."""

    def __init__(self, source: Path, folder: Path, rows: int) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source.resolve()), "PYTHONPYCACHEPREFIX": f"{folder}-bytecode"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a cold start would compile the package each time
        folder.mkdir()
        command = [sys.executable, str(WORKER), str(folder), str(rows)]
        self.process = subprocess.Popen(  # noqa: S603 - our own
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        ready = self._answer()
        self.tasks: list[str] = ready["tasks"]
        found = Path(ready["source"])
        if not found.is_relative_to(source.resolve()):
            raise SystemExit(f"{source} was to be measured, but {found} was imported.")

    def run(self, task: str) -> dict[str, Any]:
        """Run a task once."""
        stdin = cast("IO[str]", self.process.stdin)
        stdin.write(task + "\n")
        stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End the process."""
        cast("IO[str]", self.process.stdin).close()
        self.process.wait()

    def _answer(self) -> dict[str, Any]:
        line = cast("IO[str]", self.process.stdout).readline()
        if not line:
            raise SystemExit("The measured process ended with an error; it stands above.")
        return cast("dict[str, Any]", json.loads(line))


def same(old: Sequence[tuple[str, float]], new: Sequence[tuple[str, float]]) -> str:
    """Say whether both found the same documents with the same scores."""
    if not old and not new:
        return ""
    if [name for name, _ in old] != [name for name, _ in new]:
        return "DIFFERENT HITS"
    off = max(abs(a - b) for (_, a), (_, b) in zip(old, new, strict=True))
    return "same" if off < 1e-5 else f"scores differ by {off:.1e}"


def compare(old: Version, new: Version, task: str, turns: int) -> str:
    """Run a task in turns, the first of each turn being the second of the next; return a line of the table."""
    taken: dict[Version, list[dict[str, Any]]] = {old: [], new: []}
    for version in taken:
        version.run(task)  # caches of files and models
    for turn in range(turns):
        for version in (old, new) if turn % 2 else (new, old):
            taken[version].append(version.run(task))
    seconds, cpu = (np.array([[run[key] for run in taken[each]] for each in (old, new)]) for key in ("seconds", "cpu"))
    low, ratio, high = np.quantile(seconds[1] / seconds[0], (0.25, 0.5, 0.75))
    busy = np.median(cpu[1] / np.maximum(cpu[0], 1e-6))
    before, after = 1e3 * np.median(seconds, axis=1)
    hits = same(taken[old][-1]["hits"], taken[new][-1]["hits"])
    return f"| {task} | {before:.1f} | {after:.1f} | {ratio:.2f} | {low:.2f}–{high:.2f} | {busy:.2f} | {hits} |"


def main() -> None:
    """Compare the versions named on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, metavar="OLD_SRC")
    parser.add_argument("new", type=Path, metavar="NEW_SRC")
    parser.add_argument("--only", nargs="*", help="tasks to run (default: all)")
    parser.add_argument("--turns", type=int, default=7, help="how often each version runs a task (default: 7)")
    parser.add_argument("--rows", type=int, default=50_000, help="vectors of the large collection (default: 50,000)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        old = Version(options.old, Path(scratch, "old"), options.rows)
        new = Version(options.new, Path(scratch, "new"), options.rows)
        print("| task | old, ms | new, ms | new / old | quartiles | CPU, new / old | hits |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
        for task in options.only or new.tasks:
            print(compare(old, new, task, options.turns), flush=True)
        old.close()
        new.close()


if __name__ == "__main__":
    main()
