"""Pictures whose decoders can take long are decoded in a process that can be stopped."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from isthmus import budget
from isthmus._optional import need
from isthmus.encoders import images
from isthmus.errors import BadImage
from isthmus.isolated import picture

FRAME = images.Frame(16)


def saved(kind: str, side: int = 64) -> bytes:
    """Noise, which is the most work for a decoder."""
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side * 2, 3), dtype=np.uint8))
    need("pillow_heif", extra="heic").register_heif_opener()
    out = BytesIO()
    noise.save(out, kind)
    return out.getvalue()


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No file is small enough to be decoded here; the names of those that the worker decodes."""
    asked: list[str] = []
    ask = picture.WORKER.ask

    def noted(request: dict[str, object], blobs: list[bytes]) -> object:
        asked.append(str(request["name"]))
        return ask(request, blobs)

    monkeypatch.setattr(picture, "QUICK", 0)
    monkeypatch.setattr(picture.WORKER, "ask", noted)
    return asked


@pytest.mark.parametrize("kind", ["AVIF", "HEIF", "JPEG2000"])
def test_a_picture_is_the_same_from_the_worker(kind: str, worker: list[str]) -> None:
    data = saved(kind)
    for frame in (FRAME, images.Frame(16, "crop"), images.Frame(16, "within", "lanczos")):
        here = picture.decode(data, "a", frame, here=True)
        assert np.array_equal(images.read(data, frame), np.asarray(here))
    whole = images.whole(data)
    assert (whole.mode, whole.size) == ("RGB", (128, 64))
    assert whole.tobytes() == picture.decode(data, "a", None, here=True).tobytes()
    assert len(worker) == 4


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP"])
def test_other_pictures_are_decoded_in_this_process(kind: str, worker: list[str]) -> None:
    images.read(saved(kind), FRAME)
    assert worker == []


@pytest.mark.parametrize("kind", ["AVIF", "JPEG2000"])
def test_small_pictures_are_decoded_in_this_process(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture.WORKER, "ask", None)
    images.read(saved(kind), FRAME)
    monkeypatch.setattr(picture, "LARGE", 64 * 64)
    with pytest.raises(BadImage):
        images.read(saved(kind), FRAME)


def test_a_picture_that_takes_too_long_is_refused_and_the_next_one_is_read(
    worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small, slow = saved("JPEG2000"), saved("JPEG2000", 1000)
    images.read(small, FRAME)
    with monkeypatch.context() as patch:
        patch.setattr(budget, "SECONDS", 0.05)
        with pytest.raises(BadImage, match=r"^the image given as bytes takes more than 0\.05 seconds to read"):
            images.read(slow, FRAME)
    images.read(small, FRAME)
    assert len(worker) == 3


def test_a_damaged_picture_and_one_with_too_many_pixels_are_refused_by_name(
    worker: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = saved("JPEG2000")
    with pytest.raises(BadImage, match=r"^the image given as bytes cannot be decoded"):
        images.read(data[:5000], FRAME)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    with pytest.raises(BadImage, match="has 128 × 64 pixels and the budget of JPEG2000 is 5,000"):
        images.read(data, FRAME)
    assert len(worker) == 1
    with pytest.raises(BadImage, match="the budget of JPEG2000"):  # the worker has the limit of this process
        picture.WORKER.ask({"name": "a", "frame": None, "pixels": 10_000}, [data])
