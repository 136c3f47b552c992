"""In the worker: the lines of text in a picture, by rapidocr on one core."""

from __future__ import annotations

from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.isolated.picture import decode
from isthmus.ocr.engine import OcrEngine
from isthmus.ocr.page import SHORTER, page_lines

pillow: Any = need("PIL.Image", extra="align")
pillow.init()  # load Pillow's plugins before the memory is limited
ENGINE = OcrEngine(threads=1)
ENGINE.read(np.full((64, 64, 3), 255, np.uint8))  # loads the models


def answer(request: dict[str, Any], blobs: list[bytes]) -> tuple[object, list[bytes]]:
    """Return the lines of text in a picture."""
    pillow.MAX_IMAGE_PIXELS = request["pixels"]
    image = decode(blobs[0], request["name"], None, here=True)
    shrink = SHORTER / min(image.size)
    if shrink < 1:
        width, height = (max(1, round(side * shrink)) for side in image.size)
        image = image.resize((width, height), pillow.Resampling.BOX, reducing_gap=2.0)
    return {"lines": page_lines(ENGINE, np.asarray(image))}, []
