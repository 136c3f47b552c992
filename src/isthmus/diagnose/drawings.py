"""Small drawings for the page: a scatter of documents as SVG, bars of shares. Colours come from the page, by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from isthmus.kinds import IMAGE, TEXT
from isthmus.types import Matrix, Names

SIDE = 300  # of a scatter
FIXED = {IMAGE: 0, f"{IMAGE}+{TEXT}": 1, TEXT: 2}  # the same colour in every report
COLOURS = 6  # in report.css


def colour(name: str, names: Sequence[str]) -> str:
    """Return the CSS class with the colour of a modality, the same everywhere on the page.

    >>> colour("text", ["image", "image+text", "text"])
    'm2'
    >>> colour("tone", ["image", "text", "tone"])
    'm3'
    """
    if name in FIXED:
        return f"m{FIXED[name]}"
    others = sorted({*names, name} - FIXED.keys())
    return f"m{len(FIXED) + others.index(name) % (COLOURS - len(FIXED))}"


def scatter(points: Matrix, modality: Names, reach: float, title: str) -> str:
    """Draw points, ``(n, 2)``; ``reach`` is the value at the edge, equal in plots to be compared."""
    names = sorted(set(modality.tolist()))
    x = SIDE / 2 * (1 + points[:, 0] / (1.05 * reach))
    y = SIDE / 2 * (1 - points[:, 1] / (1.05 * reach))
    order = np.random.default_rng(0).permutation(len(points))  # no modality hides the others
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


def bars(rows: Sequence[tuple[str, Mapping[str, float], str]], ideal: Mapping[str, float], caption: str) -> str:
    """Draw shares by modality, a group for each; a row is a label, its shares and a CSS class for its strength.

    A line marks the ideal share, which ``caption`` names. This is HTML, not SVG: letters keep their size on narrow
    screens.

    >>> bars([("raw", {"text": 0.5}, "1")], {"text": 0.25}, "an equal chance").count("50%")
    1
    """
    names = sorted(ideal)
    most = max([0.01, *ideal.values(), *(value for _, shares, _ in rows for value in shares.values())])
    groups = "".join(
        f'<div class="bars"><b>{escape(name)}</b>'
        + "".join(
            _bar(label, shares.get(name, 0.0), ideal[name], most, f"{colour(name, names)} {strength}")
            for label, shares, strength in rows
        )
        + "</div>"
        for name in names
    )
    return f'<figure>{groups}<figcaption><span class="ideal"></span> {escape(caption)}</figcaption></figure>'


def _bar(label: str, share: float, ideal: float, most: float, kind: str) -> str:
    return (
        f'<div class="bar"><span class="dim">{escape(label)}</span><span class="track">'
        f'<span class="fill {kind}" style="width:{100 * share / most:.1f}%"></span>'
        f'<span class="ideal" style="left:{100 * ideal / most:.1f}%"></span></span><span>{share:.0%}</span></div>'
    )


def _svg(width: int, height: int, title: str, inside: str) -> str:
    label = escape(title, quote=True)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{inside}</svg>'
