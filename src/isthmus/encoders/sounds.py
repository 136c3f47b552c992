"""The sound tower of ``mini`` and ``base``: YAMNet, anchored in their text space by the names of its classes.

In words: YAMNet gives every second of a sound 521 scores, one for each AudioSet class. Every class has a name, and the
text tower has a vector of "the sound of NAME". The vector of a segment of 5 seconds is the sum of the vectors of its
ten highest classes, weighted by their scores:

    s = mean_w yamnet(w)        x = unit( Σ_{c ∈ top10(s)} s_c · (t_c − mean t) )

with w the windows of 0.975 s in the segment, half overlapping, and t_c the text vector of class c. So words find sounds
and sounds find words, without any training.

Reference: Hershey et al., *CNN architectures for large-scale audio classification*, ICASSP 2017, for the model; the
weighted sum of class names is that of Norouzi et al., *Zero-shot learning by convex combination of semantic embeddings*
(ConSE), ICLR 2014, with ten classes. We deviate: the names are centred, because their mean says nothing, and stand in a
phrase. ``tools/make_sound.py`` makes the files; ``reproduce/sound.py`` measures.

>>> [len(part) / RATE for part in segments([np.zeros(20 * RATE, np.float32), np.zeros(RATE // 2, np.float32)])]
[5.0, 5.0, 5.0, 5.5]
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isthmus.budget import DESCRIPTION_BYTES, MODEL_BYTES
from isthmus.encoders.base import Settings, unit
from isthmus.encoders.onnx import Model
from isthmus.encoders.yamnet import RATE, WINDOW, magnitudes
from isthmus.errors import BadFile
from isthmus.files import read_regular
from isthmus.isolated import recordings
from isthmus.kinds import FileLike
from isthmus.types import Matrix

FOLDER = Path(__file__).parent / "sound"
DESCRIPTION = "sound.toml"
SEGMENT = 5 * RATE  # samples
SHORTEST = RATE  # samples of the last segment; a shorter rest belongs to the one before
TOP = 10  # classes that count
BATCH = 32  # windows per call of the model
Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class MediaVectors:
    """The segments of a sound or a video: their spans in seconds, and a vector each, ``(n, d)``."""

    spans: list[tuple[float, float]]
    vectors: Matrix


class EncodesSounds(Protocol):
    """Encodes sounds, segment by segment. It asks ``recordings.sound`` for the rate that its model needs."""

    @property
    def identity(self) -> str:
        """A hash of everything that the vectors and the spans depend on."""

    def encode(self, content: FileLike) -> MediaVectors:
        """Return a vector for every segment of a sound."""

    def spans(self, content: FileLike) -> list[tuple[float, float]]:
        """Return the spans of the segments of a sound, in seconds, without encoding it."""


class SoundTower:
    """Encodes sounds, on the CPU: the model is small. It is loaded when the first sound comes."""

    def __init__(self, settings: Settings, folder: Path = FOLDER) -> None:
        self.settings, self.folder = Settings(threads=settings.threads), folder
        written = read_regular(folder / DESCRIPTION, DESCRIPTION_BYTES)
        table = tomllib.loads(written.decode())
        self.text: str = table["text"]  # the identity of the text tower that the anchors come from
        self.files: dict[str, str] = table["files"]
        self.identity = hashlib.sha256(written).hexdigest()

    @cached_property
    def model(self) -> Model:
        """YAMNet."""
        name = "yamnet.onnx"
        return Model.open(self.folder / name, ["magnitudes"], "scores", self.settings, self._read(name))

    @cached_property
    def anchors(self) -> Matrix:
        """The centred text vectors of the class names, ``(521, d)``."""
        with np.load(BytesIO(self._read("anchors.npz")), allow_pickle=False) as file:
            return np.asarray(file["anchors"], dtype=np.float32)

    def _read(self, name: str) -> bytes:
        content = read_regular(self.folder / name, MODEL_BYTES)
        if hashlib.sha256(content).hexdigest() != self.files[name]:
            raise BadFile(f"{self.folder / name} is damaged: its checksum is another. Install isthmus again.")
        return content

    def encode(self, content: FileLike) -> MediaVectors:
        """Return a vector for every segment of a sound."""
        lengths: list[int] = []
        rows: list[Matrix] = []
        for samples in segments(recordings.sound(content, RATE)):
            lengths.append(len(samples))
            rows.append(self.vector(self.scores(samples)))
        return MediaVectors(seconds(lengths, RATE), unit(np.stack(rows), "sound"))

    def spans(self, content: FileLike) -> list[tuple[float, float]]:
        """Return the spans of the segments of a sound, in seconds, without encoding it."""
        return seconds([len(samples) for samples in segments(recordings.sound(content, RATE))], RATE)

    def scores(self, samples: Samples) -> Matrix:
        """Return the mean scores of the 521 classes in a segment, ``(521,)``."""
        heard = windows(samples)
        size = BATCH
        several = [
            self.model.run({"magnitudes": magnitudes(heard[start : start + size])})
            for start in range(0, len(heard), size)
        ]
        mean: Matrix = np.concatenate(several).mean(axis=0)
        return mean

    def vector(self, scores: Matrix) -> Matrix:
        """Return the weighted sum of the names of the highest classes, ``(d,)``."""
        top = np.argpartition(scores, -TOP)[-TOP:]
        weighted: Matrix = scores[top] @ self.anchors[top]
        return weighted


def segments(blocks: Iterable[Samples], length: int = SEGMENT, shortest: int = SHORTEST) -> Iterator[Samples]:
    """Cut blocks into segments of ``length`` samples; a rest of less than ``shortest`` belongs to the one before."""
    held = np.zeros(0, dtype=np.float32)
    for block in blocks:
        held = np.concatenate([held, block])
        while len(held) >= length + max(shortest, 1):
            yield held[:length]
            held = held[length:]
    if len(held):
        yield held


def seconds(lengths: Sequence[int], rate: int) -> list[tuple[float, float]]:
    """Return the start and end in seconds of segments with so many samples, one after another.

    >>> seconds([32_000, 8_000], 16_000)
    [(0.0, 2.0), (2.0, 2.5)]
    """
    ends = np.cumsum(lengths)
    return [((end - count) / rate, end / rate) for count, end in zip(lengths, ends.tolist(), strict=True)]


def windows(samples: Samples) -> Samples:
    """Return the windows of a segment, half overlapping, ``(n, 15600)``; the last ends with the segment.

    >>> windows(np.zeros(SEGMENT, np.float32)).shape, windows(np.zeros(3, np.float32)).shape
    ((10, 15600), (1, 15600))
    """
    if len(samples) < WINDOW:
        samples = np.pad(samples, (0, WINDOW - len(samples)))
    last = len(samples) - WINDOW
    starts = [*range(0, last, WINDOW // 2), last]
    return np.stack([samples[start : start + WINDOW] for start in starts])
