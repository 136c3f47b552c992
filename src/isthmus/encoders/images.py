"""Any picture becomes RGB bytes of the size a model wants; threads read ahead while the model runs.

What a picture looks like is what counts: transparent pixels show white paper, 16-bit grey is scaled and
not clipped, a camera's rotation is applied, an animation shows its first frame. A file's name is not
looked at: a PNG called ``cat.jpg`` is a PNG.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.documents import ImageLike
from isthmus.errors import BadImage, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, 3)
Fit: TypeAlias = Literal["squash", "crop", "within"]
Item = TypeVar("Item")
Done = TypeVar("Done")

ORIENTATION = 0x0112  # the EXIF tag
TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
TURNS |= {6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}
REFUSED_FORMATS = {"EPS", "WMF"}  # drawn by programs that run code found in the file
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
HEIF_OPENER = Lock()  # Pillow has one table of openers for all threads


@dataclass(frozen=True, slots=True)
class Frame:
    """What a model looks at: ``squash`` the whole picture into a square, or ``crop`` the middle out.

    ``within`` is for models that make a square of their own: the picture keeps its proportions, is never made larger,
    and its longest side has ``size`` pixels at most.
    """

    size: int
    fit: Fit = "squash"
    resample: str = "bicubic"


def read(image: ImageLike, frame: Frame) -> Pixels:
    """Turn a picture of any kind into bytes, ``(size, size, 3)`` where the frame is a square.

    >>> half = np.zeros((2, 2), dtype=np.uint8)
    >>> half[:, 1:] = 255
    >>> read(half, Frame(2)).tolist()[0]
    [[0, 0, 0], [255, 255, 255]]
    >>> read(np.zeros((40, 20), dtype=np.uint8), Frame(10, "within")).shape
    (10, 5, 3)
    """
    if isinstance(image, np.ndarray):
        return _framed(from_array(image), frame)
    data = file_bytes(image)
    if data is not None:
        return read_bytes(data, source_name(image), frame)
    return _from_pillow(image, lambda opened: _framed(opened, frame))


def file_bytes(image: ImageLike) -> bytes | None:
    """Return the bytes of a file given by path or as bytes; None for pixels in memory."""
    if isinstance(image, bytes):
        return image
    if not isinstance(image, str | os.PathLike):
        return None
    try:
        return Path(image).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise BadImage(f"{source_name(image)} cannot be read: {reason}. Check the path and its permissions.") from None


def whole(image: ImageLike) -> Image:
    """Return a picture of any kind as it looks, at its own size: RGB, upright, on white paper."""
    if isinstance(image, np.ndarray):
        return _rgb(from_array(image))
    data = file_bytes(image)
    return _decoded(data, source_name(image), _upright) if data is not None else _from_pillow(image, _upright)


def read_bytes(data: bytes, name: str, frame: Frame) -> Pixels:
    """Decode the bytes of a file; ``name`` stands in the error."""

    def framed(image: Image) -> Pixels:
        image.draft(None, (2 * frame.size, 2 * frame.size))  # a large JPEG is decoded at 1/2, 1/4 or 1/8
        return _framed(image, frame)

    return _decoded(data, name, framed)


def _decoded(data: bytes, name: str, task: Callable[[Image], Done]) -> Done:
    from PIL import Image

    if not data:
        raise BadImage(f"{name} is empty (0 bytes). Copy or download it again, or leave it out.")
    if is_heif(data):
        _teach_heif(name)
    try:
        with Image.open(BytesIO(data)) as image:
            _check_budget(image, name)
            if image.format == "PNG":  # Pillow decodes damaged PNG data to noise; the checksums inside tell
                with Image.open(BytesIO(data)) as again:
                    again.verify()
            return task(image)
    except BadImage:
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise anything on damaged bytes
        raise _unreadable(name, error) from None


def is_heif(data: bytes) -> bool:
    r"""Tell a HEIC or HEIF file by its first box; AVIF, which begins alike, is Pillow's own.

    >>> is_heif(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"), is_heif(b"\x89PNG")
    (True, False)
    """
    box = data[: min(int.from_bytes(data[:4], "big"), 256)]
    return box[4:8] == b"ftyp" and box[8:12] in HEIF_BRANDS and b"avif" not in box


def _teach_heif(name: str) -> None:
    """Let Pillow open HEIF files from now on."""
    from PIL import Image

    with HEIF_OPENER:
        if "HEIF" in Image.OPEN:
            return
        try:
            need("pillow_heif", extra="heic").register_heif_opener()
        except MissingExtra as error:
            raise BadImage(f"{name} is HEIF, as telephones write it. {error}") from None


def source_name(image: ImageLike) -> str:
    """Say what a picture is called in an error."""
    if isinstance(image, str | os.PathLike):
        return os.fspath(image)
    kinds: list[tuple[type, str]] = [(bytes, "the image given as bytes"), (np.ndarray, "the image given as an array")]
    return next((said for kind, said in kinds if isinstance(image, kind)), "the Pillow image")


def _from_pillow(image: Any, task: Callable[[Image], Done]) -> Done:
    name = source_name(image)
    try:
        _check_budget(image, name)
        return task(image)
    except BadImage:
        raise
    except Exception as error:  # noqa: BLE001 - a lazily opened file is decoded only now
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: Exception) -> BadImage:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return BadImage(f"{name} has too many pixels ({error}). {_HOW_TO_RAISE}")
    if isinstance(error, UnidentifiedImageError):
        return BadImage(f"{name} is not an image, or of a kind that Pillow cannot read. Leave it out, or convert it.")
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return BadImage(f"{name} cannot be decoded: {reason}. It is damaged or cut short: get it again, or leave it out.")


_HOW_TO_RAISE = (
    "Such files can exhaust the memory. If you trust it, raise PIL.Image.MAX_IMAGE_PIXELS; else make it smaller."
)


def _check_budget(image: Image, name: str) -> None:
    """Refuse by the size that the header claims, before a pixel is decoded."""
    from PIL import Image as pillow  # noqa: N813 - the module and the class have one name

    width, height = image.size
    if image.format in REFUSED_FORMATS:
        raise BadImage(f"{name} is {image.format}, which only a program of its own can draw. Convert it to PNG.")
    if width < 1 or height < 1:
        raise BadImage(f"{name} is {width} × {height} pixels: there is nothing to see. Leave it out.")
    budget = pillow.MAX_IMAGE_PIXELS
    if budget is not None and width * height > budget:
        raise BadImage(f"{name} has {width} × {height} pixels and the budget is {budget:,} in all. {_HOW_TO_RAISE}")


def _framed(image: Image, frame: Frame) -> Pixels:
    from PIL import Image as pillow  # noqa: N813

    turn = TURNS.get(_orientation(image))  # read before pixels are touched: a conversion may lose it
    plain = _rgb(image)
    width, height = plain.size
    size, box = (frame.size, frame.size), None
    if frame.fit == "within":
        shrink = min(1.0, frame.size / max(width, height))
        size = max(1, round(width * shrink)), max(1, round(height * shrink))
    if frame.fit == "crop":
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    method = pillow.Resampling[frame.resample.upper()]
    resized = plain.resize(size, method, box=box, reducing_gap=3.0)
    if turn is not None:  # it turns after it is resized, at a fraction of the cost
        resized = resized.transpose(pillow.Transpose[turn])
    return np.array(resized, dtype=np.uint8)


def _upright(image: Image) -> Image:
    from PIL import Image as pillow  # noqa: N813

    turn = TURNS.get(_orientation(image))
    plain = _rgb(image)
    return plain if turn is None else plain.transpose(pillow.Transpose[turn])


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - damaged EXIF says nothing about the pixels
        return 1


def _rgb(image: Image) -> Image:
    """Convert every mode to RGB as it would look on white paper."""
    from PIL import Image as pillow  # noqa: N813

    if image.mode == "F" or image.mode == "I" or image.mode.startswith("I;16"):
        return pillow.fromarray(_scaled(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        seen = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")  # La: no shorter way
        paper = pillow.new("RGBA", seen.size, "white")
        return pillow.alpha_composite(paper, seen).convert("RGB")
    return image.convert("RGB")


def _scaled(values: NDArray[Any]) -> Pixels:
    """Bring whole numbers past 8 bits and fractions to 0 … 255.

    Whole numbers up to 65535 count as 16 bits; fractions in 0 … 1 as they are; anything else is
    stretched from its least to its greatest value.
    """
    wide = np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)
    low, high = float(wide.min()), float(wide.max())
    top = 1.0 if values.dtype.kind == "f" else 65535.0
    if low < 0 or high > top:
        wide, top = wide - low, (high - low) or 1.0
    return np.rint(wide * (255 / top)).astype(np.uint8)


def from_array(array: NDArray[Any]) -> Image:
    """Make a Pillow image of pixels: bytes, 16 bits, fractions in 0 … 1, or truth values."""
    from PIL import Image

    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (3, 4)) or 0 in array.shape:
        raise BadImage(
            f"The image given as an array has shape {array.shape}; it must be (height, width), (height, width, 3) or "
            "(height, width, 4), with no side of 0. Move channels to the end."
        )
    if array.dtype == np.bool_:
        array = array.astype(np.uint8) * np.uint8(255)
    elif array.dtype == np.uint16:
        array = _scaled(array)
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise BadImage("The image given as an array has fractions outside 0 … 1. Scale it, or give uint8.")
        array = _scaled(array)
    elif array.dtype != np.uint8:
        raise BadImage(f"The image given as an array holds {array.dtype}. Give uint8, uint16, or fractions in 0 … 1.")
    return Image.fromarray(np.ascontiguousarray(array))


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
