"""Each passage and each picture is encoded once: what the cache has, what repeats, and the rest in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol, TypeVar

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders.base import Role, Settings, unit
from isthmus.encoders.cache import key
from isthmus.encoders.images import Frame, Pixels, file_bytes, in_order, read, read_bytes, source_name
from isthmus.encoders.texts import Passage
from isthmus.errors import BadFile, BadImage, BadInput
from isthmus.types import Matrix

Item = TypeVar("Item")


class TextTower(Protocol):
    """Splits texts into passages and encodes passages."""

    def split(self, texts: Sequence[str], role: Role) -> list[list[Passage]]:
        """Return the passages of each text; none for a text in which there is nothing to read."""

    def encode(self, passages: Sequence[Passage]) -> Matrix:
        """Return one row per passage, of any length."""


class ImageTower(Protocol):
    """Encodes pictures as pixels."""

    @property
    def frame(self) -> Frame:
        """What it looks at."""

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture, of any length; each fits the frame."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A picture's key, and its pixels unless they are not needed or there was a problem."""

    key: bytes
    pixels: Pixels | None = None
    problem: BadImage | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class Run:
    """One call of an encoder: what is known so far, and how far it has come."""

    name: str
    dim: int
    identity: str
    settings: Settings
    total: int
    done: int = 0
    found: dict[bytes, Matrix] = field(default_factory=dict)
    claimed: set[bytes] = field(default_factory=set)
    claims: Lock = field(default_factory=Lock)
    pillow: Lock = field(default_factory=Lock)  # one Pillow image may stand in two documents; it loads once

    def texts(self, tower: TextTower, passages: Sequence[Passage]) -> Matrix:
        """Return one row per passage, ``(n, d)``."""
        keys = [key(self.identity, "text", passage.content) for passage in passages]
        times = Counter(keys)
        self.found |= self.settings.store.get(list(times)) if keys else {}
        self.step(sum(times[name] for name in times if name in self.found))
        missing = {name: passage for name, passage in zip(keys, passages, strict=True) if name not in self.found}
        by_length = sorted(missing, key=lambda name: len(missing[name].content))  # little padding in each batch
        for names in _batches(by_length, self.settings.batch):
            self.keep(names, tower.encode([missing[name] for name in names]))
            self.step(sum(times[name] for name in names))
        return self.rows(keys)

    def images(
        self, tower: ImageTower, pictures: Mapping[int, ImageLike], leave_out: Callable[[int, BadInput], None]
    ) -> dict[int, Matrix]:
        """Return a vector per row of ``pictures``; rows that cannot be read go to ``leave_out``."""
        batch: dict[bytes, Pixels] = {}
        keys: dict[int, bytes] = {}

        def flush() -> None:
            self.keep(list(batch), tower.encode(list(batch.values())))
            self.step(len(batch))
            batch.clear()

        def opened(image: ImageLike) -> Opened:
            return self.open(image, tower.frame)

        size = self.settings.batch
        # closed here and now: left to the garbage collector, an error would end the readers on any thread at any time
        with closing(in_order(opened, pictures.values(), workers=self.settings.workers, ahead=2 * size)) as ahead:
            for row, picture in zip(pictures, ahead, strict=True):
                keys[row] = picture.key
                if picture.pixels is not None:
                    batch[picture.key] = picture.pixels
                else:
                    self.step(1)
                if picture.problem is not None:
                    leave_out(row, picture.problem)
                    del keys[row]
                if len(batch) == size:
                    flush()
        if batch:
            flush()
        for row in [row for row in keys if keys[row] not in self.found]:  # the same bytes as one that failed
            leave_out(row, self.open(pictures[row], tower.frame, anew=True).problem or BadImage("it cannot be read."))
            del keys[row]
        return {row: self.found[name] for row, name in keys.items()}

    def open(self, image: ImageLike, frame: Frame, *, anew: bool = False) -> Opened:
        """Read one picture, on any thread; its pixels only if nobody else has it and the cache has not."""
        name = b""
        try:
            data = file_bytes(image)
            if data is not None:
                name = key(self.identity, "image", data)
                wanted = anew or self.claim(name)
                return Opened(name, read_bytes(data, source_name(image), frame) if wanted else None)
            with self.pillow:
                pixels = read(image, frame)
            name = key(self.identity, f"pixels {pixels.shape}", pixels.tobytes())
            return Opened(name, pixels if self.claim(name) else None)
        except BadImage as problem:
            return Opened(name, problem=problem)

    def claim(self, name: bytes) -> bool:
        """Say whether the caller is the one to make this vector."""
        with self.claims:
            if name in self.claimed:
                return False
            self.claimed.add(name)
        known = self.settings.store.get([name])
        self.found |= known
        return not known

    def keep(self, names: Sequence[bytes], rows: Matrix) -> None:
        """Take a batch's vectors over, into the cache too."""
        if rows.shape != (len(names), self.dim):
            raise BadFile(
                f"The model of {self.name} gave an output of shape {rows.shape} where ({len(names)}, {self.dim}) was "
                "expected. Check `dim` and `output` in its description."
            )
        new = dict(zip(names, unit(rows, self.name), strict=True))
        self.settings.store.put(new)
        self.found |= new

    def rows(self, keys: Sequence[bytes]) -> Matrix:
        """Stack vectors, ``(n, d)``."""
        return np.stack([self.found[name] for name in keys]) if keys else np.zeros((0, self.dim), dtype=np.float32)

    def step(self, count: int) -> None:
        """Count, and tell whoever wants to know."""
        self.done += count
        if self.settings.progress is not None and count:
            self.settings.progress(self.done, self.total)


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
