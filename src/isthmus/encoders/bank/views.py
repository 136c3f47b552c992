"""The bank's pictures as queries: each as a whole and in three parts, some of them mirrored.

People search with a photo, a detail of it, or a drawing. So the bank holds small photos, textures, clip art and
pictures from microscopes and space probes. ``pictures/LICENSES.md`` lists the author and license of each.

>>> len(views())
180
>>> views()[0]
View(name='angelshark.jpg', box=(0.0, 0.0, 1.0, 1.0), mirrored=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL.Image import Image

PARTS = 3  # of each picture, besides the whole
SMALLEST, LARGEST = 0.5, 0.9  # a part's sides, as shares of the picture's
PICTURES = files(__package__).joinpath("pictures")


@dataclass(frozen=True, slots=True)
class View:
    """A part of a picture of the bank: left, top, right and bottom as shares of its sides."""

    name: str
    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    mirrored: bool = False

    def file(self) -> bytes:
        """Return the whole picture as it is on disk."""
        return PICTURES.joinpath(self.name).read_bytes()

    def image(self) -> Image:
        """Return the pixels of this part."""
        from PIL import Image, ImageOps

        with Image.open(BytesIO(self.file())) as whole:
            left, top, right, bottom = self.box
            sides = (left * whole.width, top * whole.height, right * whole.width, bottom * whole.height)
            part = whole.convert("RGB").crop([round(side) for side in sides])  # type: ignore[arg-type]
        return ImageOps.mirror(part) if self.mirrored else part


@cache
def views(seed: int = 0) -> tuple[View, ...]:
    """Return every picture followed by its parts; the seed chooses the parts."""
    rng = np.random.default_rng(seed)
    names = sorted(path.name for path in PICTURES.iterdir() if path.name.endswith(".jpg"))
    return tuple(view for name in names for view in (View(name), *(_part(name, rng) for _ in range(PARTS))))


def _part(name: str, rng: np.random.Generator) -> View:
    width, height, x, y, mirror = rng.random(5).tolist()  # uniform draws only: the same in every numpy
    width, height = (SMALLEST + (LARGEST - SMALLEST) * share for share in (width, height))
    left, top = x * (1 - width), y * (1 - height)
    return View(name, (left, top, left + width, top + height), mirror < 0.5)
