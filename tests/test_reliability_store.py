"""Everything stored has a checksum, an index is of one state of one store, and nothing is left lying about."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadFile, CannotWrite, IsthmusError
from isthmus.search import versions
from isthmus.storage.sqlite import compaction
from isthmus.storage.sqlite.database import Database
from stock import FILE, database, looked_at, own, unit

HERE = Path(__file__).parent
ROWS = unit(np.random.default_rng(0).normal(size=(60, 8)))
ASKED = Query(vectors={"text": ROWS[3]})
WORDS = ["red", "cat", "sofa", "snow", "boat", "tree", "night", "map", "dog", "tea"]


def documents(count: int, seed: int = 0) -> list[Document]:
    rng = np.random.default_rng(seed)
    rows = unit(rng.normal(size=(count, 8)))
    return [
        Document(f"v{i}", " ".join(rng.choice(WORDS, 4)), None, {"n": i, "seed": seed}, {"text": row})
        for i, row in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with a row in every table, closed; every test takes a copy."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    table = folder.parent / "rows.jsonl"
    rows = [{"id": f"r{i}", "text": WORDS[i], "vectors": {"text": row.tolist()}} for i, row in enumerate(ROWS[:8])]
    table.write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    with Collection.open(folder, "none", calibration="none", follow=False) as things:
        things.log_queries()
        things.index(table)
        things.add([*documents(30), Document("kept", image=b"a picture", vectors={"image": ROWS[9]})])
        queries = [Query("a cat", vectors={"text": row}) for row in ROWS] + [
            Query(vectors={"image": row}) for row in ROWS
        ]
        things.calibrate("none", queries=queries)
        things.search(Query("a red cat", vectors={"text": ROWS[5]}))
        things.delete(["v0", "v1"])
    return folder


@pytest.fixture
def folder(tmp_path: Path, whole: Path) -> Path:
    shutil.copytree(whole, tmp_path / "c")
    return tmp_path / "c"


def answers(things: Collection) -> list[tuple[str, float, str | None]]:
    words = Query("a red cat", vectors={"text": ROWS[3]})
    found = [*things.search(ASKED, k=100), *things.search(words, k=100, hybrid=True)]
    return [(hit.id, hit.score, hit.document.text) for hit in found]


def _tables(folder: Path) -> list[tuple[str, str]]:
    with sqlite3.connect(folder / FILE) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND (sql LIKE '%checksum%' OR name = 'documents')"
        )
        tables = [name for (name,) in names]
        found = [(t, row[1]) for t in tables for row in connection.execute(f"PRAGMA table_info({t})")]
    connection.close()
    return found


def _changed(value: Any) -> Any:
    """Return a value with a bit flipped."""
    if value is None or isinstance(value, int | float):
        return int(value or 0) ^ 16
    data = bytearray(value if isinstance(value, bytes) else value.encode())
    data[len(data) // 2] ^= 1
    return bytes(data) if isinstance(value, bytes) else data.decode("utf-8", "replace")


def test_every_table_but_those_derived_from_documents_has_checksums(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        all_ = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        counts = {name: connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name, _ in _tables(folder)}
    connection.close()
    others = {name for name in all_ - counts.keys() if not name.startswith(("words", "sqlite_", "terms"))}
    assert others == {"facts"}
    assert all(counts.values())  # each has a row, so that each is damaged below


def test_a_changed_value_of_any_column_is_found_by_verify_and_never_a_raw_error(tmp_path: Path, whole: Path) -> None:
    with Collection.open(shutil.copytree(whole, tmp_path / "right"), follow=False) as things:
        right, given = answers(things), list(things)
    for table, column in _tables(whole):
        folder = shutil.copytree(whole, tmp_path / f"{table}-{column}")
        with sqlite3.connect(folder / FILE) as connection:
            key = "name" if table == "manifest" else "rowid"
            place, value = connection.execute(f"SELECT {key}, {column} FROM {table} ORDER BY {key} DESC").fetchone()
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (_changed(value), place))
        connection.close()
        try:
            with Collection.open(folder, follow=False) as things:
                problems = things.verify()
                things.stats()
                assert (answers(things) == right and list(things) == given) or problems, f"{table}.{column}"
        except IsthmusError:
            pass  # a clear error


@pytest.mark.parametrize("name", ["sequence", "encoder", "dim", "calibration", "spec"])
def test_a_damaged_manifest_is_a_clear_error(folder: Path, name: str) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        (value,) = connection.execute("SELECT value FROM manifest WHERE name = ?", (name,)).fetchone()
        connection.execute("UPDATE manifest SET value = ? WHERE name = ?", (_changed(value), name))
    connection.close()
    with pytest.raises(BadFile, match="does not match its checksum"), Collection.open(folder, follow=False) as things:
        things.stats()  # reads all of it


def test_damaged_statistics_are_taken_anew_from_the_vectors(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE manifest SET value = zeroblob(100) WHERE name = 'statistics'")
    connection.close()
    with Collection.open(folder, follow=False) as things:
        assert any("manifest" in problem for problem in things.verify())
        things.delete("v9")
        assert things.verify() == []
        assert {part: one.count for part, one in things.store.statistics().parts.items()} == {"text": 35, "image": 1}


def test_a_damaged_calibration_is_a_clear_error_and_another_can_be_made(folder: Path) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE calibrations SET extras = replace(extras, '0', '1')")
    connection.close()
    with Collection.open(folder, follow=False) as things:
        with pytest.raises(BadFile, match=r"calibration 1 does not match its checksum\. Run `isthmus calibrate`"):
            things.search(ASKED)
        assert things.verify()
        things.calibrate("none")
        assert len(things.search(ASKED, k=100)) == len(things)


def test_a_document_with_damaged_vectors_is_named_and_can_be_added_again_or_deleted(folder: Path) -> None:
    changes: list[Callable[[Collection], object]] = [lambda t: t.add([documents(30)[7]]), lambda t: t.delete("v7")]
    for change in changes:
        shutil.rmtree(folder / "index")
        with sqlite3.connect(folder / FILE) as connection:
            row = "(SELECT row FROM documents WHERE id = 'v7')"
            connection.execute(f"UPDATE segments SET vector = zeroblob(32) WHERE document = {row}")
        connection.close()
        with Collection.open(folder, follow=False) as things:
            with pytest.raises(BadFile, match="the 'text' vector of document 'v7'"):
                things.search(ASKED)
            change(things)
            assert things.verify() == []
            assert len(things.search(ASKED, k=100)) == len(things)
    assert looked_at(folder) == []


def test_an_index_of_a_lost_history_is_not_believed_however_many_changes_both_have_counted(folder: Path) -> None:
    older = (folder / FILE).read_bytes()
    with Collection.open(folder, follow=False) as things:
        things.add(documents(30, seed=1))
        things.calibrate("none")
        things.refresh()
    lost = shutil.copytree(folder / "index", folder.parent / "lost")
    (folder / FILE).write_bytes(older)
    with Collection.open(folder, follow=False) as things:
        things.add(documents(30, seed=2))  # as many changes, and as many calibrations, as in the history that is lost
        things.calibrate("none")
        things.refresh()
        right = [(hit.id, hit.score) for hit in things.search(ASKED, k=100)]
    names = sorted(path.name for path in (folder / "index").iterdir())
    assert sorted(path.name for path in lost.iterdir()) == names
    shutil.rmtree(folder / "index")
    lost.rename(folder / "index")
    with Collection.open(folder, follow=False) as things:
        assert [(hit.id, hit.score) for hit in things.search(ASKED, k=100)] == right
        assert things.verify() == []


def test_every_byte_of_an_index_is_checked_however_large_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 70 MiB, of which a byte is changed far from its ends."""
    rows = np.random.default_rng(0).normal(size=(4500, 4096)).astype(np.float32)
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add(own(rows))
        things.calibrate("none")
        right = [(hit.id, hit.score) for hit in things.search(Query(vectors={"text": rows[5]}), k=5)]
    (file,) = (tmp_path / "c" / "index").glob("*/0.vectors")
    assert file.stat().st_size > 64 << 20
    with file.open("r+b") as stream:
        for at in np.random.default_rng(1).integers(0, file.stat().st_size // 4, 20).tolist():
            stream.seek(4 * at)
            stream.write(np.float32(6e35).tobytes())
    with Collection.open(tmp_path / "c", follow=False) as things:
        assert [(hit.id, hit.score) for hit in things.search(Query(vectors={"text": rows[5]}), k=5)] == right
        assert things.verify() == []


def test_what_killed_calibrations_left_is_swept_when_the_collection_is_opened(folder: Path) -> None:
    place = next((folder / "index").iterdir())
    (folder / "index" / "1-0").mkdir()
    (folder / "index" / f"{place.name}.77.tmp").mkdir()
    shutil.copytree(place, folder / "index" / "7-3")
    with Collection.open(folder, follow=False) as things:
        versions.draft(things.store.calibrations, things._snapshots.read(1))
        assert database(things).one("SELECT count(*) FROM calibrations") == (2,)
    with Collection.open(folder, follow=False) as things:
        assert [path.name for path in (folder / "index").iterdir()] == [place.name]
        assert database(things).one("SELECT count(*) FROM calibrations") == (1,)
        assert things.verify() == []


def test_a_calibration_that_is_under_way_is_not_swept_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process opens the collection between the draft and the publication."""
    publish = versions.publish

    def opened_meanwhile(*arguments: Any, **options: Any) -> None:
        with Collection.open(folder, follow=False) as other:
            assert len(other.search(ASKED, k=100)) == len(other)
        publish(*arguments, **options)

    with Collection.open(folder, follow=False) as things:
        monkeypatch.setattr(versions, "publish", opened_meanwhile)
        assert things.calibrate("none").version == 2
        assert len(things.search(ASKED, k=100)) == len(things)
        assert things.verify() == []
    assert [path.name.partition("-")[0] for path in (folder / "index").iterdir()] == ["2"]


def test_whoever_may_not_write_is_told_that_a_calibration_cannot_be_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isthmus.search.engines._may_write", lambda _: False)
    with Collection.open(folder, follow=False) as things:
        with pytest.raises(CannotWrite, match="cannot be saved"):
            things.calibrate("none")
        assert len(things.search(ASKED, k=100)) == len(things)


def test_the_file_shrinks_by_itself_after_deletions_and_lists_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "LEAST", 1 << 18)
    rows = np.random.default_rng(0).normal(size=(1200, 128)).astype(np.float32)
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add(own(rows))
        things.calibrate("none")
        before = things.stats().bytes["store"]
        things.delete([f"v{i}" for i in range(0, 1200, 2)])
        assert things.stats().bytes["store"] < 0.75 * before
        things.refresh()
        assert database(things).one("SELECT count(*) FROM gone") == (0,)
        assert database(things).one("SELECT count(*) FROM states") == (1,)
        assert len(things.search(Query(vectors={"text": rows[1]}), k=2000)) == 600
        assert things.verify() == []
    assert looked_at(tmp_path / "c") == []


def test_compact_cuts_the_lists_and_brings_the_index_up_to_date_without_a_search(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        for seed in range(3):
            things.add(documents(30, seed=seed))
        assert database(things).one("SELECT count(*) FROM gone")[0] > 50
        things.compact()
        assert database(things).one("SELECT count(*) FROM gone") == (0,)
        assert database(things).one("SELECT count(*) FROM states") == (1,)
        assert [path.name for path in (folder / "index").iterdir()] == [f"1-{things.stats().changes}"]


def test_a_file_that_could_not_be_written_anew_is_not_tried_again_with_every_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[object] = []

    def fails(given: object) -> None:
        tried.append(given)
        raise CannotWrite("the disk is full")

    monkeypatch.setattr(compaction, "LEAST", 1 << 16)
    monkeypatch.setattr(compaction, "_vacuum", fails)
    rows = np.random.default_rng(0).normal(size=(600, 64)).astype(np.float32)
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add(own(rows))
        things.delete([f"v{i}" for i in range(0, 600, 2)])
        for number in range(5):
            things.add([Document(f"new{number}", vectors={"text": rows[number]})])
    assert len(tried) == 1


def test_compact_makes_a_smaller_file_with_the_same_answers(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        things.add(own(np.random.default_rng(1).normal(size=(600, 8)), metadata=[{"long": "x" * 1000}] * 600))
        things.delete([f"v{i}" for i in range(30, 600)])
        right = answers(things)
        done = things.compact()
        assert done.after < done.before
        found = answers(things)
        assert [hit[0] for hit in found] == [hit[0] for hit in right]
        np.testing.assert_allclose([hit[1] for hit in found], [hit[1] for hit in right], atol=1e-6)
        assert things.verify() == []


def test_compact_makes_a_damaged_index_of_words_again(folder: Path) -> None:
    with Collection.open(folder, follow=False) as things:
        right = answers(things)
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE words_docsize SET sz = x'05' WHERE id = (SELECT max(id) FROM words_docsize)")
    connection.close()
    with Collection.open(folder, follow=False) as things:
        assert any("index of words" in problem for problem in things.verify())
        assert things.compact().words_rebuilt
        assert things.verify() == []
        assert answers(things) == right


def test_a_process_that_is_far_behind_reads_what_another_has_built(folder: Path) -> None:
    with Collection.open(folder, follow=False) as behind, Collection.open(folder, follow=False) as ahead:
        assert len(behind.search(ASKED, k=1000)) == len(behind)
        for seed in range(1, 4):
            ahead.add(own(np.random.default_rng(seed).normal(size=(500, 8))))
        ahead.delete([f"v{i}" for i in range(0, 200, 3)])
        ahead.refresh()
        assert database(ahead).one("SELECT count(*) FROM gone") == (0,)  # what `behind` would have needed
        assert {hit.id for hit in behind.search(ASKED, k=1000)} == {found.id for found in ahead}


MAKING = """
import sys
from isthmus import Collection, Document
sys.stdin.readline()
with Collection.open(sys.argv[1], "none", calibration="none", follow=False) as things:
    print("made", len(things))
"""


def test_processes_that_make_one_collection_at_once_all_succeed(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(HERE.parent / "src"), str(HERE)])

    def started(folder: Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", MAKING, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip

    several = [started(tmp_path / "c") for _ in range(4)]
    for one in several:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    assert [one.communicate()[0].strip() for one in several] == ["made 0"] * 4
    assert looked_at(tmp_path / "c") == []


def test_threads_that_make_one_collection_at_once_all_succeed(tmp_path: Path) -> None:
    def make(turn: int) -> int:
        with Collection.open(tmp_path / str(turn // 4), "none", calibration="none", follow=False) as things:
            return len(things)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, range(40))) == [0] * 40


def test_a_collection_made_between_two_looks_of_another_opens_there(tmp_path: Path) -> None:
    """The first look found no tables; the second found some, and took the file for a stranger's."""

    class Second(Database):
        def _manifest_table(self) -> str | None:
            found = super()._manifest_table()
            with Collection.open(tmp_path, "none", calibration="none", follow=False) as things:
                things.add([])
            (tmp_path / "index").mkdir(exist_ok=True)
            return found  # as it was before the other one

    Second(tmp_path).close()


def test_collections_of_one_process_that_write_one_index_at_once_do_not_meet(folder: Path) -> None:
    """Two collections opened on one folder had one name for their drafts."""

    def refresh(_: int) -> int:
        with Collection.open(folder, follow=False) as things:
            shutil.rmtree(folder / "index", ignore_errors=True)
            return len(things.search(ASKED, k=100))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(refresh, range(24)))
    with Collection.open(folder, follow=False) as things:
        assert set(found) == {len(things)}
        assert things.verify() == []


def test_an_encoder_named_by_the_process_that_came_second_is_not_taken(tmp_path: Path, tiny: str) -> None:
    Collection.open(tmp_path / "c", "none").close()
    with pytest.raises(BadFile, match="was made with the encoder none"):
        Collection.open(tmp_path / "c", tiny)
