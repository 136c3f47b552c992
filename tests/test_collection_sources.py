"""Indexing a source again: what is new or changed is encoded, the rest is left, what is gone goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from PIL import Image

from isthmus import Collection, Document, Query, encoders
from isthmus.encoders import Encoder
from isthmus.search import source_events, sync, writer
from isthmus.search.ingest import prepared
from isthmus.search.source_events import Indexed
from stock import Counting, looked_at, pixels
from tiny import write_encoder


@pytest.fixture
def things(tmp_path: Path, counting: Counting) -> Iterator[Collection]:
    with Collection.open(tmp_path / "things.isthmus", counting, calibration="none") as opened:
        yield opened
    assert looked_at(tmp_path / "things.isthmus") == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two notes, a photo with a sidecar, a photo without, a table of two rows."""
    made = tmp_path / "folder"
    (made / "sub").mkdir(parents=True)
    (made / "a.txt").write_text("a cat on the sofa")
    (made / "sub" / "b.md").write_text("the dog runs on grass")
    for number, name in enumerate(("one.png", "two.png")):
        Image.fromarray(pixels(number)).save(made / name)
    (made / "one.txt").write_text("a red house")
    _rows(made / "rows.jsonl", [{"id": 1, "text": "a tree"}, {"id": 2, "text": "the cat and the dog"}])
    return made


IDS = {"a.txt", "sub/b.md", "one.png", "two.png", "rows.jsonl#1", "rows.jsonl#2"}


