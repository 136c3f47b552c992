"""Nothing acknowledged is ever lost: killed processes, full disks, two writers, readers, interruptions."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from damage import make_damaged_folder
from isthmus import Collection, Document, Query, kinds
from isthmus.encoders import Encoder
from isthmus.errors import CannotWrite
from isthmus.search import sync, writer
from stock import Counting, database, looked_at, mixed, own, unit
from writing import document

HERE = Path(__file__).parent
KILLS = 20


@contextmanager
def process(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Start ``writing.py``; whatever happens it is ended."""
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])
    started = subprocess.Popen(
        [sys.executable, str(HERE / "writing.py"), str(folder), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def line(started: subprocess.Popen[str], said: str | None = None) -> str:
    """Tell a process something, if anything, and return the next line that it says."""
    assert started.stdin is not None
    assert started.stdout is not None
    if said is not None:
        started.stdin.write(said + "\n")
        started.stdin.flush()
    return started.stdout.readline().strip()


def test_killed_at_any_time_a_process_loses_nothing_it_acknowledged(
    tmp_path: Path, tiny: str, encoder: Encoder
) -> None:
    with Collection.open(tmp_path / "warm", encoder, calibration="none") as warm:
        warm.add(mixed(3))
        warm.search("dog")  # the bank is encoded once for all
    counts = np.random.default_rng(5).integers(1, 75, KILLS).tolist()
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda at: _killed(tmp_path / str(at), tiny, counts[at]), range(KILLS)))
    for at, heard in enumerate(said):
        _whole(tmp_path / str(at), encoder, heard)


def _killed(folder: Path, tiny: str, count: int) -> list[str]:
    """Kill a writer after so many lines, in the middle of whatever comes next; return all that it said."""
    with process(folder, tiny, "rounds") as started:
        heard = [line(started) for _ in range(count)]
        started.kill()
        assert started.stdout is not None
        return [*heard, *started.stdout.read().splitlines()]


def _whole(folder: Path, encoder: Encoder, heard: list[str]) -> None:
    assert looked_at(folder) == []
    sure: dict[int, set[int]] = {}  # by number, the versions that may be there; -1 for none
    for said in heard:
        word, *numbers = said.split()
        if word == "added":
            first, last = map(int, numbers)
            sure |= {number: {0} for number in range(first, last) if number not in sure}
        elif word in ("changing", "changed"):
            sure[int(numbers[0])] = {0, 1} if word == "changing" else {1}
        elif word in ("deleting", "deleted"):
            now = sure[int(numbers[0])]
            sure[int(numbers[0])] = now | {-1} if word == "deleting" else {-1}
    with Collection.open(folder, encoder, follow=False) as things:
        assert things.verify() == []
        there = {found.id: found for found in things}
        for number, versions in sure.items():
            found = there.pop(f"d{number}", None)
            version = -1 if found is None else found.metadata["version"]
            assert version in versions
            if found is not None:
                given = document(number, version)
                assert (found.text, found.metadata, found.modality) == (given.text, given.metadata, given.modality)
        assert len(there) <= 5 * (len(there) > 0)  # of a batch that nobody heard of, at most
        if len(things):
            hits = things.search("a cat", k=len(things) + 10)
            assert {hit.id for hit in hits} == {found.id for found in things}
            similarity = {hit.id: hit.similarity for hit in things.search("a cat", k=1000, calibration="none")}
            with Collection.open(folder.with_suffix(".new"), encoder, calibration="none", follow=False) as fresh:
                fresh.add(things)
                again = fresh.search("a cat", k=1000)
                assert similarity == pytest.approx({hit.id: hit.similarity for hit in again}, abs=1e-5)


def test_when_files_may_not_grow_nothing_is_lost_and_search_goes_on(
    tmp_path: Path, tiny: str, encoder: Encoder
) -> None:
    with process(tmp_path / "c", tiny, "limited") as started:
        heard = started.communicate()[0].splitlines()
    assert heard[:2] == ["open", "found 5 of 20"]
    assert heard[2].startswith("refused ")
    assert "collection.sqlite" in heard[2]
    found, there, acknowledged = map(int, re.findall(r"\d+", heard[3]))
    assert found == 5
    assert there == acknowledged > 20
    assert heard[-1] == f"whole {there + 20} {there + 20}"
    assert looked_at(tmp_path / "c") == []
    with Collection.open(tmp_path / "c", encoder) as things:
        assert things.verify() == []
        assert len(things.search("dog", k=10_000)) == there + 20


