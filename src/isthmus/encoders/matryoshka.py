"""``matryoshka:DIM:NAME``: the first numbers of another encoder's vectors, scaled to unit length again.

For models that were trained so that the beginning of a vector is a vector of its own (Kusupati et al., *Matryoshka
Representation Learning*, 2022, section 3), such as ``matryoshka:256:st:nomic-ai/nomic-embed-text-v1.5``. Vectors of
other models lose more than their length. The dimension is part of the name, so that a collection keeps it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from isthmus import encoders
from isthmus.encoders.base import Role, Settings, unit
from isthmus.encoders.images import Frame, Pixels
from isthmus.encoders.media import MediaEncoder
from isthmus.encoders.once import ImageTower, TextTower
from isthmus.encoders.sounds import EncodesSounds, MediaVectors
from isthmus.encoders.texts import TextPassage
from isthmus.encoders.towers import TowerEncoder
from isthmus.errors import BadInput
from isthmus.kinds import FileLike
from isthmus.types import Matrix


def open_model(rest: str, settings: Settings) -> TowerEncoder:
    """Make an encoder from ``DIM:NAME``."""
    said, _, name = rest.partition(":")
    if not said.isdecimal() or int(said) < 1 or not name:
        raise BadInput(
            f"'matryoshka:{rest}' is not an encoder's full name. Write how many numbers to keep, at least 1, and the "
            "name of another encoder: matryoshka:256:st:NAME."
        )
    whole, dim = encoders.open_named(name, settings), int(said)
    if not isinstance(whole, TowerEncoder):
        raise BadInput(f"{name} has no towers whose vectors could be cut. Use it as it is.")
    if dim > whole.dim:
        raise BadInput(f"{name} has {whole.dim} dimensions, fewer than {dim}. Name a smaller number.")
    cut = replace(
        whole,
        name=f"matryoshka:{dim}:{whole.name}",
        whole=whole,
        dim=dim,
        identity=_cut_identity(whole.identity, dim),
        identities={part: _cut_identity(identity, dim) for part, identity in whole.identities.items()},
        text=None if whole.text is None else CutText(whole.text, dim),
        image=None if whole.image is None else CutImages(whole.image, dim),
    )
    if not isinstance(cut, MediaEncoder) or cut.sound is None:
        return cut
    return replace(cut, sound=CutSounds(cut.sound, dim))


def _cut_identity(identity: str, dim: int) -> str:
    return hashlib.sha256(f"{identity}\0first {dim}".encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class CutText:
    """A text tower whose vectors are cut."""

    tower: TextTower
    dim: int

    def split(self, texts: Sequence[str], role: Role) -> list[list[TextPassage]]:
        """Return the passages of each text."""
        return self.tower.split(texts, role)

    def encode(self, passages: Sequence[TextPassage]) -> Matrix:
        """Return one row per passage."""
        return self.tower.encode(passages)[:, : self.dim]


@dataclass(frozen=True, slots=True, eq=False)
class CutImages:
    """An image tower whose vectors are cut."""

    tower: ImageTower
    dim: int

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""
        return self.tower.frame

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.tower.encode(pixels)[:, : self.dim]


@dataclass(frozen=True, slots=True, eq=False)
class CutSounds:
    """A sound tower whose vectors are cut."""

    tower: EncodesSounds
    dim: int

    @property
    def identity(self) -> str:
        """A hash of everything that the vectors depend on."""
        return _cut_identity(self.tower.identity, self.dim)

    def encode(self, content: FileLike) -> MediaVectors:
        """Return a vector for every segment of a sound."""
        whole = self.tower.encode(content)
        return MediaVectors(whole.spans, unit(whole.vectors[:, : self.dim], "sound"))

    def spans(self, content: FileLike) -> list[tuple[float, float]]:
        """Return the spans of the segments of a sound."""
        return self.tower.spans(content)
