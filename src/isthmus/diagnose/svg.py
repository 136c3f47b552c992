"""Small drawings as SVG text: a scatter of documents, and bars of shares. Colours come from the page, by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from isthmus.types import Matrix, Names

SIDE = 300  # of a scatter
WIDE, ROW, LEFT, RIGHT = 640, 26, 176, 52  # of bars


def colour(name: str, names: Sequence[str]) -> str:
    """Return the class that colours a modality, the same everywhere on the page.

    >>> colour("text", ["image", "image+text", "text"])
    'm2'
    """
    fixed = {"image": 0, "image+text": 1, "text": 2}
    others = [other for other in sorted(names) if other not in fixed]
    return f"m{fixed.get(name, 3 + others.index(name) % 3 if name in others else 5)}"


def scatter(points: Matrix, modality: Names, reach: float, title: str) -> str:
    """Draw points, ``(n, 2)``; ``reach`` is what the half of a side stands for, the same in pictures to be compared."""
    names = sorted(set(modality.tolist()))
    x = SIDE / 2 * (1 + points[:, 0] / (1.05 * reach))
    y = SIDE / 2 * (1 - points[:, 1] / (1.05 * reach))
    order = np.random.default_rng(0).permutation(len(points))  # no modality lies on top of the others
    kinds = {name: colour(name, names) for name in names}
    dots = "".join(
        f'<circle cx="{x[at]:.1f}" cy="{y[at]:.1f}" r="3.2" class="{kinds[str(modality[at])]}"/>' for at in order
    )
    middles = "".join(
        f'<circle cx="{x[modality == name].mean():.1f}" cy="{y[modality == name].mean():.1f}" r="8" '
        f'class="{kinds[name]} mark" style="fill-opacity:1"><title>the middle of {escape(name)}</title></circle>'
        for name in names
    )
    frame = f'<rect x=".5" y=".5" width="{SIDE - 1}" height="{SIDE - 1}" rx="8" class="soft"/>'
    return _svg(SIDE, SIDE, title, frame + dots + middles)


def bars(rows: Sequence[tuple[str, Mapping[str, float], str]], ideal: Mapping[str, float], said: str) -> str:
    """Draw shares by modality, a group for each: rows are a label, shares by modality, and how strong it is drawn.

    A line marks what the share should be, and ``said`` by what.

    >>> bars([("raw", {"text": 0.5}, "1")], {"text": 0.25}, "even chance").count("<rect")
    1
    """
    names = sorted(ideal)
    most = max([0.01, *ideal.values(), *(value for _, shares, _ in rows for value in shares.values())])
    width = WIDE - LEFT - RIGHT
    drawn: list[str] = []
    top = 18.0
    for name in names:
        start = top
        drawn.append(f'<text x="0" y="{top + 17:.0f}" font-weight="600">{escape(name)}</text>')
        for label, shares, strength in rows:
            long = width * shares.get(name, 0.0) / most
            drawn.append(
                f'<text x="{LEFT - 8}" y="{top + 17:.0f}" text-anchor="end" class="dim">{escape(label)}</text>'
            )
            drawn.append(
                f'<rect x="{LEFT}" y="{top + 4:.0f}" width="{max(long, 1):.1f}" height="{ROW - 8}" rx="3" '
                f'class="{colour(name, names)}" fill-opacity="{strength}"/>'
            )
            drawn.append(f'<text x="{LEFT + long + 8:.1f}" y="{top + 17:.0f}">{shares.get(name, 0.0):.0%}</text>')
            top += ROW
        at = LEFT + width * ideal[name] / most
        if name == names[0]:
            anchor = "end" if at > WIDE - 100 else "middle"
            drawn.append(f'<text x="{at:.1f}" y="12" text-anchor="{anchor}" class="dim">{escape(said)}</text>')
        drawn.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{start:.0f}" y2="{top:.0f}" class="mark"/>')
        top += 12
    return _svg(WIDE, round(top), f"shares by kind of document, against {said}", "".join(drawn))


def _svg(width: int, height: int, title: str, inside: str) -> str:
    said = escape(title, quote=True)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{said}">{inside}</svg>'
