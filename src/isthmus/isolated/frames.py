"""The messages between this process and a worker: a JSON object, and byte strings that JSON cannot represent.

    length of the JSON, 8 bytes │ JSON │ first byte string │ second │ …

The JSON is ``{"lengths": [...], "body": ...}``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from io import RawIOBase
from typing import Any, BinaryIO, NamedTuple

LENGTH = struct.Struct(">Q")


class Message(NamedTuple):
    """One request or answer."""

    body: Any
    blobs: list[bytes]


def write(stream: BinaryIO, body: object, blobs: Sequence[bytes] = ()) -> None:
    """Send a message."""
    head = json.dumps({"lengths": [len(blob) for blob in blobs], "body": body}).encode("ascii")
    stream.write(LENGTH.pack(len(head)) + head)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


def read(stream: BinaryIO | RawIOBase, limit: int) -> Message:
    """Receive a message of at most ``limit`` bytes in total; ``EOFError`` if the other side has closed the pipe.

    >>> from io import BytesIO
    >>> pipe = BytesIO()
    >>> write(pipe, {"page": 1}, [b"picture"])
    >>> _ = pipe.seek(0)
    >>> read(pipe, 1000)
    Message(body={'page': 1}, blobs=[b'picture'])
    """
    (length,) = LENGTH.unpack(_exactly(stream, LENGTH.size, limit))
    whole = json.loads(_exactly(stream, length, limit))
    lengths: list[int] = whole["lengths"]
    if sum(lengths) > limit:
        raise EOFError(f"a message of {sum(lengths):,} bytes; the limit is {limit:,}")
    return Message(whole["body"], [_exactly(stream, each, limit) for each in lengths])


def _exactly(stream: BinaryIO | RawIOBase, count: int, limit: int) -> bytes:
    if count > limit:
        raise EOFError(f"a message of {count:,} bytes; the limit is {limit:,}")
    pieces, missing = [], count
    while missing:  # a pipe may return fewer bytes
        piece = stream.read(missing)
        if not piece:
            raise EOFError("the other side has ended")
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
