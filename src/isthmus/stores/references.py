"""Reference queries for a store: vectors of real queries from a file, or rows of the store.

Real queries are better, above all for stores of pictures that are searched with words: a caption or a passage in the
store is not what people ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from isthmus.errors import BadInput, CannotFit, CannotRead, counted
from isthmus.stores.sampling import SEED, StoreSample
from isthmus.types import Matrix

ENOUGH = 1000  # reference queries, as collections have
FEWEST = 16
USUAL = ("vectors", "queries", "vector", "embedding", "embeddings")


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceVectors:
    """Vectors of queries, and the ids of the rows that they are, if they were sampled."""

    vectors: Matrix
    ids: tuple[str, ...] = ()
    note: str = ""


def given(path: Path, dim: int) -> ReferenceVectors:
    """Read vectors of queries from a .npy, .npz or .parquet file."""
    vectors = np.asarray(_read(path))
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu" or not len(vectors):
        raise BadInput(
            f"{path} has an array of shape {vectors.shape} and type {vectors.dtype}; it must be (queries, {dim})."
        )
    if vectors.shape[1] != dim:
        raise BadInput(
            f"The queries in {path} have {vectors.shape[1]} dimensions, the vectors of the store {dim}. Encode both "
            "with the same encoder."
        )
    if len(vectors) < FEWEST:
        raise CannotFit(f"{path} has {counted(len(vectors), 'query')}; {FEWEST} are the fewest. Some hundred are good.")
    rows = _spread(len(vectors), ENOUGH)
    note = f"{counted(len(rows), 'query')} of {path.name}"
    if len(rows) < len(vectors):
        note += f", evenly spread over its {len(vectors):,}"
    return ReferenceVectors(np.ascontiguousarray(vectors[rows], dtype=np.float32), note=note)


def sampled(sample: StoreSample, modality: str) -> ReferenceVectors:
    """Take rows of the store as queries, of the modality that queries have."""
    rows = np.flatnonzero(sample.modality == modality)
    if len(rows) < FEWEST:
        raise CannotFit(
            f"The store has {counted(len(rows), modality + ' row')} to take for {modality} queries; {FEWEST} are the "
            "fewest. Give vectors of real queries: --queries queries.npy, an array of (queries, dimensions)."
        )
    rng = np.random.default_rng(SEED)
    chosen = np.sort(rng.permutation(rows)[:ENOUGH])
    return ReferenceVectors(
        sample.vectors[chosen],
        tuple(str(sample.ids[row]) for row in chosen),
        f"{len(chosen):,} {modality} rows of the store stand for queries. Vectors of real queries fit better, above "
        "all if rows of other kinds are searched: --queries queries.npy",
    )


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".parquet":
            return _from_parquet(path)
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return loaded[_named(list(loaded.files), path)]
    except OSError as error:
        raise CannotRead(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, EOFError, BadZipFile) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{path} holds no vectors that can be read: {error}. Write them with numpy.save.") from None


def _from_parquet(path: Path) -> Matrix:
    from isthmus.stores.parquet import ParquetSource

    parts = [batch.vectors for batch in ParquetSource(str(path)).batches(1000)]
    return np.concatenate(parts) if parts else np.empty((0, 0), dtype=np.float32)


def _named(names: Sequence[str], path: Path) -> str:
    found = [name for name in USUAL if name in names] or (list(names) if len(names) == 1 else [])
    if not found:
        raise BadInput(f"{path} has the arrays {', '.join(names)}. Call the one of the queries 'vectors'.")
    return found[0]


def _spread(total: int, most: int) -> Any:
    return np.linspace(0, total - 1, min(total, most)).astype(np.intp)
