"""What encoders on torch share: loading, devices, threads, precision, the hash of weights, batches that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from isthmus._optional import need, offline
from isthmus.errors import BadFile, BadInput
from isthmus.types import Matrix

Item = TypeVar("Item")
AUTO = "auto"


def from_hub(name: str, load: Callable[..., Any], ready: Callable[[Any], Any] = lambda loaded: loaded) -> Any:
    """Load by ``from_pretrained``: from a folder, from the local cache, or (unless offline is set) from the hub."""
    if name.startswith((".", "/", "~")) and not Path(name).expanduser().is_dir():
        raise BadFile(f"There is no folder {name!r}. Check the path.")
    try:
        return ready(load(name, local_files_only=offline()))
    except Exception as error:  # noqa: BLE001 - the hub, the file system and torch each have errors of their own
        how = "Offline is set: check the path, or download the model first." if offline() else "Check the name or path."
        raise BadFile(f"transformers cannot load {name!r}: {' '.join(str(error).split())} {how}") from None


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


def in_precision(model: Any, precision: str) -> Any:
    """Convert a model to a precision of ``Settings``."""
    return model.to(getattr(need("torch", extra="hf"), precision))


def weights(module: Any) -> Iterator[bytes]:
    """Yield the name and the bytes of every weight of a torch module."""
    for name, tensor in sorted(module.state_dict().items()):
        yield name.encode()
        yield tensor.detach().cpu().float().numpy().tobytes()


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Limit torch to ``count`` threads inside the block."""
    torch = need("torch", extra="st")
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(slots=True, eq=False)
class BatchLimit:
    """The size of batches that fit into a device's memory: halved whenever one does not, and kept for the next."""

    size: int

    def run(self, encode: Callable[[Sequence[Item]], Matrix], items: Sequence[Item]) -> Matrix:
        """Encode the items in batches that fit, ``(n, d)``."""
        rows: list[Matrix] = []
        start = 0
        while start < len(items):
            batch = items[start : start + self.size]
            found = _unless_out_of_memory(encode, batch)
            if found is None:
                self.size = max(1, len(batch) // 2)
                continue
            rows.append(found)
            start += len(batch)
        return np.concatenate(rows)


def _unless_out_of_memory(encode: Callable[[Sequence[Item]], Matrix], batch: Sequence[Item]) -> Matrix | None:
    """Return None if a batch does not fit; a single input that does not fit raises."""
    torch = need("torch", extra="hf")
    try:
        return encode(batch)
    except torch.OutOfMemoryError as error:
        if len(batch) == 1:
            raise BadInput(
                f"One input alone does not fit into the memory of the device ({error}). Use device='cpu', or half "
                "precision."
            ) from None
    if torch.cuda.is_available():  # after the handler, which keeps the tensors of the failed batch alive
        torch.cuda.empty_cache()
    return None
