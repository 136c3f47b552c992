"""Learning rates over time, and running averages of weights."""

from __future__ import annotations

import math

import torch
from torch import nn

WARM = 25  # a 25th of the steps


def cosine(step: int, steps: int) -> float:
    """Warm up over the first 4%, then decay along a cosine.

    >>> [round(cosine(step, 100), 2) for step in (0, 3, 4, 52, 99)]
    [0.25, 1.0, 1.0, 0.5, 0.0]
    """
    warm = max(1, steps // WARM)
    return (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


@torch.no_grad()
def follow(average: nn.Module, model: nn.Module, share: float) -> None:
    """Move the average towards the model; counters and statistics too."""
    ours, theirs = average.state_dict(), model.state_dict()
    floats = [name for name, tensor in ours.items() if tensor.is_floating_point()]
    torch._foreach_lerp_([ours[n] for n in floats], [theirs[n] for n in floats], 1 - share)
