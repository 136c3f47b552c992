"""The format of protobuf messages, which ONNX files are: fields, one after another, each with a number and a length.

Reading and writing a few fields takes little code; the package ``onnx`` would be a large dependency for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from isthmus.errors import BadFile

Buffer = TypeVar("Buffer", bytes, memoryview)

LONGEST = 63  # bits of a number
VARINT, BYTES = 0, 2  # the wire types of numbers and of everything that has a length
FIXED = {1: 8, 5: 4}  # the sizes of the fixed-length types, in bytes
CUT_SHORT = "This model's file ends in the middle of a field. It is truncated: download it again."


def fields(message: Buffer) -> Iterator[tuple[int, Buffer, Buffer]]:
    """Yield each field: its number, what it holds, and all of its bytes."""
    at = 0
    while at < len(message):
        start = at
        key, at = read_number(message, at)
        kind = key & 7
        if kind == BYTES:
            length, at = read_number(message, at)
        elif kind == VARINT:
            length = read_number(message, at)[1] - at
        elif kind in FIXED:
            length = FIXED[kind]
        else:
            raise BadFile("This file is not an ONNX model, or is damaged.")
        if at + length > len(message):
            raise BadFile(CUT_SHORT)
        yield key >> 3, message[at : at + length], message[start : at + length]
        at += length


def values(message: Buffer, wanted: int) -> list[Buffer]:
    """Return what every field of one number holds.

    >>> values(write_field(8, b"weight") + write_number(2, 3), 8)
    [b'weight']
    """
    return [held for field, held, _ in fields(message) if field == wanted]


def read_number(message: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    value = shift = 0
    while True:
        if at >= len(message):
            raise BadFile(CUT_SHORT)
        byte = message[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at
        if shift > LONGEST:
            raise BadFile("This file is not an ONNX model, or is damaged.")


def read_numbers(packed: bytes | memoryview) -> list[int]:
    r"""Return all numbers of a packed list.

    >>> read_numbers(b"\x03\x80\x06")
    [3, 768]
    """
    found, at = [], 0
    while at < len(packed):
        value, at = read_number(packed, at)
        found.append(value)
    return found


def write_field(field: int, held: bytes) -> bytes:
    """Return a field with a length: bytes, text or a message."""
    return write_head(field, len(held)) + held


def write_head(field: int, length: int) -> bytes:
    """Return what stands before the content of such a field, so that large content need not be copied to it."""
    return _varint(field << 3 | BYTES) + _varint(length)


def write_number(field: int, value: int) -> bytes:
    r"""Return a field that holds a number; a negative one is its 64-bit complement, as protobuf defines.

    >>> write_number(7, 11), len(write_number(3, -1))
    (b'8\x0b', 11)
    """
    return _varint(field << 3 | VARINT) + _varint(value & (1 << 64) - 1)


def write_fixed(field: int, held: bytes) -> bytes:
    """Return a field of a fixed length: 4 bytes (a float) or 8 (a double)."""
    kind = next(kind for kind, size in FIXED.items() if size == len(held))
    return _varint(field << 3 | kind) + held


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
