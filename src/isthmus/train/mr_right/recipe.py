"""The settings of Mr. Right's training; the defaults are the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from isthmus.errors import BadInput
from isthmus.registry import lookup
from isthmus.train.fusion.layers import Shape

Keep: TypeAlias = Literal["best", "last"]
LEAST = {
    "batch": 2,
    "matched": 1,
    "queue": 0,
    "match": 1,
    "merge": 0,
    "query_tokens": 3,
    "document_tokens": 3,
    "size": 32,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MrRightRecipe:
    """Section 5.3 of the paper, where a comment says nothing else."""

    epochs: Mapping[str, int] = field(default_factory=lambda: {"pretrain": 40, "finetune": 20})
    rate: float = 5e-5  # reached after the first epoch of a stage
    last_rate: float = 1e-7  # of the last step of a stage
    decay: float = 0.02
    clip: float = 0.5  # of the norm of all gradients
    queue: int = 9600
    query_tokens: int = 40
    document_tokens: int = 128
    size: int = 288  # pixels a side; 384 for some of its models
    match: int = 6  # layers of the matcher (Section 4.3, Appendix D)
    merge: int = 6  # layers of merge attention; METER has 6 of co-attention, the paper states no number
    batch: int = 64  # not stated
    matched: int | None = None  # queries and documents of a batch that the matcher reads; None: all
    temperature: float = 0.07  # learned; where it starts is from the authors' code
    operations: int = 2  # of RandAugment, and their strength (0 … 10): ours; the authors' code has 2 of ten at 7
    strength: float = 9.0
    smallest: float = 0.5  # part of a picture's area that a random crop keeps at least: from the authors' code
    drop: float = 0.1  # not stated
    keep: Keep = "best"  # of the held-out pairs, or "last"; not stated
    every: int = 1  # epochs between two measurements, each with a checkpoint
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise BadInput(f"{name} must be at least {least}, not {value}.")
        lookup(dict.fromkeys(get_args(Keep)), self.keep, "choice of weights")
        if self.every < 1:
            raise BadInput(f"every must be at least 1, not {self.every}.")

    def shape(self, dim: int) -> Shape:
        """Return the sizes of the merge attention and of the matcher."""
        heads = next(count for count in (6, 4, 2, 1) if dim % count == 0)
        layers = {"merge": self.merge, "match": self.match}
        return Shape(dim=dim, patch=dim, heads=heads, wide=4, drop=self.drop, pool="mean", **layers)
