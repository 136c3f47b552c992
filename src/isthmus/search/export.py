"""Folded vectors as one file, for people who have an engine already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import BinaryIO

import numpy as np

from isthmus.atomic import replacing
from isthmus.errors import CannotWrite, shown
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store


@contextmanager
def _written(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    try:
        with replacing(path) as draft, draft.open("wb") as file:
            yield file
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise CannotWrite(
            f"{shown(str(path))} cannot be written: {why}. Name a file in a folder of your own."
        ) from None


def exported(snapshot: Snapshot, store: Store, path: str | PathLike[str]) -> int:
    """Write ``vectors``, ``modality``, ``id`` and ``passage``, a row per passage; return how many.

    ``Fitted.fold_queries`` and ``Fitted.finish`` of the calibration turn inner products with them into scores.
    """
    indexes = [
        (index, np.ones(len(index), bool) if index.alive is None else index.alive) for index in snapshot.all_indexes
    ]
    names = store.names()
    vectors = [index.vectors[alive] for index, alive in indexes]
    rows = [index.rows[alive] for index, alive in indexes]
    with _written(path) as file:
        np.savez(
            file,
            vectors=np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32),
            modality=np.array([index.modality for index, alive in indexes for _ in range(int(alive.sum()))]),
            id=np.array([names.get(int(row), "") for some in rows for row in some[:, 0]]),
            passage=np.concatenate([some[:, 1] for some in rows]) if rows else np.empty(0, np.int64),
        )
    return sum(map(len, rows))
