"""The largest inner products of tensors on a device of torch, tile by tile; the whole matrix is never there.

    tile      queries @ rows.T                     (m, columns), one matrix product
    maxima    of groups of entries                 one read of the tile, at the speed of memory
    floor     the k-th best so far; in the first tile the k-th largest of the maxima, which is not above it
    found     entries that reach the floor, in the groups whose maximum does; then the k largest of them and the best

Selecting from a row costs more than computing it, and nearly all of a row is below the floor. After the first tile a
floor is known, so of a bank of n rows about k·log(n / columns) entries of a row are looked at twice. An entry and its
place become one integer that sorts like the pair, as in ``select.py``: of equal entries the first is kept.

>>> import torch
>>> scores, rows = decoded(largest_products(torch.tensor([[2.0, 1.0]]), torch.eye(2), k=1, columns=2))
>>> scores.tolist(), rows.tolist()
([[2.0]], [[0]])
"""

from __future__ import annotations

from typing import Any, TypeAlias

from isthmus._optional import need
from isthmus.index.select import FLIP, LOW

Tensor: TypeAlias = Any  # of torch, which is imported late

LARGEST_GROUP = 32
EMPTY = -2139095041 << 32  # the key of −inf at the last place: less than that of any entry


def largest_products(queries: Tensor, rows: Tensor, k: int, columns: int, hidden: Tensor | None = None) -> Tensor:
    """Return the keys of the ``k`` largest products of each query with the rows (all if there are fewer), best first.

    ``queries`` is ``(m, d)``, ``rows`` ``(n, d)`` of the same type on the same device; ``columns`` rows are multiplied
    at a time. Rows where ``hidden``, ``(n,)``, is true do not count.
    """
    best: Tensor | None = None
    for start in range(0, len(rows), columns):
        scores = queries @ rows[start : start + columns].T
        if hidden is not None:
            scores.masked_fill_(hidden[start : start + columns], float("-inf"))
        best = merged(best, scores, k, start)
    return best


def merged(best: Tensor | None, scores: Tensor, k: int, first: int) -> Tensor:
    """Return the keys of the ``k`` largest of ``best`` and of a tile whose first column is row ``first``."""
    torch = need("torch", extra="gpu")
    count, columns = scores.shape
    size = min(LARGEST_GROUP, columns // (2 * k))
    parts = [] if best is None else [best]
    if size < 4:
        parts.append(_keys(scores, torch.arange(first, first + columns, device=scores.device)))
    else:
        groups = columns // size
        floor = decoded(best[:, -1:])[0].to(scores.dtype) if best is not None and best.shape[1] == k else None
        parts.append(_reaching(scores[:, : groups * size].view(count, size, groups), floor, k, first))
        rest = torch.arange(first + groups * size, first + columns, device=scores.device)
        parts.append(_keys(scores[:, groups * size :], rest))
    together = torch.cat(parts, dim=1)
    return together.topk(min(k, together.shape[1]), dim=1).values


def _reaching(grouped: Tensor, floor: Tensor | None, k: int, first: int) -> Tensor:
    """Return the keys of entries of ``(m, size, groups)`` that reach the floor of their row, ``(m, most)``.

    The entries of a group are ``groups`` columns apart: neighbouring threads then read neighbouring entries.
    """
    torch = need("torch", extra="gpu")
    count, _, groups = grouped.shape
    maxima = grouped.amax(dim=1)  # (m, groups)
    least = maxima.topk(k, dim=1).values[:, -1:] if floor is None else floor
    row, group = ((maxima >= least) & ~maxima.isneginf()).nonzero(as_tuple=True)
    values = grouped[row, :, group]  # (groups that reach it, size)
    chosen, place = ((values >= least[row]) & ~values.isneginf()).nonzero(as_tuple=True)
    row, column = row[chosen], place * groups + group[chosen]
    lengths = torch.bincount(row, minlength=count)
    before = lengths.cumsum(0) - lengths
    packed = torch.full((count, max(k, int(lengths.max()))), EMPTY, dtype=torch.int64, device=row.device)
    packed[row, torch.arange(len(row), device=row.device) - before[row]] = _keys(values[chosen, place], column + first)
    return packed


def _keys(scores: Tensor, places: Tensor) -> Tensor:
    """Return one integer for each score and its place, as ``select.keys`` does."""
    torch = need("torch", extra="gpu")
    bits = (scores.float() + 0).view(torch.int32)
    order = (bits ^ ((bits >> 31) & int(FLIP))).to(torch.int64)
    return (order << 32) | (int(LOW) - places)


def keyed(scores: Tensor, rows: Tensor) -> Tensor:
    """Return the keys of scores and their rows, best first; a row of -1 has none."""
    return _keys(scores, rows).masked_fill(rows < 0, EMPTY).sort(dim=1, descending=True).values


def decoded(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores and the rows of keys; where there is nothing, −inf and -1."""
    torch = need("torch", extra="gpu")
    order = (keys >> 32).to(torch.int32)
    scores = (order ^ ((order >> 31) & int(FLIP))).view(torch.float32)
    return scores, (int(LOW) - (keys & int(LOW))).masked_fill(scores.isneginf(), -1)
