"""Decode pictures, in this process or in the worker: checked, upright, on white, of the size a model needs.

The decoders of AVIF, HEIF and JPEG 2000 can take more than 5 seconds for a picture within the limit of pixels. So HEIF
and large files of the others are decoded in the worker, which is killed when it takes too long. The other decoders stay
below 5 seconds of processor time, as extrapolated from 4 million pixels of noise.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.budget import PICTURE_BYTES, PICTURE_MEMORY, SCAN_PIXELS, mebibytes
from isthmus.errors import BadImage, BadInput, MissingExtra
from isthmus.isolated.worker import Worker

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels: TypeAlias = NDArray[np.uint8]  # (height, width, 3)
Fit: TypeAlias = Literal["squash", "crop", "cover", "within"]

ORIENTATION = 0x0112  # the EXIF tag
TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
TURNS |= {6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}
REFUSED_FORMATS = {"EPS", "WMF"}  # their renderers run code from the file
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
HEIF_OPENER = Lock()  # Pillow has one table of openers for all threads
LARGE = 16_000_000  # pixels; larger pictures are decoded one at a time, because each needs hundreds of MB
ONE_LARGE = Lock()
SHARES = {"WEBP": 0.6, "JPEG2000": 0.5}  # of the budget of pixels: their decoders hold several copies
PYTHON_SHARE = 1 / 16  # for formats that Pillow decodes in Python, 100 times slower
STRIP = 1 << 20  # pixels that are converted at a time
TILE = (322, 323)  # TIFF tags: the width and the height of a tile
SCAN = b"\xff\xda"  # the marker of a JPEG scan
SLOW = {"AVIF", "HEIF", "JPEG2000"}  # formats whose decoders can take long
QUICK = (
    4 << 20
)  # the largest such file, in bytes, that is decoded in this process: about 2 seconds by the same estimate
LONGEST_BAND = 16
WORKER = Worker("picture", PICTURE_MEMORY)


@dataclass(frozen=True, slots=True)
class Frame:
    """How a picture fits a model's input: ``squash`` all of it into a square, or ``crop`` the centre.

    ``cover`` crops as CLIP's own preprocessing does: the shorter side is resized to ``size``, then the centre is cut
    out, in whole pixels.

    ``within`` is for models that crop or resize themselves: the picture keeps its proportions, is never enlarged, and
    its longest side has at most ``size`` pixels.
    """

    size: int
    fit: Fit = "squash"
    resample: str = "bicubic"


def decode(data: bytes, name: str, frame: Frame | None, *, here: bool = False) -> Image:
    """Decode a picture to fit a frame, or at its own size without one; ``name`` is used in error messages.

    ``here`` decodes every picture in this process, as the worker does.
    """
    from PIL import Image

    if not data:
        raise BadImage(f"{name} is empty (0 bytes). Copy or download it again, or leave it out.")
    if len(data) > PICTURE_BYTES:
        raise BadImage(f"{name} is larger than {mebibytes(PICTURE_BYTES)}, the limit for a picture. Make it smaller.")
    if is_heif(data):
        _teach_heif(name)
    try:
        with Image.open(BytesIO(data)) as image:
            check_budget(image, name)
            _check_work(image, name, data)
            if not here and may_be_slow(image, data):
                return _by_worker(data, name, frame)
            if image.format == "PNG":  # Pillow decodes damaged PNG data to noise; the checksums detect it
                with Image.open(BytesIO(data)) as again:
                    again.verify()
            if frame is not None:  # a large JPEG is decoded at 1/2, 1/4 or 1/8
                image.draft(None, (2 * frame.size, 2 * frame.size))
            with ONE_LARGE if image.width * image.height > LARGE else nullcontext():
                return upright(image) if frame is None else framed(image, frame)
    except BadImage:
        raise
    except Exception as error:
        if here and isinstance(error, MemoryError):  # the parent process reports it
            raise
        raise unreadable(name, error) from None


def may_be_slow(image: Image, data: bytes) -> bool:
    """Whether a picture may take long to decode. HEIF always may: a small file can overlay many pictures."""
    large = len(data) > QUICK or image.width * image.height > LARGE
    return image.format == "HEIF" or (image.format in SLOW and large)


def _by_worker(data: bytes, name: str, frame: Frame | None) -> Image:
    from PIL import Image

    request = {"name": name, "frame": frame and asdict(frame), "pixels": Image.MAX_IMAGE_PIXELS}
    try:
        answer = WORKER.ask(request, [data])
    except BadImage:
        raise
    except BadInput as error:
        raise BadImage(f"{name} {error}.") from None
    return Image.frombytes("RGB", tuple(answer.body), answer.blobs[0])


def answer(request: dict[str, Any], blobs: list[bytes]) -> tuple[object, list[bytes]]:
    """In the worker: return the size of a picture and its pixels."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = request["pixels"]
    frame = None if request["frame"] is None else Frame(**request["frame"])
    image = decode(blobs[0], request["name"], frame, here=True)
    return image.size, [image.tobytes()]


