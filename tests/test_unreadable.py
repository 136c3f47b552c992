"""What cannot be read now is not gone: its documents stay, and it is listed as skipped."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from PIL import Image

from isthmus import Collection, Document
from isthmus.encoders import Encoder
from isthmus.search import Indexed
from isthmus.sources import parquet
from isthmus.sources.walk import is_collection
from stock import pixels

KEPT = "kept as it was"
FILES = {"a.txt": "a cat", "b.txt": "a dog", "below/c.txt": "the red tree", "below/d.txt": "a house", "p.txt": "a sofa"}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of a user who is not root: permissions mean nothing to root."""
    for module in ("filelock", "mmap", "pyarrow.parquet"):  # another user may not be allowed to import them
        with suppress(ImportError):
            import_module(module)
    with TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        root = os.geteuid() == 0
        if root:
            os.seteuid(65534)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)


@pytest.fixture
def folder(place: Path) -> Path:
    root = place / "mine"
    (root / "below").mkdir(parents=True)
    for name, text in FILES.items():
        (root / name).write_text(text)
    Image.fromarray(pixels(1)).save(root / "p.png")
    Image.fromarray(pixels(2)).save(root / "q.png")
    (root / "rows.jsonl").write_text('{"id": "1", "text": "a cat runs"}\n{"id": "2", "text": "the dog sits"}\n')
    return root


@pytest.fixture
def things(place: Path, encoder: Encoder) -> Iterator[Collection]:
    with Collection.open(place / "things", encoder, calibration="none", follow=False) as opened:
        yield opened


def contents(things: Collection) -> dict[str, tuple[str | None, bool]]:
    return {document.id: (document.text, document.image is not None) for document in things}


def skipped(report: Indexed) -> dict[str, str]:
    return {one.id: one.why for one in report.skipped}


@pytest.mark.parametrize("name", ["a.txt", "q.png", "rows.jsonl", "p.png", "p.txt", "below"])
def test_what_may_not_be_opened_any_more_keeps_its_documents(things: Collection, folder: Path, name: str) -> None:
    things.index(folder)
    before = contents(things)
    assert before["p.png"] == ("a sofa", True)
    (folder / name).chmod(0)
    report = things.index(folder)
    assert contents(things) == before
    assert report.removed == 0
    assert [KEPT in why for why in skipped(report).values()] == [True]
    (folder / name).chmod(0o755)
    again = things.index(folder)
    assert (again.removed, again.skipped, contents(things)) == (0, [], before)


def test_a_folder_that_lists_its_files_but_does_not_open_them_keeps_their_documents(
    things: Collection, folder: Path
) -> None:
    things.index(folder)
    before = contents(things)
    (folder / "below").chmod(0o444)
    report = things.index(folder)
    (folder / "below").chmod(0o755)
    assert contents(things) == before
    assert {name: KEPT in why for name, why in skipped(report).items()} == {"below/c.txt": True, "below/d.txt": True}


def test_what_else_is_gone_is_removed_while_a_folder_cannot_be_read(things: Collection, folder: Path) -> None:
    things.index(folder)
    before = contents(things)
    (folder / "below").chmod(0)
    (folder / "a.txt").unlink()
    report = things.index(folder)
    (folder / "below").chmod(0o755)
    assert report.removed == 1
    assert contents(things).keys() == before.keys() - {"a.txt"}


def test_a_new_file_that_cannot_be_read_is_skipped_without_a_promise(things: Collection, folder: Path) -> None:
    (folder / "a.txt").chmod(0)
    report = things.index(folder)
    assert list(skipped(report)) == ["a.txt"]
    assert KEPT not in skipped(report)["a.txt"]


def test_a_source_that_has_lost_every_file_keeps_its_documents_unless_told_otherwise(
    things: Collection, folder: Path
) -> None:
    things.index(folder)
    before = contents(things)
    shutil.rmtree(folder)
    folder.mkdir()  # a mount point without its drive
    report = things.index(folder)
    assert contents(things) == before
    assert KEPT in skipped(report)[str(folder)]
    assert things.index(folder, prune=False).skipped == []
    assert things.index(folder, prune=True).removed == len(before)
    assert (len(things), things.stats().skipped) == (0, ())


