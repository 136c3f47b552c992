"""A re-fit on a real PostgreSQL server, beside processes that open, search and calibrate the same collection."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.search import snapshot_builder
from isthmus.storage.postgres import folded
from isthmus.storage.postgres.store import PostgresStore
from isthmus.storage.protocols import FoldedRows
from postgres_server import server, sharded
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.install
CALIBRATE = """
import sys
from isthmus import Collection
from isthmus.storage.postgres.folded import PostgresFolded
from isthmus.storage.postgres.store import PostgresStore
usual, blocks = PostgresFolded.mark, PostgresStore.blocks
PostgresStore.blocks = lambda self, after=-1, last=None, size=20: blocks(self, after, last, size)

def mark(self, key, about):
    usual(self, key, about)
    print("marked", flush=True)
    sys.stdin.readline()

PostgresFolded.mark = mark
with Collection.open(sys.argv[1], follow=False) as things:
    made = things.calibrate(sys.argv[2])
    print("served", made.version, flush=True)
"""
VECTORS = np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32)


@pytest.fixture
def url() -> str:
    return server().collection()


@pytest.fixture
def things(url: str) -> Iterator[Collection]:
    """A collection of vectors, calibrated."""
    with Collection.open(url, "none", "none", follow=False) as opened:
        opened.add([Document(f"d{at}", vectors={"text": row}) for at, row in enumerate(VECTORS)])
        opened.calibrate("none")
        yield opened


@contextmanager
def calibrating(url: str, spec: str = "center") -> Iterator[subprocess.Popen[str]]:
    """Another process that calibrates, stopped when it has written its first block; closing its input lets it go on."""
    words = [sys.executable, "-c", CALIBRATE, url, spec]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "marked\n"
            yield process
        finally:
            process.kill()


def finished(process: subprocess.Popen[str]) -> str:
    """Let another process go on to its end; return its last line."""
    said, _ = process.communicate()
    assert process.returncode == 0
    return said.splitlines()[-1]


def found(things: Collection) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 5)) for hit in things.search(Query(vectors={"text": VECTORS[0]}), k=100)]


def test_a_process_that_opens_the_collection_leaves_anothers_refit_alone(things: Collection, url: str) -> None:
    before = found(things)
    with calibrating(url) as process:
        with Collection.open(url, create=False) as opened:
            assert found(opened) == before
        assert finished(process) == "served 2"
    assert found(things) != before
    with Collection.open(url, create=False) as later:
        assert found(later) == found(things)
        assert later.verify() == []


def tables_of(things: Collection) -> list[str]:
    """Return the tables of publications."""
    schema = str(things.path).partition("collection=")[2]
    with psycopg.connect(server().url) as connection:
        found = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'folded\\_%%'"
        return [f"{schema}.{name}" for (name,) in connection.execute(found, (schema,)).fetchall()]


def test_a_refit_makes_no_search_wait_for_one_on_the_calibration_before(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "PATIENCE", "10ms")
    before, [old] = found(things), tables_of(things)
    with psycopg.connect(server().url) as searching:
        searching.execute(f"SELECT count(*) FROM {old}")  # and still reads it
        things.calibrate("center")
        assert len(tables_of(things)) == 2
        assert found(things) != before
        things.add([Document("new", vectors={"text": -VECTORS[0]})])
        things.compact()
    things.calibrate("none")
    [kept] = tables_of(things)
    assert kept != old


def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the documents that are published."""
    usual, seen = folded.PostgresFolded.write, list[int]()

    def write(self: folded.PostgresFolded, key: str, rows: FoldedRows) -> None:
        seen.extend(rows.rows[:, 0].tolist())
        usual(self, key, rows)

    monkeypatch.setattr(folded.PostgresFolded, "write", write)
    return seen


