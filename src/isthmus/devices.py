"""Devices of torch: their names, and work that may not fit into their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from isthmus._optional import need
from isthmus.errors import BadInput

Result = TypeVar("Result")
AUTO = "auto"


def torch_device(device: str, extra: str) -> str:
    """Return a device that torch has; ``auto`` is a GPU (CUDA, then Apple's) if there is one, else the processor."""
    torch = need("torch", extra=extra)
    there = ["cpu"]
    there += ["cuda"] if torch.cuda.is_available() else []
    there += ["mps"] if torch.backends.mps.is_available() else []
    if device == AUTO:
        return next(kind for kind in ("cuda", "mps", "cpu") if kind in there)
    kind, _, number = device.partition(":")
    if kind not in there or (number and not number.isdigit()):
        raise BadInput(f"torch has no device {device!r}; this installation has {', '.join(there)}, and auto.")
    return device


def unless_out_of_memory(work: Callable[[], Result], smallest: str | None) -> Result | None:
    """Return what ``work`` returns, or None if the memory of its device is not sufficient.

    ``smallest`` says what cannot be made smaller: then the same raises an error.
    """
    torch = need("torch", extra="hf")
    try:
        return work()
    except torch.OutOfMemoryError as error:
        if smallest is not None:
            raise BadInput(
                f"{smallest} does not fit into the memory of the device ({error}). Use device='cpu', or half precision."
            ) from None
    if torch.cuda.is_available():  # after the handler, which keeps the tensors of the failed work alive
        torch.cuda.empty_cache()
    return None
