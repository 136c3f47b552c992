"""The reference path: every step of a spec applied to the dense matrix of scores, in float64, as written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from isthmus.calibration.bank import DenseBank, ReferenceBank
from isthmus.calibration.bias import Banks, Coefficients, JointMethod
from isthmus.calibration.methods import StepKind
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.passages import Passages, best_columns, best_rows
from isthmus.calibration.perquery import PerQuery
from isthmus.types import Mask, Matrix, Rows, Vectors

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted

TIE = 2e-6  # in similarity: a document within this of a reference's best match counts as its best match
TIE_BREAK = 1e-9  # per-query baselines give every modality's best the same score: rank the more similar first


class DenseScores(NamedTuple):
    """The scores of queries of one modality, and of the banks that later steps are fitted on, in the same units."""

    values: Matrix  # (n_queries, n_documents)
    banks: tuple[Matrix, ...]  # (n_documents, n_gallery) where there is one, then (n_documents, n_references)
    unit: Matrix  # (n_documents,): the current value of a similarity of 1

    def as_banks(self) -> Banks:
        """Return the banks as the input of a bias."""
        *gallery, references = map(DenseBank, self.banks)
        return Banks(references, *gallery)


def scores(fitted: Fitted, queries: Vectors, documents: Passages, sources: PairsLike | None) -> Matrix:
    """Return ``(n_queries, n_documents)`` scores, query modality by query modality."""
    x_queries = fitted.shift.queries(queries, np.float64)
    x = fitted.shift.documents(documents.vectors, np.float64)
    pairs = known_sources(fitted.references, sources, len(documents))
    out = np.empty((len(queries), len(documents)))
    for code, query_modality in enumerate(queries.modalities):
        rows = np.flatnonzero(queries.modality_code == code)
        values = best_columns(x_queries[rows] @ x.T, documents.starts)
        banks = _bank_similarities(fitted, query_modality, x, documents.starts, pairs)
        dense = DenseScores(values, banks, np.ones(len(documents)))
        out[rows] = _calibrated(fitted, query_modality, x_queries[rows], documents, dense)
    balance = np.array([fitted.balance.get(name, 0.0) for name in documents.modalities])
    return np.asarray(out + balance[documents.modality_code])


def known_sources(references: ReferenceBank, sources: PairsLike | None, documents: int) -> Pairs | None:
    """Read ``sources`` against the reference queries that were fitted."""
    return None if sources is None else Pairs.of(sources, queries=len(references), documents=documents)


def _bank_similarities(
    fitted: Fitted, query_modality: str, x: Matrix, starts: Rows | None, sources: Pairs | None
) -> tuple[Matrix, ...]:
    if fitted.spec.correction is None:
        return ()
    similarity = best_rows(x @ fitted.references.vectors[query_modality].astype(np.float64).T, starts)
    own = fitted.references.own(query_modality, sources)
    if own is not None:
        similarity[own.documents, own.queries] = -np.inf
    if fitted.gallery is None:
        return (similarity,)
    return best_rows(x @ fitted.gallery.astype(np.float64).T, starts), similarity


def _calibrated(
    fitted: Fitted, query_modality: str, queries: Matrix, documents: Passages, dense: DenseScores
) -> Matrix:
    for step in fitted.spec.steps:
        if step.kind is StepKind.SCALE and fitted.scale is not None:
            table = np.array(
                [fitted.scale.of(query_modality, document_modality) for document_modality in documents.modalities]
            ).reshape(-1, 2)
            dense = _standardized(dense, *table[documents.modality_code].T)
        elif step.kind is StepKind.BIAS:
            active = _active(dense, fitted.thresholds.get(query_modality, ()))
            dense = dense._replace(values=step.settings.corrected(dense.values, dense.as_banks(), active))
        elif step.kind is StepKind.LEARNED and fitted.coefficients is not None:
            values = _joint(fitted.coefficients, step.settings, query_modality, queries, documents, dense)
            dense = dense._replace(values=values)
        elif step.kind is StepKind.PER_QUERY:
            dense = dense._replace(values=_rescaled(dense.values, step.settings, documents))
    return dense.values


def _joint(
    coefficients: Coefficients,
    method: JointMethod,
    query_modality: str,
    queries: Matrix,
    documents: Passages,
    dense: DenseScores,
) -> Matrix:
    """Return slope · (s − nearness · q·mean) − weight · b + offset."""
    table = np.array([coefficients.of(query_modality, name) for name in documents.modalities]).reshape(-1, 6)
    slope, weight, offset, nearness, lowest, highest = table[documents.modality_code].T
    b = np.clip(method.columns(dense.as_banks())[:, 0], lowest, highest)
    values = dense.values
    if coefficients.means and len(documents):
        means = np.stack([coefficients.means[name] for name in documents.modalities]).astype(np.float64)
        values = values - nearness * (queries @ means.T)[:, documents.modality_code]
    return np.asarray(slope * values - weight * b + offset)


def _standardized(dense: DenseScores, mean: Matrix, deviation: Matrix) -> DenseScores:
    return DenseScores(
        (dense.values - mean) / deviation,
        tuple((bank - mean[:, None]) / deviation[:, None] for bank in dense.banks),
        dense.unit / deviation,
    )


def _active(dense: DenseScores, thresholds: Sequence[Matrix]) -> Mask:
    """Return which activation sets hold each query's best document, ``(n_queries, sets)``."""
    if not thresholds or not dense.values.size:
        return np.zeros((len(dense.values), len(thresholds)), dtype=bool)
    tie = TIE * dense.unit[:, None]
    sets = [(bank >= best - tie).any(axis=1) for bank, best in zip(dense.banks, thresholds, strict=True)]
    return np.asarray(np.stack(sets, axis=1)[dense.values.argmax(axis=1)])


def _rescaled(values: Matrix, method: PerQuery, documents: Passages) -> Matrix:
    out = np.empty_like(values)
    for code in range(len(documents.modalities)):
        columns = np.flatnonzero(documents.modality_code == code)
        of_modality = values[:, columns]
        out[:, columns] = method.rescale(of_modality) + TIE_BREAK * of_modality
    return out
