"""Pictures for tests: pages of printed text, and what is none."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

LETTER = (
    "Dear members of the committee,",
    "the meeting about the harbour bridge",
    "takes place on the third of March",
    "in the large room of the town hall.",
    "Please bring the plans of the engineer",
    "and the list of the costs so far.",
    "The mayor will answer questions",
    "after the report of the treasurer.",
    "With kind regards, Anna Lindgren",
)


def page(lines: tuple[str, ...] = LETTER, size: tuple[int, int] = (480, 620), turn: int = 0) -> Image.Image:
    """Print lines on white paper, turned by quarters."""
    made = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(made)
    for row, line in enumerate(lines):
        pen.text((40, 50 + 44 * row), line, fill="black", font=ImageFont.load_default(size=22))
    return made.rotate(90 * turn, expand=True)


def photo(seed: int = 0) -> Image.Image:
    """Return soft blotches of colour, as in a photo out of focus."""
    colours = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(colours).resize((400, 300), Image.Resampling.BICUBIC)


def png(image: Image.Image) -> bytes:
    """Return a picture as the bytes of a PNG."""
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()