def is_heif(data: bytes) -> bool:
    r"""Detect a HEIC or HEIF file by its first box; AVIF has a similar one, and Pillow reads it.

    >>> is_heif(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"), is_heif(b"\x89PNG")
    (True, False)
    """
    box = data[: min(int.from_bytes(data[:4], "big"), 256)]
    return box[4:8] == b"ftyp" and box[8:12] in HEIF_BRANDS and b"avif" not in box


def _teach_heif(name: str) -> None:
    """Register the HEIF decoder with Pillow."""
    from PIL import Image

    with HEIF_OPENER:
        if "HEIF" in Image.OPEN:
            return
        try:
            need("pillow_heif", extra="heic").register_heif_opener()
        except MissingExtra as error:
            raise BadImage(f"{name} is a HEIF file, as phones write them. {error}") from None


def unreadable(name: str, error: Exception) -> BadImage:
    """Return an error with the reason why a picture cannot be decoded."""
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return BadImage(f"{name} has too many pixels ({error}). {_HOW_TO_RAISE}")
    if isinstance(error, UnidentifiedImageError):
        return BadImage(
            f"{name} is not an image, or has a format that Pillow cannot read. Leave it out, or convert it."
        )
    reason = str(error).strip().rstrip(".") or type(error).__name__
    return BadImage(
        f"{name} cannot be decoded: {reason}. It is damaged or truncated: download it again, or leave it out."
    )


_HOW_TO_RAISE = (
    "Such files can exhaust the memory. If you trust it, raise PIL.Image.MAX_IMAGE_PIXELS; else make it smaller."
)


def check_budget(image: Image, name: str) -> None:
    """Check the size in the header, before any pixel is decoded."""
    from PIL import Image as pillow  # noqa: N813 - the module and the class have one name

    width, height = image.size
    if image.format in REFUSED_FORMATS:
        raise BadImage(f"{name} is {image.format}, which isthmus does not render. Convert it to PNG.")
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
    """Reject pictures that take far longer to decode than their pixels suggest: huge tiles, very many scans."""
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
            f"{name} has {width} × {height} pixels in {data.count(SCAN)} scans, which take minutes to decode. "
            "Save it again with fewer scans, or leave it out."
        )


def framed(image: Image, frame: Frame) -> Image:
    """Return a picture as a viewer shows it, RGB and upright, of the size that a model needs."""
    from PIL import Image as pillow  # noqa: N813

    turn = TURNS.get(_orientation(image))  # read first: a conversion may lose it
    plain = _plain(image)
    width, height = plain.size
    size: tuple[int, int] = (frame.size, frame.size)
    box: tuple[float, float, float, float] | None = None
    if frame.fit == "within":
        shrink = min(1.0, frame.size / max(width, height))
        size = max(1, round(width * shrink)), max(1, round(height * shrink))
    if frame.fit == "crop":
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
    if frame.fit == "cover":
        left, top, right, bottom = box = band(width, height)
        size = _covering(right - left, bottom - top, frame.size)
    method = pillow.Resampling[frame.resample.upper()]
    resized = plain.resize(size, method, box=box, reducing_gap=3.0)
    if frame.fit == "cover":
        left, top = (size[0] - frame.size) // 2, (size[1] - frame.size) // 2
        resized = resized.crop((left, top, left + frame.size, top + frame.size))
    if turn is not None:  # rotate after resizing, at a fraction of the cost
        resized = resized.transpose(pillow.Transpose[turn])
    return resized.convert("RGB")


