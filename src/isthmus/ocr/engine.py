"""Text recognition by rapidocr, whose package includes its models (``isthmus[align]``)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.ocr.order import reading_rows
from isthmus.types import Matrix

MODULE, EXTRA = "rapidocr", "align"
SURE = 0.7  # specks in photos are read as "0" or "●" with less
ROOM = 0.5  # a picture's shorter side, of its longer one, at least
ENOUGH = 736  # pixels of a shorter side that need no room


def is_installed() -> bool:
    """Whether pictures can be read here."""
    return find_spec(MODULE) is not None


def engine_version() -> str:
    """Return the name and the version of the engine."""
    need(MODULE, extra=EXTRA)
    return f"rapidocr {version(MODULE)}"


@dataclass(frozen=True, slots=True, eq=False)
class RecognizedText:
    """What was found in a picture: boxes ``(n, 4)`` of left, top, right, bottom, their texts, and how sure each is."""

    boxes: Matrix
    texts: tuple[str, ...]
    scores: Matrix  # (n,): from 0 to 1

    @property
    def lines(self) -> list[str]:
        """The lines of text, in reading order."""
        rows = [" ".join(self.texts[at].strip() for at in row) for row in reading_rows(self.boxes)]
        return [row for row in rows if not speck(row)]

    def surely(self) -> RecognizedText:
        """Return it without the texts that are doubtful."""
        kept = np.flatnonzero(self.scores >= SURE)
        return RecognizedText(self.boxes[kept], tuple(self.texts[at] for at in kept), self.scores[kept])


NOTHING = RecognizedText(np.empty((0, 4)), (), np.empty(0))


class OcrEngine:
    """Finds and reads lines of text, with ``threads`` cores (default: all). It loads its models at once."""

    def __init__(self, threads: int | None = None) -> None:
        rapidocr = need(MODULE, extra=EXTRA)
        settings: dict[str, object] = {
            "Global.log_level": "critical",  # only its own logger, which reports every file it loads
            "Global.text_score": 0.0,  # ``RecognizedText.surely`` decides
            "Global.use_cls": False,  # it rotates lines that are upside down, and many that are not
            "EngineConfig.onnxruntime.intra_op_num_threads": threads or -1,
        }
        if threads == 1:  # on one core, lines padded to the longest of several cost more than they gain
            settings |= {"Rec.rec_batch_num": 1, "EngineConfig.onnxruntime.enable_cpu_mem_arena": True}
        self._model: Any = rapidocr.RapidOCR(params=settings)

    def read(self, pixels: NDArray[np.uint8]) -> RecognizedText:
        """Read a picture ``(height, width, 3)``, RGB."""
        read = self._model(np.ascontiguousarray(roomy(pixels)[:, :, ::-1]))  # it expects BGR
        if read.txts is None or not len(read.txts):
            return NOTHING
        corners = np.asarray(read.boxes)  # (n, 4, 2)
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return RecognizedText(boxes, tuple(read.txts), np.asarray(read.scores, dtype=np.float64))


def speck(line: str) -> bool:
    """Whether a line is a single Latin letter or digit: leaves and buttons are often read as one.

    >>> speck("O"), speck("- 8"), speck("OK"), speck("猫")
    (True, True, False, False)
    """
    signs = [char for char in line if char.isalnum()]
    return len(signs) < 2 and line.isascii()


def roomy(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pad a narrow picture with its own colour: rapidocr enlarges a picture by its shorter side.

    >>> roomy(np.zeros((10, 100, 3), np.uint8)).shape, roomy(np.zeros((60, 100, 3), np.uint8)).shape
    ((50, 100, 3), (60, 100, 3))
    """
    sides = np.array(pixels.shape[:2])
    wanted = np.maximum(sides, min(ENOUGH, round(ROOM * sides.max())))
    if (wanted == sides).all():
        return pixels
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    paper = np.empty((*wanted, 3), np.uint8)
    paper[:] = np.median(edge, axis=0)
    paper[: sides[0], : sides[1]] = pixels
    return paper
