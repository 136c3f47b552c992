"""A chat: a message and a screenshot, which is drawn from its lines."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from isthmus.queries.phrases import content_words

WIDTH = 640  # of a screenshot, in pixels
LINE = 30
SIZE = 18  # of its letters
INK, PAPER, BAR = (34, 34, 40), (250, 250, 248), (222, 226, 232)


@dataclass(frozen=True, slots=True)
class Chat:
    """A claim as a user sends it: a message, and the lines of the screenshot."""

    id: str
    claim: str
    text: str
    lines: tuple[str, ...]

    @property
    def screen(self) -> str:
        """The text of the screenshot."""
        return "\n".join(self.lines)

    @property
    def image(self) -> bytes:
        """The screenshot as a deterministic PNG."""
        return drawn(self.lines)


def alike(words: Sequence[str]) -> list[list[int]]:
    """Return the positions of content words, grouped by word.

    >>> alike("Mice and rats: rats bite mice/voles".split())
    [[2, 3], [4], [0, 5]]
    """
    groups: list[tuple[set[str], list[int]]] = []
    for place, word in enumerate(words):
        if said := {part.lower() for part in content_words(word)}:
            same = [group for group in groups if group[0] & said]
            groups = [group for group in groups if not group[0] & said]
            groups.append((said.union(*(parts for parts, _ in same)), [*(at for _, ats in same for at in ats), place]))
    return [places for _, places in groups]


def drawn(lines: Sequence[str]) -> bytes:
    """Draw a window: a title bar, a row of menus, lines, a row of buttons."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(SIZE)
    rows = [
        (bar, row)
        for place, line in enumerate(lines)
        for row in wrapped(line)
        for bar in [place in (0, len(lines) - 1)]
    ]
    page = Image.new("RGB", (WIDTH, LINE * len(rows) + LINE), PAPER)
    pen = ImageDraw.Draw(page)
    for place, (bar, row) in enumerate(rows):
        top = LINE // 2 + place * LINE
        if bar:
            pen.rectangle((0, top - 4, WIDTH, top + LINE - 4), fill=BAR)
        pen.text((20, top), row, fill=INK, font=font)
    written = io.BytesIO()
    page.save(written, "PNG")
    return written.getvalue()


def wrapped(line: str) -> list[str]:
    """Break a line between words, and inside a word only if it is longer than a line, about 60 characters."""
    return re.findall(r"\S.{0,58}\S(?=\s|$)|\S{1,60}", line) or [""]
