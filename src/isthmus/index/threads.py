"""Work cut into pieces for all cores. NumPy lets go of the interpreter while it computes, so threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from isthmus._optional import need

Result = TypeVar("Result")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def pool(threads: int) -> ThreadPoolExecutor:
    """Return the threads that all searches share: several searches at once do not make more of them."""
    return ThreadPoolExecutor(threads, thread_name_prefix="isthmus-index")


def in_pieces(work: Callable[[int, int], object], total: int, size: int, threads: int | None = None) -> None:
    """Call ``work(start, stop)`` for each piece of ``range(total)``; one piece is done right here.

    >>> done = []
    >>> in_pieces(lambda start, stop: done.append((start, stop)), 5, 2, threads=1)
    >>> done
    [(0, 2), (2, 4), (4, 5)]
    """
    pieces = [(start, min(start + size, total)) for start in range(0, total, size)]
    threads = min(threads or cores(), len(pieces))
    if threads <= 1:
        for piece in pieces:
            work(*piece)
    else:
        list(pool(threads).map(lambda piece: work(*piece), pieces))


def limited(work: Callable[[], Result], threads: int | None) -> Result:
    """Run Faiss with so many threads: in a thread of its own, for OpenMP keeps the number per calling thread.

    >>> limited(lambda: 1 + 1, None)
    2
    """
    if threads is None:
        return work()

    def alone() -> Result:
        need("faiss", extra="ann").omp_set_num_threads(threads)
        return work()

    with ThreadPoolExecutor(1) as one:
        return one.submit(alone).result()
