"""Sounds and films: files whose spans are seconds."""

from __future__ import annotations

from isthmus.budget import MEDIA_BYTES
from isthmus.kinds.base import FileKind
from isthmus.kinds.names import AUDIO, VIDEO

SECONDS = "seconds"  # what a span of a sound or a video measures


class AudioKind(FileKind):
    """A sound: a path or the bytes of a file. A span counts seconds."""

    name = AUDIO
    span = SECONDS
    suffixes = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".m4a", ".aac", ".aif", ".aiff", ".au", ".wma")
    cost = 8
    needs = "soundfile"
    largest = MEDIA_BYTES


class VideoKind(FileKind):
    """A film: a path or the bytes of a file. A span counts seconds."""

    name = VIDEO
    span = SECONDS
    suffixes = (
        ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".m2ts", ".wmv", ".flv", ".ogv", ".3gp",
    )  # fmt: skip
    cost = 32
    needs = "av"
    largest = MEDIA_BYTES


def moment(start: float, stop: float) -> str:
    """Write a span of seconds.

    >>> moment(42.0, 47.0), moment(3599.5, 3604.5)
    ('0:42–0:47', '59:59–1:00:04')
    """
    return f"{clock(start)}–{clock(stop)}"


def clock(seconds: float) -> str:
    """Write a time as minutes and seconds.

    >>> clock(62.7), clock(3723)
    ('1:02', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
