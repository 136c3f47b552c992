"""One search sees one state of a collection, whatever others write meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from typing import cast

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadFile, CannotWrite
from isthmus.search import versions
from isthmus.search.snapshot import Snapshot
from isthmus.search.snapshot_builder import SnapshotBuilder
from isthmus.storage.sqlite.database import Database
from stock import FILE, database, own, unit

HERE = Path(__file__).parent
ROWS = unit(np.random.default_rng(0).normal(size=(20, 8)))
ASKED = Query(vectors={"text": ROWS[3]})

REPLACING = """
import sys
from isthmus import Collection
from test_snapshots import generation
with Collection.open(sys.argv[1], follow=False) as things:
    for number in range(int(sys.argv[2])):
        things.add(generation(number))
"""


def generation(number: int) -> list[Document]:
    """The same twenty documents, each with another text: all of them are replaced in one transaction."""
    return [Document(f"v{i}", f"a red cat {number}", None, {"n": number}, {"text": row}) for i, row in enumerate(ROWS)]


def search_until(stop: Callable[[], bool], things: Collection, **options: object) -> list[str]:
    """Search over and over; return what was wrong with the answers."""
    wrong: list[str] = []
    asked = Query("a red cat", vectors={"text": ROWS[3]}) if options.get("hybrid") else ASKED
    while not stop():
        hits = things.search(asked, k=20, **options)  # type: ignore[arg-type]
        generations = {hit.document.metadata["n"] for hit in hits}
        if len({hit.id for hit in hits}) != 20 or len(generations) != 1:
            wrong.append(f"{len(hits)} hits of generations {sorted(generations)}")
    return wrong


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Collection.open(tmp_path / "c", "none", calibration="center", follow=False) as things:
        things.add(generation(-1))
        things.calibrate("center", queries=[Query("a cat", vectors={"text": row}) for row in ROWS])
    return tmp_path / "c"


@pytest.mark.parametrize("options", [{}, {"explain": True}, {"where": {"n": {"gte": -1}}}, {"group": True}], ids=str)
def test_threads_that_search_while_all_is_replaced_find_all_of_one_state(
    folder: Path, options: dict[str, object]
) -> None:
    done, wrong = Event(), []
    with Collection.open(folder, follow=False) as things:
        readers = [Thread(target=lambda: wrong.extend(search_until(done.is_set, things, **options))) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(40):
            things.add(generation(number))
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []


def test_a_process_that_replaces_all_is_seen_whole_or_not_at_all(folder: Path) -> None:
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    with (
        Collection.open(folder, follow=False) as things,
        subprocess.Popen(
            [sys.executable, "-c", REPLACING, str(folder), "60"], env={**os.environ, "PYTHONPATH": paths}
        ) as writer,
    ):
        assert search_until(lambda: writer.poll() is not None, things) == []
        assert writer.returncode == 0
        assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20)} == {59}


def test_what_a_thread_reads_inside_a_snapshot_does_not_change(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        database = things._handle.database
        with database.reading():
            before = database.sequence()
            Thread(target=lambda: things.add(generation(1))).run()
            other = Thread(target=lambda: things.add(generation(2)))
            other.start()
            other.join()
            assert database.sequence() == before
        assert database.sequence() > before


def test_a_search_that_is_behind_what_is_served_still_answers_from_its_own_state(folder: Path) -> None:
    """A snapshot that began earlier ends after a later one has moved the served state on."""
    with Collection.open(folder, follow=False) as things:
        with things._snapshots.view(raw=True) as early:
            later = Thread(target=lambda: (things.add(generation(1)), things.search(ASKED, explain=True)))
            later.start()
            later.join()
            assert things._snapshots.store.counts() == {"text": 20}
            rows = {int(row) for index in early.snapshot.all_indexes for row in index.documents}  # type: ignore[union-attr]
            assert set(things._snapshots.store.documents(sorted(rows))) == rows
        assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20, explain=True)} == {1}


def test_maintenance_that_was_overtaken_does_not_serve_documents_that_are_gone(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        manager = things._snapshots
        assert len(things.search(ASKED, k=20)) == 20

        def overtaken(builder: SnapshotBuilder) -> Snapshot:
            made = builder.built(manager.latest().calibrated, trim=False)
            things.add(generation(1))
            things.compact()  # another thread builds a newer index, and trims the list of deleted documents
            return made

        manager._in_background(overtaken)
        manager.wait()
        assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20)} == {1}
        assert len(things.search(ASKED, k=20)) == 20


def test_explanations_after_a_change_are_those_of_a_new_process(folder: Path) -> None:
    def ranks(things: Collection) -> list[tuple[str, int | None]]:
        hits = things.search(ASKED, k=20, explain=True)
        return [(hit.id, hit.explanation.rank_before) for hit in hits if hit.explanation is not None]

    with Collection.open(folder, follow=False) as things:
        before = ranks(things)
        assert ranks(things) == before
        things.add([Document(f"v{i}", vectors={"text": ROWS[-1 - i]}) for i in range(20)])
        after = ranks(things)
        assert after != before
    with Collection.open(folder, follow=False) as things:
        assert ranks(things) == after


def test_iterating_while_documents_are_replaced_meets_each_as_it_was_at_the_start(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things, Collection.open(folder, follow=False) as other:
        met = []
        for found in things:
            met.append((found.id, found.metadata["n"]))
            other.add(generation(len(met)))
            assert things.get("v1").metadata["n"] == len(met)  # outside the iteration it is as it is
        assert met == [(f"v{i}", -1) for i in range(20)]
        assert {found.metadata["n"] for found in things} == {20}


def test_nothing_is_acknowledged_into_a_folder_that_was_deleted(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        folder.rename(folder.with_name("away"))
        for change in (lambda: things.add(generation(1)), lambda: things.delete("v1"), lambda: things.log_queries()):
            with pytest.raises(CannotWrite, match=r"deleted or replaced|cannot be written"):
                change()
        with pytest.raises(CannotWrite, match="deleted or replaced while it was open"):
            things.search(ASKED)
        folder.with_name("away").rename(folder)
        assert len(things.search(ASKED, k=30)) == 20


def test_a_store_that_was_replaced_is_not_written_to(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        copy = (folder / FILE).read_bytes()
        (folder / FILE).unlink()
        (folder / FILE).write_bytes(copy)
        with pytest.raises(CannotWrite, match="deleted or replaced"):
            things.add(generation(1))
    with Collection.open(folder, follow=False) as things:
        assert {found.metadata["n"] for found in things} == {-1}


def test_a_closed_collection_has_no_snapshots(folder: Path) -> None:
    things = Collection.open(folder, follow=False)
    things.search(ASKED)
    things.close()
    with pytest.raises((CannotWrite, BadFile), match="was closed"):
        things.search(ASKED)


def test_own_vectors_are_found_after_many_snapshots(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        for _ in range(50):
            things.search(ASKED)
        assert len(database(things)._idle) == 1
        things.add(own(ROWS[:1]))
        assert things.search(ASKED, k=1)[0].id == "v3"


@pytest.fixture
def immutable(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    """A collection in a folder where this process may not make what WAL needs."""
    connect = Database.connect

    def refused(self: Database, mode: str = "rw") -> sqlite3.Connection:
        connection = connect(self, mode)
        if mode == "ro":
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            broken = Broken(connection, error)
            return cast("sqlite3.Connection", broken)
        return connection

    monkeypatch.setattr("isthmus.search.engines._may_write", lambda _: False)
    monkeypatch.setattr(Database, "connect", refused)
    with Collection.open(folder, follow=False) as things:
        yield things


class Broken:
    """A connection that can be closed and nothing else."""

    def __init__(self, connection: sqlite3.Connection, error: sqlite3.Error) -> None:
        self._connection, self._error = connection, error

    def execute(self, *_: object) -> None:
        raise self._error

    def close(self) -> None:
        self._connection.close()


def test_a_collection_that_may_only_be_read_is_searched_while_it_is_iterated(immutable: Collection) -> None:
    with ThreadPoolExecutor(2) as pool:
        found = [(one.id, len(pool.submit(immutable.search, ASKED, 20).result(timeout=60))) for one in immutable]
    assert found == [(f"v{i}", 20) for i in range(20)]


def test_threads_search_a_collection_that_may_only_be_read(immutable: Collection) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: (len(immutable.search(ASKED, 20)), len(immutable.verify())), range(12)))
    assert found == [(20, 0)] * 12


def test_a_collection_that_may_only_be_read_sees_what_others_wrote_meanwhile(immutable: Collection) -> None:
    assert {hit.document.metadata["n"] for hit in immutable.search(ASKED, 20)} == {-1}
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    command = [sys.executable, "-c", REPLACING, str(immutable.path), "2"]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, check=True)
    assert {hit.document.metadata["n"] for hit in immutable.search(ASKED, 20)} == {1}


def test_a_search_never_waits_for_a_writer(folder: Path) -> None:
    """A transaction of this very process is open, and one of another is: neither keeps a search from its answer."""
    with Collection.open(folder, follow=False) as things, database(things).writing(), ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(things.search, ASKED, 20).result(timeout=60)) == 20
        assert len(pool.submit(lambda: list(things)).result(timeout=60)) == 20


@pytest.mark.parametrize("leftover", ["no index", "a draft"])
def test_opening_and_searching_never_wait_for_another_process_that_writes(folder: Path, leftover: str) -> None:
    with Collection.open(folder, follow=False) as things:
        if leftover == "a draft":
            versions.draft(things.store.calibrations, things._snapshots.read(1))
    if leftover == "no index":
        shutil.rmtree(folder / "index")
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with Collection.open(folder, follow=False) as things:
            assert len(things.search(ASKED, 20)) == 20


def test_verify_beside_a_writer_reports_no_damage_that_is_not_there(folder: Path) -> None:
    done = Event()
    found: list[str] = []

    def check() -> None:
        with Collection.open(folder, follow=False) as other:
            while not done.is_set():
                found.extend(other.verify())

    with Collection.open(folder, follow=False) as things:
        checker = Thread(target=check)
        checker.start()
        for number in range(40):
            things.add(generation(number))
        done.set()
        checker.join()
    assert found == []


@pytest.mark.parametrize("leftover", ["no index", "a draft"])
def test_opening_and_searching_go_on_where_nothing_can_be_written(
    folder: Path, leftover: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: neither a row nor an index can be written."""
    with Collection.open(folder, follow=False) as things:
        if leftover == "a draft":
            versions.draft(things.store.calibrations, things._snapshots.read(1))
    if leftover == "no index":
        shutil.rmtree(folder / "index")

    def full(*_: object, **__: object) -> None:
        raise CannotWrite("the disk is full")

    monkeypatch.setattr(Database, "writing", full)
    monkeypatch.setattr("isthmus.search.index_folder.write", full)
    with Collection.open(folder, follow=False) as things:
        assert len(things.search(ASKED, 20)) == 20
