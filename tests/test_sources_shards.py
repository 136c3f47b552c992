"""Shards: pictures and texts in tar files, and vectors in arrays."""

from __future__ import annotations

import gzip
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus.sources import SourceUnit, open_source, shards
from test_sources import PNG, read, stamps, write
from test_sources_tables import table


def tar(*members: tuple[str, bytes]) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
    return buffer.getvalue()


SAMPLES = [("a.jpg", PNG), ("a.txt", b"a cat"), ("a.json", b'{"caption": "other", "width": 3}')]
SAMPLES += [("b.png", PNG), ("b.cls", b"7"), ("c.caption", b"words alone")]


@pytest.mark.parametrize("name", ["0.tar", "0.tar.gz"])
def test_members_with_one_key_are_one_document(name: str, tmp_path: Path) -> None:
    data = tar(*SAMPLES)
    documents, skipped = read(write(tmp_path, {name: gzip.compress(data) if name.endswith("gz") else data}))
    assert {key: (document.text, document.image) for key, document in documents.items()} == {
        "a": ("a cat", PNG),
        "b": (None, PNG),
        "c": ("words alone", None),
    }
    assert documents["a"].metadata == {"shard": name, "width": 3}
    assert skipped == {}


def test_a_shard_is_a_unit(tmp_path: Path) -> None:
    write(tmp_path, {"1.tar": tar(("b.txt", b"x")), "0.tar": tar(("a.txt", b"x"))})
    assert list(stamps(tmp_path)) == ["0.tar", "1.tar"]
    assert list(read(tmp_path)[0]) == ["a", "b"]
    assert list(read(tmp_path / "1.tar")[0]) == ["b"]


def test_keys_keep_their_folder_and_hidden_members_are_passed_over(tmp_path: Path) -> None:
    members = [
        ("./x/1.jpg", PNG),
        ("x/1.seg.png", b"second"),
        ("x/._1.jpg", b""),
        ("y/1.txt", b"y"),
        ("caf\udce9.txt", b"z"),
    ]
    documents, skipped = read(write(tmp_path, {"0.tar": tar(*members)}))
    assert list(documents) == ["x/1", "y/1", "caf\\xe9"]
    assert documents["x/1"].image == PNG
    assert skipped == {}


def test_a_member_that_cannot_be_used_is_listed_and_the_rest_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "TEXT_BYTES", 100)
    members = [("a.jpg", PNG), ("a.txt", b"\xff\xff"), ("b.swf", b"x"), ("c.json", b"["), ("d.txt", b"x" * 101)]
    documents, skipped = read(write(tmp_path, {"0.tar": tar(*members, ("e.txt", b"x"))}))
    assert list(documents) == ["a", "e"]
    assert documents["a"].modality == "image"
    assert set(skipped) == {"0.tar, a.txt", "0.tar, b", "0.tar, c.json", "0.tar, d.txt"}


@pytest.mark.parametrize("packed", [False, True])
def test_what_comes_before_damage_is_kept(packed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = tar(*((f"{i}.jpg", rng.bytes(3000)) for i in range(5)))
    cut = gzip.compress(data)[: 3 * 3200 + 1500] if packed else data[: 3 * 3584 + 2000]
    name = "0.tar.gz" if packed else "0.tar"
    documents, skipped = read(write(tmp_path, {name: cut}))
    assert list(documents) == ["0", "1", "2"][: len(documents)] != []
    assert "is damaged after" in skipped[name]


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    data = bytearray(tar(("a.txt", b"x"), ("b.txt", b"y"), ("c.txt", b"z")))
    data[1024 + 150] ^= 0xFF  # in the second header's checksum
    documents, skipped = read(write(tmp_path, {"0.tar": bytes(data)}))
    assert set(documents) <= {"a"}
    assert "is damaged after 'a'" in skipped["0.tar"]


@pytest.mark.parametrize("data", [b"", b"no archive at all", tar()])
def test_a_shard_without_samples_is_listed(data: bytes, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"0.tar": data}))
    assert documents == {}
    assert list(skipped) == ["0.tar"]


