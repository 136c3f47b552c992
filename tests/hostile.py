"""Small files that are designed to be expensive to read, each a few kilobytes or sparse."""

from __future__ import annotations

import gzip
import os
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from isthmus._optional import need

GIB = 2**30


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The header of a tar member that claims a size."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def hole(path: Path, size: int, start: bytes = b"") -> None:
    """A sparse file."""
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def exabyte_tar(root: Path) -> None:
    (root / "a.tar").write_bytes(header("a.mp4", 2**60) + bytes(512))


def exabyte_tar_gz(root: Path) -> None:
    (root / "a.tar.gz").write_bytes(gzip.compress(header("a.mp4", 2**60) + bytes(512)))


def exabyte_pax_tar(root: Path) -> None:
    record = b"29 size=1152921504606846976\n"
    data = header("x", len(record), tarfile.XHDTYPE) + record.ljust(512, b"\0") + header("a.mp4", 5)
    (root / "a.tar").write_bytes(data + bytes(1024))


def long_name_tar(root: Path) -> None:
    hole(root / "a.tar", 3 * GIB, header("././@LongLink", 3 * GIB - 2048, tarfile.GNUTYPE_LONGNAME))


def long_pax_tar(root: Path) -> None:
    hole(root / "a.tar", 3 * GIB, header("x", 3 * GIB - 2048, tarfile.XHDTYPE))


def many_members_tar(root: Path) -> None:
    """60 texts of one sample, 60 MiB each."""
    size = 60 * 2**20
    with (root / "a.tar").open("wb") as file:
        for i in range(60):
            file.write(header(f"a.{i}.txt", size))
            file.write(b"word ")
            file.seek(size - 5, 1)
        file.truncate(file.tell() + 1024)


def packed_zeros_tar_gz(root: Path) -> None:
    """A member of 20 GB that is not read, 20 MB compressed."""
    zeros = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = zeros.compress(header("a.mp4", 20 * GIB)) + zeros.compress(bytes(2**20)) + zeros.flush(zlib.Z_FULL_FLUSH)
    block = zlib.compressobj(9, zlib.DEFLATED, -15)
    again = block.compress(bytes(2**24)) + block.flush(zlib.Z_FULL_FLUSH)  # the same bytes stand for more zeros
    with (root / "a.tar.gz").open("wb") as file:
        file.write(data)
        for _ in range(20 * 64):
            file.write(again)


def sparse_jpg(root: Path) -> None:
    hole(root / "a.jpg", 12 * GIB, b"\xff\xd8\xff\xe0")


def attributes_html(root: Path) -> None:
    attributes = " ".join(f"a{i}=1" for i in range(300_000))
    (root / "a.html").write_text(f"<p {attributes}>text")


def drawn(contents: list[bytes], more: dict[int, bytes], resources: str = "") -> bytes:
    """A PDF of pages with these contents, and objects of its own."""
    first = 3 + len(more)
    pages = [first + 2 * i for i in range(len(contents))]
    kids = " ".join(f"{page} 0 R" for page in pages)
    every = {1: b"<< /Type /Catalog /Pages 2 0 R >>"}
    every[2] = f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>".encode()
    every |= {3 + i: more[name] for i, name in enumerate(sorted(more))}
    head = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Resources << {} >> /Contents {} 0 R >>"
    for page, content in zip(pages, contents, strict=True):
        every |= {page: head.format(resources, page + 1).encode(), page + 1: content}
    out, places = b"%PDF-1.4\n", []
    for number in sorted(every):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + every[number] + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    tail = f"xref\n0 {len(every) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(every) + 1} /Root 1 0 R >>\n"
    return out + tail.encode() + f"startxref\n{len(out)}\n%%EOF\n".encode()


def stream(data: bytes, more: str = "") -> bytes:
    """A compressed stream of a PDF."""
    packed = zlib.compress(data, 9)
    head = f"<< /Length {len(packed)} /Filter /FlateDecode {more} >>\nstream\n".encode()
    return head + packed + b"\nendstream"


FORM = stream(b"/F Do /F Do", "/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /F 3 0 R >> >>")
GOOD, ENDLESS = stream(b"0 0 1 rg 20 20 50 50 re f"), stream(b"/F Do")


def recursive_pdf(root: Path, pages: tuple[bytes, ...] = (ENDLESS,)) -> None:
    """Pages, some of which draw a form that draws itself twice."""
    (root / "a.pdf").write_bytes(drawn(list(pages), {3: FORM}, "/XObject << /F 3 0 R >>"))