def test_a_full_disk_is_called_that_and_what_was_there_stays(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 4)
    done: list[int] = []
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        connection = database(things).connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
        with pytest.raises(CannotWrite, match=r"disk is full\. Nothing acknowledged is lost"):
            things.add((document(number) for number in range(1000)), progress=done.append)
        assert 0 < len(things) == done[-1]
        with pytest.raises(CannotWrite, match="disk is full"):
            things.update("d0", metadata={"long": "x" * 1_000_000})
        assert len(things) == done[-1]
        assert len(things.search("dog", k=5)) == 5  # nowhere to keep a calibration: it is made for this process
        connection.execute("PRAGMA max_page_count = 1000000")
        things.add([document(number) for number in range(done[-1] + 10)])
        assert len(things) == done[-1] + 10
        assert len(things.search("dog", k=1000)) == done[-1] + 10
    assert looked_at(tmp_path / "c") == []


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that other users may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "other").mkdir()
        (Path(name) / "other").chmod(0o777)
        yield Path(name)


def _locked(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def _unlocked(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.parametrize("calibrated", [True, False])
def test_who_may_only_read_can_search_and_is_told_that_adding_is_refused(open_to_all: Path, calibrated: bool) -> None:
    folder = open_to_all / "c"
    rows = unit(np.random.default_rng(0).normal(size=(40, 8)))
    with Collection.open(folder, "none", calibration="center") as things:
        things.add(own(rows))
        if calibrated:
            things.calibrate("center")
    _locked(folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    with process(folder, "none", "read", str(open_to_all / "other" / "o")) as reader:
        assert line(reader) == "open"
        assert line(reader, "count") == "40"
        found = line(reader, "search")
        assert len(found.split()) == 3
        assert line(reader, "search") == found
        assert re.match("refused .*cannot be written to", line(reader, "add"))
        assert line(reader, "verify") == "[]"
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    _unlocked(folder)


def test_a_reader_of_a_folder_that_it_may_not_write_sees_what_others_write(open_to_all: Path) -> None:
    """With nobody writing, with a writer that comes later, with one that has gone, and with one that was killed."""
    folder = open_to_all / "c"
    rows = unit(np.random.default_rng(0).normal(size=(40, 8)))
    with Collection.open(folder, "none", calibration="none") as things:
        things.add(own(rows[:10]))
    if os.geteuid():
        pytest.skip("needs two users")
    with process(folder, "none", "read", str(open_to_all / "other" / "o")) as reader:
        assert (line(reader), line(reader, "count")) == ("open", "10")
        with Collection.open(folder, "none") as things:
            things.add(own(rows[:20]))
            assert line(reader, "count") == "20"
            things.add(own(rows[:30]))
            assert line(reader, "count") == "30"
            assert len(line(reader, "search").split()) == 3
            with process(folder, "none", "read", str(open_to_all / "other" / "p")) as second:  # a journal in use
                assert (line(second), line(second, "count")) == ("open", "30")
        assert line(reader, "count") == "30"
        with Collection.open(folder, "none") as things:
            things.add(own(rows))
        assert line(reader, "count") == "40"
        assert line(reader, "verify") == "[]"


def test_a_reader_sees_what_a_killed_writer_had_acknowledged(open_to_all: Path) -> None:
    folder = open_to_all / "c"
    if os.geteuid():
        pytest.skip("needs two users")
    rows = unit(np.random.default_rng(0).normal(size=(40, 8)))
    with Collection.open(folder, "none", calibration="none") as things:
        things.add(own(rows))
        copies = {name: (folder / name).read_bytes() for name in ("collection.sqlite", "collection.sqlite-wal")}
    for name, data in copies.items():  # what a killed writer leaves
        (folder / name).write_bytes(data)
    with process(folder, "none", "read", str(open_to_all / "other" / "o")) as reader:
        first = line(reader)
        assert first in ("open", "")  # without the shared-memory file only a writer can read the journal
    Collection.open(folder).close()
    with process(folder, "none", "read", str(open_to_all / "other" / "p")) as reader:
        assert (line(reader), line(reader, "count")) == ("open", "40")


def test_one_writes_at_a_time_and_the_other_is_told_who(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH", 5)
    rows = unit(np.random.default_rng(0).normal(size=(40, 8)))
    go_on, acknowledged = Event(), Event()

    def slowly() -> Iterator[Document]:
        documents = own(rows)
        yield from documents[:12]
        go_on.wait()
        yield from documents[12:]

    def progress(count: int) -> None:
        if count >= 10:
            acknowledged.set()

    with (
        Collection.open(tmp_path / "c", "none", calibration="none") as first,
        Collection.open(tmp_path / "c", "none") as second,
    ):
        added = Thread(target=lambda: first.add(slowly(), progress=progress))
        added.start()
        assert acknowledged.wait(60)
        for refused in (lambda: second.add(own(rows)), lambda: second.delete("v0"), lambda: second.index(HERE)):
            with pytest.raises(CannotWrite, match=rf"being written by process {os.getpid()} on .*One writes at a time"):
                refused()
        assert len(second) == 10
        assert {hit.id for hit in second.search(Query(vectors={"text": rows[3]}), k=40)} == {f"v{i}" for i in range(10)}
        assert first.search(Query(vectors={"text": rows[3]}), k=1)[0].id == "v3"
        go_on.set()
        added.join()
        assert second.delete("v3") == 1
        assert len(first) == 39
        assert len(first.search(Query(vectors={"text": rows[3]}), k=40)) == 39


def test_the_lock_of_a_killed_writer_goes_with_it(tmp_path: Path, tiny: str, encoder: Encoder) -> None:
    with process(tmp_path / "c", tiny, "lines") as started:
        assert line(started) == "open"
        assert started.stdin is not None
        started.stdin.write("\n" * 5)
        assert line(started, "") == "added 0 5"
        with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
            with pytest.raises(CannotWrite, match=f"process {started.pid} on"):
                things.add(mixed(3))
            assert len(things) == 5
            started.kill()
            started.wait()
            things.add(mixed(3))
            assert len(things) == 8


def test_readers_see_what_others_commit_without_opening_again(tmp_path: Path, encoder: Encoder) -> None:
    with (
        Collection.open(tmp_path / "c", encoder, calibration="center", follow=False) as one,
        Collection.open(tmp_path / "c", encoder, calibration="center", follow=False) as other,
    ):
        assert (len(other), other.search("dog")) == (0, [])
        one.add(mixed(30))
        assert len(other.search("dog", k=50)) == 30
        one.delete("d0-0")
        one.update("d0-2", metadata={"lang": "en"})
        assert [hit.id for hit in other.search("dog", where={"lang": "en"})] == ["d0-2"]
        assert len(other.search("dog", k=50)) == 29
        one.calibrate("center+nnn(k=4)")
        assert [(hit.id, hit.score) for hit in other.search("dog")] == [
            (hit.id, hit.score) for hit in one.search("dog")
        ]
        assert other.calibration is not None
        assert str(other.calibration.fitted.spec) == "center+nnn(k=4)"


def test_searches_go_on_while_documents_come_and_go(tmp_path: Path, encoder: Encoder) -> None:
    stop = Event()
    trouble: list[BaseException] = []

    def search(things: Collection) -> None:
        while not stop.is_set() and not trouble:
            try:
                hits = things.search("dog", k=30, explain=True, group=True, where={"number": {"gte": 0}})
                assert len({hit.id for hit in hits}) == len(hits)
            except BaseException as error:  # noqa: BLE001 - shown below
                trouble.append(error)

    with (
        Collection.open(tmp_path / "c", encoder, calibration="center", follow=False) as one,
        Collection.open(tmp_path / "c", encoder, follow=False) as other,
    ):
        one.add(mixed(60))
        one.search("dog")
        searchers = [Thread(target=search, args=(things,)) for things in (one, other, other)]
        for searcher in searchers:
            searcher.start()
        for seed in range(1, 12):
            one.add(mixed(10, seed=seed))
            one.delete([f"d{seed}-{i}" for i in range(0, 10, 2)])
            one.add([Document("d0-0", f"changed {seed} times", metadata={"number": 0})])
        stop.set()
        for searcher in searchers:
            searcher.join()
        assert trouble == []
    assert looked_at(tmp_path / "c") == []


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str], set[str]]:
    folder = tmp_path_factory.mktemp("damaged")
    return folder, *make_damaged_folder(folder, np.random.default_rng(0))


def test_five_hundred_damaged_files_of_two_thousand(
    tmp_path: Path, damaged: tuple[Path, set[str], set[str]], encoder: Encoder
) -> None:
    folder, good, bad = damaged
    counting = Counting(encoder)
    with Collection.open(tmp_path / "c", counting, calibration="none") as things:
        for run in range(2):
            report = things.index(folder)
            assert {found.id for found in things} == good
            listed = {skipped.id for skipped in report.skipped}
            assert {name for name in bad if any(_is_of(name, each) for each in listed)} == bad
            assert {each for each in listed if not any(_is_of(name, each) for name in bad)} == set()
            assert sorted(things.stats().skipped) == sorted((each.id, each.why) for each in report.skipped)
            assert (report.added, report.unchanged) == ((len(good), 0) if run == 0 else (0, len(good)))
            if run:
                broken = sum(1 for name in bad if name.endswith((".png", ".jpg")))  # nobody knows before it is tried
                assert counting.took() == (0, broken)
            counting.took()
    assert looked_at(tmp_path / "c") == []


def _is_of(name: str, where: str) -> bool:
    return where == name or where.startswith(f"{name}, ")


def test_an_interruption_leaves_a_whole_collection_and_no_threads(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 5)
    monkeypatch.setattr(type(kinds.get("image")), "cost", 1)
    monkeypatch.setattr(sync, "BATCH", 5)
    (tmp_path / "many").mkdir()
    for i in range(40):
        (tmp_path / "many" / f"{i}.txt").write_text(f"a cat {i}")

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        with pytest.raises(KeyboardInterrupt):
            things.index(tmp_path / "many", progress=interrupt)
        assert len(things) == 5
        with pytest.raises(KeyboardInterrupt):
            things.add(mixed(100), progress=interrupt)
        assert len(things) == 10
        assert not [thread for thread in threading.enumerate() if thread.name == "isthmus-ahead"]
        assert things.index(tmp_path / "many").added == 35
        assert len(things.search("cat", k=100)) == 45
    assert looked_at(tmp_path / "c") == []


def test_an_interruption_inside_a_transaction_undoes_it(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add(mixed(10))
        touched = type(things._store).touched

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(type(things._store), "touched", interrupt)
        for change in (lambda: things.add(mixed(10, seed=2)), lambda: things.delete("d0-0")):
            with pytest.raises(KeyboardInterrupt):
                change()
        monkeypatch.setattr(type(things._store), "touched", touched)
        assert sorted(found.id for found in things) == sorted(given.id for given in mixed(10))
        things.add(mixed(10, seed=2))
        assert len(things.search("dog", k=50)) == 20
    assert looked_at(tmp_path / "c") == []


def test_the_checks_of_this_file_see_what_is_wrong(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder) as things:
        things.add(mixed(10))
    assert looked_at(tmp_path / "c") == []
    with sqlite3.connect(tmp_path / "c" / "collection.sqlite") as connection:
        connection.execute("DELETE FROM segments WHERE document = 2")
        connection.execute("INSERT INTO facts VALUES ('a', 1, 99)")
        connection.execute("UPDATE documents SET metadata = '{}' WHERE row = 3")
    connection.close()
    assert looked_at(tmp_path / "c") == ["documents without vectors: d0-1", "facts of nobody: a"]
    with Collection.open(tmp_path / "c", encoder) as things:
        assert len(things.verify()) == 3
