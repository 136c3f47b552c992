"""Prompts and rewrites as tensors, padded, and in chunks without most of the padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Rewrites:
    """Prompts and rewrites; prompts are padded on the left, rewrites on the right."""

    prompt: Tensor  # (n, p)
    prompt_mask: Tensor  # (n, p), 1 for tokens of the prompt
    tokens: Tensor  # (n, t)
    live: Tensor  # (n, t), 1 up to the token that ends it, that one too

    def __getitem__(self, rows: Tensor) -> Rewrites:
        """Return some rows, without the columns that are padding in all of them."""
        mask, live = self.prompt_mask[rows], self.live[rows]
        first, longest = mask.shape[1] - int(mask.sum(1).max()), int(live.sum(1).max())
        return Rewrites(
            self.prompt[rows][:, first:], mask[:, first:], self.tokens[rows][:, :longest], live[:, :longest]
        )

    def chunks(self, rows: Tensor, size: int) -> list[Tensor]:
        """Return ``rows`` in chunks of at most ``size``, those of similar length together."""
        lengths = (self.prompt_mask.sum(1) + self.live.sum(1))[rows]
        return list(torch.split(rows[lengths.argsort(stable=True)], size)) if len(rows) else []


def padded(rows: Sequence[Sequence[int]], *, left: bool, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return rows of unequal length as one tensor, and a mask without the padding."""
    width = max(map(len, rows))
    blank = [[0] * (width - len(row)) for row in rows]
    tokens = [b + list(row) if left else list(row) + b for row, b in zip(rows, blank, strict=True)]
    mask = [b + [1] * len(row) if left else [1] * len(row) + b for row, b in zip(rows, blank, strict=True)]
    return torch.tensor(tokens, device=device), torch.tensor(mask, device=device)


def until(tokens: Tensor, stops: Tensor) -> Tensor:
    """Return 1 up to the first token that ends a rewrite, that one too, and 0 after it.

    >>> until(torch.tensor([[5, 2, 2], [5, 6, 7]]), torch.tensor([2])).tolist()
    [[1, 1, 0], [1, 1, 1]]
    """
    ends = torch.isin(tokens, stops).long()
    return (ends.cumsum(1) - ends == 0).long()


def positions(mask: Tensor) -> Tensor:
    """Return the position of each token; padding on the left does not count."""
    return (mask.cumsum(1) - 1).clamp(min=0)
