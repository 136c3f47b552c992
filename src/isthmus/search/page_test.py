"""Whether a picture looks like a page, a form, a slide or a screenshot, and is worth reading.

The image vector of ``mini`` lies nearer to phrases about pages than to phrases about other pictures:

    looks like a page  ⇔  vector · (mean of PAGES − mean of OTHERS) > LEAST

In a collection of ``mini`` this costs next to nothing: the same vector is stored. ``reproduce/page_test.py`` measures
it beside a test by strokes and paper, on pages, photos and drawings that ``mini`` has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from isthmus import encoders
from isthmus.documents import Document
from isthmus.encoders import Encoder
from isthmus.kinds import IMAGE, TEXT
from isthmus.types import Mask, Matrix

MINI = "mini"
PAGES = (
    *("a scanned page", "a scanned document", "a page of text", "a screenshot of text", "a printed page", "a form"),
    "a slide with text",
)
OTHERS = (
    *("a photo", "a photograph of people", "a drawing", "an icon", "a landscape", "an emoji", "clip art"),
    *("a picture of an animal", "a photo of a street sign"),
)
LEAST = 0.09  # half-way between 98% of the pages and 98% of the other pictures for design


class PageTest:
    """Tells pages from other pictures, by the vectors of ``mini``."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        phrases = encoder.encode_queries([*PAGES, *OTHERS]).parts[TEXT]
        self.direction: Matrix = phrases[: len(PAGES)].mean(axis=0) - phrases[len(PAGES) :].mean(axis=0)

    def pages(self, images: Sequence[Any]) -> Mask:
        """Return which pictures look like pages, ``(n,)``; one that cannot be read does not."""
        found = np.zeros(len(images), dtype=bool)
        given = [Document(str(at), image=image) for at, image in enumerate(images)]
        vectors, owner = self.encoder.encode_passages(given, skip=lambda *_: None)
        found[owner] = vectors.parts[IMAGE] @ self.direction > LEAST
        return found


def page_test(own: Encoder | None) -> PageTest:
    """Return the test; it uses a collection's own encoder if that is ``mini``, so that no picture is encoded twice."""
    return PageTest(own) if own is not None and own.name == MINI else _shared()


@cache
def _shared() -> PageTest:
    return PageTest(encoders.load(MINI))
