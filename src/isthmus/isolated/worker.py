"""The client of a worker process: start it, send requests, kill it when it takes too long."""

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

# The worker gets our sys.path, so that it imports the same modules. -P: not the working folder.
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); from isthmus.isolated.main import main; "
    "main(sys.argv[1], int(sys.argv[2]))"
)
LARGEST = 1024 * budget.MIB  # bytes of an answer; more than the memory of a worker
STARTING = 60.0  # seconds for the imports of a new worker
QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}


class RanAway(BadInput):
    """The worker was killed or crashed: the file took too long or too much memory, or crashed the library."""


class Worker:
    """A process that runs one library; used from many threads, one request at a time."""

    def __init__(self, name: str, memory: int = budget.MEMORY, seconds: float | None = None) -> None:
        self.name = name
        self.memory = memory
        self.seconds = seconds
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._inherited: list[object] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def ask(self, request: Mapping[str, object], blobs: Sequence[bytes] = ()) -> frames.Message:
        """Return the answer to a request, within its ``seconds`` (default: ``budget.SECONDS``).

        Raises ``RanAway`` if there is no answer in time or the worker exited, and otherwise the worker's own error.
        """
        seconds = budget.SECONDS if self.seconds is None else self.seconds
        with self._lock:
            try:
                message = self._exchange({**request, "seconds": seconds}, blobs, seconds)
            except BaseException:  # Ctrl-C too: otherwise the late answer would be read as the next one
                self._end()
                raise
        if "error" in message.body:
            raise _raised(message.body, self.memory)
        return frames.Message(message.body["answer"], message.blobs)

    def drop(self, reading: object) -> None:
        """Have the worker close the file of a reading, if there is a worker."""
        process = self._process
        if process is not None and process.poll() is None:
            with suppress(BadInput, OSError):
                self.ask({"reading": reading, "close": True})

    def close(self) -> None:
        """Stop the process; the next request starts another."""
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
                with suppress(
                    subprocess.TimeoutExpired
                ):  # its end of the pipe is closed: it has exited, or is about to
                    process.wait(timeout=1)
                self._end()
                if process.returncode != WAS_IDLE:
                    raise _gone(process.returncode, seconds, self.memory, late=timer.late) from None
            finally:
                timer.cancel()
        raise _gone(WAS_IDLE, seconds, self.memory, late=False)

    def _ready(self) -> subprocess.Popen[bytes]:
        """Return the process; start it if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        if not sys.executable or getattr(sys, "frozen", False):
            raise BadInput("is read in a separate process, which needs a Python interpreter, and this program has none")
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
            frames.read(cast("BinaryIO", started.stdout), LARGEST)  # sent after the imports
        except EOFError:
            self._end()
            raise BadInput(
                f"cannot be read: its reader exited with status {started.returncode} at the start. Check "
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
        """After a fork, leave the worker to the parent process."""
        self._lock = Lock()
        self._inherited.append(self._process)  # keep a reference, so that this process does not wait for it
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
        """Cancel."""
        self._timer.cancel()

    def _kill(self) -> None:
        self.late = True
        self._process.kill()


def _raised(body: Mapping[str, Any], memory: int) -> Exception:
    if body["kind"] == "MemoryError":
        return RanAway(f"takes more than {budget.mebibytes(memory)} of memory to read. It is malformed")
    if body["kind"] == "OSError":
        return OSError(body["errno"], body["error"])
    known = getattr(errors, body["kind"], None)
    if isinstance(known, type) and issubclass(known, IsthmusError):
        return known(body["error"])
    return BadInput(f"cannot be read: {body['error']}. It is damaged, or has another format")


def _gone(status: int, seconds: float, memory: int, *, late: bool) -> RanAway:
    if late:
        return RanAway(f"takes more than {seconds:g} seconds to read. It is malformed or too complicated")
    return RanAway(
        f"crashed the process that reads it (status {status}): it takes more than {budget.mebibytes(memory)} of "
        "memory, or triggers a bug in the library. It is malformed"
    )
