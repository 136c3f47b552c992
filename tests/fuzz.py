"""Damaged files for every reader, from a seed: valid ones with bytes flipped, cut, inserted, spliced and made huge.

    for case in fuzz.cases("pdf", np.random.default_rng(0)): ...     endlessly many files, as bytes
    fuzz.run("pdf", np.random.default_rng(0), 100)                   read 100 of them

What is read must be documents, or skipped with a reason. Nothing else may be raised.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

from damage import pdf
from isthmus import Document
from isthmus._optional import need
from isthmus.encoders import images
from isthmus.errors import BadImage
from isthmus.sources import SkippedInput, open_source

HUGE = [
    b"99999999999999999999",
    b"-1",
    b"4294967295",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
    b"1e999",
]
WORDS = [b"\0", b"\xff\xfe", b'"', b"<", b"{", b"[", b"]", b"\n", b",", b" Do ", b"/Kids", b"stream", b"\xff\xda"]
FRAME = images.Frame(16)


def _tar(packed: bool) -> bytes:
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in [
            ("a.jpg", _picture("JPEG")),
            ("a.txt", b"a cat"),
            ("b" * 150 + ".json", b'{"caption": "x"}'),
        ]:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0) if packed else buffer.getvalue()


def _picture(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    grey = np.arange(24 * 24, dtype=np.uint8).reshape(24, 24)
    buffer = BytesIO()
    Image.fromarray(np.stack([grey, grey.T, grey[::-1]], axis=2)).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def _heif() -> bytes:
    from pillow_heif import from_pillow

    buffer = BytesIO()
    from_pillow(Image.new("RGB", (32, 32), "red")).save(buffer)
    return buffer.getvalue()


def _parquet() -> bytes:
    arrow, parquet = need("pyarrow", extra="parquet"), need("pyarrow.parquet", extra="parquet")
    buffer = BytesIO()
    rows = {"id": [1, 2, 3], "text": ["a cat", None, "a dog"], "image": [b"x", None, b"y"]}
    rows["vector"] = arrow.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], arrow.list_(arrow.float32()))
    parquet.write_table(arrow.table(rows), buffer)
    return buffer.getvalue()


def _npy() -> bytes:
    buffer = BytesIO()
    np.save(buffer, np.ones((4, 8), dtype=np.float16))
    return buffer.getvalue()


ROWS: list[dict[str, object]] = [
    {"id": "a", "text": "a cat", "metadata": {"year": 2020, "tags": ["x", 1]}},
    {"id": 2, "title": "t", "image": "data:image/png;base64,iVBORw0KGgo=", "vector": [1.0, 2.5]},
    {"text": "words", "vectors": {"text": [0.5, 0.5]}},
]
PAGE = b"<!doctype html><html><head><meta charset=utf-8><title>t</title></head><body><div><p a=b>one<table><tr><td>two"

# The name of the file, and valid contents to begin with.
SEEDS: dict[str, tuple[str, Callable[[], list[bytes]]]] = {
    "text": ("a.txt", lambda: [b"plain words\n" * 5, "déjà vu".encode("utf-16"), "猫".encode("utf-32")]),
    "html": ("a.html", lambda: [PAGE, PAGE.replace(b"utf-8", b"latin-1") + b"\xe9"]),
    "pdf": ("a.pdf", lambda: [pdf(["one", "two"]), pdf(["deep"], nested=3), pdf(["secret"], encrypted=True)]),
    "json": ("a.json", lambda: [json.dumps(ROWS).encode(), json.dumps(ROWS[0]).encode()]),
    "jsonl": ("a.jsonl", lambda: [b"\n".join(json.dumps(row).encode() for row in ROWS)]),
    "csv": ("a.csv", lambda: [b'id,text,metadata\n1,"a ""cat""","{}"\n2,b,\n', b"id;text\n1;x\n"]),
    "tsv": ("a.tsv", lambda: [b"id\ttext\n1\tx\n2\ty\n"]),
    "parquet": ("a.parquet", lambda: [_parquet()]),
    "tar": ("a.tar", lambda: [_tar(packed=False), _tar(packed=True)]),
    "sidecar": ("a.json", lambda: [b'{"caption": "a cat", "width": 3, "tags": ["x"]}']),
    "clip-retrieval": ("img_emb/img_emb_0.npy", lambda: [_npy()]),
    "picture": (
        "a.jpg",
        lambda: [
            *(_picture(kind) for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "AVIF", "JPEG2000")),
            _picture("PNG", "RGBA"),
            _picture("PNG", "I;16"),
            _picture("PNG", "P"),
            _picture("TIFF", "F"),
            _picture("JPEG", progressive=True),
            _picture("TIFF", compression="tiff_lzw"),
            _heif(),
        ],
    ),
}
READERS = tuple(SEEDS)


