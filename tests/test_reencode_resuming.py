"""A re-encoding that was killed or interrupted: the old vectors serve, and the same call goes on."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from isthmus import Collection, Document
from isthmus.errors import CannotWrite
from isthmus.storage.base import UnfinishedReencode
from moving import Answers, alike, answers, counted, interrupted
from stock import looked_at, mixed, pixels
from test_reliability import line, process

pytestmark = pytest.mark.usefixtures("small_batches")

POINTS = ["after 15", "calibrating", "switching", "tidying"]


def test_killed_at_any_point_it_serves_one_of_both_and_the_same_command_goes_on(
    tmp_path: Path, thirty: Path, tiny: str, other: str, by_other: Answers
) -> None:
    folders = {point: tmp_path / point for point in POINTS}
    for copy in folders.values():
        shutil.copytree(thirty, copy)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda point: _killed(folders[point], tiny, other, point), POINTS))
    for point, done in {"after 15": 15, "calibrating": 30, "switching": 30}.items():
        with Collection.open(folders[point], follow=False) as things:
            assert things.stats().reencoding == UnfinishedReencode(other, done, 30)
            assert things.verify() == []
            counting = counted(other)
            assert things.reencode(counting).earlier == done
            assert sum(counting.took()) == sum(document.modality.count("+") + 1 for document in mixed(30)[done:])
            assert answers(things) == by_other
        assert looked_at(folders[point]) == []
    with Collection.open(folders["tidying"], follow=False) as things:
        assert answers(things) == by_other
        assert things.stats().reencoding is None
        assert things.reencode(other).already
        assert not (folders["tidying"] / "reencode").exists()
        assert [path.name.split("-")[0] for path in (folders["tidying"] / "index").iterdir()] == ["2"]


def _killed(folder: Path, tiny: str, other: str, point: str) -> None:
    """Re-encode in another process up to a point, search here meanwhile, kill it, and search again."""
    with Collection.open(folder, tiny, follow=False) as reader:
        before = answers(reader)
        with process(folder, tiny, "reencode", other, point) as started:
            while line(started) != "there":
                assert started.poll() is None
            during = answers(reader)
            with pytest.raises(CannotWrite, match=f"process {started.pid} on"):
                reader.add(mixed(3))
            started.kill()
            started.wait()
        assert (during == before) == (point != "tidying")
        assert answers(reader) == during


def test_run_again_it_encodes_only_what_was_not_done(thirty: Path, other: str) -> None:
    counting = counted(other)
    seen: list[tuple[int, int]] = []
    with Collection.open(thirty, follow=False) as things:
        old = answers(things)
        with pytest.raises(KeyboardInterrupt):
            things.reencode(counting, progress=interrupted(20))
        assert counting.took() == (13, 13)  # of twenty documents
        assert answers(things) == old
        assert str(things.stats().reencoding) == "20 of 30 documents re-encoded with tiny-image+text"
        done = things.reencode(counting, progress=lambda *step: seen.append(step))
        assert (done.encoded, done.earlier) == (10, 20)
        assert counting.took() == (7, 7)
        assert seen == [(20, 30), (25, 30), (30, 30)]
        assert answers(things) != old


def test_what_changed_between_two_runs_comes_out_right(tmp_path: Path, thirty: Path, other: str) -> None:
    with Collection.open(thirty, follow=False) as things, pytest.raises(KeyboardInterrupt):
        things.reencode(other, progress=interrupted(20))
    counting = counted(other)
    with Collection.open(thirty, follow=False) as things:  # the old encoder's, as before
        things.delete(["d0-3", "d0-25"])
        things.update(Document("d0-0", text="a cat on the red sofa"))
        things.update("d0-1", metadata={"lang": "en"})
        things.add([Document("new", text="a dog runs", image=pixels(77)), Document("again", text=mixed(30)[6].text)])
        assert len(things.search("dog", k=100)) == 30
        assert things.stats().reencoding == UnfinishedReencode(
            other, 17, 30
        )  # two of those done have new rows, one is gone
        done = things.reencode(counting)
        assert (done.encoded, done.earlier) == (13, 17)
        rest = [one for one in mixed(30)[20:] if one.id != "d0-25"]
        texts = sum(one.text is not None for one in rest) + 2  # the new one and the changed; not the metadata alone
        assert counting.took() == (texts, sum(one.image is not None for one in rest) + 1)
        assert things.get("d0-1").metadata["lang"] == "en"
        alike(things, tmp_path / "fresh", other)
        assert things.verify() == []
    assert looked_at(thirty) == []


def test_another_encoder_begins_anew_and_the_old_one_calls_it_off(
    thirty: Path, tiny: str, other: str, fusing: str
) -> None:
    with Collection.open(thirty, follow=False) as things:
        old = answers(things)
        for name, begun in ((other, other), (fusing, fusing)):
            with pytest.raises(KeyboardInterrupt):
                things.reencode(name, progress=interrupted(10))
            assert things.stats().reencoding == UnfinishedReencode(begun, 10, 30)
        done = things.reencode(tiny)
        assert (done.already, done.encoded) == (True, 0)
        assert things.stats().reencoding is None
        assert not (thirty / "reencode").exists()
        assert answers(things) == old


def test_damaged_beginnings_are_begun_anew(thirty: Path, other: str) -> None:
    with Collection.open(thirty, follow=False) as things:
        for damage in (b"", b"garbage " * 1000, b"cut"):
            with pytest.raises(KeyboardInterrupt):
                things.reencode(other, progress=interrupted(10))
            file = thirty / "reencode" / "collection.sqlite"
            file.write_bytes(file.read_bytes()[:20_000] if damage == b"cut" else damage)
            assert things.stats().reencoding in (None, UnfinishedReencode(other, 0, 30))
        assert things.reencode(other).earlier == 0
        assert things.verify() == []
