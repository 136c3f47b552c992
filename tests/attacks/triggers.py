"""When a process ends: at the n-th thing it does to the disk, or inside a write, or when it has said so many lines.

event    before the n-th statement that changes a database, the n-th thousand steps SQLite takes inside a transaction,
         or the n-th file that is opened for writing, written to, renamed, deleted or flushed, all counted together:
         the process sends SIGKILL to itself
bytes    inside the write that would make a file longer than n: the kernel ends the process (SIGXFSZ); what fits is
         written, so the last page or frame is torn
line     whoever started it sends SIGKILL after n lines
"""

from __future__ import annotations

import io
import os
import resource
import signal
import sqlite3
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STEPS = 1000  # of SQLite's virtual machine
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
METHODS = frozenset({"write", "writelines", "flush", "close", "truncate"})
CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"})


@dataclass(slots=True)
class Events:
    """Counts what a process does to the files of a folder, and ends it at a number."""

    folder: Path
    last: int = 0  # 0: never
    count: int = 0
    armed: bool = False

    def happened(self) -> None:
        """Count one event."""
        if not self.armed:
            return
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Have everything counted from now on: databases that are opened later, files, flushes."""
        connect, fsync = sqlite3.connect, os.fsync

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:  # the signature of sqlite3.connect
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._statement)
            connection.set_progress_handler(lambda: self._step(connection), STEPS)
            return connection

        def flushed(file: int) -> None:
            self.happened()
            fsync(file)

        sqlite3.connect = connected  # type: ignore[assignment]
        os.fsync = flushed  # type: ignore[assignment]
        sys.addaudithook(self._audit)
        sys.setprofile(self._call)
        threading.setprofile(self._call)
        self.armed = True

    def _statement(self, statement: str) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "--")):
            self.happened()

    def _call(self, _: object, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ in METHODS and isinstance(called.__self__, io.IOBase):
            self.happened()

    def _step(self, connection: sqlite3.Connection) -> int:
        if connection.in_transaction:
            self.happened()
        return 0

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITES and str(path).startswith(str(self.folder)):
                self.happened()
        elif event in CHANGES and str(arguments[0]).startswith(str(self.folder)):
            self.happened()


def arm(trigger: Mapping[str, Any], folder: Path) -> Events:
    """Set a trigger in this process; ``{"kind": "none"}`` counts only."""
    events = Events(folder, int(trigger["at"]) if trigger["kind"] == "event" else 0)
    events.watch()
    if trigger["kind"] == "bytes":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        limit_files(int(trigger["at"]))
    return events


def limit_files(size: int | None) -> None:
    """Let no file grow beyond a size; None lifts the limit."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard if size is None else size, hard))