def band(width: int, height: int) -> tuple[int, int, int, int]:
    """Return the box of the middle of a picture, at most ``LONGEST_BAND`` times as long as wide.

    A model that resizes the shorter side and then cuts out the middle sees no more of a picture, and resizing all of a
    narrow one would need a thousand times its memory.

    >>> band(60, 2), band(60, 50)
    ((14, 0, 46, 2), (0, 0, 60, 50))
    """
    longest = LONGEST_BAND * min(width, height)
    left, top = max(0, (width - longest) // 2), max(0, (height - longest) // 2)
    return left, top, left + min(width, longest), top + min(height, longest)


def _covering(width: int, height: int, side: int) -> tuple[int, int]:
    """Return the size of a picture whose shorter side is ``side``."""
    return (side, int(side * height / width)) if width <= height else (int(side * width / height), side)


def upright(image: Image) -> Image:
    """Return a picture as a viewer shows it, RGB and upright, at its own size."""
    from PIL import Image as pillow  # noqa: N813

    turn = TURNS.get(_orientation(image))
    plain = rgb(image)
    return plain if turn is None else plain.transpose(pillow.Transpose[turn])


def _orientation(image: Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # noqa: BLE001 - the pixels may be fine even if EXIF is damaged
        return 1


def rgb(image: Image) -> Image:
    """Convert every mode to RGB, on white."""
    plain = _plain(image)
    return plain if plain.mode == "RGB" else plain.convert("RGB")


def _plain(image: Image) -> Image:
    """Convert every mode to RGB, or to 8-bit grey if it has no colour, on white.

    Conversions that need more than one copy work in strips: at the limit of pixels, a copy is 360 MB.
    """
    from PIL import Image as pillow  # noqa: N813

    if image.mode == "F" or image.mode == "I" or image.mode.startswith("I;16"):
        height, width = image.height, image.width
        return pillow.fromarray(scaled(lambda top, end: np.asarray(image.crop((0, top, width, end))), height, width))
    if image.has_transparency_data:
        out = pillow.new("RGB", image.size)
        for top, end in _strips(image.height, image.width):
            box = (0, top, image.width, end)
            strip = image.crop(box)
            seen = (strip.convert("LA") if strip.mode == "La" else strip).convert("RGBA")  # La has no direct conversion
            out.paste(pillow.alpha_composite(pillow.new("RGBA", seen.size, "white"), seen).convert("RGB"), box)
        return out
    if image.mode in ("RGB", "L"):
        image.load()
        return image
    return image.convert("RGB")


def _strips(height: int, width: int) -> list[tuple[int, int]]:
    """Return the first row of each strip, and the row after its last.

    >>> _strips(5, STRIP // 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    rows = max(1, STRIP // width)
    return [(top, min(height, top + rows)) for top in range(0, height, rows)]


def scaled(rows: Callable[[int, int], NDArray[Any]], height: int, width: int) -> Pixels:
    """Scale integers of more than 8 bits and fractions to 0 … 255; ``rows(top, end)`` returns some of the rows.

    Integers up to 65535 are read as 16 bits; fractions in 0 … 1 as they are; anything else is scaled from its smallest
    to its largest value.
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
        array = scaled(lambda top, end: array[top:end], *array.shape[:2])
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0 and array.max() <= 1):
            raise BadImage("The image given as an array has fractions outside 0 … 1. Scale it, or give uint8.")
        array = scaled(lambda top, end: array[top:end], *array.shape[:2])
    elif array.dtype != np.uint8:
        raise BadImage(f"The image given as an array holds {array.dtype}. Give uint8, uint16, or fractions in 0 … 1.")
    return Image.fromarray(np.ascontiguousarray(array))
