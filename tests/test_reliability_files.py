"""Damaged files: an index is made again from the store, a store is never made good silently."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, IsthmusError
from stock import FILE, mixed, pixels

ASKED = [Query(text="a red cat"), Query(image=pixels(500)), Query(text="dog", image=pixels(501))]
Answers = list[list[tuple[str, float]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Path:
    """A collection with an index on the disk, closed; every test takes a copy."""
    folder = tmp_path_factory.mktemp("whole") / "c"
    with Collection.open(folder, encoder, calibration="center+nnn(k=4)", follow=False) as things:
        things.add(mixed(60))
        things.search("dog")
        things.delete(["d0-0", "d0-1"])
    return folder


@pytest.fixture
def folder(tmp_path: Path, whole: Path) -> Path:
    shutil.copytree(whole, tmp_path / "c")
    return tmp_path / "c"


def answers(things: Collection) -> Answers:
    return [[(hit.id, round(hit.score, 4)) for hit in things.search(query, k=100)] for query in ASKED]  # of float32


@pytest.fixture(scope="module")
def right(whole: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    copy = tmp_path_factory.mktemp("right") / "c"
    shutil.copytree(whole, copy)
    with Collection.open(copy, encoder, follow=False) as things:
        assert things.verify() == []
        return answers(things)


def _index(folder: Path) -> Path:
    (place,) = (folder / "index").iterdir()
    return place


def _flip(path: Path, at: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.write_bytes(data)


def _half_written(folder: Path) -> None:
    place = _index(folder)
    shutil.copytree(place, place.with_name(f"{place.name}.123.tmp"))
    shutil.rmtree(place)
    (place.with_name(f"{place.name}.123.tmp") / "0.vectors").write_bytes(b"half")


def _emptied(folder: Path) -> None:
    for path in _index(folder).iterdir():
        path.unlink()


def _described(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    file = _index(folder) / "index.json"
    about = json.loads(file.read_text())
    change(about)
    file.write_text(json.dumps(about))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no index at all": lambda f: shutil.rmtree(f / "index"),
    "an empty folder": _emptied,
    "vectors cut": lambda f: (_index(f) / "0.vectors").write_bytes(b"cut"),
    "vectors empty": lambda f: (_index(f) / "0.vectors").write_bytes(b""),
    "a flipped bit in vectors": lambda f: _flip(_index(f) / "1.vectors"),
    "a flipped bit in rows": lambda f: _flip(_index(f) / "2.rows"),
    "rows gone": lambda f: (_index(f) / "0.rows").unlink(),
    "garbage": lambda f: (_index(f) / "index.json").write_bytes(b"\xff\x00garbage"),
    "a list": lambda f: (_index(f) / "index.json").write_text("[]"),
    "too deep": lambda f: (_index(f) / "index.json").write_text("[" * 100_000),
    "no shelves": lambda f: _described(f, lambda about: about.update(built={})),
    "a modality less": lambda f: _described(f, lambda about: about["modalities"].pop()),  # type: ignore[attr-defined]
    "another end": lambda f: _described(f, lambda about: about.update(last=1000)),
    "another state": lambda f: _described(f, lambda about: about.update(sequence=2)),
    "a flipped bit in the description": lambda f: _flip(_index(f) / "index.json", 20),
    "half written": _half_written,
    "a file for a folder": lambda f: (f / "index").rename(f / "away") and (f / "index").write_text("?"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_made_again_and_gives_the_same_answers(
    folder: Path, encoder: Encoder, right: Answers, damage: str
) -> None:
    DAMAGE[damage](folder)
    for _ in range(2):
        with Collection.open(folder, encoder, follow=False) as things:
            assert answers(things) == right
            assert things.calibration is not None
            assert things.calibration.version == 1
    if (folder / "index").is_dir():
        assert _index(folder).name == "1-2"
        with Collection.open(folder, encoder, follow=False) as things:
            assert things.verify() == []


@pytest.mark.parametrize("name", ["0.vectors", "1.rows", "index.json"])
def test_verify_finds_a_flipped_bit_of_the_index_and_replaces_it(
    folder: Path, encoder: Encoder, right: Answers, name: str
) -> None:
    for at in np.random.default_rng(0).integers(0, (_index(folder) / name).stat().st_size, 5).tolist():
        with Collection.open(folder, encoder, follow=False) as things:
            assert answers(things) == right  # what is served is read from the file that is damaged now
            _flip(_index(folder) / name, at)
            assert len(things.verify()) == 1
            assert answers(things) == right
            assert things.verify() == []


def test_an_index_of_another_time_is_not_believed(folder: Path, encoder: Encoder, right: Answers) -> None:
    """The store was put back from an older copy; the index beside it knows documents that it does not."""
    older = (folder / FILE).read_bytes()
    with Collection.open(folder, encoder, follow=False) as things:
        things.add(mixed(30, seed=1))
        things.search("dog")
    (folder / FILE).write_bytes(older)
    with Collection.open(folder, encoder, follow=False) as things:
        assert answers(things) == right


def _garbage(data: bytes) -> bytes:
    return b"garbage " * 512 + data[4096:]


STORES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda data: data[: len(data) // 2],
    "cut to a page": lambda data: data[:16384],
    "cut to a few bytes": lambda data: data[:50],
    "emptied": lambda data: b"",
    "garbage at the front": _garbage,
    "another kind of file": lambda data: b"a letter\n" * 1000,
    "every page overwritten but the first": lambda data: data[:16384] + b"\xa5" * (len(data) - 16384),
}


@pytest.mark.parametrize("damage", STORES)
def test_a_damaged_store_is_reported_and_left_as_it_is(folder: Path, encoder: Encoder, damage: str) -> None:
    broken = STORES[damage]((folder / FILE).read_bytes())
    (folder / FILE).write_bytes(broken)
    for use in (
        lambda things: list(things),
        lambda things: things.search("dog"),
        lambda things: things.add(mixed(3, seed=9)),
        lambda things: things.calibrate("center"),
    ):
        with pytest.raises(BadFile, match=f"{FILE}"), Collection.open(folder, encoder) as things:
            use(things)
        assert (folder / FILE).read_bytes() == broken
    with pytest.raises(BadFile), Collection.open(folder, encoder) as things:
        assert things.verify()
        list(things)


def test_a_flipped_bit_of_the_store_is_found_or_does_no_harm(folder: Path, encoder: Encoder, right: Answers) -> None:
    data = (folder / FILE).read_bytes()
    with Collection.open(folder, encoder, follow=False) as things:
        given = {document.id: document for document in things}
    found = 0
    for at in np.random.default_rng(1).integers(16384, len(data), 60).tolist():
        (folder / FILE).write_bytes(data)
        _flip(folder / FILE, at)
        try:
            with Collection.open(folder, encoder, follow=False) as things:
                problems = things.verify()
                if not problems:
                    assert {document.id: document for document in things} == given
                    assert answers(things) == right
        except IsthmusError:
            problems = ["it cannot be opened"]
        found += bool(problems)
    assert found > 5  # most of so small a store is empty space


@pytest.mark.parametrize("table", ["documents", "parts", "segments", "blobs", "facts", "manifest"])
def test_verify_names_what_was_changed_behind_its_back(folder: Path, encoder: Encoder, table: str) -> None:
    changes = {
        "documents": "UPDATE documents SET modality = 'another' WHERE id = 'd0-3'",
        "parts": "UPDATE parts SET content = 'another' WHERE document = 4",
        "segments": "UPDATE segments SET vector = zeroblob(32) WHERE document = 4",
        "blobs": "DELETE FROM blobs WHERE document = 5",
        "facts": "UPDATE facts SET value = 77 WHERE document = 4 AND name = 'number'",
        "manifest": "UPDATE manifest SET value = zeroblob(100) WHERE name = 'statistics'",
    }
    with Collection.open(folder, encoder, follow=False) as things:
        assert things.verify() == []
        with things._handle.database.writing() as connection:
            connection.execute(changes[table])
        problems = things.verify()
    assert problems
    assert any("d0-" in problem for problem in problems) == (table != "manifest")


def test_a_collection_that_was_never_finished_can_be_opened(tmp_path: Path, encoder: Encoder) -> None:
    """Its process was killed before there was anything in the file."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / FILE).write_bytes(b"")
    with Collection.open(tmp_path / "c", encoder, calibration="none") as things:
        things.add(mixed(3))
        assert len(things.search("dog")) == 3
