"""Parts as bytes: pictures as they are, in a format that browsers show, or smaller; other kinds as they are.

The content says what it is, not a name: what is not known as a picture, a sound or a video is sent as plain bytes to
save.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from threading import Lock

from isthmus.budget import MIB
from isthmus.encoders.images import Frame, file_bytes, read, whole
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.kinds import IMAGE, TEXT, Part
from isthmus.serve.media import HEAD, PartBytes, PartFile, media_type

SMALLEST, LARGEST = 16, 2048  # pixels of a thumbnail's longer side


@dataclass(slots=True, eq=False)
class PartSender:
    """Makes what is sent of parts, and keeps the pictures that it made smaller, up to ``room`` bytes."""

    room: int = 64 * MIB
    _kept: OrderedDict[tuple[bytes, int | None], PartBytes] = field(default_factory=OrderedDict)
    _size: int = 0
    _lock: Lock = field(default_factory=Lock)

    def opened(self, part: Part, size: int | None) -> PartBytes | PartFile:
        """Return a part as ``part`` does, but a file that is sent as it is open, not read."""
        if part.path is not None and part.kind != TEXT and size is None:
            try:
                file = open_regular(part.path)
            except OSError:  # the same error as for other parts
                return self.part(part, size)
            kind = media_type(file.peek(HEAD)[:HEAD])
            if part.kind != IMAGE or kind.startswith(f"{IMAGE}/"):
                return PartFile(file, kind)
            file.close()
        return self.part(part, size)

    def part(self, part: Part, size: int | None) -> PartBytes:
        """Return the bytes of a part; with ``size``, of a picture whose longer side has at most so many pixels."""
        if part.kind == TEXT:
            return PartBytes(part.content.encode("utf-8", "replace"), "text/plain; charset=utf-8")
        if size is not None and not SMALLEST <= size <= LARGEST:
            raise BadInput(f"size is {size}; it must lie between {SMALLEST} and {LARGEST} pixels.")
        data = file_bytes(part.content) or b""
        kind = media_type(data)
        if part.kind == IMAGE and (size is not None or not kind.startswith(f"{IMAGE}/")):
            return self._made(data, size)
        return PartBytes(data, kind)

    def _made(self, data: bytes, size: int | None) -> PartBytes:
        key = (sha256(data).digest(), size)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = _jpeg(data, size)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._size += len(made.data)
            while self._size > self.room:
                self._size -= len(self._kept.popitem(last=False)[1].data)
        return made


def _jpeg(data: bytes, size: int | None) -> PartBytes:
    from PIL import Image

    picture = whole(data) if size is None else Image.fromarray(read(data, Frame(size, "within")))
    out = BytesIO()
    picture.save(out, "JPEG", quality=85)
    return PartBytes(out.getvalue(), "image/jpeg")
