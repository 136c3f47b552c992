"""One writer at a time: a lock that the operating system drops when its holder dies."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock

from isthmus.errors import CannotWrite


class WriterLock:
    """Held while a process writes. Threads of one process wait for each other; another process gets an error."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "writer.lock"
        self._note = folder / "writer.json"
        self._threads = RLock()
        self._held = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock, or raise an error that names its holder."""
        from filelock import FileLock, Timeout  # late: readers never need it

        with self._threads:
            if self._held:
                yield
                return
            lock = FileLock(self._path, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise CannotWrite(f"{self._path.parent} is being written by {self._who()}. {_WAIT}") from None
            except OSError as error:
                raise CannotWrite(
                    f"{self._path.parent} cannot be written to ({error.strerror or error}). Check its permissions, or "
                    "copy the collection to where you may write."
                ) from None
            self._held += 1
            try:
                self._sign()
                yield
            finally:
                self._held -= 1
                lock.release()

    def _sign(self) -> None:
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        try:
            self._note.write_text(json.dumps(me))
        except OSError:
            self._note.unlink(missing_ok=True)  # no space for the note: the lock still works

    def _who(self) -> str:
        try:
            note = json.loads(self._note.read_text())
            return f"process {note['pid']} on {note['host']}, since {note['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"


_WAIT = "One writes at a time; searching goes on meanwhile. Try again when it has finished, or stop it."
