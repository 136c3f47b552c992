"""Draw screens and printed pages with text, to see whether they are told from photos.

``design`` and ``held-out`` differ in fonts, colours and layouts; their words come from the abstracts of SciFact.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
SCREENS = {
    "design": ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif"),
    "held-out": ("STIXGeneral", "cmtt10", "cmss10", "DejaVuSans-Oblique"),
}
GROUNDS = {  # paper and ink
    "design": (("white", "black"), ("#1e1e1e", "#d4d4d4"), ("#fdf6e3", "#586e75")),
    "held-out": (("#f7f7f7", "#24292e"), ("black", "#33ff66"), ("#e8f0fe", "#202124")),
}


@dataclass
class Sheet:
    """A picture to write on."""

    image: Image.Image
    ink: str
    face: str
    rng: np.random.Generator
    words: Iterator[str]

    def lines(self, box: tuple[int, int, int, int], size: int, ragged: float = 0.3) -> None:
        """Fill a box with lines of words."""
        font = ImageFont.truetype(str(FONTS / f"{self.face}.ttf"), size)
        draw, (left, top, right, bottom) = ImageDraw.Draw(self.image), box
        while top + size < bottom:
            end = right - int(self.rng.uniform(0, ragged) * (right - left))
            line = next(self.words)
            while draw.textlength(f"{line} {(word := next(self.words))}", font) < end - left:
                line = f"{line} {word}"
            draw.text((left, top), line, self.ink, font)
            top += int(size * 1.4)


def _page(sheet: Sheet) -> None:
    width, height = sheet.image.size
    sheet.lines((width // 10, height // 12, width * 9 // 10, height // 6), height // 30)
    sheet.lines((width // 10, height // 5, width * 9 // 10, height * 9 // 10), height // 60)


def _terminal(sheet: Sheet) -> None:
    width, height = sheet.image.size
    sheet.lines((8, 8, width - 8, int(height * sheet.rng.uniform(0.4, 1))), height // 45, ragged=0.8)


def _web(sheet: Sheet) -> None:
    width, height = sheet.image.size
    draw = ImageDraw.Draw(sheet.image)
    draw.rectangle((0, 0, width, height // 12), fill="#3b5998")
    colours = sheet.rng.integers(0, 255, (3, 4, 3), dtype=np.uint8)
    photo = Image.fromarray(colours).resize((width // 3, height // 3), Image.Resampling.BICUBIC)
    sheet.image.paste(photo, (width * 3 // 5, height // 6))
    sheet.lines((width // 20, height // 6, width * 11 // 20, height * 9 // 10), height // 40)


def _form(sheet: Sheet) -> None:
    width, height = sheet.image.size
    draw = ImageDraw.Draw(sheet.image)
    for row in range(8):
        top = height // 10 + row * height // 10
        sheet.lines((width // 20, top, width // 3, top + height // 20), height // 50)
        draw.rectangle((width // 3, top, width * 19 // 20, top + height // 20), outline=sheet.ink)
        if sheet.rng.uniform() < 0.6:
            sheet.lines((width // 3 + 8, top + 4, width * 2 // 3, top + height // 20), height // 50)


def _chat(sheet: Sheet) -> None:
    width, height = sheet.image.size
    draw, top = ImageDraw.Draw(sheet.image), height // 20
    while top < height * 17 // 20:
        left = int(sheet.rng.choice([width // 20, width // 4]))
        tall = int(sheet.rng.integers(height // 20, height // 8))
        draw.rounded_rectangle((left, top, left + width * 7 // 10, top + tall), 12, outline=sheet.ink)
        sheet.lines((left + 10, top + 6, left + width * 13 // 20, top + tall), height // 50)
        top += tall + height // 40


def _slide(sheet: Sheet) -> None:
    width, height = sheet.image.size
    sheet.lines((width // 12, height // 12, width * 2 // 3, height // 5), height // 12)
    sheet.lines((width // 8, height // 3, width * 3 // 4, height * 4 // 5), height // 22)


def _note(sheet: Sheet) -> None:
    width, height = sheet.image.size
    tall = height * sheet.rng.uniform(0.15, 0.4)
    sheet.lines((width // 10, height // 10, width * 4 // 5, height // 10 + int(tall)), height // 40, ragged=0.6)


def _card(sheet: Sheet) -> None:
    width, height = sheet.image.size
    top = int(height * sheet.rng.uniform(0.2, 0.5))
    sheet.lines((width // 4, top, width * 3 // 4, top + height // 5), height // int(sheet.rng.integers(28, 50)))


LAYOUTS: dict[str, tuple[Callable[[Sheet], None], ...]] = {
    "design": (_page, _terminal, _web, _note),
    "held-out": (_form, _chat, _slide, _card),
}


def screens(data: Path, group: str, count: int, seed: int) -> Iterator[bytes]:
    """Yield pictures of a group, as PNG."""
    return (picture for picture, _ in screens_and_words(data, group, count, seed))


def screens_and_words(data: Path, group: str, count: int, seed: int) -> Iterator[tuple[bytes, list[str]]]:
    """Yield pictures of a group, as PNG, with their words; the word after the end of a line is not drawn."""
    rng = np.random.default_rng(seed)
    texts = (json.loads(line)["text"] for line in (data / "scifact" / "corpus.jsonl").read_text("utf-8").splitlines())
    used: list[str] = []
    words = _noted((word for text in texts for word in text.split()), used)
    for at in range(count):
        paper, ink = GROUNDS[group][at % 3]
        face = SCREENS[group][int(rng.integers(len(SCREENS[group])))]
        tall = bool(rng.integers(2))
        size = (900, 1270) if tall else (1280, 800)
        sheet = Sheet(Image.new("RGB", size, paper), ink, face, rng, words)
        layouts = LAYOUTS[group]
        layouts[int(rng.integers(len(layouts)))](sheet)
        out = io.BytesIO()
        sheet.image.save(out, "PNG")
        yield out.getvalue(), [*used]
        used.clear()


def _noted(words: Iterator[str], used: list[str]) -> Iterator[str]:
    for word in words:
        used.append(word)
        yield word