def clip(root: Path, images: Any, texts: Any, metadata: dict[str, Any] | None, shard: str = "0") -> Path:
    for folder, matrix in (("img_emb", images), ("text_emb", texts)):
        if matrix is not None:
            (root / folder).mkdir(parents=True, exist_ok=True)
            np.save(root / folder / f"{folder}_{shard}.npy", np.asarray(matrix, dtype=np.float16))
    if metadata is not None:
        (root / "metadata").mkdir(exist_ok=True)
        table(root / "metadata" / f"metadata_{shard}.parquet", metadata)
    return root


ONES = np.ones((3, 4))


def test_vectors_come_with_their_captions(tmp_path: Path) -> None:
    write(tmp_path, {"here.jpg": PNG})
    rows = {"image_path": ["here.jpg", "gone.jpg", None], "caption": ["x", "y", None], "key": ["k0", "k1", "k2"]}
    documents, skipped = read(clip(tmp_path, ONES, 2 * ONES, rows))
    assert list(documents) == ["here.jpg", "gone.jpg", "k2"]
    here, gone, _ = documents.values()
    assert (here.text, here.image) == ("x", str(tmp_path / "here.jpg"))
    assert (gone.text, gone.image) == ("y", None)
    assert {part: vector.tolist() for part, vector in here.vectors.items()} == {"image": [1] * 4, "text": [2] * 4}
    assert here.metadata == {"image_path": "here.jpg", "key": "k0"}
    assert skipped == {}


def test_a_caption_without_a_vector_is_metadata(tmp_path: Path) -> None:
    documents, _ = read(clip(tmp_path, ONES, None, {"caption": ["x"] * 3}))
    assert list(documents) == ["0-0", "0-1", "0-2"]
    assert documents["0-0"].modality == "image"
    assert documents["0-0"].metadata == {"caption": "x"}


def test_shards_of_vectors_are_units_in_order_and_a_zero_row_is_skipped(tmp_path: Path) -> None:
    for shard in ("10", "9"):
        clip(tmp_path, ONES * [[1], [0], [1]], None, None, shard)
    source = open_source(tmp_path)
    assert [unit.key for unit in source.units() if isinstance(unit, SourceUnit)] == ["shard 9", "shard 10"]
    documents, skipped = read(tmp_path)
    assert list(documents) == ["9-0", "9-2", "10-0", "10-2"]
    assert set(skipped) == {"shard 9, row 1", "shard 10, row 1"}


def test_shards_that_differ_in_length_say_both_lengths(tmp_path: Path) -> None:
    clip(tmp_path, ONES, ONES[:2], None, "0")
    clip(tmp_path, ONES, None, {"caption": ["x"] * 5}, "1")
    documents, skipped = read(tmp_path)
    assert documents == {}
    assert "3 image vectors and 2 text vectors" in skipped["shard 0"]
    assert "3 vectors and 5 rows of metadata" in skipped["shard 1"]


@pytest.mark.parametrize("data", [b"", b"no array", b"\x93NUMPY\x01\x00", b"\x80\x04pickle"])
def test_a_damaged_array_is_listed(data: bytes, tmp_path: Path) -> None:
    write(tmp_path, {"img_emb/img_emb_0.npy": data})
    clip(tmp_path, None, ONES, None, "1")
    documents, skipped = read(tmp_path)
    assert len(documents) == 3
    assert "img_emb/img_emb_0.npy is not an array" in skipped["shard 0"]


def test_an_array_cut_short_is_listed(tmp_path: Path) -> None:
    clip(tmp_path, np.ones((100, 8)), None, None)
    path = tmp_path / "img_emb/img_emb_0.npy"
    path.write_bytes(path.read_bytes()[:-100])
    assert "is not an array, or damaged" in read(tmp_path)[1]["shard 0"]