def drawing_pdf(root: Path) -> None:
    """A page of 390 MB of drawing commands."""
    (root / "a.pdf").write_bytes(drawn([stream(b"0 0 m 9 9 l S\n" * (390 * 2**20 // 14))], {}))


def png(width: int, height: int, depth: int, colour: int, bytes_per_pixel: int) -> bytes:
    """A PNG of zeros."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    packer = zlib.compressobj(1)
    row = bytes(1 + width * bytes_per_pixel)
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def empty_lists_json(root: Path) -> None:
    (root / "a.json").write_bytes(b'{"text": "x", "a": [' + b"[]," * (20 * 2**20) + b"[]]}")


def wide_csv(root: Path) -> None:
    (root / "a.csv").write_bytes(b"text" + b"," * 10_000_000 + b"\n" + b"," * 10_000_000 + b"\n")


def endless_csv(root: Path) -> None:
    """A row of quoted fields that goes on over many lines."""
    with (root / "a.csv").open("wb") as file:
        file.write(b"text,title\n")
        for _ in range(40):
            file.write(b'"' + b"x\n" * (4 * 2**20) + b'",')


def endless_jsonl(root: Path) -> None:
    hole(root / "a.jsonl", 12 * GIB, b'{"text": "x"}\n' + b"x" * 5000)


def long_text(root: Path) -> None:
    (root / "a.txt").write_bytes(b"a word " * 3_000_000)


def no_columns_npy(root: Path) -> None:
    """A matrix of a trillion rows with nothing in them."""
    (root / "img_emb").mkdir()
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 0), }"
    head = head.ljust(117) + b"\n"
    (root / "img_emb" / "img_emb_0.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)


def large_cell_parquet(root: Path) -> None:
    """One text of 1.5 GB, 100 kB compressed."""
    arrow, parquet = need("pyarrow", extra="parquet"), need("pyarrow.parquet", extra="parquet")
    text = arrow.array(["x" * 1_500_000_000], arrow.large_string())
    parquet.write_table(arrow.table({"text": text}), root / "a.parquet", compression="zstd", use_dictionary=False)


def wide_tile_tiff(root: Path) -> None:
    """A TIFF of 10 × 10 pixels in one tile of 40,000 × 40,000."""
    packed = zlib.compress(bytes(10_000))
    tags = [(256, 10), (257, 10), (258, 8), (259, 8), (262, 1), (277, 1), (322, 40_000), (323, 40_000)]
    tags += [(324, 200), (325, len(packed))]
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    out = b"II*\0" + struct.pack("<I", 8) + directory + bytes(4)
    (root / "a.tif").write_bytes(out.ljust(200, b"\0") + packed)


def crowded_jsonl(root: Path) -> None:
    """A row with 3.5 million values in its metadata."""
    tags = ",".join(map(str, range(3_500_000)))
    (root / "a.jsonl").write_text(f'{{"id":"a","text":"x","tags":[{tags}]}}\n')


def wide_row_csv(root: Path) -> None:
    """A row of 11 million fields under a header of two."""
    (root / "a.csv").write_bytes(b"text,title\n" + b"ab," * 11_000_000 + b"\n")


def many_tags_html(root: Path) -> None:
    """64 MiB of tags that are closed at once."""
    (root / "a.html").write_bytes(b"<b></b>" * (64 * 2**20 // 7))


def copied_html(root: Path) -> None:
    """Paragraphs that each open 2,000 elements again."""
    elements = "".join(f"<b a={i}>" for i in range(2_000))
    (root / "a.html").write_text(f"<p>{elements}{'<p>x' * 20_000}")


def store_pipe(root: Path) -> None:
    os.mkfifo(root / "collection.sqlite")


def slow_jpeg2000(root: Path) -> None:
    """16 million pixels of noise, 48 MiB."""
    noise = np.random.default_rng(0).integers(0, 256, (4000, 4000, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "a.jp2")
    (root / "a.jp2").rename(root / "a.jpg")


FILES: dict[str, Callable[[Path], None]] = {
    made.__name__: made
    for made in (
        exabyte_tar, exabyte_tar_gz, exabyte_pax_tar, long_name_tar, long_pax_tar, many_members_tar,
        packed_zeros_tar_gz, attributes_html, recursive_pdf, drawing_pdf, empty_lists_json, wide_csv, endless_csv,
        endless_jsonl, long_text, no_columns_npy, large_cell_parquet, sparse_jpg, wide_tile_tiff, crowded_jsonl,
        wide_row_csv, many_tags_html, copied_html, store_pipe, slow_jpeg2000,
    )
}  # fmt: skip
# Seconds each, to write or to read: bench/torture.py runs these as well.
SLOW = {"drawing_pdf", "packed_zeros_tar_gz", "endless_jsonl", "large_cell_parquet", "slow_jpeg2000"}
