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
from contextlib import nullcontext
from dataclasses import dataclass
from errno import EFBIG
from io import BytesIO
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.budget import PICTURE_BYTES, SCAN_PIXELS, mebibytes
from isthmus.documents import ImageLike
from isthmus.errors import BadImage, MissingExtra
from isthmus.files import read_regular

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
LARGE = 16_000_000  # pixels; pictures of more are decoded one at a time, as each takes hundreds of MB
ONE_LARGE = Lock()
SHARES = {"WEBP": 0.6, "JPEG2000": 0.5}  # of the budget of pixels: their decoders hold several copies
PYTHON_SHARE = 1 / 16  # of those that Pillow decodes in Python, 100 times as slowly
STRIP = 1 << 20  # pixels that are converted at a time
TILE = (322, 323)  # TIFF tags: the width and the height of a tile
SCAN = b"\xff\xda"  # what begins each scan of a JPEG


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
        return read_regular(image, PICTURE_BYTES)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        advice = "Make it smaller" if getattr(error, "errno", None) == EFBIG else "Check the path and its permissions"
        raise BadImage(f"{source_name(image)} cannot be read: {reason}. {advice}.") from None


def whole(image: ImageLike) -> Image:
    """Return a picture of any kind as it looks, at its own size: RGB, upright, on white paper."""
    if isinstance(image, np.ndarray):
        return _rgb(from_array(image))
    data = file_bytes(image)
    if data is not None:
        return _decoded(data, source_name(image), _upright)
    return _from_pillow(image, lambda opened: _upright(opened).copy())  # not the caller's own


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
    if len(data) > PICTURE_BYTES:
        raise BadImage(f"{name} is larger than {mebibytes(PICTURE_BYTES)}, the most that is read. Make it smaller.")
    if is_heif(data):
        _teach_heif(name)
    try:
        with Image.open(BytesIO(data)) as image:
            _check_budget(image, name)
            _check_work(image, name, data)
            if image.format == "PNG":  # Pillow decodes damaged PNG data to noise; the checksums inside tell
                with Image.open(BytesIO(data)) as again:
                    again.verify()
            with ONE_LARGE if image.width * image.height > LARGE else nullcontext():
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
            raise BadImage(f"{name} is a HEIF file, as phones write them. {error}") from None


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
    return BadImage(
        f"{name} cannot be decoded: {reason}. It is damaged or truncated: download it again, or leave it out."
    )


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
        raise BadImage(f"{name} is {width} × {height} pixels: it is too small to show anything. Leave it out.")
    if pillow.MAX_IMAGE_PIXELS is None:
        return
    by_python = any(tile[0] in pillow.DECODERS for tile in getattr(image, "tile", []))
    budget = int(pillow.MAX_IMAGE_PIXELS * (PYTHON_SHARE if by_python else SHARES.get(image.format or "", 1)))
    if width * height > budget:
        raise BadImage(
            f"{name} has {width} × {height} pixels and the budget{f' of {image.format}' if image.format else ''} is "
            f"{budget:,} in all. {_HOW_TO_RAISE}"
        )


def _check_work(image: Image, name: str, data: bytes) -> None:
    """Refuse what takes far more to decode than its pixels: tiles larger than the picture, scans without end."""
    from PIL import Image as pillow  # noqa: N813

    width, height = image.size
    if image.format == "TIFF":
        tags: Any = getattr(image, "tag_v2", {})
        across, down = (int(tags.get(tag) or 0) for tag in TILE)
        budget = pillow.MAX_IMAGE_PIXELS
        if budget is not None and across * down > budget:
            raise BadImage(f"{name} has tiles of {across} × {down} pixels, more than the budget. {_HOW_TO_RAISE}")
    if image.format == "JPEG" and "progressive" in image.info and width * height * data.count(SCAN) > SCAN_PIXELS:
        raise BadImage(
            f"{name} draws {width} × {height} pixels {data.count(SCAN)} times over, which takes minutes to decode. "
            "Save it again without so many scans, or leave it out."
        )


def _framed(image: Image, frame: Frame) -> Pixels:
    from PIL import Image as pillow  # noqa: N813

    turn = TURNS.get(_orientation(image))  # read before pixels are touched: a conversion may lose it
    plain = _plain(image)
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
    return np.array(resized.convert("RGB"), dtype=np.uint8)


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
    plain = _plain(image)
    return plain if plain.mode == "RGB" else plain.convert("RGB")


def _plain(image: Image) -> Image:
    """Convert every mode to RGB, or to 8-bit grey where there is no colour, as it would look on white paper.

    What takes more than one copy is done in strips: at the limit of pixels, a copy is 360 MB.
    """
    from PIL import Image as pillow  # noqa: N813

    if image.mode == "F" or image.mode == "I" or image.mode.startswith("I;16"):
        height, width = image.height, image.width
        return pillow.fromarray(_scaled(lambda top, end: np.asarray(image.crop((0, top, width, end))), height, width))
    if image.has_transparency_data:
        out = pillow.new("RGB", image.size)
        for top, end in _strips(image.height, image.width):
            box = (0, top, image.width, end)
            strip = image.crop(box)
            seen = (strip.convert("LA") if strip.mode == "La" else strip).convert("RGBA")  # La: no shorter way
            out.paste(pillow.alpha_composite(pillow.new("RGBA", seen.size, "white"), seen).convert("RGB"), box)
        return out
    if image.mode in ("RGB", "L"):
        image.load()
        return image
    return image.convert("RGB")


def _strips(height: int, width: int) -> list[tuple[int, int]]:
    """Return the first row of each strip, and the one behind it.

    >>> _strips(5, STRIP // 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    rows = max(1, STRIP // width)
    return [(top, min(height, top + rows)) for top in range(0, height, rows)]


def _scaled(rows: Callable[[int, int], NDArray[Any]], height: int, width: int) -> Pixels:
    """Bring whole numbers past 8 bits and fractions to 0 … 255; ``rows(top, end)`` gives some rows of them.

    Whole numbers up to 65535 count as 16 bits; fractions in 0 … 1 as they are; anything else is
    stretched from its least to its greatest value.
    """

    def finite(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.nan_to_num(values.astype(np.float64), posinf=0.0, neginf=0.0)

    strips = _strips(height, width)
    ends = [(float(values.min()), float(values.max())) for values in (finite(rows(*strip)) for strip in strips)]
    low, high = min(least for least, _ in ends), max(most for _, most in ends)
    first = rows(*strips[0])
    base, top = 0.0, 1.0 if first.dtype.kind == "f" else 65535.0
    if low < 0 or high > top:
        base, top = low, (high - low) or 1.0
    out = np.empty((height, *first.shape[1:]), dtype=np.uint8)
    for start, end in strips:
        out[start:end] = np.rint((finite(rows(start, end)) - base) * (255 / top))
    return out


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
        array = _scaled(lambda top, end: array[top:end], *array.shape[:2])
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise BadImage("The image given as an array has fractions outside 0 … 1. Scale it, or give uint8.")
        array = _scaled(lambda top, end: array[top:end], *array.shape[:2])
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