@pytest.mark.parametrize("target", ["file.txt", "drive"])
def test_a_link_whose_target_is_away_keeps_its_documents(things: Collection, place: Path, target: str) -> None:
    (place / "drive").mkdir()
    (place / "drive" / "x.txt").write_text("a cat")
    (place / "file.txt").write_text("a dog")
    (place / "mine").mkdir()
    (place / "mine" / "here.txt").write_text("a tree")
    (place / "mine" / "link.txt").symlink_to(place / "file.txt")
    (place / "mine" / "folder").symlink_to(place / "drive")
    things.index(place / "mine")
    before = contents(things)
    assert before.keys() == {"here.txt", "link.txt", "folder/x.txt"}
    (place / target).rename(place / "away")
    report = things.index(place / "mine")
    assert contents(things) == before
    assert all(KEPT in why for why in skipped(report).values())
    (place / "mine" / "link.txt").unlink()
    (place / "mine" / "folder").unlink()
    assert things.index(place / "mine").removed == 2


def test_the_rows_of_a_table_outlive_a_drive_of_pictures_but_not_a_deleted_picture(
    things: Collection, place: Path
) -> None:
    pictures = place / "drive"
    pictures.mkdir()
    for name in ("one", "two"):
        Image.fromarray(pixels(len(name))).save(pictures / f"{name}.png")
    table = place / "rows.jsonl"
    table.write_text("".join(f'{{"id": "{name}", "image": "drive/{name}.png"}}\n' for name in ("one", "two")))
    things.index(table)
    pictures.rename(place / "away")
    table.touch()
    report = things.index(table)
    assert contents(things).keys() == {"one", "two"}
    assert all(KEPT in why for why in skipped(report).values())
    (place / "away").rename(pictures)
    (pictures / "two.png").unlink()
    report = things.index(table)
    assert (list(skipped(report)), list(contents(things))) == (["two"], ["one"])


def test_an_unreadable_shard_and_an_unreadable_part_of_one_keep_their_documents(
    things: Collection, place: Path
) -> None:
    pytest.importorskip("pyarrow")
    vectors = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    root = place / "shards"
    for folder in ("img_emb", "text_emb"):
        (root / folder).mkdir(parents=True)
        np.save(root / folder / f"{folder}_0.npy", vectors)
    assert things.index(root).skipped == []
    before = {document.id: document.vectors.keys() for document in things}
    assert len(before) == 3
    for locked in ("text_emb", "img_emb", "text_emb/text_emb_0.npy"):
        (root / locked).chmod(0)
        report = things.index(root)
        (root / locked).chmod(0o755)
        assert {document.id: document.vectors.keys() for document in things} == before
        assert KEPT in " ".join(skipped(report).values())


def test_documents_of_a_reader_that_is_not_installed_stay(
    things: Collection, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.access(os.path.realpath(sys.executable), os.X_OK, effective_ids=True):
        pytest.skip("the user who is not root may not start this Python, so no worker process can be started")
    arrow = pytest.importorskip("pyarrow")
    table = place / "t.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"id": ["1"], "text": ["a cat"]}), table)
    things.index(table)
    before = contents(things)
    table.touch()
    monkeypatch.setattr(parquet, "MODULE", "no_such_module")
    report = things.index(table)
    assert contents(things) == before != {}
    assert [KEPT in why for why in skipped(report).values()] == [True]


@pytest.mark.parametrize("how", ["relative", "absolute", "link"])
def test_a_collection_inside_its_own_source_is_not_read(
    tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a cat")
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen" / "b.txt").write_text("a dog")
    into = {"relative": Path("things"), "absolute": tmp_path / "things", "link": Path("link")}[how]
    if how == "link":
        (tmp_path / "things").mkdir()
        (tmp_path / "link").symlink_to("things")
    with Collection.open(tmp_path / "others", encoder, calibration="none") as others:
        others.add([Document("x", "a tree")])
    assert is_collection(str(tmp_path / "others"))
    for path in (".", tmp_path):
        with Collection.open(into, encoder, calibration="none") as things:
            report = things.index(path)
            assert report.skipped == []
            assert {"a.txt", "seen/b.txt"} <= {document.id.removeprefix(f"{tmp_path.name}/") for document in things}
            assert len(things) == 2


def test_a_collection_named_as_a_source_says_that_it_is_one(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        report = things.index(tmp_path / "c")
        assert "is a collection" in skipped(report)[str(tmp_path / "c")]
        assert len(things) == 0
