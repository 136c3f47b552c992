"""Save and restore the random state of dropout, to repeat the same draws."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def state() -> list[Tensor]:
    """Return the state of the CPU's generator and, if there is one, the GPU's."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def restore(saved: Sequence[Tensor]) -> None:
    """Restore a state, to repeat the draws after ``state()``."""
    torch.set_rng_state(saved[0].cpu())
    if torch.cuda.is_available() and len(saved) > 1:
        torch.cuda.set_rng_state(saved[1].cpu())
