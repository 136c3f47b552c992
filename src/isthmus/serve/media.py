"""What is sent of a part, and its media type, which the content says and not a name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from io import BufferedReader

UNKNOWN = "application/octet-stream"
FORMATS = (  # of files that browsers show, by how they begin
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (4, b"ftypavif", "image/avif"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
)
HEAD = 32  # bytes that say what a file is


def media_type(data: bytes) -> str:
    r"""Return what a file is, by its first bytes.

    >>> media_type(b"\xff\xd8\xff\xe0"), media_type(b"<svg onload=alert(1)>")
    ('image/jpeg', 'application/octet-stream')
    >>> media_type(b"\0\0\0\x20ftypisom"), media_type(b"\0\0\0\x20ftypM4A ")
    ('video/mp4', 'audio/mp4')
    """
    return next((kind for at, start, kind in FORMATS if data[at : at + len(start)] == start), UNKNOWN)


@dataclass(frozen=True, slots=True)
class PartBytes:
    """What is sent of a part, in memory."""

    data: bytes
    media_type: str

    @property
    def size(self) -> int:
        """The number of bytes."""
        return len(self.data)

    @property
    def tag(self) -> str:
        """A value that changes with the content, for caches."""
        return f'"{sha256(self.data).hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True)
class PartFile:
    """What is sent of a part, in a file that is open."""

    file: BufferedReader
    media_type: str

    @property
    def size(self) -> int:
        """The number of bytes."""
        return os.fstat(self.file.fileno()).st_size

    @property
    def tag(self) -> str:
        """A value that changes with the file, for caches; it says nothing else about it."""
        state = os.fstat(self.file.fileno())
        return f'"{sha256(f"{state.st_ino} {state.st_mtime_ns} {state.st_size}".encode()).hexdigest()[:32]}"'