def test_a_calibration_that_was_killed_is_continued(
    things: Collection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found(things)
    with calibrating(url) as process:
        process.kill()
    things.close()
    seen = written(monkeypatch)
    with Collection.open(url, create=False, follow=False) as opened:
        assert found(opened) == before
        opened.add([Document("new", vectors={"text": VECTORS[0]})])
        assert opened.calibrate("center").version == 2
        assert seen == [*range(21, 102)]  # 20 were there
        assert len(tables_of(opened)) == 1
        assert opened.verify() == []
        assert [name for name, _ in found(opened)[:2]] == ["d0", "new"]
        opened.delete("new")
        continued = dict(found(opened))
        opened.calibrate("center")  # all of it, by the same documents
        assert dict(found(opened)) == pytest.approx(continued, abs=1e-4)


@pytest.mark.parametrize("other", ["another spec", "other queries", "other documents"])
def test_a_killed_calibration_is_not_continued_by_one_that_asks_for_something_else(
    things: Collection, url: str, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    with calibrating(url) as process:
        process.kill()
    seen = written(monkeypatch)
    if other == "other documents":
        things.add([Document(f"e{at}", vectors={"text": row + 3}) for at, row in enumerate(VECTORS)])
        seen.clear()
    queries = [Query(vectors={"text": row}) for row in VECTORS[:3]] if other == "other queries" else None
    things.calibrate("center+nnn(k=2)" if other == "another spec" else "center", queries)
    assert seen[:100] == [*range(1, 101)]
    assert len(tables_of(things)) == 1
    assert things.store.calibrations.versions()[-1] == things.store.calibrations.served()
    assert things.verify() == []


SPECS = ("none", "center", "center+nnn(k=4)")
REFIT = """
import sys
from isthmus import Collection
from isthmus.errors import CannotWrite
with Collection.open(sys.argv[1], follow=False) as things:
    for spec in sys.argv[2:]:
        done = False
        while not done:
            try:
                done = things.calibrate(spec) is not None
            except CannotWrite as error:  # the other one is at it
                assert "is being calibrated by another process" in str(error)
"""


@pytest.mark.parametrize("place", [lambda: server().collection(), sharded], ids=["postgres", "shards"])
def test_no_answer_is_of_two_calibrations_while_other_processes_calibrate(place: Callable[[], str]) -> None:
    """Two processes calibrate at once, two search: every score of every answer is that of one calibration."""
    url = place()
    with Collection.open(url, "none", "none", follow=False) as things, ExitStack() as stack:
        things.add([Document(f"d{at}", vectors={"text": row}) for at, row in enumerate(VECTORS)])
        expected = []
        for spec in SPECS[::-1]:
            things.calibrate(spec)
            expected.append(found(things))
        assert len({str(answer) for answer in expected}) == len(SPECS)

        def answers(processes: list[subprocess.Popen[bytes]]) -> list[list[tuple[str, float]]]:
            with Collection.open(url, create=False, follow=False) as reading:
                several = [found(reading)]
                while any(process.poll() is None for process in processes):
                    several.append(found(reading))
                return several

        orders = ([*SPECS[1:], "none"], [*SPECS[:0:-1], "none"])
        started = [
            stack.enter_context(subprocess.Popen([sys.executable, "-c", REFIT, url, *specs])) for specs in orders
        ]
        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(answers, started) for _ in range(2)]
            seen = [answer for reader in readers for answer in reader.result()]
        assert [process.returncode for process in started] == [0, 0]
        assert all(answer in expected for answer in seen)
        assert len({str(answer) for answer in seen}) > 1
        assert found(things) in expected
        assert things.verify() == []
        things.calibrate(SPECS[2])  # the later one wins
        with Collection.open(url, create=False, follow=False) as later:
            assert found(later) == found(things) == expected[0]


def test_compaction_during_anothers_refit_leaves_what_its_vectors_need(
    things: Collection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with calibrating(url) as process:
        things.add([Document("new", vectors={"text": VECTORS[0]})])
        things.delete("d1")
        things.compact()
        assert finished(process) == "served 2"
    seen = written(monkeypatch)
    with Collection.open(url, create=False, follow=False) as opened:
        assert {name for name, _ in found(opened)[:2]} == {"d0", "new"}
        assert len(found(opened)) == 100
        assert not seen  # nothing is published again
        assert opened.verify() == []


def test_a_reencoding_does_not_continue_a_killed_calibration_of_the_old_vectors(
    url: str, counting: Counting, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(url, counting, "center", follow=False) as things:
        things.add(mixed(40))
        things.calibrate("center")
        with monkeypatch.context() as patch:
            patch.setattr(folded.PostgresFolded, "_index", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                things.calibrate("center")
        assert len(tables_of(things)) == 2
        assert things.reencode(other, force=True).encoded == 40
        assert len(things.search("a red cat", k=100)) == 40
        things.calibrate("center")
        assert len(tables_of(things)) == 1
        assert things.verify() == []


def before_fitting(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Let another process do some work between what a process has read and its lock to fit; once."""
    usual = PostgresStore.fitting

    def fitting(self: PostgresStore) -> AbstractContextManager[bool]:
        monkeypatch.setattr(PostgresStore, "fitting", usual)
        work()
        return usual(self)

    monkeypatch.setattr(PostgresStore, "fitting", fitting)


def test_of_two_processes_that_search_first_one_calibrates(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Collection.open(url, "none", "center", follow=False) as one,
        Collection.open(url, "none", "center", follow=False) as two,
    ):
        one.add([Document(f"d{at}", vectors={"text": row}) for at, row in enumerate(VECTORS)])
        before_fitting(monkeypatch, lambda: found(one))
        seen = written(monkeypatch)
        assert found(two) == found(one)
        assert seen == [*range(1, 101)]
        assert one.store.calibrations.versions() == [1]


def test_a_refit_that_another_process_has_made_is_not_made_again(
    things: Collection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(url, create=False) as other:
        found(other)
        other.add([Document(f"e{at}", vectors={"text": row + 3}) for at, row in enumerate(np.vstack([VECTORS] * 2))])
        before_fitting(monkeypatch, lambda: things.calibrate("center"))
        other.search(Query(vectors={"text": VECTORS[0]}))
        other._snapshots.wait()
        assert other._snapshots.last_error == ""
        assert things.store.calibrations.versions() == [1, 2]
        assert found(other) == found(things)


def test_of_two_processes_that_miss_the_folded_vectors_one_publishes_them(
    things: Collection, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found(things)
    with Collection.open(url, create=False, follow=False) as other, ExitStack() as held:
        with psycopg.connect(server().url, autocommit=True) as connection:
            connection.execute(f"DROP TABLE {tables_of(things)[0]}")
        assert held.enter_context(things.store.building())

        def meanwhile(_: float) -> None:
            held.close()
            assert found(things) == before

        seen = written(monkeypatch)
        monkeypatch.setattr(snapshot_builder, "sleep", meanwhile)
        assert found(other) == before
        assert seen == [*range(1, 101)]
        assert len(tables_of(things)) == 1
        assert things.verify() == []


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt
