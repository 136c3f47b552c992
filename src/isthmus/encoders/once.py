"""Encode each passage and each picture once: from the cache, from an equal one, or in a batch.

While a batch runs, threads read the next pictures; and on a GPU, the next batch is launched before the vectors of the
last one are fetched, so that the GPU need not wait for either.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders.base import Role, Settings, unit
from isthmus.encoders.cache import key
from isthmus.encoders.images import Frame, Pixels, file_bytes, in_order, read, read_bytes, source_name
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadFile, BadImage, BadInput
from isthmus.types import Matrix

Item = TypeVar("Item")
Pending: TypeAlias = Callable[[], Matrix]  # waits for a batch that was launched, and returns its rows
LAUNCHED = 2  # batches on their way at most: one runs, one waits behind it
BATCHES = 4  # of a call's pictures at least, so that reading and encoding overlap in a short call too
SMALLEST = 32  # pictures of a batch that are not divided further for that
PIXEL_BYTES = 256 << 20  # decoded for one batch, about


class TextTower(Protocol):
    """Splits texts into passages and encodes passages."""

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text; empty for a text with nothing to read."""

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage; rows need not have length 1."""


class ImageTower(Protocol):
    """Encodes pictures as pixels."""

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture; rows need not have length 1. Each picture fits the frame."""


@runtime_checkable
class LaunchesTexts(Protocol):
    """A text tower that can start a batch and fetch its vectors later."""

    def launch(self, passages: Sequence[TextPassage]) -> Pending:
        """Start to encode; the result waits for one row per passage."""


@runtime_checkable
class LaunchesImages(Protocol):
    """An image tower that can start a batch and fetch its vectors later."""

    def launch(self, pixels: Sequence[Pixels]) -> Pending:
        """Start to encode; the result waits for one row per picture."""


def launched(encode: Callable[[Sequence[Item]], Matrix]) -> Callable[[Sequence[Item]], Pending]:
    """Make a launch of a function that encodes at once.

    >>> launched(lambda items: np.ones((len(items), 2)))("ab")().shape
    (2, 2)
    """

    def launch(items: Sequence[Item]) -> Pending:
        rows = encode(items)
        return lambda: rows

    return launch


