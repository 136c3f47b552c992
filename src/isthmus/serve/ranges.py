"""Send bytes whole or in part: HTTP ranges (RFC 9110, section 14), so that a browser can seek in a recording.

A file is read piece by piece while it is sent, whatever its size. One range is answered with 206; several ranges, and
what is not a range of bytes, with the whole, which the standard allows.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from io import BufferedReader

from starlette.responses import Response, StreamingResponse

from isthmus.files import CHUNK
from isthmus.serve.errors import Refused
from isthmus.serve.media import UNKNOWN, PartBytes, PartFile

RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def part_answer(sent: PartBytes | PartFile, asked: Mapping[str, str]) -> Response:
    """Return the response to a request with these headers (in lower case): all bytes, a range, or 304."""
    try:
        headers = {"ETag": sent.tag, "Cache-Control": "private, max-age=60", "Accept-Ranges": "bytes"}
        if sent.tag in asked.get("if-none-match", ""):
            answer = Response(status_code=304, headers=headers)
        else:
            return _body(sent, asked, headers)
    except BaseException:
        _close(sent)
        raise
    _close(sent)
    return answer


def _body(sent: PartBytes | PartFile, asked: Mapping[str, str], headers: dict[str, str]) -> Response:
    if sent.media_type == UNKNOWN:
        headers["Content-Disposition"] = "attachment"
    size, status = sent.size, 200
    first, end = 0, size
    if "range" in asked and asked.get("if-range", sent.tag) == sent.tag:
        found = byte_range(asked["range"], size)
        if found is not None:
            status, (first, end) = 206, found
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
    if isinstance(sent, PartBytes):
        return Response(sent.data[first:end], status, headers, sent.media_type)
    headers["Content-Length"] = str(end - first)
    return StreamingResponse(_pieces(sent.file, first, end), status, headers, sent.media_type)


def _close(sent: PartBytes | PartFile) -> None:
    if isinstance(sent, PartFile):
        sent.file.close()


def byte_range(header: str, size: int) -> tuple[int, int] | None:
    """Return the first byte of a range and the one after its last; None: the header is to be ignored.

    >>> byte_range("bytes=2-5", 10), byte_range("bytes=2-", 10), byte_range("bytes=2-50", 10)
    ((2, 6), (2, 10), (2, 10))
    >>> byte_range("bytes=-3", 10), byte_range("bytes=-50", 10)
    ((7, 10), (0, 10))
    >>> byte_range("bytes=0-1,4-5", 10), byte_range("bytes=5-2", 10), byte_range("lines=1-2", 10)
    (None, None, None)
    """
    found = RANGE.fullmatch(header.strip())
    if found is None or not (found[1] or found[2]):
        return None
    first = int(found[1]) if found[1] else size - int(found[2])
    last = int(found[2]) if found[1] and found[2] else size - 1
    if found[1] and found[2] and last < first:
        return None
    if first >= size or not size:
        raise Refused(416, f"There are {size:,} bytes. Ask for a range of them.", {"Content-Range": f"bytes */{size}"})
    return max(0, first), min(last + 1, size)


async def _pieces(file: BufferedReader, first: int, end: int) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, read on a thread; the file is closed when they are sent, or the client is gone."""
    try:
        await asyncio.to_thread(file.seek, first)
        while first < end and (piece := await asyncio.to_thread(file.read, min(CHUNK, end - first))):
            first += len(piece)
            yield piece
    finally:
        file.close()
