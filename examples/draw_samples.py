"""Draw the twelve pictures of the sample corpus that are our own: charts, signs, plans.

    python examples/draw_samples.py [FOLDER]      without a folder: where the package keeps them

Everything is drawn from one seed. The pictures are CC0.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from isthmus import samples

SIDE = 384
INK = "#24303c"
Point = tuple[float, float]


class Sheet:
    """A white sheet, drawn at twice its size and made smaller at the end, so that edges are smooth."""

    def __init__(self, width: int = SIDE, height: int = 288, paper: str = "white") -> None:
        self.image = Image.new("RGB", (2 * width, 2 * height), paper)
        self.draw = ImageDraw.Draw(self.image)

    def polygon(self, points: list[Point], fill: str | None, outline: str | None = INK, width: int = 2) -> None:
        """Fill and outline a polygon."""
        self.draw.polygon([(2 * x, 2 * y) for x, y in points], fill=fill, outline=outline, width=2 * width)

    def box(self, left: float, top: float, right: float, bottom: float, fill: str | None, line: int = 2) -> None:
        """Draw a rectangle; a line of 0 is none."""
        self.polygon([(left, top), (right, top), (right, bottom), (left, bottom)], fill, INK if line else None, line)

    def disc(self, x: float, y: float, radius: float, fill: str | None, outline: str | None = None) -> None:
        """Draw a filled circle, or a ring."""
        bounds = [2 * (x - radius), 2 * (y - radius), 2 * (x + radius), 2 * (y + radius)]
        self.draw.ellipse(bounds, fill=fill, outline=outline, width=4)

    def line(self, points: list[Point], colour: str = INK, width: int = 2) -> None:
        """Draw a line through the points."""
        self.draw.line([(2 * x, 2 * y) for x, y in points], fill=colour, width=2 * width, joint="curve")

    def write(self, x: float, y: float, words: str, size: int = 14, colour: str = INK, anchor: str = "mm") -> None:
        """Write words; the anchor is the middle unless told."""
        font = ImageFont.load_default(2 * size)
        self.draw.text((2 * x, 2 * y), words, fill=colour, font=font, anchor=anchor)

    def finished(self) -> Image.Image:
        """Return the sheet at its size, in few colours."""
        size = (self.image.width // 2, self.image.height // 2)
        return self.image.resize(size, Image.Resampling.LANCZOS).quantize(48)


def bar_chart(_: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.write(192, 22, "Visitors per weekday", 17)
    for i, (day, count) in enumerate([("Mon", 40), ("Tue", 55), ("Wed", 62), ("Thu", 58), ("Fri", 95), ("Sat", 150)]):
        left = 52 + i * 54
        sheet.box(left, 240 - count * 1.2, left + 36, 240, "#3b7dd8", 0)
        sheet.write(left + 18, 256, day)
        sheet.write(left + 18, 231 - count * 1.2, str(count), 12)
    sheet.line([(40, 45), (40, 240), (374, 240)])
    return sheet


def pie_chart(_: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.write(192, 22, "Where the money goes", 17)
    shares = [("rent", 40, "#d1495b"), ("food", 25, "#edae49"), ("travel", 15, "#00798c"), ("rest", 20, "#8d99ae")]
    start = -90.0
    for name, share, colour in shares:
        end = start + 3.6 * share
        sheet.draw.pieslice([180, 90, 580, 490], start, end, fill=colour, outline="white", width=4)
        middle = math.radians((start + end) / 2)
        sheet.write(190 + 62 * math.cos(middle), 145 + 62 * math.sin(middle), f"{name} {share}%", 12, "white")
        start = end
    return sheet


def line_chart(rng: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.write(192, 22, "Temperature in May", 17)
    for y in range(60, 241, 45):
        sheet.line([(40, y), (370, y)], "#d9dee4", 1)
        sheet.write(24, y, f"{(240 - y) // 9} C", 12)
    heights = [150.0]
    for _ in range(30):
        heights.append(min(230, max(60, heights[-1] + rng.uniform(-20, 16))))
    sheet.line([(40 + 11 * i, y) for i, y in enumerate(heights)], "#c8553d", 3)
    sheet.line([(40, 45), (40, 240), (374, 240)])
    for day in (1, 10, 20, 31):
        sheet.write(40 + 11 * (day - 1), 256, str(day), 12)
    return sheet


def red_circle(_: random.Random) -> Sheet:
    sheet = Sheet(288, 288)
    sheet.disc(144, 144, 105, "#d7263d")
    return sheet


def no_entry(_: random.Random) -> Sheet:
    sheet = Sheet(288, 320, "#cfe3f2")
    sheet.box(138, 220, 150, 320, "#7b8794", 0)
    sheet.disc(144, 130, 112, "white")
    sheet.disc(144, 130, 105, "#c1121f")
    sheet.box(70, 112, 218, 148, "white", 0)
    return sheet


def traffic_light(_: random.Random) -> Sheet:
    sheet = Sheet(240, 384, "#e9edf1")
    sheet.box(110, 290, 130, 384, "#5c6670", 0)
    sheet.box(70, 30, 170, 300, "#22272c")
    for y, colour in ((75, "#4a1a1c"), (165, "#4a3c14"), (255, "#2fbf4f")):
        sheet.disc(120, y, 36, colour)
    return sheet


def house(rng: random.Random) -> Sheet:
    sheet = Sheet()

    def crayon(points: list[Point], colour: str) -> None:
        for _ in range(3):
            sheet.line([(x + rng.uniform(-3, 3), y + rng.uniform(-3, 3)) for x, y in points], colour, 2)

    crayon([(10, 250), (120, 246), (250, 252), (375, 247)], "#3a9d4a")
    crayon([(110, 248), (110, 140), (250, 140), (250, 248)], "#8a5a2b")
    crayon([(95, 145), (180, 70), (265, 145), (95, 145)], "#cc2936")
    crayon([(165, 248), (165, 195), (195, 195), (195, 248)], "#8a5a2b")
    for left in (124, 210):
        crayon([(left, 160), (left + 26, 160), (left + 26, 185), (left, 185), (left, 160)], "#2e6fb7")
    crayon([(222, 105), (222, 70), (238, 70), (238, 120)], "#7a4a20")
    turn = [2 * math.pi * i / 24 for i in range(25)]
    crayon([(325 + 24 * math.cos(a), 55 + 24 * math.sin(a)) for a in turn], "#f2b705")
    for a in turn[::3]:
        crayon([(325 + r * math.cos(a), 55 + r * math.sin(a)) for r in (32, 46)], "#f2b705")
    crayon([(50, 248), (50, 190)], "#7a4a20")
    crayon([(50 + 28 * math.cos(a), 165 + 28 * math.sin(a)) for a in turn], "#2f8f3e")
    return sheet


def calendar(_: random.Random) -> Sheet:
    sheet = Sheet(320, 320, "#f4f1ea")
    sheet.box(20, 20, 300, 300, "white")
    sheet.box(20, 20, 300, 70, "#b5272d")
    sheet.write(160, 45, "OCTOBER", 22, "white")
    for column, weekday in enumerate("MTWTFSS"):
        sheet.write(45 + 38 * column, 90, weekday, 14, "#8a8f98")
    for day in range(1, 32):
        column, row = (day + 1) % 7, (day + 1) // 7
        sheet.write(45 + 38 * column, 122 + 34 * row, str(day), 15)
    column, row = 18 % 7, 18 // 7
    sheet.disc(45 + 38 * column, 122 + 34 * row, 16, None, "#b5272d")
    return sheet


def receipt(_: random.Random) -> Sheet:
    sheet = Sheet(220, 384, "#d8d3c8")
    sheet.box(20, 12, 200, 372, "#fffdf7", 0)
    sheet.write(110, 38, "CORNER GROCER", 15)
    sheet.write(110, 58, "14 Mill Lane", 11)
    goods = [("Milk 1 l", 1.19), ("Bread", 2.80), ("Apples 1 kg", 2.49), ("Butter", 2.29), ("Eggs 10", 3.10)]
    for i, (name, price) in enumerate(goods):
        sheet.write(34, 98 + 28 * i, name, 13, anchor="lm")
        sheet.write(186, 98 + 28 * i, f"{price:.2f}", 13, anchor="rm")
    sheet.line([(34, 238), (186, 238)])
    sheet.write(34, 260, "TOTAL", 16, anchor="lm")
    sheet.write(186, 260, f"{sum(price for _, price in goods):.2f}", 16, anchor="rm")
    sheet.write(110, 330, "Thank you!", 13)
    return sheet


def floor_plan(_: random.Random) -> Sheet:
    sheet = Sheet()
    sheet.box(20, 20, 364, 268, "#fbfaf5", 5)
    sheet.line([(190, 20), (190, 190)], width=4)
    sheet.line([(20, 160), (150, 160)], width=4)
    sheet.line([(230, 190), (364, 190)], width=4)
    sheet.line([(190, 190), (200, 190)], width=4)
    for x, y, room in ((100, 90, "Bedroom"), (280, 100, "Living room"), (95, 215, "Kitchen"), (300, 230, "Bath")):
        sheet.write(x, y, room, 16)
    sheet.box(40, 34, 110, 70, "#dfe7ef", 1)
    sheet.box(330, 50, 352, 150, "#e9dcc9", 1)
    return sheet


def flow_chart(_: random.Random) -> Sheet:
    sheet = Sheet(320, 384)
    sheet.box(100, 20, 220, 64, "#dcecff")
    sheet.write(160, 42, "It does not work")
    sheet.polygon([(160, 104), (250, 154), (160, 204), (70, 154)], "#fff1c9")
    sheet.write(160, 154, "Plugged in?")
    sheet.box(14, 250, 134, 294, "#dff3df")
    sheet.write(74, 272, "Plug it in")
    sheet.box(186, 250, 306, 294, "#f9dede")
    sheet.write(246, 272, "Ask for help")
    sheet.box(100, 330, 220, 370, "#dcecff")
    sheet.write(160, 350, "Done")
    for path in (
        [(160, 64), (160, 104)], [(70, 154), (74, 154), (74, 250)], [(250, 154), (246, 154), (246, 250)],
        [(74, 294), (74, 350), (100, 350)], [(246, 294), (246, 350), (220, 350)],
    ):  # fmt: skip
        sheet.line([(float(x), float(y)) for x, y in path])
    sheet.write(52, 190, "no")
    sheet.write(268, 190, "yes")
    return sheet


def treasure_map(rng: random.Random) -> Sheet:
    sheet = Sheet(paper="#e6d3a3")
    turn = [2 * math.pi * i / 40 for i in range(40)]
    coast = [(192 + (150 + rng.uniform(-16, 16)) * math.cos(a), 146 + (105 + rng.uniform(-14, 14)) * math.sin(a))
             for a in turn]  # fmt: skip
    sheet.image.paste("#9cc3c9", (0, 0, sheet.image.width, sheet.image.height))
    sheet.polygon(coast, "#e6d3a3", "#7a5c2e")
    for x, y in ((120, 95), (145, 85), (168, 98)):
        sheet.polygon([(x - 16, y + 18), (x, y - 16), (x + 16, y + 18)], "#b08d57", "#7a5c2e")
    path = [(90 + 10 * i, 200 - 3 * i + 14 * math.sin(i / 2)) for i in range(19)]
    for here, there in zip(path[::2], path[1::2], strict=False):
        sheet.line([here, there], "#9a3324", 3)
    sheet.line([(268, 132), (292, 156)], "#b3001b", 5)
    sheet.line([(268, 156), (292, 132)], "#b3001b", 5)
    for x, y in ((215, 80), (232, 92), (250, 78)):
        sheet.line([(x, y + 20), (x + 3, y)], "#7a5c2e", 3)
        for a in range(5):
            sheet.line([(x + 3, y), (x + 3 + 12 * math.cos(a - 3), y + 9 * math.sin(a - 3) + 3)], "#3d7a3a", 2)
    sheet.line([(362, 262), (362, 222)], width=2)
    sheet.polygon([(356, 230), (362, 214), (368, 230)], INK)
    sheet.write(362, 203, "N", 15)
    return sheet


DRAWINGS: dict[str, Callable[[random.Random], Sheet]] = {
    "bar-chart": bar_chart,
    "calendar": calendar,
    "circle": red_circle,
    "floor-plan": floor_plan,
    "flow-chart": flow_chart,
    "house": house,
    "line-chart": line_chart,
    "map": treasure_map,
    "pie-chart": pie_chart,
    "receipt": receipt,
    "sign": no_entry,
    "traffic-light": traffic_light,
}


def draw(folder: Path, seed: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, picture in DRAWINGS.items():
        picture(random.Random(f"{seed} {name}")).finished().save(folder / f"{name}.png", optimize=True)  # noqa: S311


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else samples.folder() / "drawings")
