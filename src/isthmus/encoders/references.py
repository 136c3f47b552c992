"""The built-in bank of reference queries as vectors: encoded on first use, then read from disk."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from isthmus.documents import Query
from isthmus.encoders.bank import queries
from isthmus.encoders.base import Encoder
from isthmus.types import Matrix, Vectors


def bank_vectors(encoder: Encoder, folder: Path | None = None, limit: int | None = None) -> Vectors:
    """Return the bank's queries encoded by ``encoder``, from ``folder`` (or the user's cache) if they were before.

    ``limit`` takes so many of them, spread evenly over the bank.

    The file's name holds what the vectors depend on, the encoder's identity and the queries, so that another encoder
    or another bank is encoded anew; a damaged file is, too.
    """
    asked = queries()
    if limit is not None and limit < len(asked):
        asked = tuple(asked[int(row)] for row in np.linspace(0, len(asked) - 1, limit))
    digest = hashlib.sha256("\n".join([encoder.identity, *asked]).encode()).hexdigest()[:24]
    path = (folder or user_cache()) / f"bank-{digest}.npy"
    try:
        matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        matrix = None
    if matrix is None or matrix.shape != (len(asked), encoder.dim):
        matrix = encoder.encode_queries([Query(text=text) for text in asked]).parts["text"]
        with suppress(OSError):  # nowhere to keep them: they are encoded again next time
            _keep(matrix, path)
    return Vectors.of(matrix, "text")


def _keep(matrix: Matrix, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("wb") as file:
            np.save(file, matrix, allow_pickle=False)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def user_cache() -> Path:
    """Return the folder for what can be made again: ``ISTHMUS_CACHE``, or isthmus in the user's cache folder."""
    given = os.environ.get("ISTHMUS_CACHE")
    return Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isthmus"
