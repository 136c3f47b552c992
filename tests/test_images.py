"""Any picture comes out as it looks, and every bad one is refused by name."""

from __future__ import annotations

import struct
import sys
import threading
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from isthmus._optional import need
from isthmus.encoders.images import Frame, in_order, read
from isthmus.errors import BadImage, BadInput

FRAME = Frame(4)
LEFT, RIGHT = (200, 40, 40), (40, 40, 200)


def two_halves() -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", (16, 8), LEFT)
    image.paste(RIGHT, (8, 0, 16, 8))
    return image


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def assert_two_halves(pixels: Any, tolerance: int = 12) -> None:
    assert pixels.shape == (4, 4, 3)
    assert pixels.dtype == np.uint8
    np.testing.assert_allclose(pixels[:, 0], np.tile(LEFT, (4, 1)), atol=tolerance)
    np.testing.assert_allclose(pixels[:, 3], np.tile(RIGHT, (4, 1)), atol=tolerance)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_picture_looks_the_same_from_a_path_from_bytes_and_from_memory(kind: str, tmp_path: Path) -> None:
    data = encoded(two_halves(), kind)
    (tmp_path / "picture").write_bytes(data)
    frame = Frame(4, resample="bilinear")
    seen = [read(source, frame) for source in (data, tmp_path / "picture", str(tmp_path / "picture"))]
    seen.append(read(Image.open(BytesIO(data)), frame))
    for pixels in seen:
        assert_two_halves(pixels, tolerance=40)  # 4:2:0 blurs the border of so small a picture
        np.testing.assert_array_equal(pixels, seen[0])


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "CMYK", "YCbCr", "RGBX", "RGBa", "HSV"])
def test_every_colour_mode_keeps_its_colours(mode: str) -> None:
    through = two_halves().convert("RGBA") if mode == "RGBa" else two_halves()
    assert_two_halves(read(through.convert(mode), Frame(4, resample="bilinear")), tolerance=40)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "La", "PA", "I", "F", "I;16", "I;16B", "I;16L"])
def test_every_grey_mode_goes_from_black_to_white(mode: str) -> None:
    levels = {"I": 65535, "F": 1.0}.get(mode, 65535 if mode.startswith("I;16") else 255)
    if mode in ("I", "F") or mode.startswith("I;16"):
        kinds: dict[str, Any] = {"I": np.int32, "F": np.float32, "I;16B": np.dtype(">u2")}
        ramp = np.repeat([[0, 0, levels, levels]], 4, axis=0).astype(kinds.get(mode, np.dtype("<u2")))
        image = Image.frombytes(mode, (4, 4), ramp.tobytes())
    else:
        grey = Image.fromarray(np.repeat([[0, 0, 255, 255]], 4, axis=0).astype(np.uint8))
        image = grey.convert("LA").convert(mode) if mode == "La" else grey.convert(mode)
    pixels = read(image, FRAME)
    assert pixels[:, 0].tolist() == [[0, 0, 0]] * 4
    assert pixels[:, 3].tolist() == [[255, 255, 255]] * 4


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    ramp = np.repeat(np.linspace(0, 65535, 4).astype(np.uint16)[None], 4, axis=0)
    data = encoded(Image.fromarray(ramp), "PNG")
    for source in (data, Image.fromarray(ramp), ramp):
        assert read(source, FRAME)[0, :, 0].tolist() == [0, 85, 170, 255]


def test_numbers_without_a_known_range_are_stretched() -> None:
    wide = Image.fromarray(np.array([[-1000.0, 1000.0], [0.0, np.nan]], dtype=np.float32))
    assert read(wide, Frame(2))[:, :, 0].tolist() == [[0, 255], [128, 128]]
    flat = Image.fromarray(np.full((2, 2), 7_000_000, dtype=np.int32))
    assert len(set(read(flat, Frame(2)).ravel().tolist())) == 1


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_shows_white_paper(mode: str) -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    data = encoded(image.convert(mode) if mode != "P" else image.quantize(), "PNG")
    assert (read(data, FRAME) == 255).all()
    half = Image.new("RGBA", (4, 4), (0, 0, 0, 128))
    np.testing.assert_allclose(read(half, FRAME), 127, atol=1)


