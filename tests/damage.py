"""A folder of 2,000 small files, 500 of them damaged, each in one of the ways that files get damaged."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

GOOD, BAD = 1500, 500
PICTURE = {"png": "PNG", "jpg": "JPEG"}


def picture(rng: np.random.Generator, kind: str = "PNG", side: int = 8) -> bytes:
    buffer = BytesIO()
    Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def bomb() -> bytes:
    """A PNG of a few bytes that claims 60,000 × 60,000 pixels."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def pdf(pages: list[str], *, encrypted: bool = False, nested: int = 0) -> bytes:
    """A PDF with a line of text on each page; ``nested`` puts that many nodes between the root and the pages."""
    first = 4 + nested
    objects = {1: "<< /Type /Catalog /Pages 2 0 R >>", 3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"}
    for level in range(nested):
        objects[(2, *range(4, 4 + nested))[level]] = f"<< /Type /Pages /Count {len(pages)} /Kids [{4 + level} 0 R] >>"
    kids = " ".join(f"{first + 2 * i} 0 R" for i in range(len(pages)))
    objects[(2, *range(4, 4 + nested))[nested]] = f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>"
    for i, text in enumerate(pages):
        drawn = f"BT /F1 24 Tf 20 100 Td ({text}) Tj ET" if text else "0 0 1 rg 20 20 50 50 re f"
        objects[first + 2 * i] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {first + 2 * i + 1} 0 R >>"
        )
        objects[first + 2 * i + 1] = f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream"
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'5a' * 32}> /U <{'a5' * 32}> >> /ID [<00> <00>]"
    written, places = b"%PDF-1.4\n", []
    for number in sorted(objects):
        places.append(len(written))
        written += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R {lock * encrypted} >>\n"
    return written + tail.encode() + f"startxref\n{len(written)}\n%%EOF\n".encode()


def make_damaged_folder(root: Path, rng: np.random.Generator) -> tuple[set[str], set[str]]:
    """Fill a folder; return the ids of all good documents, and the names of all files with damage in them.

    A bad name is a file's path inside the folder; what is skipped is that, or begins with it and a comma. Bad
    pictures look good until somebody decodes them. A table with a broken line is bad, and its other lines are good.
    """
    good: set[str] = set()
    bad: set[str] = set()
    for i in range(GOOD):
        folder = root / f"g{i % 15:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        name, data, ids = _good(i, rng)
        (folder / name).write_bytes(data)
        good |= {f"{folder.name}/{name}{ending}" for ending in ids}
    for i in range(BAD):
        folder = root / f"b{i % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        make = DAMAGE[i % len(DAMAGE)]
        name, data, ids = make(i, rng)
        (folder / name).write_bytes(data)
        bad.add(f"{folder.name}/{name}")
        good |= {f"{folder.name}/{name}{ending}" for ending in ids}
    if os.geteuid():  # root reads everything
        locked = root / "b0" / "locked.txt"
        locked.write_text("a text that nobody may read")
        locked.chmod(0)
        bad.add("b0/locked.txt")
    return good, bad


Made = tuple[str, bytes, list[str]]  # a name, what is in the file, and the endings of the good ids in it


def _good(i: int, rng: np.random.Generator) -> Made:
    words = " ".join(rng.choice(["cat", "sofa", "snow", "red", "boat", "tree", "night", "map"], 6))
    if i % 50 == 0:
        return f"page {i}.pdf", pdf([words, ""]), ["#page=1", "#page=2"]
    if i % 50 == 1:
        return f"rows{i}.jsonl", f'{{"id": "a", "text": "{words}"}}\n{{"text": "b"}}\n'.encode(), ["#a", "#row=2"]
    if i % 50 == 2:
        return f"table{i}.csv", f"id;text\n1;{words}\n2;more\n".encode(), ["#1", "#2"]
    if i % 10 == 3:
        return f"web{i}.html", f"<title>t</title><p>{words}<p>{i}".encode(), [""]
    if i % 10 in (4, 5):
        kind = ["png", "jpg"][i % 2]
        return f"photo{i}.{kind}", picture(rng, PICTURE[kind]), [""]
    if i % 10 == 6:
        return f"ünï\n{i} – 猫.txt", words.encode("utf-16"), [""]
    return f"note{i}.{['txt', 'md', 'py'][i % 3]}", f"{words} {i}".encode(), [""]


