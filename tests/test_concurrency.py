"""Searches never wait: not for a calibration, a rebuild, a load, or a writer; and each answer is of one state."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, Event, Thread, current_thread, get_native_id
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.encoders import Encoder
from isthmus.index.threads import cores, in_pieces, pool
from isthmus.search import explain, index_folder, snapshot, snapshot_builder, snapshot_manager
from isthmus.search.maintenance import NAME, NICENESS, SWITCH, MaintenanceWorker, giving_way
from isthmus.search.snapshot_builder import SnapshotBuilder
from stock import Counting, mixed, unit
from test_snapshots import ASKED, ROWS, folder, generation

__all__ = ["folder"]
SOON = 60  # seconds after which a test that hangs fails


class Gate:
    """Holds up whoever comes through on some threads, until it is opened."""

    def __init__(self, *, holds: Callable[[str], bool]) -> None:
        self.reached, self.opened, self.holds = Event(), Event(), holds

    def __call__(self) -> None:
        if self.holds(current_thread().name):
            self.reached.set()
            assert self.opened.wait(SOON)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Wait until somebody is held up, and let them go at the end of the block."""
        try:
            assert self.reached.wait(SOON)
            yield
        finally:
            self.opened.set()


def test_sixteen_threads_get_right_answers_while_documents_come_and_go_and_are_calibrated(folder: Path) -> None:
    """All twenty documents are replaced in one commit, over and over; each search finds all of one generation."""
    over, wrong = Event(), []
    extra = [Document(f"x{i}", vectors={"text": row}) for i, row in enumerate(unit(-ROWS[:4]))]

    def search(things: Collection, number: int) -> int:
        wishes: list[dict[str, Any]] = [{}, {"explain": True}, {"where": {"n": {"gte": -1}}}, {"calibration": "none"}]
        options = wishes[number % 4]
        count = 0
        while not over.is_set():
            hits = [hit for hit in things.search(ASKED, k=24, **options) if hit.id.startswith("v")]
            if hits[0].id != "v3" or len(hits) != 20 or len({hit.document.metadata["n"] for hit in hits}) != 1:
                wrong.append(str(hits))
            count += 1
        return count

    with Collection.open(folder, follow=False) as things, ThreadPoolExecutor(17) as pool:
        searches = [pool.submit(search, things, number) for number in range(16)]
        try:
            calibrations = pool.submit(
                lambda: [things.calibrate(("center", "none")[turn % 2], _own()) for turn in range(2)]
            )
            for number in range(5):
                things.add(generation(number))
                things.add(extra)
                things.delete([document.id for document in extra])
            calibrations.result(SOON)
        finally:
            over.set()
        assert all(one.result(SOON) for one in searches)
        assert wrong == []
        assert things.verify() == []


def _own() -> list[Query]:
    return [Query("a cat", vectors={"text": row}) for row in ROWS]


def test_a_search_during_a_calibration_returns(tmp_path: Path, encoder: Encoder) -> None:
    gate = Gate(holds=lambda name: name == "calibrating")
    asked = Query(vectors={"text": np.arange(1.0, 9.0)})
    with Collection.open(tmp_path / "c", Counting(encoder, before_queries=gate), "center", follow=False) as things:
        things.add(mixed(20))
        before = things.search(asked, k=30)
        calibrating = Thread(target=lambda: things.calibrate("none"), name="calibrating")
        calibrating.start()
        with gate.closed():
            assert things.search(asked, k=30) == before
            things.add([Document("new", "a cat")])
            assert len(things.search(asked, k=30, explain=True)) == 21
            assert len(things.search(asked, k=30, calibration="none")) == 21
            assert things.stats().calibration == {**things.stats().calibration, "spec": "center"}  # type: ignore[dict-item]
        calibrating.join(SOON)
        found = things.search(asked, k=30)
        assert len(found) == 21
        assert all(hit.score == pytest.approx(hit.similarity, abs=1e-6) for hit in found)


def test_a_search_during_a_rebuild_returns_and_the_next_ones_are_served_by_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "REBUILD", (5, 0.0))
    monkeypatch.setattr(snapshot_builder, "DRIFT", np.inf)
    gate = Gate(holds=lambda name: name == NAME)
    write = index_folder.write

    def held_up(*given: object) -> object:
        gate()
        return write(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(index_folder, "write", held_up)
    with Collection.open(folder) as things:
        for number in (1, 2):
            things.add(generation(number))
            assert len(things.search(ASKED, k=20)) == 20
        with gate.closed():
            things.add(generation(3))
            assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20)} == {3}
        things._snapshots.wait()
        served = things._snapshots.current
        assert served is not None
        assert sum(map(len, served.built)) in (20, 40)
        assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20)} == {3}
        assert things.verify() == []


def test_a_large_collection_is_searched_by_the_old_calibration_until_another_process_s_is_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_manager, "PATIENT", 10)
    gate = Gate(holds=lambda name: name == NAME)
    load = SnapshotBuilder.loaded_or_built

    def held_up(self: SnapshotBuilder, version: int) -> object:
        gate()
        return load(self, version)

    monkeypatch.setattr(SnapshotBuilder, "loaded_or_built", held_up)
    with Collection.open(folder, follow=False) as things, Collection.open(folder, follow=False) as other:
        before = [(hit.id, hit.score) for hit in things.search(ASKED)]
        other.calibrate("none")
        assert [(hit.id, hit.score) for hit in things.search(ASKED)] == before
        with gate.closed():
            things.add(generation(1))
            assert {hit.document.metadata["n"] for hit in things.search(ASKED)} == {1}
            assert [(hit.id, hit.score) for hit in things.search(ASKED)] == before
        things._snapshots.wait()
        found = [(hit.id, hit.score) for hit in things.search(ASKED)]
        assert found == [(hit.id, hit.score) for hit in other.search(ASKED)]
        assert found != before


