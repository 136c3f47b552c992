"""Queues of recent vectors: more negatives than a batch has."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(slots=True, eq=False)
class Queue:
    """The last ``room`` vectors and their ids, the oldest first.

    >>> queue = Queue(3)
    >>> for number in range(4):
    ...     queue.put(torch.full((1, 2), float(number)), torch.tensor([[number, number]]))
    >>> queue.vectors[:, 0].tolist(), queue.ids[:, 0].tolist()
    ([1.0, 2.0, 3.0], [1, 2, 3])
    """

    room: int
    vectors: Tensor = field(default_factory=lambda: torch.zeros(0, 0))  # (k, d)
    ids: Tensor = field(default_factory=lambda: torch.zeros(0, 2, dtype=torch.long))  # (k, 2): of text and of image

    def put(self, vectors: Tensor, ids: Tensor) -> None:
        """Append new ones, and drop the oldest."""
        if self.room < 1:
            return
        held = [self.vectors] if len(self.vectors) else []
        self.vectors = torch.cat([*held, vectors.detach().float()])[-self.room :]
        self.ids = torch.cat([self.ids.to(ids.device), ids])[-self.room :]
