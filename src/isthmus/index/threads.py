"""Split work for all cores. NumPy releases the interpreter lock while it computes, so threads are enough."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Barrier, BoundedSemaphore, Lock, local
from typing import TypeVar

from isthmus._optional import need

Result = TypeVar("Result")


class Working:
    """How many threads work on pieces now: there is no use in more than there are cores."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0

    @contextmanager
    def reserved(self, wanted: int) -> Iterator[int]:
        """Count the calling thread and those that may help it, up to ``wanted`` in all; yield how many may help."""
        with self._lock:
            helpers = max(0, min(wanted, cores() - self._count) - 1)
            self._count += 1 + helpers
        try:
            yield helpers
        finally:
            with self._lock:
                self._count -= 1 + helpers


_working = Working()


class Turns:
    """Lets as many threads compute at once as there are cores, and one more; the others take turns.

    With more, the system would often stop the thread that holds Python's interpreter lock, and all others with it. A
    thread that has its turn and asks again, as a search inside an encoder would, goes on.

    >>> turns = Turns(1)
    >>> with turns, turns:
    ...     print("goes on")
    goes on
    """

    def __init__(self, count: int) -> None:
        self._slots = BoundedSemaphore(count)
        self._mine = local()

    def __enter__(self) -> None:
        depth = getattr(self._mine, "depth", 0)
        if not depth:
            self._slots.acquire()
        self._mine.depth = depth + 1

    def __exit__(self, *_: object) -> None:
        self._mine.depth -= 1
        if not self._mine.depth:
            self._slots.release()


@cache
def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Return the thread pool that all searches share; its threads are all started, for they inherit a priority."""
    made, together = ThreadPoolExecutor(threads, thread_name_prefix="isthmus-index"), Barrier(threads)
    for started in [made.submit(together.wait) for _ in range(threads)]:
        started.result()
    return made


def in_pieces(work: Callable[[int, int], object], total: int, size: int, threads: int | None = None) -> None:
    """Call ``work(start, stop)`` for each piece of ``range(total)``, in this thread and in idle threads of the pool.

    The calling thread takes pieces like all others. If several searches run at once, each does its own work.

    >>> done = []
    >>> in_pieces(lambda start, stop: done.append((start, stop)), 5, 2, threads=1)
    >>> done
    [(0, 2), (2, 4), (4, 5)]
    """
    left = deque(range(0, total, size))

    def take() -> None:
        while left:
            try:
                start = left.popleft()
            except IndexError:  # another thread was faster
                return
            work(start, min(start + size, total))

    with _working.reserved(min(threads or cores(), len(left))) as helpers:
        others = [pool(cores()).submit(take) for _ in range(helpers)]
        try:
            take()
        finally:
            for other in others:
                if not other.cancel():  # one that has not begun is not needed any more
                    other.result()


def limited(work: Callable[[], Result], threads: int | None) -> Result:
    """Run Faiss with ``threads`` threads; OpenMP stores the number per calling thread, and it is restored afterwards.

    A single query needs one. With more, each searching thread would have idle OpenMP threads, which spin.

    >>> limited(lambda: 1 + 1, None)
    2
    """
    if threads is None:
        return work()
    faiss = need("faiss", extra="ann")
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        return work()
    finally:
        faiss.omp_set_num_threads(before)
