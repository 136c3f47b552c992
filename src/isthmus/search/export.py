"""Folded vectors as one file, for people who have an engine already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import BinaryIO

import numpy as np

from isthmus.atomic import replacing
from isthmus.calibration.layouts import MODALITY, documents_in_one, served_modality
from isthmus.errors import CannotWrite, shown
from isthmus.search.snapshot import ModalityIndex, Snapshot, folded, in_memory, known
from isthmus.storage.protocols import Store
from isthmus.types import Folded


def _local(snapshot: Snapshot, store: Store) -> list[ModalityIndex]:
    """Return all rows as indexes here; those on a server are folded again from the store."""
    if not snapshot.is_published:
        return [index for index in snapshot.all_indexes if isinstance(index, ModalityIndex)]
    fitted, sources = snapshot.calibrated.fitted, snapshot.calibrated.sources
    blocks = store.blocks(last=snapshot.last)
    return list(
        in_memory((piece for block in blocks for piece in folded(fitted, known(block, fitted), sources)), "exact")
    )


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


def exported(
    snapshot: Snapshot, store: Store, path: str | PathLike[str], layout: str = MODALITY, queries: str | None = None
) -> int:
    """Write ``vectors``, ``modality``, ``id`` and ``passage``, a row per passage; return how many.

    ``Fitted.fold_queries`` of the calibration, with the same layout, gives the other side of the inner products. In
    layout ``one`` they are the scores; ``Fitted.finish`` maps those of ``modality`` to scores.
    """
    fitted = snapshot.calibrated.fitted
    served = served_modality(fitted, layout, queries, "queries")
    indexes = [
        (index, np.ones(len(index), bool) if index.alive is None else index.alive) for index in _local(snapshot, store)
    ]
    names = store.names()
    folded = [Folded(index.vectors[alive], np.full(int(alive.sum()), index.modality)) for index, alive in indexes]
    if served is not None:
        folded = [documents_in_one(fitted, some, served) for some in folded]
    rows = [index.rows[alive] for index, alive in indexes]
    with _written(path) as file:
        np.savez(
            file,
            vectors=np.concatenate([some.vectors for some in folded]) if folded else np.zeros((0, 0), np.float32),
            modality=np.array([name for some in folded for name in some.modality]),
            id=np.array([names.get(int(row), "") for some in rows for row in some[:, 0]]),
            passage=np.concatenate([some[:, 1] for some in rows]) if rows else np.empty(0, np.int64),
        )
    return sum(map(len, rows))
