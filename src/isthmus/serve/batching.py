"""Concurrent searches of a collection run together: one encoder run for all that wait.

A search that comes alone begins at once. While a batch runs, the next one gathers: it begins when the first has ended,
when it is large, or after a short while, so that nobody waits for a slow search of somebody else. Searches with the
same options are searched together, others one after another in the same batch. If a batch fails, each search runs
alone, so that an error reaches the search that caused it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from isthmus.search import Collection, Hits, SearchRequest
from isthmus.serve.work import WorkPool
from isthmus.spans import stage

LANES = 2  # batches of a collection that run at the same time
LARGE = 8  # searches that begin beside a running batch: more save little
PATIENCE = 0.02  # seconds that a search waits for a running batch, if there is a free lane


@dataclass(slots=True, eq=False)
class WaitingSearch:
    """A search that waits for its batch."""

    request: SearchRequest
    finish: Callable[[Hits], bytes]
    done: asyncio.Future[bytes]
    context: Context = field(default_factory=copy_context)  # of its request, whose span is in it


@dataclass(slots=True, eq=False)
class SearchBatcher:
    """Gathers the searches of one collection, at most ``largest`` in a batch; used on the event loop alone."""

    things: Collection
    pool: WorkPool
    largest: int
    told: Callable[[int], None]  # the size of each batch
    _waiting: list[WaitingSearch] = field(default_factory=list)
    _running: int = 0
    _timer: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def search(self, request: SearchRequest, finish: Callable[[Hits], bytes]) -> bytes:
        """Search, with others if there are any; return what ``finish`` makes of the hits, on the thread."""
        if self.largest == 1:
            return await self.pool.run(lambda: finish(self.things.search(request)))
        self.pool.check()
        loop = asyncio.get_running_loop()
        one = WaitingSearch(request, finish, loop.create_future())
        self._waiting.append(one)
        if len(self._waiting) == 1:
            # not at once even if no batch runs: requests that the event loop has read already come along
            self._timer = loop.call_later(PATIENCE if self._running else 0, self._start)
        elif len(self._waiting) >= LARGE and 0 < self._running < LANES:
            self._start()
        return await one.done

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._running < LANES:
            batch, self._waiting = self._waiting[: self.largest], self._waiting[self.largest :]
            batch = [one for one in batch if not one.done.done()]  # the client may be gone
            if batch:
                self._running += 1
                task = asyncio.get_running_loop().create_task(self._run(batch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _run(self, batch: Sequence[WaitingSearch]) -> None:
        ordered = grouped(batch)
        try:
            self.told(len(ordered))
            found = await self.pool.run(lambda: _together(self.things, ordered), ordered[0].context)
            for one, answered in zip(ordered, found, strict=True):
                if one.done.done():
                    continue
                if isinstance(answered, bytes):
                    one.done.set_result(answered)
                else:
                    one.done.set_exception(answered)
        except Exception as error:  # noqa: BLE001 - each search gets it
            for one in ordered:
                if not one.done.done():
                    one.done.set_exception(error)
        finally:
            self._running -= 1
            self._start()


def grouped(batch: Sequence[WaitingSearch]) -> list[WaitingSearch]:
    """Put searches with the same options side by side: they are encoded and searched together."""
    groups: list[list[WaitingSearch]] = []
    for one in batch:
        same = next((group for group in groups if group[0].request.same_options(one.request)), None)
        if same is None:
            groups.append([one])
        else:
            same.append(one)
    return [one for group in groups for one in group]


def _together(things: Collection, batch: Sequence[WaitingSearch]) -> list[bytes | Exception]:
    """Answer a batch, in the trace of its first search; those of the others are linked to it."""
    if len(batch) == 1:
        return _answers(things, batch)
    with stage("batch", len(batch), [one.context for one in batch[1:]]):
        return _answers(things, batch)


def _answers(things: Collection, batch: Sequence[WaitingSearch]) -> list[bytes | Exception]:
    try:
        found = things.search_many([one.request for one in batch])
    except Exception as error:  # noqa: BLE001 - of one of them; the others are answered
        return [error] if len(batch) == 1 else [_answers(things, [one])[0] for one in batch]
    return [_finished(one, hits) for one, hits in zip(batch, found, strict=True)]


def _finished(one: WaitingSearch, hits: Hits) -> bytes | Exception:
    try:
        return one.finish(hits)
    except Exception as error:  # noqa: BLE001 - of this one alone
        return error
