"""Reading order of lines of text: one column after the other, each from top to bottom."""

from __future__ import annotations

import numpy as np

from isthmus.types import Mask, Matrix, Rows

APART = 1.5  # minimum gap between columns, in line heights
COLUMN = 3  # minimum number of lines in a column
WIDE = 6.0  # minimum width of a column's lines, in line heights; narrower ones are table columns


def reading_rows(boxes: Matrix) -> list[list[int]]:
    """Return the rows in which boxes ``(n, 4)``, each left, top, right, bottom, are read.

    The page is cut along empty stripes, and each piece again: between columns if both have a few lines of text,
    otherwise between rows, at the widest gap. A piece that cannot be cut is one row, read from left to right.

    Reference: the recursive X-Y cut (Nagy and Seth, 1984); that columns need a few wide lines, so that a label and its
    value stay together, is ours.

    >>> left, right = [[[x, y, x + 90, y + 9] for y in (20, 30, 40)] for x in (0, 120)]
    >>> reading_rows(np.array([*right, *left, [0, 0, 210, 9]]))
    [[6], [3], [4], [5], [0], [1], [2]]
    """
    return _cut(np.asarray(boxes, dtype=np.float64).reshape(-1, 4), np.arange(len(boxes)))


def _cut(boxes: Matrix, rows: Rows) -> list[list[int]]:
    if len(rows) < 2:
        return [[int(row)] for row in rows]
    before = _columns(boxes[rows])
    if before is None:
        before = _split(boxes[rows, 1], boxes[rows, 3], 0.0)
    if before is None:
        return _rows(boxes, rows)
    return _cut(boxes, rows[before]) + _cut(boxes, rows[~before])


def _columns(boxes: Matrix) -> Mask | None:
    """Return the boxes of the first column, if there are columns of text."""
    width, height = boxes[:, 2] - boxes[:, 0], float(np.median(boxes[:, 3] - boxes[:, 1]))
    before = _split(boxes[:, 0], boxes[:, 2], APART * height)
    if before is None:
        return None
    sides = [width[before], width[~before]]
    return before if all(len(side) >= COLUMN and np.median(side) >= WIDE * height for side in sides) else None


def _split(start: Matrix, stop: Matrix, least: float) -> Mask | None:
    """Return which spans lie before the widest gap, if one is wider than ``least``."""
    order = np.argsort(start, kind="stable")
    gaps = start[order][1:] - np.maximum.accumulate(stop[order])[:-1]
    if gaps.max() <= least:
        return None
    before = np.zeros(len(order), dtype=bool)
    before[order[: int(gaps.argmax()) + 1]] = True
    return before


def _rows(boxes: Matrix, rows: Rows) -> list[list[int]]:
    """Read boxes that overlap like tiles: a box belongs to the row above if its middle lies within that row's first."""
    found: list[list[int]] = []
    for row in sorted(rows.tolist(), key=lambda row: float(boxes[row, 1])):
        middle = (boxes[row, 1] + boxes[row, 3]) / 2
        if found and boxes[found[-1][0], 1] <= middle <= boxes[found[-1][0], 3]:
            found[-1].append(row)
        else:
            found.append([row])
    return [sorted(several, key=lambda row: float(boxes[row, 0])) for several in found]
