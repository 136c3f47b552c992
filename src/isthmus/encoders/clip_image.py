"""CLIP's image tower with a projection, as the image tower of an encoder.

Whether the tower is there is checked when the encoder is loaded. It is read when the first picture is encoded, which
takes about 1.4 seconds and 1.1 GiB: a search for words does not need it. Reading is fast enough that the built model is
not kept on disk.

Vectors of the weights in 8 bits and of OpenAI's own in float32 differ by the rounding of the weights; rounding errors
of that size change a vector by a cosine of .9997 on average (``reproduce/clip_tower.py``). They lie in one space and
can be searched together, so the encoder has the same identity with both: a collection that was indexed from one source
is continued from the other. ``ClipImage.source`` says which one is used, and ``isthmus doctor`` shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, cast

from isthmus.encoders.base import Settings
from isthmus.encoders.clip_source import ClipSource, find_clip
from isthmus.encoders.folder import ClipSection, Description, ImageSection
from isthmus.encoders.images import Fit, Frame, Pixels
from isthmus.encoders.once import Pending, launched
from isthmus.encoders.onnx import Model, OnnxImage, torch_gpu
from isthmus.encoders.projection import ClipProjection
from isthmus.encoders.vit import build
from isthmus.errors import BadFile
from isthmus.types import Matrix

if TYPE_CHECKING:
    from isthmus.encoders.clip_torch import TorchClip


@dataclass(slots=True, eq=False)
class ClipImage:
    """An image tower that is built when it is first used."""

    section: ClipSection
    projection: ClipProjection
    source: ClipSource
    settings: Settings
    tower: OnnxImage | TorchClip | None = None
    lock: Lock = field(default_factory=Lock)  # two threads must not build it twice

    @classmethod
    def find(cls, described: Description, section: ClipSection, settings: Settings) -> ClipImage:
        """Find CLIP's tower and read the projection."""
        path = described.folder / section.projection
        projection = ClipProjection.from_bytes(described.read(section.projection), path)
        if projection.dim != described.dim:
            raise BadFile(
                f"{path} makes vectors of {projection.dim} numbers, and its description says {described.dim}."
            )
        return cls(section, projection, find_clip(), settings)

    @property
    def frame(self) -> Frame:
        """The size of the pictures it reads."""
        return Frame(self.section.size, cast("Fit", self.section.fit), self.section.resample)

    def encode(self, pixels: Sequence[Pixels]) -> Matrix:
        """Return one row per picture."""
        return self.launch(pixels)()

    def launch(self, pixels: Sequence[Pixels]) -> Pending:
        """Start to encode; on a GPU the result waits for one row per picture."""
        with self.lock:
            if self.tower is None:
                self.tower = self._built()
        return launched(self.tower.encode)(pixels) if isinstance(self.tower, OnnxImage) else self.tower.launch(pixels)

    def _built(self) -> OnnxImage | TorchClip:
        clip = self.source.read()
        if clip.size != self.section.size or clip.embedding != self.projection.embedding:
            raise BadFile(
                f"{self.source} makes {clip.embedding} numbers of {clip.size} × {clip.size} pixels; the projection "
                f"takes {self.projection.embedding}, of {self.section.size} × {self.section.size} pixels."
            )
        if (device := torch_gpu(self.settings.device)) is not None:
            from isthmus.encoders.clip_torch import TorchClip

            return TorchClip.of(clip, self.projection, self.settings, device)
        section = ImageSection(model=self.source.name, size=clip.size, output="vectors")
        model = Model.open(Path(self.source.name), ["pixels"], "vectors", self.settings, build(clip, self.projection))
        return OnnxImage(section, model)
