"""Each passage and each picture is encoded once: what the cache has, what repeats, and the rest in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from isthmus.documents import ImageLike
from isthmus.encoders.base import Role, Settings, unit
from isthmus.encoders.cache import key
from isthmus.encoders.images import Frame, Pixels, file_bytes, in_order, read, read_bytes, source_name
from isthmus.encoders.texts import TextPassage
from isthmus.errors import BadFile, BadImage, BadInput
from isthmus.types import Matrix

Item = TypeVar("Item")


class TextTower(Protocol):
    """Splits texts into passages and encodes passages."""

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text; none for a text in which there is nothing to read."""

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage, of any length."""


class ImageTower(Protocol):
    """Encodes pictures as pixels."""

    @property
    def frame(self) -> Frame:
        """What it looks at."""

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture, of any length; each fits the frame."""


class VectorInput(NamedTuple):
    """What becomes one vector: a passage, a picture, or both."""

    passage: TextPassage | None = None
    pixels: Pixels | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """A picture, and the passages that stand beside it, each a vector with it; none: the picture alone is one."""

    image: ImageLike
    passages: Sequence[TextPassage] = ()

    @property
    def count(self) -> int:
        """How many passages and pictures it is."""
        return 1 + len(self.passages)


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """A picture's keys, one for each vector; its pixels if some are wanted and there was no problem."""

    keys: Sequence[bytes]
    wanted: Mapping[bytes, TextPassage | None] = field(default_factory=dict)
    pixels: Pixels | None = None
    problem: BadImage | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class EncoderRun:
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

    def texts(self, encode: Callable[[Sequence[TextPassage]], Matrix], passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage, ``(n, d)``."""
        keys = [key(self.identity, "text", passage.content) for passage in passages]
        times = Counter(keys)
        self.found |= self.settings.store.get(list(times)) if keys else {}
        self.step(sum(times[name] for name in times if name in self.found))
        missing = {name: passage for name, passage in zip(keys, passages, strict=True) if name not in self.found}
        by_length = sorted(missing, key=lambda name: len(missing[name].content))  # little padding in each batch
        for names in _batches(by_length, self.settings.batch):
            self.keep(names, encode([missing[name] for name in names]))
            self.step(sum(times[name] for name in names))
        return self.rows(keys)

    def images(
        self, tower: ImageTower, pictures: Mapping[int, ImageLike], leave_out: Callable[[int, BadInput], None]
    ) -> dict[int, Matrix]:
        """Return a vector per row of ``pictures``; rows that cannot be read go to ``leave_out``."""

        def encode(units: Sequence[VectorInput]) -> Matrix:
            return tower.encode([unit.pixels for unit in units if unit.pixels is not None])

        shown = {row: Shown(image) for row, image in pictures.items()}
        return {row: rows[0] for row, rows in self.shown(encode, tower.frame, shown, leave_out).items()}

    def shown(
        self,
        encode: Callable[[Sequence[VectorInput]], Matrix],
        frame: Frame,
        pictures: Mapping[int, Shown],
        leave_out: Callable[[int, BadInput], None],
    ) -> dict[int, Matrix]:
        """Return the vectors of each row: of its picture with each passage beside it, or of the picture alone."""
        batch: dict[bytes, VectorInput] = {}
        keys: dict[int, Sequence[bytes]] = {}

        def flush() -> None:
            self.keep(list(batch), encode(list(batch.values())))
            self.step(len(batch))
            batch.clear()

        size = self.settings.batch
        # closed here and now: left to the garbage collector, an error would end the readers on any thread at any time
        reading = in_order(
            lambda shown: self.open(shown, frame), pictures.values(), workers=self.settings.workers, ahead=2 * size
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
        for row in [
            row for row in keys if not self.found.keys() >= set(keys[row])
        ]:  # the same bytes as one that failed
            leave_out(row, self.open(pictures[row], frame, anew=True).problem or BadImage("it cannot be read."))
            del keys[row]
        return {row: self.rows(names) for row, names in keys.items()}

    def open(self, shown: Shown, frame: Frame, *, anew: bool = False) -> Opened:
        """Read one picture, on any thread; its pixels only for what nobody else makes and the cache has not."""
        keys: list[bytes] = []
        try:
            data = file_bytes(shown.image)
            pixels = None
            if data is None:
                with self.pillow:
                    pixels = read(shown.image, frame)
                keys = self._keys(key(self.identity, f"pixels {pixels.shape}", pixels.tobytes()), shown)
            else:
                keys = self._keys(key(self.identity, "image", data), shown)
            new = keys if anew else self.claim(keys)
            if data is not None and new:
                pixels = read_bytes(data, source_name(shown.image), frame)
            passages: Sequence[TextPassage | None] = shown.passages or [None]
            beside = dict(zip(keys, passages, strict=True))
            return Opened(keys, {name: beside[name] for name in new}, pixels if new else None)
        except BadImage as problem:
            return Opened(keys, problem=problem)

    def _keys(self, alone: bytes, shown: Shown) -> list[bytes]:
        return [key(self.identity, "image+text", alone + each.content) for each in shown.passages] or [alone]

    def claim(self, names: Sequence[bytes]) -> list[bytes]:
        """Return those of the vectors that the caller is the one to make."""
        with self.claims:
            mine = [name for name in dict.fromkeys(names) if name not in self.claimed]
            self.claimed.update(mine)
        known = self.settings.store.get(mine) if mine else {}
        self.found |= known
        return [name for name in mine if name not in known]

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
