"""Concurrent requests: searches run together, threads are bounded, and what does not fit is told to come again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from isthmus import Collection
from isthmus.errors import BadInput, UnknownModality
from isthmus.search import Hit, SearchRequest
from isthmus.serve.batching import LARGE, SearchBatcher
from isthmus.serve.errors import Refused
from isthmus.serve.work import WorkPool
from stock import Counting


@pytest.fixture
def pool() -> Iterator[WorkPool]:
    made = WorkPool(2, 100, 60.0)
    yield made
    made.close()


def ids(hits: list[Hit]) -> bytes:
    return ",".join(hit.id for hit in hits).encode()


def searched(
    things: Collection, pool: WorkPool, requests: list[SearchRequest], largest: int = 64
) -> tuple[list[Any], list[int]]:
    """Search for all at the same time; return the answers and the sizes of the batches."""
    sizes: list[int] = []

    async def run() -> list[Any]:
        batcher = SearchBatcher(things, pool, largest, lambda size: sizes.append(int(size)))
        return await asyncio.gather(*(batcher.search(one, ids) for one in requests), return_exceptions=True)

    return asyncio.run(run()), sizes


def test_searches_of_the_same_moment_are_one_run_of_the_encoder(
    things: Collection, counting: Counting, pool: WorkPool
) -> None:
    runs: list[None] = []
    things.search("cat")
    counting.before_queries = lambda: runs.append(None)
    words = ["cat", "red dog", "sofa", "tree", "grass", "house"]
    found, sizes = searched(things, pool, [SearchRequest(one, k=3) for one in words])
    assert (len(runs), sizes) == (1, [6])
    assert found == [ids(things.search(one, k=3)) for one in words]


def test_searches_with_other_options_are_answered_by_their_own(things: Collection, pool: WorkPool) -> None:
    several = [SearchRequest("cat", k=k, where={"odd": True} if k % 2 else None) for k in (1, 2, 3, 1, 2, 3)]
    found, sizes = searched(things, pool, several)
    assert sizes == [6]
    assert found == [ids(things.search(one)) for one in several]


def test_an_error_reaches_the_search_that_caused_it(things: Collection, pool: WorkPool) -> None:
    wrong = SearchRequest("cat", modalities=["txt"])
    found, _ = searched(things, pool, [SearchRequest("cat", k=2), wrong, SearchRequest("dog", k=2)])
    assert isinstance(found[1], BadInput | UnknownModality)
    assert [found[0], found[2]] == [ids(things.search(one, k=2)) for one in ("cat", "dog")]


def test_more_searches_than_a_batch_holds_run_in_several(things: Collection, pool: WorkPool) -> None:
    found, sizes = searched(things, pool, [SearchRequest("cat", k=1)] * 16, largest=10)
    assert sorted(sizes) == [6, 10]
    assert set(found) == {ids(things.search("cat", k=1))}


def test_a_batch_of_one_runs_each_search_alone(things: Collection, counting: Counting, pool: WorkPool) -> None:
    things.search("cat")
    runs: list[None] = []
    counting.before_queries = lambda: runs.append(None)
    found, sizes = searched(things, pool, [SearchRequest(one, k=2) for one in ("cat", "dog", "tree")], largest=1)
    assert (len(runs), sizes) == (3, [])
    assert found == [ids(things.search(one, k=2)) for one in ("cat", "dog", "tree")]


@pytest.mark.parametrize(("later", "sizes"), [(3, [1, 3]), (LARGE, [1, LARGE])])
def test_searches_that_come_while_one_runs_are_the_next_batch(
    things: Collection, counting: Counting, pool: WorkPool, later: int, sizes: list[int]
) -> None:
    things.search("cat")
    running, go, seen = Event(), Event(), list[int]()

    def hold() -> None:
        running.set()
        if seen == [1]:  # a large batch begins beside the first; a small one after it, or when it has waited
            go.wait()

    counting.before_queries = hold

    async def run() -> list[bytes]:
        batcher = SearchBatcher(things, pool, 64, lambda size: seen.append(int(size)))
        first = asyncio.ensure_future(batcher.search(SearchRequest("red cat", k=1), ids))
        await asyncio.to_thread(running.wait)
        others = [asyncio.ensure_future(batcher.search(SearchRequest(f"dog {n}", k=1), ids)) for n in range(later)]
        await asyncio.gather(*others)
        go.set()
        return [await first, *(one.result() for one in others)]

    assert len(asyncio.run(run())) == later + 1
    assert seen == sizes


def test_work_beyond_what_may_wait_is_refused_with_a_time_to_come_again() -> None:
    go = Event()

    async def run() -> Refused:
        first = asyncio.ensure_future(small.run(go.wait))
        await asyncio.sleep(0)
        with pytest.raises(Refused) as refused:
            await small.run(go.wait)
        go.set()
        await first
        assert await small.run(lambda: 5) == 5
        return refused.value

    small = WorkPool(1, 1, 60.0)
    error = asyncio.run(run())
    small.close()
    assert (error.status, error.headers) == (503, {"Retry-After": "1"})


def test_work_that_takes_too_long_is_answered_and_keeps_its_place_until_it_ends() -> None:
    go = Event()

    async def run() -> Refused:
        with pytest.raises(Refused) as refused:
            await small.run(go.wait)
        assert small.busy == 1
        go.set()
        async with asyncio.timeout(60):
            while small.busy:
                await asyncio.sleep(0)
        return refused.value

    small = WorkPool(1, 5, 0.01)
    error = asyncio.run(run())
    small.close()
    assert (error.status, "Retry-After" in error.headers) == (503, True)


def test_what_was_accepted_is_finished_when_the_pool_closes(tmp_path: Path) -> None:
    go, done = Event(), tmp_path / "done"

    def work() -> None:
        go.wait()
        done.touch()

    async def run() -> None:
        asyncio.ensure_future(small.run(work))  # noqa: RUF006 - nobody waits for it
        await asyncio.sleep(0)
        go.set()
        await asyncio.to_thread(small.close)

    small = WorkPool(1, 5, 60.0)
    asyncio.run(run())
    assert done.exists()
