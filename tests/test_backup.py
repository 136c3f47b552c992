"""A backup is one committed state, whatever others write; nothing half-written has its name; damage is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest
from filelock import FileLock

from isthmus import Collection, Document, Query
from isthmus.errors import BadFile, BadInput, CannotWrite
from isthmus.storage.sqlite import backup
from isthmus.storage.sqlite.backup import back_up, restore
from stock import FILE, looked_at, unit

ROWS = unit(np.random.default_rng(0).normal(size=(40, 8)))
ASKED = Query("red cat", vectors={"text": ROWS[3]})


def generation(number: int) -> list[Document]:
    """Forty documents that are replaced together, in one transaction."""
    return [
        Document(f"v{i}", "a red cat " * 50, None, {"generation": number}, {"text": row}) for i, row in enumerate(ROWS)
    ]


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collection]:
    monkeypatch.setattr(backup, "STEP", 1)  # others can write between any two pages
    with Collection.open(tmp_path / "things", "none", calibration="none", follow=False) as opened:
        opened.add([*generation(0), Document("kept", image=b"a picture", vectors={"image": ROWS[9]})])
        yield opened


def answers(things: Collection) -> list[tuple[str, float, float | None]]:
    return [(hit.id, hit.score, hit.probability) for hit in things.search(ASKED, k=100)]


def held(folder: Path) -> list[int]:
    """Return the generations of a collection's documents, each once."""
    with Collection.open(folder, create=False, follow=False) as things:
        found = [one for one in things if one.id != "kept"]
        assert len(found) == len(ROWS)
        return sorted({int(one.metadata["generation"]) for one in found})


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_restored_collection_holds_and_answers_the_same(things: Collection, tmp_path: Path) -> None:
    things.calibrate("center", queries=[Query(vectors={part: row}) for row in ROWS for part in ("text", "image")])
    done = back_up(things.path, tmp_path / "copy")
    assert (done.documents, done.bytes) == (41, (tmp_path / "copy" / FILE).stat().st_size)
    assert left(tmp_path / "copy") == ["backup.json", FILE]
    assert restore(tmp_path / "copy", tmp_path / "again") == done
    assert left(tmp_path) == ["again", "copy", "things"]
    assert looked_at(tmp_path / "again") == []
    with Collection.open(tmp_path / "again", create=False) as again:
        assert answers(again) == answers(things)
        assert list(again) == list(things)
        assert [one.version for one in again.calibrations()] == [one.version for one in things.calibrations()]
        again.add(generation(1))
        assert again.verify() == []


def test_what_is_written_while_pages_are_copied_is_not_in_the_copy(things: Collection, tmp_path: Path) -> None:
    written = [0]

    def write(_: int, __: int) -> None:
        if len(written) < 5:
            written.append(len(written))
            things.add(generation(written[-1]))  # at once, and acknowledged: nothing waits for the copy

    back_up(things.path, tmp_path / "copy", progress=write)
    assert written == [0, 1, 2, 3, 4]
    restore(tmp_path / "copy", tmp_path / "again")
    assert (held(tmp_path / "again"), held(things.path)) == ([0], [4])


def test_copies_made_while_threads_write_hold_one_generation_each(things: Collection, tmp_path: Path) -> None:
    over, begun = Event(), Event()
    acknowledged: list[int] = [0]

    def write() -> None:
        while not over.is_set():
            things.add(generation(acknowledged[-1] + 1))
            acknowledged.append(acknowledged[-1] + 1)
            begun.set()

    writer = Thread(target=write)
    writer.start()
    begun.wait(60)
    try:
        for turn in range(3):
            before = acknowledged[-1]
            back_up(things.path, tmp_path / f"copy {turn}")
            restore(tmp_path / f"copy {turn}", tmp_path / f"again {turn}")
            found = held(tmp_path / f"again {turn}")
            assert len(found) == 1  # each transaction is there as a whole or not at all
            assert before <= found[0]  # and what was acknowledged before is there
    finally:
        over.set()
        writer.join()


KILLED = """
import os, resource, signal, sys
from pathlib import Path
from isthmus.storage.sqlite import backup

backup.STEP = backup.CHUNK = int(sys.argv[2])
verb, old, new = sys.argv[1], Path(sys.argv[3]), Path(sys.argv[4])

def die(done, total):
    if 2 * done >= total:
        os.kill(os.getpid(), signal.SIGKILL)

if verb == "full":
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
    try:
        backup.back_up(old, new)
    except backup.CannotWrite as error:
        print(error)
else:
    (backup.back_up if verb == "backup" else backup.restore)(old, new, progress=die)
"""


