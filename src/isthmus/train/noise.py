"""What dropout draws from: kept, and put back, so that the same is drawn again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def state() -> list[Tensor]:
    """Return the state of the CPU's generator and, where there is one, the GPU's."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def restore(saved: Sequence[Tensor]) -> None:
    """Draw from here on what was drawn after ``state()``."""
    torch.set_rng_state(saved[0].cpu())
    if torch.cuda.is_available() and len(saved) > 1:
        torch.cuda.set_rng_state(saved[1].cpu())
