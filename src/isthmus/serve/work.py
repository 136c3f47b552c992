"""``WorkPool``: blocking work on a bounded number of threads; more than can wait is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import TypeVar

from isthmus.serve.errors import Refused

Result = TypeVar("Result")


class WorkPool:
    """Runs blocking functions on ``threads`` threads. At most ``waiting`` run or wait, each at most ``seconds``.

    A function that takes longer is answered with 503 and goes on: threads cannot be stopped. It keeps its place.
    """

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self.waiting, self.seconds = waiting, seconds
        self.busy = 0  # running or waiting; changed on the event loop alone
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="isthmus-serve")

    async def run(self, work: Callable[[], Result], context: Context | None = None) -> Result:
        """Run a function on a thread and return its result; in a context that runs nothing else, or the caller's."""
        self.check()
        self.busy += 1
        context = copy_context() if context is None else context  # the span of the request is in it
        future = asyncio.get_running_loop().run_in_executor(self._executor, context.run, work)
        future.add_done_callback(self._done)
        await asyncio.wait({future}, timeout=self.seconds)
        if not future.done():
            raise Refused.later(503, f"This took more than {self.seconds:g} seconds. Ask for less, or try later.", 10)
        return future.result()

    def check(self) -> None:
        """Refuse more work than can wait."""
        if self.busy >= self.waiting:
            raise Refused.later(503, f"The server is busy: {self.busy} requests are waiting. Try again.")

    def _done(self, future: asyncio.Future[Result]) -> None:
        self.busy -= 1
        if not future.cancelled():
            future.exception()  # it has been looked at, also if nobody waits any more

    def close(self) -> None:
        """Finish everything that was accepted."""
        self._executor.shutdown(wait=True)
