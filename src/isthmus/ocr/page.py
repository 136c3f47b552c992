"""Read whole pages: huge ones made smaller, long ones in bands, turned ones upright.

A page that lies on its side has tall boxes, one that is upside down has doubtful texts. Only such a page is read again,
turned, and the surest reading is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from isthmus.ocr.engine import OcrEngine, RecognizedText

RULES = 1  # raise it when pages are read differently: cached texts are then made again
SHORTER = 1600  # pixels of the shorter side, at most: of a letter page, 190 per inch
BAND = 2.0  # the height of a band, in widths
LONG = 3.0  # the height of a page, in widths, from which it is read in bands
TALL = 1.5  # the height of a box of a vertical line, in widths
FEW = 3  # characters of a text whose box says nothing: a single digit is tall
DOUBT = 0.85  # the mean sureness of a character, below which a page may be upside down: such pages have 0.6 to 0.75


def page_lines(engine: OcrEngine, pixels: NDArray[np.uint8]) -> list[str]:
    """Return the lines of text on a page ``(height, width, 3)``, in reading order."""
    return [line for band in bands(pixels) for line in upright(engine, band).surely().lines]


def upright(engine: OcrEngine, pixels: NDArray[np.uint8]) -> RecognizedText:
    """Read a page, turned if it has to be."""
    first = engine.read(pixels)
    if is_sideways(first):  # its lines may have been read well, but not in their order
        return max((engine.read(np.rot90(pixels, turn)) for turn in (1, 3)), key=sureness)
    if sureness(first) < DOUBT * sum(map(len, first.texts)):
        return max(first, engine.read(np.rot90(pixels, 2)), key=sureness)
    return first


def is_sideways(reading: RecognizedText) -> bool:
    """Whether most of the text is in tall boxes.

    >>> is_sideways(RecognizedText(np.array([[0, 0, 9, 90]]), ("a line of text",), np.ones(1)))
    True
    """
    width, height = reading.boxes[:, 2] - reading.boxes[:, 0], reading.boxes[:, 3] - reading.boxes[:, 1]
    long = np.array([len(text) for text in reading.texts], dtype=np.float64)
    long[long <= FEW] = 0
    return bool(long[height > TALL * width].sum() > long.sum() / 2)


def sureness(reading: RecognizedText) -> float:
    """Return how many characters were read, each as far as it is sure."""
    return float(sum(len(text) * score for text, score in zip(reading.texts, reading.scores, strict=True)))


def bands(pixels: NDArray[np.uint8]) -> Iterator[NDArray[np.uint8]]:
    """Cut a long page, as of a chat or a web page, into bands, each where a row of pixels varies least.

    >>> [band.shape[:2] for band in bands(np.zeros((250, 100, 3), np.uint8))]
    [(250, 100)]
    >>> [band.shape[:2] for band in bands(np.zeros((410, 100, 3), np.uint8))]
    [(150, 100), (150, 100), (110, 100)]
    """
    height, width = pixels.shape[:2]
    if height <= LONG * width:
        yield pixels
        return
    most = round(BAND * width)
    top = 0
    while height - top > most:
        high = top + most
        low = min(top + round(0.75 * most), high - 1)
        varies = pixels[low:high].max(axis=2).astype(np.float64).std(axis=1)  # (rows,)
        end = low + int(varies.argmin())
        yield pixels[top:end]
        top = end
    yield pixels[top:]
