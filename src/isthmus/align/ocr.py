"""Text in the picture of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders.images import whole
from isthmus.ocr.engine import SURE, OcrEngine, engine_version

RULES = 1  # raise it when the joining of lines changes: cached captions are then made again


@dataclass(slots=True, eq=False)
class TextReader:
    """Reads printed and written text, with ``threads`` cores (default: all). It loads on first use."""

    threads: int | None = None
    _engine: OcrEngine | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def identity(self) -> str:
        """Identifies everything its readings depend on."""
        return f"{engine_version()}, {SURE}, {RULES}"

    def lines(self, image: ImageLike) -> list[str]:
        """Return the lines of text in a picture, in reading order."""
        pixels = np.asarray(whole(image))
        with self._lock:
            if self._engine is None:
                self._engine = OcrEngine(self.threads)
            return self._engine.read(pixels).surely().lines