def test_a_colour_declared_transparent_shows_white_too() -> None:
    image = Image.new("RGB", (4, 4), (1, 2, 3))
    assert (read(encoded(image, "PNG", transparency=(1, 2, 3)), FRAME) == 255).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_cameras_rotation_is_applied(orientation: int) -> None:
    undo = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]  # Pillow's numbers of transpositions
    upright = two_halves()
    stored = upright if undo is None else upright.transpose(Image.Transpose(undo))
    exif = Image.Exif()
    exif[0x0112] = orientation
    frame = Frame(4, resample="bilinear")
    np.testing.assert_array_equal(read(encoded(stored, "PNG", exif=exif), frame), read(upright, frame))


def test_damaged_exif_does_not_spoil_a_picture() -> None:
    assert_two_halves(
        read(encoded(two_halves(), "PNG", exif=b"Exif\0\0MM\0*garbage"), Frame(4, resample="bilinear")), 40
    )


def test_an_animation_shows_its_first_frame() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "lime", "blue")]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        options: dict[str, Any] = {"lossless": True} if kind == "WEBP" else {}
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options)
        assert read(data, FRAME)[0, 0].tolist() == pytest.approx([255, 0, 0], abs=3), kind


def test_squash_shows_the_whole_picture_and_crop_its_middle() -> None:
    striped = np.zeros((4, 12, 3), dtype=np.uint8)
    striped[:, 4:8] = 255
    assert (read(striped, Frame(4, "crop")) == 255).all()
    assert (read(striped, Frame(4, "cover")) == 255).all()
    squashed = read(striped, Frame(3, "squash", "bilinear"))
    assert squashed[0, 0, 0] < 60
    assert squashed[0, 1, 0] > 190


@pytest.mark.parametrize("fit", ["squash", "crop", "cover"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 30_000), (30_000, 1), (3, 5000)])
def test_a_picture_of_any_proportions_fits(shape: tuple[int, int], fit: Any) -> None:
    assert (read(np.full(shape, 7, dtype=np.uint8), Frame(4, fit)) == 7).all()


def test_a_large_jpeg_is_decoded_small_and_looks_the_same() -> None:
    large = two_halves().resize((1600, 800), Image.Resampling.NEAREST)
    pixels = read(encoded(large, "JPEG", quality=95), Frame(4, resample="bilinear"))
    np.testing.assert_allclose(pixels, read(large, Frame(4, resample="bilinear")), atol=6)


@pytest.mark.parametrize(
    ("array", "first"),
    [
        (np.full((2, 2), 9, np.uint8), 9),
        (np.full((2, 2, 3), 0.2), 51),
        (np.full((2, 2, 3), 257 * 9, np.uint16), 9),
        (np.full((2, 2), True), 255),
        (np.full((2, 2, 4), (0, 0, 0, 0), np.uint8), 255),
        (np.full((2, 4, 3), 9, np.uint8)[:, ::2], 9),
    ],
)
def test_arrays_of_bytes_of_16_bits_of_fractions_and_of_booleans_are_read(array: Any, first: int) -> None:
    before = array.copy()
    assert (read(array, Frame(2)) == first).all()
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(3, np.uint8), "has shape (3,)"),
        (np.zeros((3, 4, 4), np.uint8).transpose(1, 0, 2)[:, :2, :2], "Move channels to the end"),
        (np.zeros((0, 4), np.uint8), "no side of 0"),
        (np.full((2, 2), 7.0), "outside 0 … 1"),
        (np.full((2, 2), np.nan), "outside 0 … 1"),
        (np.zeros((2, 2), np.int64), "holds int64"),
    ],
)
def test_an_array_that_is_no_picture_is_refused_with_what_it_lacks(array: Any, said: str) -> None:
    with pytest.raises(BadImage) as caught:
        read(array, FRAME)
    assert said in str(caught.value)


