"""Outputs of the towers for every text and picture, computed once before training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isthmus.encoders.base import Role
from isthmus.encoders.images import Pixels, in_order
from isthmus.encoders.images import read as read_picture
from isthmus.encoders.items import readable
from isthmus.encoders.texts import TextPassage
from isthmus.encoders.tokens import TokenTowers
from isthmus.train.fusion.model import TowerFeatures

BATCH = 32
Report = Callable[[str], object]


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """The token states of texts, concatenated; of a long text only the first passage."""

    states: Tensor  # (all tokens, d), half precision
    start: Tensor  # (n + 1,)

    @classmethod
    def of(cls, towers: TokenTowers, texts: Sequence[str], role: Role, device: str, report: Report) -> Texts:
        """Encode texts, the shortest first, to reduce padding."""
        split = towers.split([readable(text) for text in texts], role)
        first = [several[0] if several else TextPassage(0, 0, b"") for several in split]
        order = sorted(range(len(first)), key=lambda row: len(first[row].content))
        found: list[NDArray[np.float16]] = [np.zeros((0, towers.dim), np.float16)] * len(first)
        for begin in range(0, len(order), BATCH):
            rows = [row for row in order[begin : begin + BATCH] if first[row].content]
            if not rows:
                continue
            states, mask = towers.read([first[row] for row in rows])
            for row, state, there in zip(rows, states, mask, strict=True):
                found[row] = state[there].astype(np.float16)
            if begin // BATCH % 50 == 0:
                report(f"encoded {begin} of {len(order)} texts")
        start = np.concatenate([[0], np.cumsum([len(states) for states in found])])
        return cls(torch.from_numpy(np.concatenate(found)).to(device), torch.from_numpy(start).to(device))

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states of some texts, padded, and the mask: ``(n, t, d)`` and ``(n, t)``."""
        begin, length = self.start[rows], self.start[rows + 1] - self.start[rows]
        at = torch.arange(max(1, int(length.max())), device=rows.device)
        mask = at < length[:, None]
        where = torch.where(mask, begin[:, None] + at, 0)
        return self.states[where].float() * mask[:, :, None], mask


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """The cells and the vectors of pictures."""

    cells: Tensor  # (n, p, channels), half precision
    vectors: Tensor  # (n, d)

    @classmethod
    def of(cls, towers: TokenTowers, paths: Sequence[Path], device: str, report: Report) -> Pictures:
        """Encode pictures; threads read ahead."""
        cells: list[Tensor] = []
        vectors: list[Tensor] = []
        batch: list[Pixels] = []

        def flush() -> None:
            found = towers.look(batch)
            cells.append(torch.from_numpy(found.cells.astype(np.float16)).to(device))
            vectors.append(torch.from_numpy(found.vectors).to(device))
            batch.clear()

        with closing(in_order(lambda path: read_picture(path, towers.frame), paths, workers=4, ahead=128)) as opened:
            for number, pixels in enumerate(opened):
                batch.append(pixels)
                if len(batch) == BATCH:
                    flush()
                if number % 1000 == 0:
                    report(f"encoded {number} of {len(paths)} pictures")
        if batch:
            flush()
        return cls(torch.cat(cells), torch.cat(vectors))


def seen(texts: Texts, pictures: Pictures, text_rows: Tensor, image_rows: Tensor) -> TowerFeatures:
    """Combine texts and pictures to documents; rows may be paired in any way."""
    states, mask = texts.take(text_rows)
    cells = pictures.cells[image_rows].float()
    there = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
    return TowerFeatures(states, mask, cells, there, pictures.vectors[image_rows].float())


def patch_map(pictures: Pictures, ridge: float = 0.3) -> Tensor:
    """Return the linear map ``(d, channels)`` that best predicts a picture's vector from its mean cell.

    Ridge regression of deviations from the mean; the penalty is in units of the mean variance of a channel.
    """
    cells = torch.cat([some.float().mean(dim=1) for some in torch.split(pictures.cells, 256)])
    cells, vectors = cells - cells.mean(dim=0), pictures.vectors - pictures.vectors.mean(dim=0)
    square = cells.T @ cells
    penalty = ridge * square.diagonal().mean().clamp_min(1e-6) * torch.eye(len(square), device=square.device)
    found: Tensor = torch.linalg.solve(square + penalty, cells.T @ vectors).T
    return found
