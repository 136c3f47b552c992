"""Transactions that were in each other's way: which can simply be run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from isthmus.errors import CannotWrite

TRIES = 5

Result = TypeVar("Result")


class WriteConflict(CannotWrite):
    """A transaction that the engine rolled back because another was in the way, as in a deadlock."""


def retry_conflicts(work: Callable[[], Result]) -> Result:
    """Run a whole transaction; run it again if another was in the way, a few times.

    >>> tries = []
    >>> def work():
    ...     tries.append(1)
    ...     if len(tries) < 3:
    ...         raise WriteConflict("a deadlock")
    ...     return "done"
    >>> retry_conflicts(work), len(tries)
    ('done', 3)
    """
    for _ in range(TRIES - 1):
        try:
            return work()
        except WriteConflict:
            continue
    return work()
