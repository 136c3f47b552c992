"""Processes that are forked from one that has imported everything: an attack costs no start of Python.

with Worker() as worker:
    task = worker.start("attacks.verbs", {"folder": …})       # runs attacks.verbs.main(request, say) in a fork
    lines = task.finish()                                     # what it said; task.status is how it ended
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

Request: TypeAlias = Mapping[str, Any]
Say: TypeAlias = Callable[[str], None]

TESTS = Path(__file__).parents[1]
LIMIT = 300  # seconds after which a task is ended and counts as a failure: none takes more than a few
IMPORTED: tuple[str, ...] = ("attacks.world", "PIL.PngImagePlugin", "faiss", "filelock", "onnxruntime", "pypdfium2")
IMPORTED += ("safetensors.numpy", "scipy.optimize", "tokenizers", "isthmus.search.collection", "isthmus.sources")


class Worker:
    """A process that forks tasks, one at a time. Use it in a ``with`` block."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "attacks.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # its own group: a task that still runs is ended with it
        self._process.communicate()

    def start(self, module: str, request: Request) -> Task:
        """Start ``module.main(request, say)``; the one before must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"module": module, "request": dict(request)}) + "\n")
        self._process.stdin.flush()
        return Task(self._process.stdout)

    def run(self, module: str, request: Request) -> list[str]:
        """Start a task and wait for its end; anything but success is an error."""
        task = self.start(module, request)
        lines = task.finish()
        if task.status:
            raise RuntimeError(f"{module} ended with {task.status}: {lines[-1:]}")
        return lines


@dataclass(slots=True)
class Task:
    """A task under way."""

    output: Any
    pid: int = 0
    status: int | None = None  # as Popen.returncode: negative where a signal ended it
    error: str = ""  # the traceback of what it raised

    def __iter__(self) -> Iterator[str]:
        """Yield what it says, line by line, until it has ended."""
        for line in self.output:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "say":
                yield rest
            elif word == "pid":
                self.pid = int(rest)
            elif word == "error":
                self.error = json.loads(rest)
            elif word == "exit":
                self.status = int(rest)
                return
        self.status = 1 if self.status is None else self.status
        self.error = self.error or "the worker is gone"

    def kill(self) -> None:
        """End it as a power cut would; what it has said can still be read."""
        os.kill(self.pid, signal.SIGKILL)

    def finish(self) -> list[str]:
        """Return the rest of what it says."""
        return list(self)


@dataclass(slots=True)
class Output:
    """Whole lines, written at once: several processes share the pipe."""

    lines: int = field(default=0)

    def write(self, line: str) -> None:
        os.write(1, line.encode() + b"\n")

    def say(self, what: str) -> None:
        self.lines += 1
        self.write(f"say {what}")


def serve() -> None:
    """Fork a task for each line of the input, and say how it ended."""
    for name in IMPORTED:
        importlib.import_module(name)
    output = Output()
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            _perform(json.loads(line), output)
        _, status = os.waitpid(pid, 0)
        output.write(f"exit {os.waitstatus_to_exitcode(status)}")


def _perform(asked: Mapping[str, Any], output: Output) -> None:
    signal.alarm(LIMIT)
    output.write(f"pid {os.getpid()}")
    try:
        importlib.import_module(asked["module"]).main(asked["request"], output.say)
    except BaseException:  # noqa: BLE001 - told to whoever started it
        output.write(f"error {json.dumps(traceback.format_exc())}")
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    serve()