def _rows(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _done(report: Indexed) -> tuple[int, int, int, int, int]:
    return report.added, report.updated, report.unchanged, report.removed, len(report.skipped)


def test_the_second_run_opens_and_encodes_nothing(things: Collection, counting: Counting, folder: Path) -> None:
    assert _done(things.index(folder)) == (6, 0, 0, 0, 0)
    assert (counting.took(), {document.id for document in things}) == ((5, 2), IDS)
    changes = things.stats().changes
    assert _done(things.index(folder)) == (0, 0, 6, 0, 0)
    assert (counting.took(), things.stats().changes) == ((0, 0), changes)


def test_a_renamed_file_is_not_encoded_again(things: Collection, counting: Counting, folder: Path) -> None:
    things.index(folder)
    counting.took()
    (folder / "a.txt").rename(folder / "sub" / "z.txt")
    (folder / "two.png").rename(folder / "0.png")
    assert _done(things.index(folder)) == (2, 0, 4, 2, 0)
    assert counting.took() == (0, 0)
    assert {document.id for document in things} == IDS - {"a.txt", "two.png"} | {"sub/z.txt", "0.png"}
    assert things.get("0.png").image == str(folder / "0.png")
    assert things.search(Query(image=pixels(1)), k=1)[0].id == "0.png"


def test_a_renamed_folder_is_not_encoded_again(things: Collection, counting: Counting, folder: Path) -> None:
    things.index(folder)
    counting.took()
    folder.rename(folder.with_name("elsewhere"))
    report = things.index(folder.with_name("elsewhere"))
    assert (len(report.skipped), counting.took()) == (0, (0, 0))


def test_a_changed_file_is_encoded_again_and_only_what_changed_in_it(
    things: Collection, counting: Counting, folder: Path
) -> None:
    things.index(folder)
    counting.took()
    (folder / "a.txt").write_text("a cat on the grass")
    _rows(folder / "rows.jsonl", [{"id": 2, "text": "the cat and the dog"}, {"id": 3, "text": "the tree"}])
    assert _done(things.index(folder)) == (1, 2, 3, 1, 0)  # the other row says when its file was modified
    assert sorted(counting.texts) == ["a cat on the grass", "the tree"]
    assert things.get("a.txt").text == "a cat on the grass"
    assert "rows.jsonl#1" not in things


def test_a_changed_sidecar_changes_the_text_of_its_picture_alone(
    things: Collection, counting: Counting, folder: Path
) -> None:
    things.index(folder)
    counting.took()
    (folder / "one.txt").write_text("a green house")
    assert _done(things.index(folder)) == (0, 1, 5, 0, 0)
    assert (counting.took(), things.get("one.png").text) == ((1, 0), "a green house")
    (folder / "one.txt").unlink()
    assert _done(things.index(folder)) == (0, 1, 5, 0, 0)
    assert (counting.took(), things.get("one.png").text) == ((0, 0), None)


def test_what_is_gone_from_the_folder_goes_unless_told_otherwise(things: Collection, folder: Path) -> None:
    things.index(folder)
    (folder / "rows.jsonl").unlink()
    (folder / "a.txt").unlink()
    assert _done(things.index(folder, prune=False)) == (0, 0, 3, 0, 0)
    assert len(things) == 6
    assert _done(things.index(folder)) == (0, 0, 3, 3, 0)
    assert {document.id for document in things} == IDS - {"a.txt", "rows.jsonl#1", "rows.jsonl#2"}


def test_two_sources_with_equal_ids_both_keep_their_documents(
    things: Collection, counting: Counting, tmp_path: Path, folder: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("another a")
    for _ in range(2):
        things.index(folder, other)
        assert things.get("a.txt").text == "a cat on the sofa"
        assert things.get("other/a.txt").text == "another a"
    counting.took()
    (other / "a.txt").write_text("yet another a")
    assert _done(things.index(other)) == (0, 1, 0, 0, 0)
    (other / "a.txt").unlink()
    assert _done(things.index(other, prune=True)) == (0, 0, 0, 1, 0)
    assert things.get("a.txt").text == "a cat on the sofa"


def test_of_two_rows_with_one_id_the_first_is_kept_and_the_other_listed(things: Collection, folder: Path) -> None:
    table = folder / "rows.jsonl"
    _rows(table, [{"id": 1, "text": "first"}, {"id": 2, "text": "other"}, {"id": 1, "text": "second"}])
    for _ in range(2):
        report = things.index(table)
        assert [(skipped.id, "used twice" in skipped.why) for skipped in report.skipped] == [("1", True)]
        assert [document.text for document in things] == ["first", "other"]
        assert [place for place, _ in things.stats().skipped] == ["1"]
    _rows(table, [{"id": 1, "text": "first"}, {"id": 2, "text": "other"}])
    assert things.index(table).skipped == []
    assert things.stats().skipped == ()


def test_a_document_changed_by_hand_still_belongs_to_its_file(things: Collection, folder: Path) -> None:
    things.index(folder)
    things.update("a.txt", metadata={"lang": "en"})
    things.add([things.get("sub/b.md")])
    assert _done(things.index(folder)) == (0, 0, 6, 0, 0)
    (folder / "a.txt").write_text("something else")
    (folder / "sub" / "b.md").unlink()
    assert _done(things.index(folder)) == (0, 1, 4, 1, 0)
    assert {document.id for document in things} == IDS - {"sub/b.md"}


def test_documents_added_by_hand_are_not_taken_over_by_a_file(things: Collection, folder: Path) -> None:
    things.add([Document("a.txt", "by hand")])
    things.index(folder)
    assert things.get("a.txt").text == "by hand"
    assert things.get("folder/a.txt").text == "a cat on the sofa"
    (folder / "a.txt").unlink()
    things.index(folder)
    assert "a.txt" in things
    assert "folder/a.txt" not in things


def test_a_picture_that_is_damaged_goes_and_comes_back(things: Collection, folder: Path) -> None:
    things.index(folder)
    good = (folder / "two.png").read_bytes()
    (folder / "two.png").write_bytes(good[:40])
    report = things.index(folder)
    assert [skipped.id for skipped in report.skipped] == ["two.png"]
    assert "two.png" not in things
    (folder / "two.png").write_bytes(good)
    assert _done(things.index(folder)) == (1, 0, 5, 0, 0)
    assert things.stats().skipped == ()


class Cut(Exception):
    pass


@pytest.mark.parametrize("where", ["progress", "reader"])
def test_an_interrupted_run_goes_on_where_it_was_cut(
    things: Collection, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(writer, "BATCH", 4)
    many = tmp_path / "many"
    many.mkdir()
    for i in range(30):
        (many / f"{i:02d}.txt").write_text(f"a cat number {i}")
    runs = 0
    seen: list[str] = []
    while len(things) < 30:
        runs += 1
        with monkeypatch.context() as patch, suppress(Cut):
            _cut(patch, where, 7)
            things.index(many, progress=_cutting(7) if where == "progress" else None)
        seen += counting.texts
        counting.took()
    assert runs > 2
    assert len(seen) == len(set(seen)) == len(things) == 30


def _cutting(count: int) -> Callable[[Indexed], None]:
    def progress(report: Indexed) -> None:
        if report.added >= count:
            raise Cut

    return progress


def _cut(patch: pytest.MonkeyPatch, where: str, count: int) -> None:
    """Let the reader fail after so many documents that it has to open."""
    if where != "reader":
        return
    opened = iter(range(1000))

    def failing(document: Document) -> object:
        if next(opened) == count:
            raise Cut
        return prepared(document)

    patch.setattr(source_events, "prepared", failing)


def test_links_that_go_round_and_names_of_any_kind(things: Collection, folder: Path) -> None:
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "lost.txt").symlink_to(folder / "nowhere")
    names = [
        "ünï – 猫.txt",
        "two\nlines.txt",
        "שלום.txt",
        "🐱 'quote\".txt",
        "%_\\x41.txt",
        "\u00e9.txt",
        "e\u0301.txt",
    ]
    raw = [os.fsdecode(b"caf\xe9.txt"), os.fsdecode(b"caf\xe8.txt")]
    for i, name in enumerate([*names, *raw]):
        (folder / name).write_text(f"cat {i}")
    (folder / os.fsdecode(b"p\xff.png")).write_bytes((folder / "two.png").read_bytes())
    for _ in range(2):
        report = things.index(folder)
        assert {skipped.id for skipped in report.skipped} == {"self", "lost.txt"}
        assert len(things) == 6 + len(names) + len(raw) + 1
    texts = {document.text for document in things}
    assert {f"cat {i}" for i in range(len(names) + len(raw))} <= texts
    assert things.get("p\\xff.png").image == str(folder / os.fsdecode(b"p\xff.png"))
    assert things.search(Query(image=pixels(1)), k=2, calibration="none")[1].similarity == pytest.approx(1, abs=1e-4)


def test_an_unchanged_file_keeps_its_id_when_another_file_comes_to_have_it(things: Collection, tmp_path: Path) -> None:
    shards = tmp_path / "shards"
    shards.mkdir()
    _shard(shards / "000.tar", {"x.txt": "the first x"})
    things.index(shards)
    _shard(shards / "001.tar", {"x.txt": "another x", "y.txt": "a y"})
    report = things.index(shards)
    assert [document.text for document in things] == ["the first x", "a y"]
    assert len(report.skipped) == 1


def _shard(path: Path, members: dict[str, str]) -> None:
    import io
    import tarfile

    with tarfile.open(path, "w") as tar:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def test_a_run_that_ends_before_old_rows_are_out_takes_them_out_the_next_time(
    things: Collection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    things.index(folder)
    _rows(folder / "rows.jsonl", [{"id": 1, "text": "a tree"}])
    with monkeypatch.context() as patch, pytest.raises(Cut):
        patch.setattr(sync.SourceSync, "_drop", _never)
        things.index(folder)
    assert "rows.jsonl#2" in things
    assert _done(things.index(folder)) == (0, 0, 5, 1, 0)
    assert "rows.jsonl#2" not in things


def _never(*_: object) -> None:
    raise Cut


def test_watching_indexes_what_changes_until_it_is_stopped(tmp_path: Path, encoder: Encoder) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "a.txt").write_text("a cat")
    seen, stop = Event(), Event()

    def change() -> None:
        """Write until somebody has seen it: nobody says when watching has begun."""
        number = 0
        while not seen.wait(0.05):
            number += 1
            written = tmp_path / "written.txt"
            written.write_text(f"the dog runs {number}")
            written.replace(folder / "b.txt")  # nobody sees half of it

    writer = Thread(target=change)
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        things.index(folder)
        writer.start()
        try:
            for report in things.watch(folder, stop=stop):
                assert report.added + report.updated >= 1
                seen.set()
                stop.set()
        finally:
            seen.set()
            writer.join()
        assert sorted(things.ids()) == ["a.txt", "b.txt"]


def test_a_batch_fills_the_calls_of_an_encoder_with_large_batches(tmp_path: Path) -> None:
    assert writer.room_for(encoders.load("mini")) == writer.BATCH
    folder = write_encoder(tmp_path / "tiny")
    assert writer.room_for(encoders.load(f"onnx:{folder}", batch=256)) == 2 * writer.CALLS * 256
    with Collection.open(":memory:", encoders.load(f"onnx:{folder}", batch=256), calibration="none") as things:
        seen: list[int] = []
        things.add([Document(id=str(row), text=f"a cat {row}") for row in range(600)], progress=seen.append)
    assert seen == [256, 600]  # the encoder is loaded with the first batch
