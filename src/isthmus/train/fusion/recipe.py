"""The settings of a fusion training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isthmus.errors import BadInput
from isthmus.train.fusion.layers import Pool, Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRecipe:
    """How it is trained."""

    steps: Mapping[str, int] = field(default_factory=lambda: {"pretrain": 300, "finetune": 100})
    slow: float = 0.0  # rates: of weights that start as the towers' vectors; 0 keeps them
    match_rate: float = 3e-5
    quick: float = 3e-3
    later: float = 0.5  # factor of the rates in fine-tuning
    batch: int = 512
    matched: int = 128  # queries of a batch that the matcher reads; wrong documents are drawn from all of it
    queue: int = 2048
    momentum: float = 0.995  # of the momentum copy
    decay: float = 0.05
    warm: float = 0.05  # of the steps of a stage
    temperature: float = 0.05
    matching: float = 1.0  # weight of the matching losses relative to the contrast
    paper: bool = False  # a pseudo-negative that is still right is called wrong, and no ranking loss: as in the paper
    anew: bool = True  # a query about one part sees it with another document's other part
    alone: float = 0.1  # share of documents that lose the part not described by the query
    noise: float = 0.85  # of the difference of two other pictures, added to a picture's vector
    pool: Pool = "kinds"
    merge: int = 0  # layers
    match: int = 0
    choosing: int = 0  # further steps for the side of each word alone, at the end; they need no documents
    drop: float = 0.1
    every: int = 100  # steps between two measurements, each with a checkpoint
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("batch", 2),
            ("matched", 1),
            ("queue", 0),
            ("every", 1),
            ("merge", 0),
            ("match", 0),
            ("choosing", 0),
        ):
            if getattr(self, name) < least:
                raise BadInput(f"{name} must be at least {least}, not {getattr(self, name)}.")

    def shape(self, dim: int, patch: int) -> Shape:
        """Return the sizes of the model it trains."""
        heads = next(count for count in (6, 4, 2, 1) if dim % count == 0)
        sizes = {"dim": dim, "patch": patch, "heads": heads, "merge": self.merge, "match": self.match}
        return Shape(**sizes, drop=self.drop, pool=self.pool)


ONE_MEAN = FusionRecipe(
    slow=1e-5,
    match_rate=1e-4,
    paper=True,
    anew=False,
    alone=0.0,
    noise=0.0,
    pool="mean",
    merge=2,
    match=2,
)
"""One mean over all tokens, an unsplit query, merge attention, a transformer in the matcher; on frozen towers.

It is nearer to Mr. Right than the default, and is not Mr. Right: ``isthmus.train.mr_right`` is.
"""
