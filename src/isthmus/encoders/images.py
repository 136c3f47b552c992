"""Pictures of any format become RGB bytes of the size a model needs; threads read ahead while the model runs.

A picture is read as a viewer shows it: transparent pixels are white, 16-bit grey is scaled and not clipped, a camera's
rotation is applied, an animation shows its first frame. The content decides the format, not the file name: a PNG named
``cat.jpg`` is a PNG.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from errno import EFBIG
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from isthmus.budget import PICTURE_BYTES
from isthmus.errors import BadImage
from isthmus.files import read_regular
from isthmus.isolated import picture
from isthmus.isolated.picture import Fit, Frame, Pixels, from_array
from isthmus.kinds import ImageLike

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "LONGEST",
    "Fit",
    "Frame",
    "Pixels",
    "file_bytes",
    "from_array",
    "in_order",
    "read",
    "read_bytes",
    "source_name",
    "whole",
]

LONGEST = 1024  # pixels of a picture's longest side, for models that crop or resize it themselves: more than they read
Item = TypeVar("Item")
Done = TypeVar("Done")


def read(image: ImageLike, frame: Frame) -> Pixels:
    """Turn a picture of any kind into bytes, ``(size, size, 3)`` where the frame is a square.

    >>> half = np.zeros((2, 2), dtype=np.uint8)
    >>> half[:, 1:] = 255
    >>> read(half, Frame(2)).tolist()[0]
    [[0, 0, 0], [255, 255, 255]]
    >>> read(np.zeros((40, 20), dtype=np.uint8), Frame(10, "within")).shape
    (10, 5, 3)
    """
    data = file_bytes(image)
    if data is not None:
        return read_bytes(data, source_name(image), frame)
    if isinstance(image, np.ndarray):
        return _array(picture.framed(from_array(image), frame))
    return _array(_from_pillow(image, lambda opened: picture.framed(opened, frame)))


def read_bytes(data: bytes, name: str, frame: Frame) -> Pixels:
    """Decode the bytes of a file; ``name`` is used in error messages."""
    return _array(picture.decode(data, name, frame))


def _array(image: Image) -> Pixels:
    return np.array(image, dtype=np.uint8)


def file_bytes(image: ImageLike) -> bytes | None:
    """Return the bytes of a file given by path or as bytes; None for pixels in memory."""
    if isinstance(image, bytes):
        return image
    if not isinstance(image, str | os.PathLike):
        return None
    try:
        return read_regular(image, PICTURE_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        advice = "Make it smaller" if getattr(error, "errno", None) == EFBIG else "Check the path and its permissions"
        raise BadImage(f"{source_name(image)} cannot be read: {reason}. {advice}.") from None


def whole(image: ImageLike) -> Image:
    """Return a picture of any format as a viewer shows it, at its own size: RGB, upright, on white."""
    if isinstance(image, np.ndarray):
        return picture.rgb(from_array(image))
    data = file_bytes(image)
    if data is not None:
        return picture.decode(data, source_name(image), None)
    return _from_pillow(image, lambda opened: picture.upright(opened).copy())  # a copy, not the caller's object


def source_name(image: ImageLike) -> str:
    """Return the name of a picture in error messages."""
    if isinstance(image, str | os.PathLike):
        return os.fspath(image)
    kinds: list[tuple[type, str]] = [(bytes, "the image given as bytes"), (np.ndarray, "the image given as an array")]
    return next((name for kind, name in kinds if isinstance(image, kind)), "the Pillow image")


def _from_pillow(image: Any, task: Callable[[Image], Image]) -> Image:
    name = source_name(image)
    try:
        picture.check_budget(image, name)
        return task(image)
    except BadImage:
        raise
    except Exception as error:  # noqa: BLE001 - a lazily opened file is decoded only now
        raise picture.unreadable(name, error) from None


def in_order(
    task: Callable[[Item], Done], items: Iterable[Item], *, workers: int, ahead: int
) -> Generator[Done, None, None]:
    """Run ``task`` on threads, at most ``ahead`` items before the one being used; results keep their order.

    >>> list(in_order(lambda x: x * x, range(4), workers=2, ahead=2))
    [0, 1, 4, 9]
    """
    source = iter(items)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="isthmus-read")
    try:
        waiting: deque[Future[Done]] = deque(pool.submit(task, item) for item in islice(source, max(1, ahead)))
        while waiting:
            first = waiting.popleft()
            for item in islice(source, 1):
                waiting.append(pool.submit(task, item))
            yield first.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