def test_a_calibration_that_cannot_be_loaded_is_not_tried_again_at_each_search(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_manager, "PATIENT", 10)
    tried: list[int] = []

    def failing(self: SnapshotBuilder, version: int) -> object:
        tried.append(version)
        raise OSError("the disk fails")

    with Collection.open(folder, follow=False) as things, Collection.open(folder, follow=False) as other:
        before = things.search(ASKED)
        other.calibrate("none")
        monkeypatch.setattr(SnapshotBuilder, "loaded_or_built", failing)
        for _ in range(3):
            assert things.search(ASKED) == before
            things._snapshots.wait()
        assert len(tried) == 1
        assert things.stats().last_error == "the disk fails"


def test_what_another_process_has_indexed_is_loaded_rather_than_folded_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_manager, "REBUILD", (10, 0.0))
    monkeypatch.setattr(snapshot, "PERSIST", (10, 0.0))
    with Collection.open(folder, follow=False) as things:
        things.search(ASKED)
        with Collection.open(folder, follow=False) as other:
            other.add(generation(1))
            other.add([Document(f"w{i}", vectors={"text": row}) for i, row in enumerate(ROWS)])
            other.search(ASKED)
        found = things.search(ASKED, k=40)
        assert len(found) == 40
        assert things._snapshots.current is not None
        assert not things._snapshots.current.recent


def test_an_explanation_folds_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collection.open(folder, follow=False) as things:
        things.search(ASKED)
        monkeypatch.setattr(SnapshotBuilder, "pieces", None)
        assert things.search(ASKED, explain=True)[0].explanation is not None
        assert things._snapshots.raw_snapshot is None


def test_a_rank_before_calibration_is_told_as_far_as_candidates_are_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "RANKS", 3)
    with Collection.open(folder, follow=False) as things:
        told = [hit.explanation for hit in things.search(ASKED, k=20, explain=True)]
    assert sorted(one.rank_before for one in told if one is not None and one.rank_before is not None) == [1, 2, 3]


def test_the_worker_runs_one_task_at_a_time_and_none_after_it_is_closed() -> None:
    worker, go_on, done = MaintenanceWorker(), Event(), []

    def task() -> None:
        go_on.wait(SOON)
        done.append(current_thread().name)

    assert worker.start(task)
    assert not worker.start(task)
    go_on.set()
    worker.wait()
    assert worker.start(task)
    worker.close()
    assert not worker.start(task)
    assert done == [NAME, NAME]


def test_tasks_give_way_and_the_interpreter_is_as_before_afterwards() -> None:
    usual, seen = sys.getswitchinterval(), []

    def task() -> None:
        with giving_way():
            seen.append(sys.getswitchinterval())

    for _ in range(2):  # each on a thread of its own: its priority stays lower
        worker = MaintenanceWorker()
        assert worker.start(task)
        worker.close()
    assert seen == [pytest.approx(SWITCH)] * 2
    assert sys.getswitchinterval() == usual


def test_a_search_inside_a_search_does_not_wait_for_itself(folder: Path, encoder: Encoder) -> None:
    """More searches at once than there are turns, each with another inside."""
    with Collection.open(folder, follow=False) as things:
        inner = Counting(encoder, before_queries=lambda: things.search(ASKED, 1))
        with (
            Collection.open(":memory:", inner, calibration="none") as others,
            ThreadPoolExecutor(2 * cores() + 4) as pool,
        ):
            others.add(mixed(20))
            found = list(pool.map(lambda _: len(others.search("a cat", 3)), range(32)))
        assert found == [3] * 32


def test_stats_go_on_while_indexes_come_and_go(folder: Path) -> None:
    over = Event()

    def churn() -> None:
        while not over.is_set():
            (folder / "index" / "0-0.tmp" / "deep").mkdir(parents=True)
            shutil.rmtree(folder / "index" / "0-0.tmp")

    with Collection.open(folder, follow=False) as things:
        things.search(ASKED)
        thread = Thread(target=churn)
        thread.start()
        try:
            for _ in range(200):
                assert things.stats().documents
        finally:
            over.set()
            thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a priority of their own only on Linux")
def test_threads_that_all_searches_share_keep_their_priority_when_work_gives_way() -> None:
    pool.cache_clear()

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, get_native_id())

    def work() -> None:
        with giving_way():
            in_pieces(lambda start, stop: found.append(niceness()), 1, 1)

    found, usual, together = list[int](), niceness(), Barrier(cores())

    def of_shared() -> int:
        together.wait()  # each thread of the pool answers once
        return niceness()

    apart = Thread(target=work)
    apart.start()
    apart.join()
    assert found == [NICENESS]
    shared = [pool(cores()).submit(of_shared) for _ in range(cores())]
    assert {one.result() for one in shared} == {usual}