class VectorInput(NamedTuple):
    """The input of one vector: a passage, a picture, or both."""

    passage: TextPassage | None = None
    pixels: Pixels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PictureItem:
    """A picture with its passages: one vector for each passage with the picture, or one for the picture alone."""

    image: ImageLike
    passages: Sequence[TextPassage] = ()

    @property
    def count(self) -> int:
        """The number of passages and pictures."""
        return 1 + len(self.passages)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A picture's keys, one for each vector; its pixels if some vectors are missing and it could be read."""

    keys: Sequence[bytes]
    wanted: Mapping[bytes, TextPassage | None] = field(default_factory=dict)
    pixels: Pixels | None = None
    problem: BadImage | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class EncoderRun:
    """One call of an encoder: the vectors found so far, and the progress."""

    name: str
    dim: int
    identity: str
    settings: Settings
    total: int
    done: int = 0
    found: dict[bytes, Matrix] = field(default_factory=dict)
    claimed: set[bytes] = field(default_factory=set)
    claims: Lock = field(default_factory=Lock)
    pillow: Lock = field(default_factory=Lock)  # two documents may share one Pillow image; it loads once
    waiting: deque[Callable[[], None]] = field(default_factory=deque)  # each stores the vectors of a launched batch

    def texts(self, launch: Callable[[Sequence[TextPassage]], Pending], passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage, ``(n, d)``."""
        keys = [key(self.identity, "text", passage.content) for passage in passages]
        times = Counter(keys)
        self.found |= self.settings.store.get(list(times)) if keys else {}
        self.step(sum(times[name] for name in times if name in self.found))
        missing = {name: passage for name, passage in zip(keys, passages, strict=True) if name not in self.found}
        by_length = sorted(missing, key=lambda name: len(missing[name].content))  # little padding in each batch
        for names in _batches(by_length, self.settings.batch_size):
            self.start(names, launch([missing[name] for name in names]), sum(times[name] for name in names))
        self.finish()
        return self.rows(keys)

    def images(
        self, tower: ImageTower, pictures: Mapping[int, ImageLike], leave_out: Callable[[int, BadInput], None]
    ) -> dict[int, Matrix]:
        """Return a vector per row of ``pictures``; rows that cannot be read go to ``leave_out``."""
        encode = tower.launch if isinstance(tower, LaunchesImages) else launched(tower.encode)

        def launch(inputs: Sequence[VectorInput]) -> Pending:
            return encode([item.pixels for item in inputs if item.pixels is not None])

        items = {row: PictureItem(image) for row, image in pictures.items()}
        return {row: rows[0] for row, rows in self.pictures(launch, tower.frame, items, leave_out).items()}

    def pictures(
        self,
        launch: Callable[[Sequence[VectorInput]], Pending],
        frame: Frame,
        pictures: Mapping[int, PictureItem],
        leave_out: Callable[[int, BadInput], None],
    ) -> dict[int, Matrix]:
        """Return the vectors of each row: of its picture with each passage, or of the picture alone."""
        batch: dict[bytes, VectorInput] = {}
        keys: dict[int, Sequence[bytes]] = {}

        def flush() -> None:
            self.start(list(batch), launch(list(batch.values())), len(batch))
            batch.clear()

        size = self.pictures_at_once(frame, sum(max(1, len(item.passages)) for item in pictures.values()))
        # closed explicitly: otherwise the garbage collector would stop the readers on any thread at any time
        reading = in_order(
            lambda item: self.open(item, frame), pictures.values(), workers=self.settings.workers, ahead=2 * size
        )
        with closing(reading) as ahead:
            for row, picture in zip(pictures, ahead, strict=True):
                keys[row] = picture.keys
                if picture.problem is not None:
                    leave_out(row, picture.problem)
                    del keys[row]
                self.step(pictures[row].count - (len(picture.wanted) if picture.pixels is not None else 0))
                for name, passage in picture.wanted.items() if picture.pixels is not None else ():
                    batch[name] = VectorInput(passage, picture.pixels)
                    if len(batch) == size:
                        flush()
        if batch:
            flush()
        self.finish()
        for row in [
            row for row in keys if not self.found.keys() >= set(keys[row])
        ]:  # the same bytes as one that failed
            leave_out(row, self.open(pictures[row], frame, again=True).problem or BadImage("it cannot be read."))
            del keys[row]
        return {row: self.rows(names) for row, names in keys.items()}

    def pictures_at_once(self, frame: Frame, count: int) -> int:
        """Return the size of a batch: that of the settings, or a smaller one of large pictures or in a short call."""
        if self.settings.batch is not None:
            return self.settings.batch
        fitting = max(SMALLEST, PIXEL_BYTES // (3 * frame.size**2))
        return min(self.settings.batch_size, fitting, max(SMALLEST, -(-count // BATCHES)))

    def start(self, names: Sequence[bytes], pending: Pending, count: int) -> None:
        """Take a launched batch, and store the vectors of the one before."""
        self.waiting.append(partial(self._stored, names, pending, count))
        while len(self.waiting) >= LAUNCHED:
            self.waiting.popleft()()

    def finish(self) -> None:
        """Store the vectors of all launched batches."""
        while self.waiting:
            self.waiting.popleft()()

    def _stored(self, names: Sequence[bytes], pending: Pending, count: int) -> None:
        self.keep(names, pending())
        self.step(count)

    def open(self, item: PictureItem, frame: Frame, *, again: bool = False) -> Opened:
        """Read one picture, on any thread; return its pixels only if this call must encode it."""
        keys: list[bytes] = []
        try:
            data = file_bytes(item.image)
            pixels = None
            if data is None:
                with self.pillow:
                    pixels = read(item.image, frame)
                keys = self._keys(key(self.identity, f"pixels {pixels.shape}", pixels.tobytes()), item)
            else:
                keys = self._keys(key(self.identity, "image", data), item)
            new = keys if again else self.claim(keys)
            if data is not None and new:
                pixels = read_bytes(data, source_name(item.image), frame)
            passages: Sequence[TextPassage | None] = item.passages or [None]
            by_key = dict(zip(keys, passages, strict=True))
            return Opened(keys, {name: by_key[name] for name in new}, pixels if new else None)
        except BadImage as problem:
            return Opened(keys, problem=problem)

    def _keys(self, alone: bytes, item: PictureItem) -> list[bytes]:
        return [key(self.identity, "image+text", alone + each.content) for each in item.passages] or [alone]

    def claim(self, names: Sequence[bytes]) -> list[bytes]:
        """Claim vectors, and return those that the caller has to encode."""
        with self.claims:
            mine = [name for name in dict.fromkeys(names) if name not in self.claimed]
            self.claimed.update(mine)
        known = self.settings.store.get(mine) if mine else {}
        self.found |= known
        return [name for name in mine if name not in known]

    def keep(self, names: Sequence[bytes], rows: Matrix) -> None:
        """Store a batch's vectors, here and in the cache."""
        if rows.shape != (len(names), self.dim):
            raise BadFile(
                f"The model of {self.name} returned shape {rows.shape} where ({len(names)}, {self.dim}) was expected. "
                "Check `dim` and `output` in its description."
            )
        new = dict(zip(names, unit(rows, self.name), strict=True))
        self.settings.store.put(new)
        self.found |= new

    def rows(self, keys: Sequence[bytes]) -> Matrix:
        """Stack vectors, ``(n, d)``."""
        return np.stack([self.found[name] for name in keys]) if keys else np.zeros((0, self.dim), dtype=np.float32)

    def step(self, count: int) -> None:
        """Add to the count and report the progress."""
        self.done += count
        if self.settings.progress is not None and count:
            self.settings.progress(self.done, self.total)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
