"""One search sees one state of a collection, whatever others write meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadFile, CannotWrite
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
        database = things._opened.database
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
        with things._keeper.snapshot(raw=True) as early:
            later = Thread(target=lambda: (things.add(generation(1)), things.search(ASKED, explain=True)))
            later.start()
            later.join()
            assert things._keeper.store.counts() == {"text": 20}
            rows = {int(row) for shelf in early.served.all_shelves for row in shelf.documents}
            assert set(things._keeper.store.documents(sorted(rows))) == rows
        assert {hit.document.metadata["n"] for hit in things.search(ASKED, k=20, explain=True)} == {1}


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
