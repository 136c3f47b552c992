"""Sounds and videos, read by the worker ``media`` in blocks.

for block in sound("talk.mp3"): ...          samples at 16 kHz, or at another rate, 20 seconds at a time
for start, stop, pixels in frames("a.mp4"):  key frames, each with the span that it stands for
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import require
from isthmus.budget import MEDIA_SECONDS, MIB
from isthmus.errors import BadInput
from isthmus.files import open_regular
from isthmus.isolated.worker import Worker

Content: TypeAlias = str | PathLike[str] | bytes
WORKER = Worker("media", 1024 * MIB)
RATE = 16_000  # samples per second, unless another rate is asked for
_numbers = count()


@dataclass(slots=True)
class LengthLimit:
    """The longest recording that this process decodes, in seconds; for pictures Pillow has ``MAX_IMAGE_PIXELS``."""

    seconds: float = MEDIA_SECONDS


LIMIT = LengthLimit()


class KeyFrame(NamedTuple):
    """A picture of a video, and the span in seconds that it stands for."""

    start: float
    stop: float
    pixels: NDArray[np.uint8]  # (height, width, 3)


def sound(content: Content, rate: int = RATE) -> Iterator[NDArray[np.float32]]:
    """Yield the sound of a file in blocks of 20 seconds: mono, ``rate`` samples per second."""
    for answer in _answers(content, "sound", rate):
        if answer.body["end"]:
            return
        yield np.frombuffer(answer.blobs[0], np.float32)


def frames(content: Content) -> Iterator[KeyFrame]:
    """Yield the key frames of a video that are at least 2 seconds apart; one every 5 where it has too few."""
    require("av", extra="video")
    for answer in _answers(content, "frames"):
        about = answer.body["frames"]
        if not about:
            return
        for one, blob in zip(about, answer.blobs, strict=True):
            yield KeyFrame(one["start"], one["stop"], np.frombuffer(blob, np.uint8).reshape(one["shape"]))


def tracks(content: Content) -> dict[str, bool]:
    """Return whether a file has ``audio`` and ``video``."""
    require("av", extra="video")
    with _path(content) as path:
        found: dict[str, bool] = WORKER.ask({"reading": "", "what": "tracks", "path": path}).body
        return found


def _answers(content: Content, what: str, rate: int = RATE) -> Iterator[Any]:
    """Ask for one piece after another; how many pieces an answer has is counted for a worker that starts anew."""
    if what == "sound" and not _any_installed():
        require("soundfile", extra="sound")
    reading = str(next(_numbers))
    given = 0
    with _path(content) as path:
        asked = {"reading": reading, "what": what, "path": path, "rate": rate, "longest": LIMIT.seconds}
        try:
            while True:
                answer = WORKER.ask({**asked, "first": given})
                given += len(answer.blobs)
                yield answer
        finally:
            WORKER.drop(reading)


def _any_installed() -> bool:
    return any(find_spec(module) is not None for module in ("soundfile", "av"))


@contextmanager
def _path(content: Content) -> Iterator[str]:
    """Give the path of a file; bytes are written to a temporary one."""
    if not isinstance(content, bytes):
        try:
            with open_regular(content):  # with our permissions, which a worker that started earlier may not have
                pass
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"cannot be read: {why}. Check the path and its permissions") from None
        yield os.fspath(content)
        return
    descriptor, name = tempfile.mkstemp(prefix="isthmus-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield name
    finally:
        Path(name).unlink()
