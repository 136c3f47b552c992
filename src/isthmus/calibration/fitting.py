"""Fit one spec: learn a calibration from documents and reference queries, step by step in the order of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real

import numpy as np

from isthmus.calibration.bank import NeighbourSearch, ReferenceBank, best_by_modality, pair_similarities
from isthmus.calibration.fitted import Fitted, must_be_vectors
from isthmus.calibration.folding import bias_columns
from isthmus.calibration.known import Answers
from isthmus.calibration.live import Statistics
from isthmus.calibration.none import NoShift
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.passages import OwnerLike, Passages
from isthmus.calibration.shift import Shift
from isthmus.calibration.spec import NO_SETS, Spec
from isthmus.calibration.standardize import Scale, Standardize
from isthmus.errors import BadInput, BadSpec, BadVectors, CannotFit
from isthmus.registry import lookup
from isthmus.types import Matrix, Vectors


def fit_spec(
    spec: str | Spec,
    documents: Vectors,
    queries: Vectors,
    *,
    positives: PairsLike | None = None,
    reference_documents: Vectors | None = None,
    sources: PairsLike | None = None,
    weights: Mapping[str, float] | None = None,
    means: Fitted | Vectors | None = None,
    neighbours: NeighbourSearch | None = None,
    owner: OwnerLike | None = None,
) -> Fitted:
    """Fit one spec; ``calibration.fit`` documents the arguments."""
    spec = Spec.parse(spec)
    _check(documents, queries, reference_documents)
    passages = Passages.of(documents, owner)
    known = Pairs.of(positives, queries=len(queries), documents=len(passages))
    made_from = None if sources is None else Pairs.of(sources, queries=len(queries), documents=len(passages))
    seen = Statistics.of(documents, owner)
    if means is not None and _checked_means(spec, means, weights).dim != documents.dim:
        raise BadVectors(f"The means have {means.dim} dimensions; these vectors have {documents.dim}.")
    if isinstance(means, Fitted):
        fitted_shift = means.shift
    elif isinstance(means, Vectors):
        fitted_shift = _shift(spec, Passages.of(means), queries, weights, Statistics.of(means))
    else:
        fitted_shift = _shift(spec, passages, queries, weights, seen)
    fitted = Fitted(
        spec=spec,
        dim=documents.dim,
        query_modalities=queries.modalities,
        document_modalities=documents.modalities,
        statistics=seen,
        shift=fitted_shift,
        references=ReferenceBank.of(fitted_shift.queries(queries, np.float32), queries),
        gallery=_gallery(spec, fitted_shift, reference_documents),
        given_means=means is not None,
    )
    if spec.bias is not None:
        for bank in fitted.references.vectors.values():
            spec.bias.check(len(bank))  # reject a k that is too large now, not when documents are folded
    if spec.scale is None and spec.learned is None and not spec.dynamic:
        return fitted
    x = fitted_shift.documents(documents, np.float32)
    if spec.learned is not None:
        apart = known if made_from is None else Pairs.both(known, made_from)
        answers = Answers(passages, x, fitted.references, known if len(known) else apart, apart, neighbours)
        return replace(fitted, coefficients=spec.learned.learn(answers))
    if spec.scale is not None:
        values = StepValues(fitted, passages, x, made_from, neighbours)
        fitted = replace(fitted, scale=_scale(spec.scale, values, known))
    if spec.dynamic:
        fitted = replace(fitted, thresholds=_thresholds(fitted, passages, x, made_from))
    return fitted


def _check(documents: Vectors, queries: Vectors, reference_documents: Vectors | None) -> None:
    must_be_vectors(documents, "document")
    must_be_vectors(queries, "query")
    if not len(documents):
        raise CannotFit("There are no documents to fit a calibration on. Give at least one.")
    if not len(queries):
        raise CannotFit("There are no reference queries to fit a calibration on. Give at least one.")
    for name, vectors in (("query", queries), ("reference document", reference_documents)):
        if vectors is not None and vectors.dim != documents.dim:
            raise BadVectors(
                f"{name} vectors have {vectors.dim} dimensions but document vectors have {documents.dim}. "
                "Encode both with the same encoder."
            )


def _shift(
    spec: Spec, documents: Passages, queries: Vectors, weights: Mapping[str, float] | None, seen: Statistics
) -> Shift:
    parts = documents.vectors.parts
    checked: dict[str, float] = {}
    for part, weight in (weights or {}).items():
        name = lookup({p: p for p in parts}, part, "part of these documents")
        if not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
            raise BadInput(f"The weight of part {part!r} must be a finite number that is not negative, not {weight!r}.")
        checked[name] = float(weight)
    if checked and not any(checked.get(part, 1.0) for part in parts):
        raise BadInput("Every part has weight 0: nothing is left to fuse.")
    return spec.shift.fit(documents, queries, checked, seen)


def _checked_means(spec: Spec, means: Fitted | Vectors, weights: Mapping[str, float] | None) -> Fitted | Vectors:
    """Return the origin of the means, or reject one that the spec cannot use."""
    if isinstance(means, Vectors):
        if isinstance(spec.shift, NoShift):
            raise BadSpec(f"'{spec}' subtracts no means: leave out means=, or begin with 'center' or 'dn'.")
        if not len(means):
            raise CannotFit("There are no documents in means=. Pass some of each modality, or leave it out.")
        return means
    if not isinstance(means, Fitted):
        raise BadInput(f"means= takes documents as Vectors, or a fitted calibration, not {type(means).__name__}.")
    if means.spec.shift != spec.shift:
        raise BadSpec(f"'{spec}' cannot take the means of '{means.spec}': both must begin with the same shift.")
    if weights is not None:
        raise BadInput("A fitted calibration in means= has its own fusion weights: pass means= or weights=, not both.")
    return means


def _gallery(spec: Spec, shift: Shift, reference_documents: Vectors | None) -> Matrix | None:
    if spec.correction is None or not spec.correction.needs_gallery:
        return None
    if reference_documents is None or not len(reference_documents):
        raise CannotFit(
            f"'{spec}' needs a gallery bank: pass reference_documents=, a sample of documents that are not "
            "searched (a document must not be normalised by a copy of itself). Without one, and in a collection, use "
            "'qbnorm'."
        )
    return shift.documents(reference_documents, np.float32)


class StepValues:
    """The result of the steps before a scale: similarities, minus the bias if it comes first."""

    def __init__(
        self, fitted: Fitted, documents: Passages, x: Matrix, sources: Pairs | None, search: NeighbourSearch | None
    ) -> None:
        self.fitted, self.documents, self.x, self.sources, self.search = fitted, documents, x, sources, search
        self.minus = {modality: self._minus(modality) for modality in fitted.query_modalities}

    def _minus(self, modality: str) -> Matrix:
        spec = self.fitted.spec
        if spec.bias is None or spec.scales_first:
            return np.zeros(len(self.documents), dtype=np.float32)
        ones = np.ones(len(self.documents), dtype=np.float32)
        starts = self.documents.starts
        columns = bias_columns(self.fitted, self.x, starts, modality, ones, self.sources, self.search)
        return np.asarray((columns * spec.bias.coefficients(NO_SETS).astype(columns.dtype)).sum(axis=1))

    def best(self, modality: str) -> Matrix:
        """Return the pseudo-positives: the best value of each reference in each document modality."""
        own = self.fitted.references.own(modality, self.sources)
        bank = self.fitted.references.vectors[modality]
        return best_by_modality(self.x, self.documents, bank, self.minus[modality], own, self.search)

    def of_pairs(self, modality: str, known: Pairs) -> tuple[Matrix, Pairs]:
        """Return the values of the labelled pairs of this query modality."""
        pairs = known.of_queries(self.fitted.references.rows[modality])
        bank = self.fitted.references.vectors[modality]
        similarity = pair_similarities(bank, self.x, pairs, self.documents.starts)
        return similarity - self.minus[modality][pairs.documents], pairs


def _scale(method: Standardize, values: StepValues, known: Pairs) -> Scale:
    documents = values.documents
    positives: dict[tuple[str, str], Matrix] = {}
    for query_modality in values.fitted.query_modalities:
        if len(known):
            of_pairs, pairs = values.of_pairs(query_modality, known)
            codes = documents.modality_code[pairs.documents]
            by_modality = [of_pairs[codes == code] for code in range(len(documents.modalities))]
        else:
            by_modality = [best[np.isfinite(best)] for best in values.best(query_modality)]
        positives |= {
            (query_modality, found): best for found, best in zip(documents.modalities, by_modality, strict=True)
        }
    return method.fit(positives, "labelled pairs" if len(known) else "reference queries")


def _thresholds(fitted: Fitted, documents: Passages, x: Matrix, sources: Pairs | None) -> dict[str, tuple[Matrix, ...]]:
    """Return the best score of every member of every bank: a document that reaches it is that member's best match."""
    out: dict[str, tuple[Matrix, ...]] = {}
    zeros = np.zeros(len(documents), dtype=np.float32)
    for query_modality in fitted.query_modalities:
        maps = [
            (0.0, 1.0) if fitted.scale is None else fitted.scale.of(query_modality, M) for M in documents.modalities
        ]
        mean, deviation = np.array(maps).T[:, :, None]
        banks = [(fitted.references.vectors[query_modality], fitted.references.own(query_modality, sources))]
        if fitted.gallery is not None:
            banks.insert(0, (fitted.gallery, None))
        out[query_modality] = tuple(
            ((best_by_modality(x, documents, bank, zeros, own) - mean) / deviation).max(axis=0) for bank, own in banks
        )
    return out
