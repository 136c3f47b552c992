"""Building blocks of the fusion models: sizes, attention that initially adds nothing, masked means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Pool: TypeAlias = Literal["kinds", "mean"]
HALVES = 2  # text and image


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a model."""

    dim: int = 384
    patch: int = 1280
    heads: int = 6
    merge: int = 2  # layers
    match: int = 2
    wide: int = 2  # the hidden layer of each feed-forward, in dims
    drop: float = 0.1
    pool: Pool = "kinds"

    @property
    def out(self) -> int:
        """The dimension of the vectors."""
        return self.dim * (HALVES if self.pool == "kinds" else 1)


class Attention(nn.Module):
    """Attention; written out so that it exports for any length. It initially adds nothing."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.ask, self.hold = nn.Linear(shape.dim, shape.dim), nn.Linear(shape.dim, 2 * shape.dim)
        self.join = silent(nn.Linear(shape.dim, shape.dim))
        self.drop = nn.Dropout(shape.drop)

    def forward(self, asking: Tensor, looked_at: Tensor, mask: Tensor) -> Tensor:
        """Return the attention of ``asking`` (n, a, d) to ``looked_at`` (n, b, d) where ``mask`` (n, b) is true."""
        query = self.ask(asking).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (n, heads, a, d / heads)
        key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.hold(looked_at).chunk(2, dim=-1)
        )
        drop = self.drop.p if self.training else 0.0
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None], dropout_p=drop)
        found: Tensor = self.drop(self.join(seen.transpose(1, 2).flatten(2)))
        return found


class Layer(nn.Module):
    """Self attention, attention to another sequence if there is one, feed-forward; each after a norm."""

    def __init__(self, shape: Shape, *, cross: bool = False) -> None:
        super().__init__()
        self.own, self.own_norm = Attention(shape), nn.LayerNorm(shape.dim)
        self.other = Attention(shape) if cross else None
        self.other_norm = nn.LayerNorm(shape.dim) if cross else None
        self.think_norm = nn.LayerNorm(shape.dim)
        self.think = nn.Sequential(
            nn.Linear(shape.dim, shape.wide * shape.dim),
            nn.GELU(),
            nn.Dropout(shape.drop),
            silent(nn.Linear(shape.wide * shape.dim, shape.dim)),
            nn.Dropout(shape.drop),
        )

    def forward(
        self, seen: Tensor, mask: Tensor, other: Tensor | None = None, other_mask: Tensor | None = None
    ) -> Tensor:
        """Return the tokens after attention to their own sequence and to the other."""
        behind = self.own_norm(seen)
        seen = seen + self.own(behind, behind, mask)
        if self.other is not None and self.other_norm is not None and other is not None and other_mask is not None:
            seen = seen + self.other(self.other_norm(seen), other, other_mask)
        thought: Tensor = self.think(self.think_norm(seen))
        return seen + thought


def answering(masks: Tensor) -> Tensor:
    """Return the tokens of each kind, ``(n, 2, s)``; for a document of one kind, all tokens for both."""
    missing = ~masks.any(dim=2, keepdim=True)
    return masks | (missing & torch.cat([masks[:, 1:], masks[:, :1]], dim=1))


def mean_weights(mask: Tensor) -> Tensor:
    """Return the weight of each token in the masked mean, ``(n, t, 1)``; all 0 if the mask is empty."""
    there = mask.to(torch.float32)
    return (there / there.sum(dim=1, keepdim=True).clamp_min(1.0))[:, :, None]


def unit_mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return the tokens, scaled so that their mean has length 1."""
    mean = (tokens * mean_weights(mask)).sum(dim=1, keepdim=True)  # (n, 1, d)
    length = mean.norm(dim=2, keepdim=True)
    return tokens / torch.where(length > 0, length, 1.0)  # a text without tokens is not changed


def silent(linear: nn.Linear) -> nn.Linear:
    """Initialise a layer so that it adds nothing."""
    for parameter in linear.parameters():
        nn.init.zeros_(parameter)
    return linear


def equal(linear: nn.Linear) -> nn.Linear:
    """Initialise a layer as the identity."""
    nn.init.eye_(linear.weight)
    return linear
