"""The fold of a store: what turns a query's vector for the folded rows, and their answers into scores.

    fold = stores.load("photos_fair.fold")
    query = fold.query(vector)                          # for the store's own client
    scores = fold.scores(distances, query)              # what the client returned, as calibrated scores

The file holds the fitted calibration, in layout ``one`` for one kind of query, the length of every row, and the
reference queries, so that ``isthmus calibrate --update`` can fit again. It is safetensors with a JSON header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from isthmus.atomic import replacing
from isthmus.calibration import Fitted, Statistics, storage
from isthmus.calibration._sealed import sealed, unsealed
from isthmus.errors import BadVectors
from isthmus.registry import lookup
from isthmus.stores.base import VALUES, Id
from isthmus.types import Matrix, Names, Vectors

SLACK = 1e-5  # rounding of a row that is exactly as long as the longest


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fold:
    """A calibration for the rows of one store."""

    fitted: Fitted
    queries: str  # the kind of query that it serves
    references: Matrix  # (n, d), as they came
    reference_ids: tuple[str, ...] = ()  # the rows they were sampled from; empty if they were given
    statistics: Statistics  # of all rows when it was fitted
    source: str
    target: str
    metric: str
    values: dict[str, str]  # metric → which of VALUES the client returns
    radius: float = 0.0  # the length of every row

    @property
    def width(self) -> int:
        """The number of columns of a folded row."""
        return int(self.query(np.ones(self.fitted.dim, dtype=np.float32)).shape[0])

    def query(self, vector: Matrix | Sequence[float]) -> Matrix:
        """Fold the vector of a query, ``(d,)``, or of several, ``(n, d)``."""
        given = np.asarray(vector, dtype=np.float32)
        asked = Vectors.of(np.atleast_2d(given), self.queries)
        folded = self.fitted.fold_queries(asked, layout="one", modality=self.queries).vectors
        return folded if given.ndim == 2 else folded[0]

    def rows(self, vectors: Matrix, modality: Names, ids: Sequence[Id] | None = None) -> Matrix:
        """Fold documents, ``(n, d)`` to ``(n, width)``: all of the same length."""
        sources = None
        if self.reference_ids and ids is not None:
            place = {str(name): row for row, name in enumerate(ids)}
            sources = np.array([place.get(name, -1) for name in self.reference_ids], dtype=np.intp)
        documents = Vectors.of(vectors, modality)
        out = self.fitted.fold(documents, layout="one", queries=self.queries, sources=sources).vectors
        if not self.radius:
            return out
        rest = self.radius**2 - np.square(out[:, :-1], dtype=np.float64).sum(axis=1)
        if (rest < -SLACK * self.radius**2).any():
            row = int(rest.argmin())
            raise BadVectors(
                f"Row {ids[row] if ids is not None else row!r} is {np.sqrt(self.radius**2 - rest[row]):.3g} long after "
                f"folding, and all others {self.radius:.3g}. Calibrate again into a new store."
            )
        out[:, -1] = np.sqrt(np.maximum(rest, 0))
        return out

    def with_radius(self, vectors: Matrix, modality: Names) -> Fold:
        """Return this fold with the length that the rows of a sample need."""
        rows = replace(self, radius=0.0).rows(vectors, modality)
        return replace(self, radius=float(np.linalg.norm(rows, axis=1).max(initial=1.0)))

    def scores(self, values: Any, query: Matrix | None = None, *, metric: str | None = None) -> Matrix:
        """Turn what the client returned for a folded query into scores; higher is better.

        ``query``: the result of ``query``, needed by the metrics cosine and l2. ``metric``: the one of this search, for
        clients that choose it with each search; default: that of the store.
        """
        form = lookup(self.values, metric or self.metric, "metric of this store")
        found = np.asarray(values, dtype=np.float64)
        if query is None:
            if "inner" not in form:
                raise BadVectors(
                    f"The scores of the metric {metric or self.metric} need the query: scores(values, query)."
                )
            length = 0.0
        else:
            length = float(np.linalg.norm(np.asarray(query, dtype=np.float64)))
        return VALUES[form](found, length, self.radius)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fold to one file, replacing it in one step."""
        header = {
            "queries": self.queries,
            "reference_ids": list(self.reference_ids),
            "counts": self.statistics.counts,
            "source": self.source,
            "target": self.target,
            "metric": self.metric,
            "values": self.values,
            "radius": self.radius,
        }
        fitted = np.frombuffer(storage.to_bytes(self.fitted), dtype=np.uint8)
        tensors = {"fitted": fitted, "references": self.references, **self.statistics.tensors()}
        with replacing(path) as draft:
            draft.write_bytes(sealed("fold", header, tensors))

    def __repr__(self) -> str:
        return f"<Fold {self.fitted.spec} of {self.source} in {self.target}, for {self.queries} queries>"


def load(path: str | PathLike[str]) -> Fold:
    """Read a file that ``isthmus calibrate STORE`` wrote."""
    header, tensors = unsealed("fold", Path(path).read_bytes(), str(path))
    return Fold(
        fitted=storage.from_bytes(tensors.pop("fitted").tobytes(), str(path)),
        queries=header["queries"],
        references=tensors.pop("references"),
        reference_ids=tuple(header["reference_ids"]),
        statistics=Statistics.restore(header["counts"], tensors),
        source=header["source"],
        target=header["target"],
        metric=header["metric"],
        values=header["values"],
        radius=header["radius"],
    )
