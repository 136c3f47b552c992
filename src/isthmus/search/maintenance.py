"""The maintenance thread of a collection: work that no search should wait for.

At most one task runs at a time, on a thread that is started for it and ends with it. So a program that ends waits for
the task that is running, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread

NAME = "isthmus-maintenance"


class MaintenanceWorker:
    """Runs one task at a time in the background."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._thread: Thread | None = None
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a task is running."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def start(self, task: Callable[[], None]) -> bool:
        """Run a task in the background; False, and nothing is done, while another one runs or after ``close``."""
        with self._lock:
            if self._closed or self.busy:
                return False
            self._thread = Thread(target=task, name=NAME)  # not a daemon: a half-written index helps nobody
            self._thread.start()
            return True

    def wait(self) -> None:
        """Wait for the task that is running."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Wait for the task that is running, and accept no other."""
        with self._lock:
            self._closed = True
        self.wait()
