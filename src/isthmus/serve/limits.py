"""Limits that a server keeps itself: requests per second of each client, pixels and seconds of what is decoded."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from isthmus.isolated import recordings

CLIENTS = 10_000  # clients that are remembered; the longest unseen one is forgotten first
BURST = 2.0  # seconds of the rate that may come at once


@dataclass(slots=True, eq=False)
class RateLimit:
    """At most ``rate`` requests a second for each client, after a burst of two seconds' worth."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)  # left, and when

    def wait(self, client: str) -> float:
        """Take one request from a client's bucket; return the seconds to wait if it is empty, else 0."""
        if not self.rate:
            return 0.0
        most, now = max(1.0, BURST * self.rate), self.clock()
        left, before = self._buckets.pop(client, (most, now))
        left = min(most, left + (now - before) * self.rate)
        self._buckets[client] = (left - 1 if left >= 1 else left, now)
        while len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else max(1.0, math.ceil((1 - left) / self.rate))


@contextmanager
def pixel_limit(pixels: int) -> Iterator[None]:
    """Limit the pixels of pictures that this process decodes, where Pillow and isthmus look for the limit."""
    from PIL import Image

    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = pixels if before is None else min(before, pixels)
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


@contextmanager
def length_limit(seconds: float) -> Iterator[None]:
    """Limit the seconds of sounds and videos that this process decodes."""
    before = recordings.LIMIT.seconds
    recordings.LIMIT.seconds = min(before, seconds)
    try:
        yield
    finally:
        recordings.LIMIT.seconds = before