def run(verb: str, step: int, old: Path, new: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", KILLED, verb, str(step), str(old), str(new)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_run_that_is_killed_half_way_leaves_no_copy_and_the_next_one_cleans_up(
    things: Collection, tmp_path: Path
) -> None:
    assert run("backup", 1, things.path, tmp_path / "copy").returncode == -9
    assert left(tmp_path) == ["copy.part", "things"]
    assert things.verify() == []
    back_up(things.path, tmp_path / "copy")
    assert left(tmp_path) == ["copy", "things"]
    assert run("restore", 1000, tmp_path / "copy", tmp_path / "again").returncode == -9
    assert left(tmp_path) == ["again.part", "copy", "things"]
    restore(tmp_path / "copy", tmp_path / "again")
    assert (left(tmp_path), held(tmp_path / "again")) == (["again", "copy", "things"], [0])


def test_a_full_disk_leaves_nothing_and_the_error_names_the_copy(things: Collection, tmp_path: Path) -> None:
    done = run("full", 1, things.path, tmp_path / "copy")
    assert done.stdout.startswith(f"{tmp_path / 'copy'} cannot be written: "), done.stderr
    assert left(tmp_path) == ["things"]


def test_nothing_is_overwritten_and_two_runs_do_not_write_the_same(things: Collection, tmp_path: Path) -> None:
    back_up(things.path, tmp_path / "copy")
    with pytest.raises(BadInput, match="exists already"):
        back_up(things.path, tmp_path / "copy")
    with pytest.raises(BadInput, match="exists already"):
        restore(tmp_path / "copy", things.path)
    (tmp_path / "new.part").mkdir()
    with FileLock(tmp_path / "new.part" / "writer.lock"), pytest.raises(CannotWrite, match="another process"):
        restore(tmp_path / "copy", tmp_path / "new")


def test_a_folder_that_appears_meanwhile_is_kept(things: Collection, tmp_path: Path) -> None:
    def appear(_: int, __: int) -> None:
        (tmp_path / "copy").mkdir(exist_ok=True)
        (tmp_path / "copy" / "mine.txt").write_text("mine")

    with pytest.raises(CannotWrite, match="cannot be written"):
        back_up(things.path, tmp_path / "copy", progress=appear)
    assert (left(tmp_path), left(tmp_path / "copy")) == (["copy", "things"], ["mine.txt"])


def test_a_damaged_or_incomplete_copy_is_refused_and_leaves_nothing(things: Collection, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(things.path, copy)
    whole, note = (copy / FILE).read_bytes(), (copy / "backup.json").read_text()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for wrong in (bytes(flipped), whole[:-100], whole + b"0", b""):
        (copy / FILE).write_bytes(wrong)
        with pytest.raises(BadFile, match="is damaged: it has not"):
            restore(copy, tmp_path / "again")
    (copy / FILE).unlink()
    with pytest.raises(BadFile, match="a part of the backup is missing"):
        restore(copy, tmp_path / "again")
    (copy / FILE).write_bytes(whole)
    for said in ("{", "[]", "{}", json.dumps({**json.loads(note), "bytes": "many"})):
        (copy / "backup.json").write_text(said)
        with pytest.raises(BadFile, match="cannot be read"):
            restore(copy, tmp_path / "again")
    (copy / "backup.json").write_text(json.dumps({**json.loads(note), "format": 2}))
    with pytest.raises(BadFile, match="newer isthmus"):
        restore(copy, tmp_path / "again")
    (copy / "backup.json").write_text(note)
    assert left(tmp_path) == ["copy", "things"]
    restore(copy, tmp_path / "again")


def test_a_damaged_collection_is_copied_only_as_it_is(things: Collection, tmp_path: Path) -> None:
    with things.store.database.writing() as connection:
        connection.execute("UPDATE documents SET metadata = '{}' WHERE id = 'v1'")
    with pytest.raises(BadFile, match=r"document 'v1' does not match its checksum.*--no-verify"):
        back_up(things.path, tmp_path / "copy")
    assert left(tmp_path) == ["things"]
    assert back_up(things.path, tmp_path / "copy", verify=False).documents == 41


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_collection_that_this_user_may_only_read_can_be_copied(things: Collection, tmp_path: Path) -> None:
    things.close()
    things.path.chmod(0o500)
    try:
        assert back_up(things.path, tmp_path / "copy").documents == 41
    finally:
        things.path.chmod(0o700)
