"""What is written in a picture, read by rapidocr, whose models come with it (``isthmus[align]``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from threading import Lock
from typing import Any

import numpy as np

from isthmus._optional import need
from isthmus.align.order import in_order
from isthmus.documents import ImageLike
from isthmus.encoders.images import whole

SURE = 0.7  # specks in photos are read as "0" or "●" with less


@dataclass(slots=True, eq=False)
class Reader:
    """Reads printed and written text, with ``threads`` cores (all when not said). It loads when first used."""

    threads: int | None = None
    _engine: Any = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    @property
    def identity(self) -> str:
        """What its readings depend on."""
        need("rapidocr", extra="align")
        return f"rapidocr {version('rapidocr')}, {SURE}"

    def lines(self, image: ImageLike) -> list[str]:
        """Return the lines of text in a picture, in reading order."""
        pixels = np.asarray(whole(image))[:, :, ::-1]  # it takes blue first
        with self._lock:
            read = self._loaded()(np.ascontiguousarray(pixels))
        if read.txts is None or not len(read.txts):
            return []
        corners = np.asarray(read.boxes)  # (n, 4, 2)
        boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
        return [" ".join(line.split()) for line in in_order(read.txts, boxes)]

    def _loaded(self) -> Any:
        if self._engine is None:
            rapidocr = need("rapidocr", extra="align")
            settings = {
                "Global.log_level": "critical",  # its own logger alone; else it says which file it loads, and how
                "Global.text_score": SURE,
                "EngineConfig.onnxruntime.intra_op_num_threads": self.threads or -1,
            }
            self._engine = rapidocr.RapidOCR(params=settings)
        return self._engine
