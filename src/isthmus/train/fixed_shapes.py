"""Let cuDNN choose its algorithms by trial: worth it where every batch has the same shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fixed_shapes(device: torch.device | str) -> Iterator[None]:
    """Inside the block, try cuDNN's algorithms once for each shape, if the device is a GPU.

    >>> with fixed_shapes("cpu"):
    ...     torch.backends.cudnn.benchmark
    False
    """
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or torch.device(device).type == "cuda"
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
