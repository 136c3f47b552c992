"""The worker process: answer requests until standard input ends."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from importlib import import_module
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from isthmus import budget
from isthmus.errors import IsthmusError
from isthmus.isolated import frames

IDLE = 60  # seconds without a request after which the worker exits
WAS_IDLE = 75  # the exit status of an idle worker: a request that it just missed is sent again
LARGEST = max(4 * budget.TEXT_BYTES, budget.PICTURE_BYTES)  # of a request: a web page as UTF-8, a picture
GRACE = 2  # times the limit, after which a worker exits: the process that should kill it is gone


class Handler(Protocol):
    """The module that answers: ``isthmus.isolated.pdf``, ``html``, ``parquet``, ``picture`` or ``media``."""

    def answer(self, request: dict[str, Any], blobs: list[bytes]) -> tuple[object, list[bytes]]:
        """Return the answer: a JSON value, and byte strings."""


def main(name: str, memory: int) -> None:
    """Serve requests for one library, whose module is ``isthmus.isolated.NAME``."""
    # Whatever a library prints goes to standard error, not between two answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is for the process that started us, which then closes the pipe
    handler = cast("Handler", import_module(f"isthmus.isolated.{name}"))
    limit = limit_memory(memory)
    frames.write(answers, "ready")
    serve(handler, os.fdopen(0, "rb", buffering=0, closefd=False), answers, limit and limit - memory // 2)


def serve(handler: Handler, requests: BinaryIO | RawIOBase, answers: BinaryIO, most: int | None) -> None:
    """Answer one request after another, until libraries have leaked more than ``most`` bytes of address space."""
    while True:
        if _idle(requests):
            os._exit(WAS_IDLE)
        try:
            request, blobs = frames.read(requests, LARGEST)
        except EOFError:
            return
        _alarm(int(GRACE * request["seconds"]) + 1)
        try:
            body, out = handler.answer(request, blobs)
            reply: tuple[object, list[bytes]] = {"answer": body}, out
        except IsthmusError as error:
            reply = {"error": str(error), "kind": type(error).__name__}, []
        except MemoryError:
            reply = {"error": "", "kind": "MemoryError"}, []
        except OSError as error:
            reply = {"error": error.strerror or str(error), "errno": error.errno, "kind": "OSError"}, []
        except Exception as error:  # noqa: BLE001 - libraries raise anything on damaged files
            reply = {"error": f"{type(error).__name__}: {error}"[:1000], "kind": "Exception"}, []
        with suppress(BrokenPipeError):
            frames.write(answers, *reply)
        _alarm(0)
        if most is not None and _size() > most:
            os._exit(WAS_IDLE)  # the rest might be too little for a large page


def limit_memory(memory: int) -> int | None:
    """Limit this process to ``memory`` bytes beyond its current size; return the limit, or None if there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is expected: no core dump
    try:
        allowed = _size() + memory
    except OSError:
        return None  # not Linux: elsewhere the limit counts reserved addresses, or has no effect
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        allowed = min(allowed, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
    return allowed


def _size() -> int:
    """Return the address space of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _alarm(seconds: int) -> None:
    """Have the system kill this process after some seconds, even inside a library; 0 cancels it."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _idle(requests: BinaryIO | RawIOBase) -> bool:
    if os.name != "posix":  # Windows: select accepts sockets only
        return False
    ready, _, _ = select.select([requests], [], [], IDLE)
    return not ready
