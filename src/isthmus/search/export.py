"""Folded vectors as one file, for people who have an engine already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import BinaryIO

import numpy as np

from isthmus.atomic import replacing
from isthmus.errors import CannotWrite, shown
from isthmus.search.served import Served
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


def exported(served: Served, store: Store, path: str | PathLike[str]) -> int:
    """Write ``vectors``, ``modality``, ``id`` and ``passage``, a row per passage; return how many.

    ``Fitted.fold_queries`` and ``Fitted.finish`` of the calibration turn inner products with them into scores.
    """
    shelves = [
        (shelf, np.ones(len(shelf), bool) if shelf.alive is None else shelf.alive) for shelf in served.all_shelves
    ]
    names = store.names()
    vectors = [shelf.vectors[alive] for shelf, alive in shelves]
    rows = [shelf.rows[alive] for shelf, alive in shelves]
    with _written(path) as file:
        np.savez(
            file,
            vectors=np.concatenate(vectors) if vectors else np.zeros((0, 0), np.float32),
            modality=np.array([shelf.modality for shelf, alive in shelves for _ in range(int(alive.sum()))]),
            id=np.array([names.get(int(row), "") for some in rows for row in some[:, 0]]),
            passage=np.concatenate([some[:, 1] for some in rows]) if rows else np.empty(0, np.int64),
        )
    return sum(map(len, rows))
