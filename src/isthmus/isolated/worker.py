"""Our side of a worker process: start it, ask it, end it when it runs away."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock, Timer
from typing import Any, BinaryIO, cast

from isthmus import budget, errors
from isthmus.errors import BadInput, IsthmusError
from isthmus.isolated import frames
from isthmus.isolated.main import WAS_IDLE

# The path is the one that we import from, so that the worker finds what we found. -P: not the working folder.
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); from isthmus.isolated.main import main; "
    "main(sys.argv[1], int(sys.argv[2]))"
)
LARGEST = 1024 * budget.MIB  # of an answer; a worker cannot make more than its memory holds
STARTING = 60.0  # seconds that a new worker has for its imports
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


class RanAway(BadInput):
    """The worker was killed or ended by itself: the file took too long, too much memory, or crashed the library."""


class Worker:
    """A process that runs one library; used from many threads, one request at a time."""

    def __init__(self, name: str, memory: int = budget.MEMORY) -> None:
        self.name = name
        self.memory = memory
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._inherited: list[object] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: Mapping[str, object], blobs: Sequence[bytes] = ()) -> frames.Message:
        """Return the answer to a request, which has ``budget.SECONDS``.

        Raises ``RanAway`` when there is none in time or the worker ended, and what the worker raised otherwise.
        """
        seconds = budget.SECONDS
        with self._lock:
            try:
                message = self._exchange({**request, "seconds": seconds}, blobs, seconds)
            except BaseException:  # Ctrl-C too: an answer that nobody waits for would be taken for the next one
                self._end()
                raise
        if "error" in message.body:
            raise _raised(message.body, self.memory)
        return frames.Message(message.body["answer"], message.blobs)

    def drop(self, reading: object) -> None:
        """Have the worker close what a reading has open, if there is a worker."""
        process = self._process
        if process is not None and process.poll() is None:
            with suppress(BadInput, OSError):
                self.ask({"reading": reading, "close": True})

    def close(self) -> None:
        """End the process; the next request starts another."""
        with self._lock:
            self._end()

    def _exchange(self, request: Mapping[str, object], blobs: Sequence[bytes], seconds: float) -> frames.Message:
        for _ in range(2):
            process = self._ready()
            timer = _Timer(process, seconds)
            try:
                frames.write(cast("BinaryIO", process.stdin), request, blobs)
                return frames.read(cast("BinaryIO", process.stdout), LARGEST)
            except (EOFError, OSError, ValueError):
                timer.cancel()
                with suppress(subprocess.TimeoutExpired):  # its end of the pipe is closed: it has ended, or is about to
                    process.wait(timeout=1)
                self._end()
                if process.returncode != WAS_IDLE:
                    raise _gone(process.returncode, seconds, self.memory, late=timer.late) from None
            finally:
                timer.cancel()
        raise _gone(WAS_IDLE, seconds, self.memory, late=False)

    def _ready(self) -> subprocess.Popen[bytes]:
        """Return the process, started now unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        if not sys.executable or getattr(sys, "frozen", False):
            raise BadInput("needs a Python interpreter to be read in a process of its own, and this program has none")
        command = [
            sys.executable,
            "-P",
            "-c",
            START,
            self.name,
            str(self.memory),
            json.dumps([place for place in sys.path if isinstance(place, str)]),
        ]
        self._process = started = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **QUIET},
        )
        atexit.register(self.close)
        timer = _Timer(started, STARTING)
        try:
            frames.read(cast("BinaryIO", started.stdout), LARGEST)  # it says when it has imported what it needs
        except EOFError:
            self._end()
            raise BadInput(
                f"cannot be read: the process for it ended with status {started.returncode} before it began. Check "
                f"that python -m isthmus.isolated.{self.name} runs without an error"
            ) from None
        finally:
            timer.cancel()
        return started

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                cast("BinaryIO", stream).close()
        process.kill()
        process.wait()
        atexit.unregister(self.close)

    def _forget(self) -> None:
        """Leave the worker to the process that started it: this one is its copy, after a fork."""
        self._lock = Lock()
        self._inherited.append(self._process)  # kept, so that it is not waited for here
        self._process = None


class _Timer:
    """Kill a process after some seconds, unless this is cancelled."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        self.late = False
        self._process = process
        self._timer = Timer(seconds, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Let it live."""
        self._timer.cancel()

    def _kill(self) -> None:
        self.late = True
        self._process.kill()


def _raised(body: Mapping[str, Any], memory: int) -> Exception:
    if body["kind"] == "MemoryError":
        return RanAway(
            f"takes more than {budget.mebibytes(memory)} of memory to read. It is malformed, perhaps on purpose"
        )
    if body["kind"] == "OSError":
        return OSError(body["errno"], body["error"])
    known = getattr(errors, body["kind"], None)
    if isinstance(known, type) and issubclass(known, IsthmusError):
        return known(body["error"])
    return BadInput(f"cannot be read: {body['error']}. It is damaged, or of another kind")


def _gone(status: int, seconds: float, memory: int, *, late: bool) -> RanAway:
    if late:
        return RanAway(f"takes more than {seconds:g} seconds to read. It is malformed or too complicated")
    return RanAway(
        f"ended the process that reads it (status {status}): it takes more than {budget.mebibytes(memory)} of "
        "memory, or meets a fault in the library. It is malformed, perhaps on purpose"
    )