def _names(ending: str, make: Callable[[np.random.Generator], bytes]) -> Callable[[int, np.random.Generator], Made]:
    return lambda i, rng: (f"bad{i}{ending}", make(rng), [])


def _noise(rng: np.random.Generator) -> bytes:
    return rng.bytes(2000)


def _flipped(rng: np.random.Generator) -> bytes:
    data = bytearray(picture(rng, side=32))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


def _line(i: int, rng: np.random.Generator, middle: bytes) -> Made:
    return f"bad{i}.jsonl", b'{"id": 1, "text": "before"}\n' + middle + b'\n{"id": 3, "text": "after"}\n', ["#1", "#3"]


DAMAGE: list[Callable[[int, np.random.Generator], Made]] = [
    _names(".txt", lambda rng: b""),
    _names(".md", lambda rng: b" \n\t \n"),
    _names(".txt", _noise),
    _names("\nof two lines.txt", _noise),
    _names(".txt", lambda rng: "déjà vu".encode("latin-1")),
    _names(".txt", lambda rng: "no mark".encode("utf-16-le")),
    _names(".txt", lambda rng: b"\xff\xfe" + "odd".encode("utf-16-le")[:-1]),
    _names(".txt", lambda rng: b"\xf0\x9f\x98"),
    _names(".rst", lambda rng: b"\x01\x02\x03\x04 words"),
    _names(".txt", lambda rng: picture(rng)),
    _names(".mp4", _noise),
    _names("", lambda rng: b"no extension"),
    _names(".html", lambda rng: b"<script>nothing to see</script>"),
    _names(".html", lambda rng: b"<div>" * 20_000),
    _names(".pdf", lambda rng: b""),
    _names(".pdf", _noise),
    _names(".pdf", lambda rng: b"%PDF-1.4\n" + rng.bytes(500)),
    _names(".pdf", lambda rng: pdf(["one"])[:60]),
    _names(".pdf", lambda rng: pdf(["secret"], encrypted=True)),
    _names(".pdf", lambda rng: pdf(["deep"], nested=3000)),
    _names(".pdf", lambda rng: b"a text called a PDF"),
    _names(".json", lambda rng: b'{"text": "cut sho'),
    _names(".json", lambda rng: b"[1, 2, 3]"),
    _names(".json", lambda rng: b"[" * 100_000),
    _names(".csv", lambda rng: b"year,price\n2020,3\n"),
    _names(".csv", _noise),
    _names(".tsv", lambda rng: b"id\ttext\n1\t'a'\textra\n"),
    _names(".parquet", _noise),
    _names(".parquet", lambda rng: b"PAR1" + rng.bytes(100) + b"PAR1"),
    _names(".jsonl", _noise),
    lambda i, rng: _line(i, rng, b'{"id": 2, "text": "cut'),
    lambda i, rng: _line(i, rng, b'{"id": 2, "text": "\xe9"}'),
    lambda i, rng: _line(i, rng, b'{"id": 2, "text": "\\ud800"}'),
    lambda i, rng: _line(i, rng, b'{"id": 2}'),
    lambda i, rng: _line(i, rng, b'["id", 2]'),
    lambda i, rng: _line(i, rng, b'{"a":' * 20_000),
    _names(".png", lambda rng: b""),
    _names(".jpg", _noise),
    _names(".png", lambda rng: picture(rng, side=32)[:200]),
    _names(".jpg", lambda rng: picture(rng, "JPEG", side=32)[:200]),
    _names(".png", _flipped),
    _names(".png", lambda rng: bomb()),
    _names(".jpg", lambda rng: b"<html>not found</html>"),
]
