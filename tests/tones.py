"""A third kind of part and an encoder that reads it, as another package would provide them.

A *tone* is a file of lines, one per second, each a few words of what is heard. The encoder hashes words to directions;
tones are in a cone of their own, like every modality of a real encoder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import fspath
from pathlib import Path
from typing import Any

import numpy as np

from isthmus import Document, Part, Query, Vectors
from isthmus.encoders.base import Skip
from isthmus.errors import BadInput
from isthmus.kinds import FileKind
from isthmus.types import Matrix, Rows

DIM = 48
THINGS = ["dog", "rain", "train", "door", "violin", "crowd", "bird", "river", "bell", "engine", "child", "wind"]
DEEDS = ["barks", "falls", "leaves", "slams", "sings", "cheers", "flows", "rings", "starts", "laughs", "howls", "stops"]


class Tone(FileKind):
    """What is heard: a file of lines, one per second."""

    name = "tone"
    span = "seconds"
    suffixes = (".tone",)

    def excerpt(self, content: Any, start: float | None, stop: float | None) -> str | None:
        """Return what is heard in a span."""
        lines = heard(content)
        return " ".join(lines[int(start or 0) : len(lines) if stop is None else int(stop)])


def heard(content: Any) -> list[str]:
    """Return the lines of a tone."""
    data = content if isinstance(content, bytes) else Path(fspath(content)).read_bytes()
    return [line for line in data.decode().splitlines() if line.strip()]


class ToneEncoder:
    """Reads texts and tones; a tone is split into seconds."""

    modalities = ("text", "text+tone", "tone")

    def __init__(self, name: str = "tones", dim: int = DIM) -> None:
        self.name, self.dim, self.identity = name, dim, f"{name} {dim}"

    def encode_documents(self, documents: Sequence[Document]) -> Vectors:
        """Return the mean of each document's rows."""
        vectors, owner = self.encode_passages(documents)
        return vectors.take(np.searchsorted(owner, np.arange(len(documents))))

    def encode_passages(self, documents: Sequence[Document], *, skip: Skip | None = None) -> tuple[Vectors, Rows]:
        """Return a row per second of a tone, or per document."""
        rows: list[dict[str, Matrix]] = []
        owner: list[int] = []
        for at, document in enumerate(documents):
            try:
                made = self._rows(document.parts)
            except (OSError, UnicodeDecodeError) as error:
                if skip is None:
                    raise BadInput(f"document {document.id!r} cannot be heard: {error}") from None
                skip(at, BadInput(f"document {document.id!r} cannot be heard: {error}"))
                continue
            rows += made
            owner += [at] * len(made)
        return self._vectors(rows), np.array(owner, dtype=np.intp)

    def encode_queries(self, queries: Sequence[Query | str]) -> Vectors:
        """Return a row per query."""
        asked = [Query.of(query) for query in queries]
        return self._vectors([{part.kind: self._mean(part) for part in query.parts} for query in asked])

    def split(self, text: str) -> list[tuple[int, int]]:
        """Return the one passage of a text."""
        return [(0, len(text))]

    def split_part(self, part: Part) -> list[tuple[float, float]]:
        """Return the seconds of a tone."""
        if part.kind != "tone":
            return []
        return [(float(at), float(at + 1)) for at in range(len(heard(part.content)))]

    def _rows(self, parts: Sequence[Part]) -> list[dict[str, Matrix]]:
        (part,) = parts  # an encoder that splits parts gets each alone
        if part.kind == "tone":
            return [{"tone": self._tone(line)} for line in heard(part.content)]
        return [{"text": self._mean(part)}]

    def _mean(self, part: Part) -> Matrix:
        if part.kind == "text":
            return self._words(part.content)
        return np.asarray(np.mean([self._tone(line) for line in heard(part.content)], axis=0))

    def _tone(self, line: str) -> Matrix:
        cone = np.zeros(self.dim, np.float32)
        cone[0] = 2.0
        return np.asarray(self._words(line) + cone)

    def _words(self, text: str) -> Matrix:
        total = np.zeros(self.dim, np.float32)
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little")
            total += np.random.default_rng(seed).normal(size=self.dim).astype(np.float32)
        return total

    def _vectors(self, rows: Sequence[dict[str, Matrix]]) -> Vectors:
        names = sorted({name for row in rows for name in row}) or ["text"]
        none = np.zeros(self.dim, np.float32)
        return Vectors(
            {name: np.stack([row.get(name, none) for row in rows] or [none])[: len(rows)] for name in names},
            {name: np.array([name in row for row in rows], dtype=bool) for name in names},
        )


def said(at: int, count: int = 2) -> list[str]:
    """Return what happens in a scene, different for each number."""
    words = [f"{THINGS[(at + step) % 12]} {DEEDS[(at // 12 + 5 * step + at) % 12]}" for step in range(count)]
    return [f"{line} scene{at}" for line in words]


def write(folder: Path, texts: int = 40, tones: int = 40) -> None:
    """Write a folder of notes and tones."""
    folder.mkdir()
    for at in range(texts):
        (folder / f"note{at:03}.txt").write_text(" and ".join(said(at)))
    for at in range(tones):
        (folder / f"heard{at:03}.tone").write_text("\n".join(said(100 + at)))
