"""The kinds of index by name, and how one is built or read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from isthmus._optional import need
from isthmus.errors import BadInput
from isthmus.index.base import Index, Progress, checked_vectors
from isthmus.index.choice import AUTO, choose
from isthmus.index.exact import Exact
from isthmus.index.hnsw import Hnsw
from isthmus.index.ivf import RABITQ, Ivf
from isthmus.registry import lookup
from isthmus.types import Matrix


@dataclass(frozen=True, slots=True)
class IndexKind:
    """How a kind of index is built (vectors, threads, progress) and loaded (vectors, folder, name, threads)."""

    build: Callable[[Matrix, int | None, Progress | None], Index]
    load: Callable[[Matrix, Path, str, int | None], Index]


KINDS: Mapping[str, IndexKind] = {
    "exact": IndexKind(
        lambda vectors, threads, _: Exact(vectors, threads=threads),
        lambda vectors, _folder, _name, threads: Exact(vectors, threads=threads),
    ),
    "hnsw": IndexKind(Hnsw.build, Hnsw.load),
    "ivf-sq8": IndexKind(Ivf.build, Ivf.load),
    "ivf-rabitq": IndexKind(partial(Ivf.build, codes=RABITQ), partial(Ivf.load, codes=RABITQ)),
}


def checked_kind(kind: str) -> str:
    """Return the name of a kind, or ``auto``; what cannot be built here is refused, before hours of encoding.

    >>> checked_kind("hnws")
    Traceback (most recent call last):
    isthmus.errors.UnknownName: No kind of index is called 'hnws'. Did you mean 'hnsw'?
    """
    lookup({AUTO: None, **KINDS}, kind, "kind of index")
    if kind not in (AUTO, "exact"):
        need("faiss", extra="ann")
    return kind


def build(
    vectors: Matrix,
    kind: str | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> Index:
    """Build an index over the rows, which are kept, not copied; default: the kind for their number.

    ``auto`` means the default too. ``threads`` bounds the cores used (default: all); ``progress(done, total)`` is
    called as rows are added. ``device``, as torch names it (``"cuda"``), searches exactly, on that device, in a
    ``precision`` of ``full``, ``half`` or ``auto`` (half on a GPU): scores are those of float32 in each.

    >>> import numpy as np
    >>> shelf = build(np.eye(3, dtype=np.float32))
    >>> shelf.kind, len(shelf)
    ('exact', 3)
    """
    vectors = checked_vectors(vectors)
    if device is not None:
        if kind not in (None, AUTO, "exact"):
            raise BadInput(f"An index on a device is exact, not {kind}. Leave out the kind, or the device.")
        from isthmus.index.device import DeviceExact  # late: it needs torch

        return DeviceExact(vectors, device=device, precision=precision)
    made = lookup(KINDS, choose(*vectors.shape) if kind is None or kind == AUTO else kind, "kind of index")
    return made.build(vectors, threads, progress)


def load(kind: str, vectors: Matrix, folder: Path, name: str, *, threads: int | None = None) -> Index:
    """Read what ``save`` wrote for these vectors (usually a memory map); raises ``BadFile`` if it is damaged."""
    return lookup(KINDS, kind, "kind of index").load(checked_vectors(vectors), Path(folder), name, threads)
