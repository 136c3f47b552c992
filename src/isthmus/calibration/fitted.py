"""The fitted calibration: everything needed to score or fold new documents.

    fold(documents).vectors     (n, d + columns)      [x_d, c_m(d) for each query modality m]
    fold_queries(queries)       (n, d + columns)      [x_q, −α in the column of its own modality, 0 elsewhere]
    inner                       queries @ documents.T = s − α·c_m(d)          what any engine computes
    finish(inner, m, M)         slope_mM · inner + offset_mM + balance_M      one affine map

With ``layout="one"`` the map is in the vectors, for one query modality m, and inner products are scores:

    fold(documents, …)          [slope_mM · x_d, slope_mM · c_m(d), one-hot of M, what makes rows equally long]
    fold_queries(queries, …)    [x_q, −α, offset_mM + balance_M for each M, 0]

``scores`` gives the same numbers by the equations themselves, densely, in float64: the reference path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from isthmus.calibration import dense, describe, folding, layouts
from isthmus.calibration.bank import NeighbourSearch, ReferenceBank
from isthmus.calibration.bias import Coefficients
from isthmus.calibration.blend import Choice
from isthmus.calibration.live import Statistics
from isthmus.calibration.methods import METHODS
from isthmus.calibration.pairs import PairsLike
from isthmus.calibration.passages import OwnerLike, Passages
from isthmus.calibration.shift import Shift
from isthmus.calibration.spec import Spec
from isthmus.calibration.standardize import Scale
from isthmus.errors import BadSpec, BadVectors, UnknownModality
from isthmus.registry import lookup
from isthmus.types import Folded, Mask, Matrix, ModalityLike, Vectors

if TYPE_CHECKING:
    from isthmus.calibration.tune import Tuned


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Fitted:
    """A calibration fitted on documents and reference queries. It is immutable; ``with_…`` returns another."""

    spec: Spec
    dim: int
    query_modalities: tuple[str, ...]
    document_modalities: tuple[str, ...]
    statistics: Statistics  # of the documents, part by part: what drift is measured from
    shift: Shift
    references: ReferenceBank
    gallery: Matrix | None = None
    scale: Scale | None = None
    thresholds: Mapping[str, tuple[Matrix, ...]] = field(default_factory=dict)
    coefficients: Coefficients | None = None
    balance: Mapping[str, float] = field(default_factory=dict)
    tuned: Tuned | None = None
    note: str = ""
    choices: tuple[Choice, ...] = ()  # of ``blend``: the strength of each query modality, if evidence chose it
    given_means: bool = False  # ``means=`` was passed: the shift is not of these documents

    def scores(
        self,
        queries: Vectors,
        documents: Vectors,
        *,
        sources: PairsLike | None = None,
        owner: OwnerLike | None = None,
    ) -> Matrix:
        """Return the dense scores, ``(n_queries, n_documents)`` in float64, by the equations: the reference path.

        ``sources``: the document among these that each reference query (row of the input of ``fit``) was made from.
        ``owner``: the document of each row; a document's similarity is that of its best passage.
        """
        self._check(queries, "query")
        self._check(documents, "document")
        return dense.scores(self, queries, Passages.of(documents, owner), sources)

    def fold(
        self,
        documents: Vectors,
        *,
        sources: PairsLike | None = None,
        neighbours: NeighbourSearch | None = None,
        owner: OwnerLike | None = None,
        layout: str = layouts.MODALITY,
        queries: str | None = None,
    ) -> Folded:
        """Return plain float32 vectors for any inner-product engine, ``(rows, d + columns)``.

        ``sources`` and ``owner`` as in ``scores``; the rows of a document share its columns, so the largest of their
        inner products is the document's. ``neighbours`` finds nearest references for ``nnn`` and ``learned``; without
        it, and for the other methods, the search is exhaustive.

        ``layout="modality"`` is for one index per modality, whose inner products ``finish`` maps to scores.
        ``layout="one"`` is for one index of all rows: its inner products with ``fold_queries(…, layout="one")`` are the
        scores. It serves one query modality, ``queries``, which may be left out if the calibration has only one.
        """
        self._check(documents, "document")
        self._must_fold()
        modality = layouts.served_modality(self, layout, queries, "queries")
        folded_for = self.query_modalities if modality is None else (modality,)
        folded = folding.fold_documents(self, Passages.of(documents, owner), sources, neighbours, folded_for)
        return folded if modality is None else layouts.documents_in_one(self, folded, modality)

    def fold_queries(
        self,
        queries: Vectors,
        *,
        active: Mask | None = None,
        layout: str = layouts.MODALITY,
        modality: str | None = None,
    ) -> Folded:
        """Return the queries' side of the inner product, ``(n, d + columns)``.

        A dynamic calibration needs ``active``, ``(n, sets)``: see ``activation``. ``layout`` is that of the documents,
        and ``modality`` the ``queries`` they were folded for; queries of another modality are rejected.
        """
        self._check(queries, "query")
        self._must_fold()
        of_layout = layouts.served_modality(self, layout, modality, "modality")
        if of_layout is None:
            return folding.fold_queries(self, queries, active, self.query_modalities)
        return layouts.queries_in_one(self, queries, active, of_layout)

    def activation(self, queries: Vectors, documents: Folded) -> Mask:
        """Return which activation sets each query's best document is in, ``(n, sets)``; dynamic calibrations only.

        This is the one extra top-1 search. An engine does it with ``fold_queries(queries, active=all False)`` and
        looks up ``documents.active`` for the result.
        """
        self._check(queries, "query")
        return layouts.activation(self, queries, documents)

    def finish(self, inner: Matrix, query_modality: ModalityLike, document_modality: ModalityLike) -> Matrix:
        """Turn inner products of folded vectors into scores: one affine map per pair of modalities.

        ``inner`` is ``(n_queries, n_documents)``, or ``(n_queries, k)`` hits with a ``(n_queries, k)`` array of
        modalities, or any shape with one name for each side.
        """
        self._must_fold()
        return folding.finish(self, np.asarray(inner), query_modality, document_modality)

    def with_alpha(self, alpha: float) -> Fitted:
        """Return this calibration with another share of its bias. Folded documents do not change."""
        step = next((step for step in self.spec.steps if METHODS[step.name].has_alpha), None)
        if step is None:
            having = ", ".join(name for name, method in METHODS.items() if method.has_alpha)
            raise BadSpec(f"'{self.spec}' has no alpha; only {having} has.")
        if self.spec.scale is not None and not self.spec.scales_first:
            raise BadSpec(
                f"'{self.spec}' standardises after its alpha: fit again with the new alpha. Folded documents "
                "do not change."
            )
        return replace(self, spec=self.spec.with_settings(step.name, alpha=float(alpha)))

    def with_balance(self, balance: Mapping[str, float]) -> Fitted:
        """Return this calibration with a number per document modality added to its scores.

        It favours one modality at the expense of others, and replaces an earlier balance. Folded documents do not
        change.
        """
        known = {name: name for name in self.document_modalities}
        checked: dict[str, float] = {}
        for name, value in balance.items():
            modality = lookup(known, "+".join(sorted(name.split("+"))), "fitted document modality")
            if not isinstance(value, Real) or not np.isfinite(float(value)):
                raise BadSpec(f"The balance of {name} must be a finite number, not {value!r}.")
            checked[modality] = float(value)
        return replace(self, balance=checked)

    def describe(self) -> str:
        """Describe the fitted calibration."""
        return describe.describe(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write to one file (safetensors with a JSON header), replacing it in one step."""
        from isthmus.calibration.storage import save  # it imports this class

        save(self, path)

    def __repr__(self) -> str:
        references = ", ".join(f"{len(rows)} {name}" for name, rows in self.references.rows.items())
        return f"<Fitted {self.spec}: {self.dim} dimensions, {references} reference queries>"

    def __str__(self) -> str:
        return self.describe()

    def query_code(self, modality: str) -> int:
        """Return the position of a query modality among the fitted ones, or raise an error."""
        if modality in self.query_modalities:
            return self.query_modalities.index(modality)
        raise UnknownModality(
            f"no {modality} reference queries were fitted (fitted: {', '.join(self.query_modalities)}). "
            "Fit again with reference queries of that modality."
        )

    def _check(self, vectors: Vectors, side: str) -> None:
        must_be_vectors(vectors, side)
        if vectors.dim != self.dim:
            raise BadVectors(
                f"{side} vectors have {vectors.dim} dimensions but the calibration was fitted on {self.dim}. "
                "Encode them with the encoder it was fitted with, or fit again."
            )
        if side == "query":
            for modality in vectors.modalities:
                self.query_code(modality)

    def _must_fold(self) -> None:
        if self.spec.per_query is not None:
            name = self.spec.steps[-1].name
            raise BadSpec(f"{name} needs each query's whole list, so it does not fold. Use scores().")


def must_be_vectors(given: object, side: str) -> None:
    """Reject a plain array; the error shows what to write instead."""
    if not isinstance(given, Vectors):
        raise BadVectors(
            f"{side} vectors must be Vectors, not {type(given).__name__}. Write Vectors.of(matrix, 'text'), or with a "
            "modality per row."
        )
