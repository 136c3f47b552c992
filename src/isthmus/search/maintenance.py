"""The maintenance thread of a collection: work that no search should wait for.

At most one task runs at a time, on a thread that is started for it and ends with it. So a program that ends waits for
the task that is running, and for nothing else.

A task gives way to searches: its thread has the lowest priority where threads have one of their own (Linux), and while
it runs, Python's interpreter changes threads every tenth of a millisecond instead of every five. A search gives up the
interpreter at each statement of SQL and each product of matrices; each time it would wait so long to get it back.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread, get_native_id

from isthmus.index.threads import cores, pool

NAME = "isthmus-maintenance"
NICENESS = 19  # of the thread: the lowest priority
SWITCH = 0.0001  # seconds after which the interpreter changes threads


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
            self._thread = Thread(target=_run, args=(task,), name=NAME)  # not a daemon: it finishes
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


def _run(task: Callable[[], None]) -> None:
    with giving_way():
        task()


class SwitchInterval:
    """Python's switch interval, shortened while at least one task runs; it belongs to the whole process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tasks = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._tasks:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, SWITCH))
            self._tasks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._tasks -= 1
            if not self._tasks:
                sys.setswitchinterval(self._usual)


_switch_interval = SwitchInterval()


@contextmanager
def giving_way() -> Iterator[None]:
    """Let other threads go first while this one works; threads that it starts inherit its priority."""
    pool(cores())  # which searches share, is started before
    if sys.platform == "linux":  # elsewhere a priority is that of the whole process
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)
    with _switch_interval:
        yield
