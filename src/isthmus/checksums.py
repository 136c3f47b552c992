"""Checksums of stored data: of a row's values, and of a whole file.

XXH3 runs at memory speed, so a file is checked whole when it is opened. It detects damage, not forgery:
anyone who can write the files can write matching checksums.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from pathlib import Path

import xxhash

CHUNK = 1 << 22  # bytes hashed at a time
SIGNED = (1 << 63) - 1  # the largest integer of SQLite


def of_values(*values: object) -> int:
    """Return a checksum of values as SQLite stores them; types and boundaries of values are part of it.

    >>> of_values("a", 1) == of_values("a", 1), of_values("a", "1") == of_values("a", 1)
    (True, False)
    >>> of_values("ab", "c") == of_values("a", "bc")
    False
    """
    return xxhash.xxh3_64_intdigest(packed(*values)) & SIGNED


def packed(*values: object) -> bytes:
    """Return values as bytes that no other values have: what a checksum is computed from."""
    parts: list[bytes] = []
    add = parts.append
    for value in values:  # runs for every row that is read
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            add(b"s%d:" % len(data))
            add(data)
        elif value is None:
            add(b"n;")
        elif isinstance(value, bytes):
            add(b"b%d:" % len(value))
            add(value)
        elif type(value) is int:
            add(b"int %d;" % value)
        else:
            add(f"{type(value).__name__} {value!r};".encode())
    return b"".join(parts)


def of_file(path: Path) -> str:
    """Return the checksum of a whole file, as hexadecimal digits."""
    state = xxhash.xxh3_64()
    for chunk in _chunks(path):
        state.update(chunk)
    return state.hexdigest()


def _chunks(path: Path) -> Iterable[memoryview]:
    if not path.stat().st_size:  # an empty file cannot be mapped
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as whole,
    ):
        for start in range(0, len(whole), CHUNK):
            with whole[start : start + CHUNK] as chunk:
                yield chunk