def bomb() -> bytes:
    """A PNG of 60,000 × 60,000 pixels in a hundred bytes: decoding it would take ten gigabytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


JPEG = encoded(two_halves().resize((160, 80)), "JPEG")
PNG = encoded(two_halves().resize((160, 80)), "PNG")
BAD = {
    "zero-byte.jpg": (b"", "is empty (0 bytes)"),
    "text.png": (b"this is not a picture\n" * 20, "is not an image"),
    "truncated.jpg": (JPEG[: len(JPEG) // 2], "cannot be decoded"),
    "truncated.png": (PNG[: len(PNG) // 2], "cannot be decoded"),
    "header-only.png": (PNG[:30], "is not an image"),
    "corrupt.png": (PNG[:60] + bytes(20) + PNG[80:], "cannot be decoded"),
    "bomb.png": (bomb(), "too many pixels"),
    "vector.eps": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n",
        "Convert it to PNG",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_picture_is_refused_by_name_and_reason(name: str, tmp_path: Path) -> None:
    data, said = BAD[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadImage) as caught:
        read(tmp_path / name, FRAME)
    assert str(tmp_path / name) in str(caught.value)
    assert said in str(caught.value)
    assert isinstance(caught.value, BadInput)
    with pytest.raises(BadImage, match="the image given as bytes"):
        read(data, FRAME)


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    nowhere: list[tuple[str | Path, str]] = [(tmp_path / "no.jpg", "No such file"), (tmp_path, "Is a directory")]
    for path, said in [*nowhere, ("a\0b", "null")]:
        with pytest.raises(BadImage, match=said):
            read(path, FRAME)


def test_the_pixel_budget_is_that_of_pillow_and_is_checked_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    image = two_halves()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 127)
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("it was decoded"))
    with pytest.raises(BadImage, match=r"16 × 8 pixels and the budget is 127 .*MAX_IMAGE_PIXELS"):
        read(image, FRAME)


def test_the_extension_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "cat.txt").write_bytes(PNG)
    (tmp_path / "cat.jpg").write_bytes(PNG)
    np.testing.assert_array_equal(read(tmp_path / "cat.txt", FRAME), read(tmp_path / "cat.jpg", FRAME))


@given(place=st.integers(0, len(JPEG) - 1), value=st.integers(0, 255), data=st.sampled_from([JPEG, PNG]))
def test_whatever_byte_is_wrong_there_is_a_picture_or_a_clear_error(place: int, value: int, data: bytes) -> None:
    damaged = bytearray(data)
    damaged[place % len(data)] = value
    try:
        assert read(bytes(damaged), FRAME).shape == (4, 4, 3)
    except BadImage as error:
        assert "the image given as bytes" in str(error)


def test_work_done_ahead_keeps_its_order_and_stays_bounded() -> None:
    started: list[int] = []
    gate = threading.Event()

    def task(number: int) -> int:
        started.append(number)
        gate.wait(10)
        return number

    results = in_order(task, range(100), workers=2, ahead=5)
    gate.set()
    for expected in range(10):
        assert next(results) == expected
        assert max(started) <= expected + 5
    results.close()
    assert len(started) < 20


def test_an_error_in_work_done_ahead_reaches_the_caller_and_stops_the_rest() -> None:
    def task(number: int) -> int:
        return 1 // (3 - number)

    results = in_order(task, range(1000), workers=2, ahead=4)
    with pytest.raises(ZeroDivisionError):
        list(results)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("isthmus-read")]


def heic(image: Image.Image) -> bytes:
    buffer = BytesIO()
    need("pillow_heif", extra="heic").from_pillow(image).save(buffer, quality=95)
    return buffer.getvalue()


def test_a_telephones_picture_is_read_from_many_threads_at_once() -> None:
    data = heic(two_halves().resize((64, 64), Image.Resampling.NEAREST))
    for pixels in in_order(lambda _: read(data, Frame(4, resample="bilinear")), range(16), workers=8, ahead=16):
        assert_two_halves(pixels, tolerance=40)


def test_a_damaged_heic_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "cut.heic"
    path.write_bytes(heic(two_halves())[:200])
    with pytest.raises(BadImage, match=r"cut\.heic"):
        read(path, FRAME)


def test_without_the_extra_a_heic_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = heic(two_halves())
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(BadImage, match=r"pip install 'isthmus\[heic\]'"):
        read(data, FRAME)
