"""Devices of torch: their names, and work that may not fit into their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from isthmus._optional import need
from isthmus.errors import BadInput

Result = TypeVar("Result")
AUTO = "auto"


def torch_device(device: str, extra: str) -> str:
    """Return a device that torch has; ``auto`` is a GPU (CUDA, then Apple's) if there is one, else the processor."""
    there = _kinds(need("torch", extra=extra))
    if device == AUTO:
        return next(kind for kind in ("cuda", "mps", "cpu") if kind in there)
    kind, _, number = device.partition(":")
    if kind not in there or (number and not number.isdigit()):
        raise BadInput(f"torch has no device {device!r}; this installation has {', '.join(there)}, and auto.")
    if number and int(number) >= (count := need("torch", extra=extra).cuda.device_count() if kind == "cuda" else 1):
        raise BadInput(f"torch has no device {device!r}: the last one is '{kind}:{count - 1}'.")
    return device


def _kinds(torch: Any) -> list[str]:
    """Return the kinds of devices that an installation of torch can use."""
    there = ["cpu"]
    there += ["cuda"] if torch.cuda.is_available() else []
    there += ["mps"] if torch.backends.mps.is_available() else []
    return there


def half_type(device: str) -> str:
    """Return the type of half precision on a device: bfloat16, with the range of float32; float16 on Apple's GPU.

    >>> half_type("cuda:1"), half_type("mps")
    ('bfloat16', 'float16')
    """
    return "float16" if device.partition(":")[0] == "mps" else "bfloat16"


def list_devices(extra: str) -> dict[str, str]:
    """Return each device of torch with what it is and whether it computes in half precision: a product is tried."""
    torch = need("torch", extra=extra)
    found = {}
    for kind in _kinds(torch):
        names = [f"cuda:{number}" for number in range(torch.cuda.device_count())] if kind == "cuda" else [kind]
        for name in names:
            what = [torch.cuda.get_device_name(name)] if kind == "cuda" else []
            try:
                one = torch.ones((2, 2), device=name, dtype=getattr(torch, half_type(name)))
                half = f"half precision: {half_type(name)}" if bool((one @ one == 2).all()) else "no half precision"
            except (RuntimeError, TypeError):  # of a device, or a build, without the type
                half = "no half precision"
            found[name] = ", ".join([*what, half])
    return found


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
