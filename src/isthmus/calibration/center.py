"""``center``: give every part the same origin (GR-CLIP).

In words: encoders put each modality into its own cone, so a text query is nearer to any text than to the
right image. Subtract from each part the mean of its kind, fuse, and normalise: the cones
coincide, and the similarity compares only what distinguishes a document from others of its kind.

Formula, with e unit vectors and w the fusion weights:

    x_d = unit( Σ_p w_p (e_p − mean_p) )        p over the document's parts, mean_p over all documents with p
    x_q = unit( Σ_p w_p (e_p − mean_qp) )       mean_qp over all reference queries with p

What it means: fusing then shifting equals shifting then fusing, so one shift serves single and fused
documents. A row that equals its mean has no direction and becomes 0: it is similar to nothing.

Reference: Li et al., *Closing the Modality Gap for Mixed Modality Search* (2025), §2.3 and Appendix C, Algorithm 1. We
normalise before centring, as the authors' code does; the algorithm does not mention it. Document means are over the
documents passed to ``fit``, query means over the reference queries. Appendix C takes both from training splits: pass
training queries as references, and training documents as ``means=``.

>>> import numpy as np
>>> from isthmus.types import Vectors
>>> documents = Vectors.of(np.array([[1.0, 0.0], [0.0, 1.0]]), "image")
>>> queries = Vectors.of(np.array([[1.0, 0.0], [0.0, 1.0]]), "text")
>>> shift = Center().from_statistics(Statistics.of(documents), Statistics.of(queries))
>>> shift.documents(documents, np.float64).round(3)
array([[ 0.707, -0.707],
       [-0.707,  0.707]])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy.typing import DTypeLike

from isthmus.calibration.live import Statistics
from isthmus.calibration.passages import Passages
from isthmus.calibration.rows import fuse, point, written
from isthmus.calibration.shift import named_by_side, split_by_side
from isthmus.errors import CannotFit, UnknownModality
from isthmus.types import Matrix, Vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class Center:
    """Subtract the mean of each part, then normalise."""

    def fit(self, documents: Passages, queries: Vectors, weights: Mapping[str, float], seen: Statistics) -> Centered:
        """Learn one mean per document part and one per query part."""
        return self.from_statistics(seen, Statistics.of(queries), weights)

    def from_statistics(
        self, documents: Statistics, queries: Statistics, weights: Mapping[str, float] | None = None
    ) -> Centered:
        """Take the means from running statistics, without another pass over the vectors."""
        for part, moments in queries.parts.items():
            if moments.count < 2:
                raise CannotFit(
                    f"center needs at least 2 reference queries with a {part} part and got {moments.count}: the "
                    "mean of one query is that query. Pass more reference queries, or use 'none'."
                )
        return Centered(documents.means, queries.means, dict(weights or {}))

    def restore(self, tensors: Mapping[str, Matrix], weights: Mapping[str, float]) -> Centered:
        """Rebuild the fitted shift from its ``tensors``."""
        return Centered(*split_by_side(tensors), dict(weights))


@dataclass(frozen=True, slots=True, eq=False)
class Centered:
    """The fitted form of ``center``: the means, and the fusion weights of documents."""

    document_means: Mapping[str, Matrix]
    query_means: Mapping[str, Matrix]
    weights: Mapping[str, float] = field(default_factory=dict)

    def documents(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the centred unit vector of each document, ``(n, d)``."""
        return _centred(vectors, dtype, self.document_means, self.weights, "document", out)

    def queries(self, vectors: Vectors, dtype: DTypeLike, out: Matrix | None = None) -> Matrix:
        """Return the centred unit vector of each query, ``(n, d)``."""
        return _centred(vectors, dtype, self.query_means, {}, "query", out)

    def tensors(self) -> dict[str, Matrix]:
        """The tensors to save: the means."""
        return named_by_side(self.document_means, self.query_means)


def _centred(
    vectors: Vectors,
    dtype: DTypeLike,
    means: Mapping[str, Matrix],
    weights: Mapping[str, float],
    side: str,
    out: Matrix | None,
) -> Matrix:
    for part, mask in vectors.present.items():
        if part not in means and mask.any():
            raise UnknownModality(
                f"no mean was fitted for the {side} part {part!r} (fitted: {', '.join(means) or 'none'}). "
                f"Fit again with {side} vectors that have it."
            )
    rounded = {part: mean.astype(dtype) for part, mean in means.items()}

    def write(rows: slice, block: Matrix) -> None:
        fuse(vectors, rows, block, means=rounded, weights=weights)
        point(block)

    return written(vectors, dtype, write, out)
