"""``embedded``: pictures into words without a language model, offline, on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from isthmus.align.ocr import TextReader
from isthmus.align.vocabulary import CHANCE, MOST, Vocabulary
from isthmus.documents import ImageLike
from isthmus.encoders import Encoder

FULL = 12  # minimum number of words in a picture of text


class Reads(Protocol):
    """Reads the text in a picture."""

    @property
    def identity(self) -> str:
        """Identifies everything its readings depend on."""

    def lines(self, image: ImageLike) -> list[str]:
        """Return the lines of text in a picture, in reading order."""


@dataclass(slots=True, eq=False)
class EmbeddedCaptioner:
    """Returns the text in a picture and, if there is little, the phrases that are clearly nearest to the picture.

    The phrases are chosen by ``encoder``, the collection's own. Without one, or if it does not read both words and
    pictures, there are none.
    """

    encoder: Encoder | None = None
    reader: Reads = field(default_factory=TextReader)
    name: str = "embedded"
    _vocabulary: Vocabulary | None = field(default=None, repr=False)

    @property
    def identity(self) -> str:
        """Identifies everything its captions depend on."""
        seen = "" if self.encoder is None else f"{self.encoder.identity}\0{CHANCE}\0{MOST}"
        return f"{self.name}\0{self.reader.identity}\0{FULL}\0{seen}"

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return a caption for each picture."""
        return [self._caption(image) for image in images]

    def _caption(self, image: ImageLike) -> str:
        lines = self.reader.lines(image)
        if full_of_text(lines):
            return "\n".join(lines)
        return "\n".join([*lines, *self._seen(image)])

    def _seen(self, image: ImageLike) -> list[str]:
        if self.encoder is None:
            return []
        if self._vocabulary is None:
            self._vocabulary = Vocabulary.of(self.encoder)
        found = self._vocabulary.nearest(self.encoder, image) if self._vocabulary is not None else []
        return [", ".join(found)] if found else []


@dataclass(frozen=True, slots=True)
class Pages:
    """Returns the text of pictures of text, and nothing for others."""

    reader: Reads = field(default_factory=TextReader)
    name: str = "pages"

    @property
    def identity(self) -> str:
        """Identifies everything its captions depend on."""
        return f"{self.name}\0{self.reader.identity}\0{FULL}"

    def caption(self, images: Sequence[ImageLike]) -> list[str]:
        """Return the text in each picture of text; an empty string for others."""
        read = [self.reader.lines(image) for image in images]
        return ["\n".join(lines) if full_of_text(lines) else "" for lines in read]


def full_of_text(lines: Sequence[str]) -> bool:
    """Whether a picture is one of text: a screenshot, a page, a sign with much on it.

    >>> full_of_text(["Segmentation fault"]), full_of_text(["the quick brown fox jumps over"] * 2)
    (False, True)
    """
    words = [word for line in lines for word in line.split() if any(char.isalpha() for char in word) and len(word) > 1]
    return len(words) >= FULL
