"""Text recognition by rapidocr, whose package includes its models (``isthmus[align]``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need
from isthmus.align.order import reading_rows
from isthmus.documents import ImageLike
from isthmus.encoders.images import whole

SURE = 0.7  # specks in photos are read as "0" or "●" with less
RULES = 1  # raise it when the joining of lines changes: cached captions are then made again
ROOM = 0.5  # a picture's shorter side, of its longer one, at least
ENOUGH = 736  # pixels of a shorter side that need no room


@dataclass(slots=True, eq=False)
class TextReader:
    """Reads printed and written text, with ``threads`` cores (default: all). It loads on first use."""

    threads: int | None = None
    _engine: Any = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def identity(self) -> str:
        """Identifies everything its readings depend on."""
        need("rapidocr", extra="align")
        return f"rapidocr {version('rapidocr')}, {SURE}, {RULES}"

    def lines(self, image: ImageLike) -> list[str]:
        """Return the lines of text in a picture, in reading order."""
        pixels = roomy(np.asarray(whole(image)))
        with self._lock:
            read = self._loaded()(np.ascontiguousarray(pixels[:, :, ::-1]))  # it expects BGR
        if read.txts is None or not len(read.txts):
            return []
        corners = np.asarray(read.boxes)  # (n, 4, 2)
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        rows = [" ".join(read.txts[at].strip() for at in row) for row in reading_rows(boxes)]
        return [row for row in rows if not speck(row)]

    def _loaded(self) -> Any:
        if self._engine is None:
            rapidocr = need("rapidocr", extra="align")
            settings = {
                "Global.log_level": "critical",  # only its own logger, which reports every file it loads
                "Global.text_score": SURE,
                "Global.use_cls": False,  # it rotates lines that are upside down, and many that are not
                "EngineConfig.onnxruntime.intra_op_num_threads": self.threads or -1,
            }
            self._engine = rapidocr.RapidOCR(params=settings)
        return self._engine


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