def cases(reader: str, rng: np.random.Generator) -> Iterator[bytes]:
    """Give damaged files without end; the first ones are whole."""
    seeds = SEEDS[reader][1]()
    yield from seeds
    while True:
        data = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, 5)):
            MUTATIONS[rng.integers(len(MUTATIONS))](data, seeds, rng)
        yield bytes(data)


def _flip(data: bytearray, _: list[bytes], rng: np.random.Generator) -> None:
    for at in rng.integers(0, max(1, len(data)), rng.integers(1, 8)):
        if data:
            data[at] ^= 1 << int(rng.integers(8))


def _cut(data: bytearray, _: list[bytes], rng: np.random.Generator) -> None:
    del data[int(rng.integers(0, len(data) + 1)) :]


def _drop(data: bytearray, _: list[bytes], rng: np.random.Generator) -> None:
    start = int(rng.integers(0, len(data) + 1))
    del data[start : start + int(rng.integers(1, 40))]


def _insert(data: bytearray, _: list[bytes], rng: np.random.Generator) -> None:
    at, choices = int(rng.integers(0, len(data) + 1)), [*WORDS, *HUGE, rng.bytes(8)]
    data[at:at] = choices[rng.integers(len(choices))] * int(rng.choice([1, 1, 2, 1000]))


def _splice(data: bytearray, seeds: list[bytes], rng: np.random.Generator) -> None:
    other = seeds[rng.integers(len(seeds))]
    start = int(rng.integers(0, len(other) + 1))
    at = int(rng.integers(0, len(data) + 1))
    data[at : at + int(rng.integers(0, 60))] = other[start : start + int(rng.integers(1, 200))]


def _number(data: bytearray, _: list[bytes], rng: np.random.Generator) -> None:
    """Make a number huge, written in digits or in bytes."""
    digits = [at for at, byte in enumerate(data) if 48 <= byte < 58]
    at = int(rng.choice(digits)) if digits and rng.random() < 0.7 else int(rng.integers(0, len(data) + 1))
    huge = HUGE[rng.integers(len(HUGE))]
    data[at : at + (1 if rng.random() < 0.5 else len(huge))] = huge


MUTATIONS = (_flip, _cut, _drop, _insert, _splice, _number)


def run(reader: str, rng: np.random.Generator, count: int, folder: Path | None = None) -> Counter[str]:
    """Read ``count`` damaged files, in an empty folder; return how many documents and how many skipped there were."""
    if folder is None:
        with TemporaryDirectory() as name:
            return run(reader, rng, count, Path(name))
    place = folder / SEEDS[reader][0]
    place.parent.mkdir(parents=True, exist_ok=True)
    if reader == "sidecar":
        (folder / "a.jpg").write_bytes(_picture("PNG"))
    seen: Counter[str] = Counter()
    for _, case in zip(range(count), cases(reader, rng), strict=False):
        place.write_bytes(case)
        for found in _found(folder):
            if isinstance(found, Document):
                seen["documents"] += 1
                _check(found)
            else:
                seen["skipped"] += 1
                assert found.where
                assert found.why.strip()
        if reader == "picture":
            seen["seen" if _look(case) else "refused"] += 1
    return seen


def _found(folder: Path) -> Iterator[Document | SkippedInput]:
    for unit in open_source(folder).units():
        yield from [unit] if isinstance(unit, SkippedInput) else unit.read()


def _check(document: Document) -> None:
    """What a document holds can be written anywhere."""
    json.dumps(document.metadata, allow_nan=False)
    (document.id + (document.text or "")).encode()
    assert all(np.isfinite(vector).all() for vector in document.vectors.values())


def _look(data: bytes) -> bool:
    if not data:
        return False
    try:
        return images.read(data, FRAME).shape == (FRAME.size, FRAME.size, 3)
    except BadImage as error:
        assert str(error).strip()
        return False
