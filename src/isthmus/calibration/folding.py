"""Folding: a calibration as plain vectors and one affine map per pair of modalities.

For query modality m and document modality M, with shifted vectors x, bias b in similarity units:

    spec                     column c_m(d)     query's coefficient   slope     offset
    shift only                                                       1         0
    standardize                                                      1/σ       −μ/σ
    nnn                      b                 α                     1         0
    standardize+nnn          b                 α                     1/σ       −(1−α)μ/σ
    standardize+qbnorm       b of β/σ          1                     1/σ       0
      dynamic                b − μ             1 or 0, by query      1/σ       −μ/σ
    nnn+standardize          b                 α                     1/σ       −μ/σ
    learned                  b·weight/slope    1                     slope     offset
    blend                    b·weight/slope    1                     slope     offset
      and a column for M     1                 nearness · q·mean_M
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from isthmus.calibration.bank import BlockedBank, NeighbourSearch, similarity_blocks
from isthmus.calibration.bias import Banks, BiasMethod
from isthmus.calibration.dense import TIE, known_sources
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.passages import Passages
from isthmus.errors import BadInput, BadSpec, BadVectors
from isthmus.types import Folded, Mask, Matrix, ModalityLike, Rows, Vectors

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted


class Affine(NamedTuple):
    """How one pair of modalities is folded and finished."""

    slope: float = 1.0
    offset: float = 0.0
    column_scale: float = 1.0
    column_origin: float = 0.0
    sharpness: float = 1.0  # a factor of β: the slope of a scale before the bias


def affine(fitted: Fitted, query_modality: str, document_modality: str) -> Affine:
    """Return the map of a pair of modalities."""
    if fitted.coefficients is not None:
        terms = fitted.coefficients.of(query_modality, document_modality)
        return Affine(terms.slope, terms.offset, column_scale=terms.weight / terms.slope)
    if fitted.scale is None:
        return Affine()
    mean, deviation = fitted.scale.of(query_modality, document_modality)
    if fitted.spec.bias is None or not fitted.spec.scales_first:
        return Affine(1 / deviation, -mean / deviation)
    if fitted.spec.dynamic:
        return Affine(1 / deviation, -mean / deviation, column_origin=mean, sharpness=1 / deviation)
    return Affine(1 / deviation, -(1 - fitted.spec.alpha) * mean / deviation, sharpness=1 / deviation)


def width(fitted: Fitted) -> int:
    """Return the number of columns of each query modality: biases, then one for each mean of a joint method."""
    method = fitted.spec.correction
    if method is None:
        return 0
    means = 0 if fitted.coefficients is None else len(fitted.coefficients.means)
    return int(method.coefficients(np.zeros((0, method.sets), dtype=bool)).shape[1]) + means


def fold_documents(
    fitted: Fitted,
    documents: Passages,
    sources: PairsLike | None,
    search: NeighbourSearch | None,
    query_modalities: tuple[str, ...],
) -> Folded:
    """Return ``[x_d, columns for each of these query modalities]`` of each row; the columns are its document's."""
    columns = width(fitted)
    for query_modality in query_modalities:  # reject a modality without a map before anything is indexed
        for document_modality in documents.modalities:
            affine(fitted, query_modality, document_modality)
    vectors = documents.vectors
    out = np.empty((len(vectors), fitted.dim + columns * len(query_modalities)), dtype=np.float32)
    fitted.shift.documents(vectors, np.float32, out[:, : fitted.dim])
    if not columns:
        return Folded(out, vectors.modality)
    x = np.ascontiguousarray(out[:, : fitted.dim])
    pairs = known_sources(fitted.references, sources, len(documents))
    for place, modality in enumerate(query_modalities):
        maps = [affine(fitted, modality, name) for name in documents.modalities]
        table = np.array(maps, dtype=np.float32).reshape(-1, len(Affine._fields))[documents.modality_code]
        _, _, scale, origin, sharpness = table.T
        biases = bias_columns(fitted, x, documents.starts, modality, sharpness, pairs, search)
        biases = bounded(fitted, biases, modality, documents)
        start, end = fitted.dim + place * columns, fitted.dim + (place + 1) * columns
        out[:, start : start + biases.shape[1]] = documents.on_rows(biases * scale[:, None] - origin[:, None])
        if fitted.coefficients is not None:
            names = np.array(list(fitted.coefficients.means))
            out[:, start + biases.shape[1] : end] = vectors.modality[:, None] == names
    if not fitted.spec.dynamic:
        return Folded(out, vectors.modality)
    active = _active_documents(fitted, x, documents, pairs, query_modalities)
    return Folded(out, vectors.modality, documents.on_rows(active))


def bias_columns(
    fitted: Fitted,
    x: Matrix,
    starts: Rows | None,
    modality: str,
    sharpness: Matrix,
    sources: Pairs | None,
    search: NeighbourSearch | None,
) -> Matrix:
    """Return the bias of shifted documents for one query modality, in similarity units, ``(documents, columns)``."""
    method = fitted.spec.correction
    if method is None:
        raise BadSpec(f"'{fitted.spec}' has no bias.")
    own = fitted.references.own(modality, sources)
    references = BlockedBank(x, fitted.references.vectors[modality], own, starts, sharpness, search)
    gallery = None if fitted.gallery is None else BlockedBank(x, fitted.gallery, None, starts, sharpness, search)
    found = np.asarray(method.columns(Banks(references, gallery)))
    documents = len(x) if starts is None else len(starts)
    if found.ndim != 2 or len(found) != documents:
        raise BadVectors(
            f"{type(method).__name__}.columns returned an array of shape {found.shape} for {documents} documents. "
            "It has to be (documents, columns)."
        )
    return found


def bounded(fitted: Fitted, biases: Matrix, modality: str, documents: Passages) -> Matrix:
    """Return the biases within the bounds of a joint method."""
    if fitted.coefficients is None:
        return biases
    terms = [fitted.coefficients.of(modality, name) for name in documents.modalities]
    code = documents.modality_code
    lowest, highest = (np.array([getattr(one, end) for one in terms])[code, None] for end in ("lowest", "highest"))
    return np.clip(biases, lowest, highest)


def fold_queries(fitted: Fitted, queries: Vectors, active: Mask | None, query_modalities: tuple[str, ...]) -> Folded:
    """Return ``[x_q, −coefficients]`` of each query, 0 in the columns of other modalities."""
    columns = width(fitted)
    out = np.zeros((len(queries), fitted.dim + columns * len(query_modalities)), dtype=np.float32)
    fitted.shift.queries(queries, np.float32, out[:, : fitted.dim])
    method = fitted.spec.correction
    if method is None:
        return Folded(out, queries.modality)
    coefficients = _coefficients(fitted, method, len(queries), active)
    for code, modality in enumerate(queries.modalities):
        rows = np.flatnonzero(queries.modality_code == code)
        start = fitted.dim + query_modalities.index(modality) * columns
        end = start + coefficients.shape[1]
        out[rows, start:end] = -coefficients[rows]
        if fitted.coefficients is not None:
            out[rows, end : start + columns] = -fitted.coefficients.nearness(modality, out[rows, : fitted.dim])
    return Folded(out, queries.modality)


def finish(fitted: Fitted, inner: Matrix, query_modality: ModalityLike, document_modality: ModalityLike) -> Matrix:
    """Apply slope · inner + offset + balance, by pair of modalities."""
    if isinstance(query_modality, str) and isinstance(
        document_modality, str
    ):  # one map for all: the case of every search
        fitted.query_code(query_modality)
        one = affine(fitted, query_modality, document_modality)
        offset = one.offset + fitted.balance.get(document_modality, 0.0)
        return np.asarray(inner * np.float64(one.slope) + offset)
    query_names, query_code = _named(query_modality)
    document_names, document_code = _named(document_modality)
    maps = np.empty((2, len(query_names), len(document_names)))
    for i, of_query in enumerate(query_names):
        fitted.query_code(of_query)
        for j, of_document in enumerate(document_names):
            pair = affine(fitted, of_query, of_document)
            maps[:, i, j] = pair.slope, pair.offset + fitted.balance.get(of_document, 0.0)
    if query_code.ndim:
        if query_code.shape != inner.shape[:1]:
            raise BadInput(
                f"inner products of shape {inner.shape} came with query modalities of shape {query_code.shape}. Give "
                "one per row, or one name for all."
            )
        query_code = query_code.reshape(-1, *[1] * (inner.ndim - 1))
    if document_code.ndim and document_code.shape not in (inner.shape, inner.shape[-1:]):
        raise BadInput(
            f"inner products of shape {inner.shape} came with document modalities of shape {document_code.shape}."
        )
    slope, offset = maps[:, query_code, document_code]  # float64: a small σ must not lose digits of inner
    return np.asarray(inner * slope + offset)


def _named(modality: ModalityLike) -> tuple[list[str], Rows]:
    names, code = np.unique(np.asarray(modality, dtype=str), return_inverse=True)
    return [str(name) for name in names], np.asarray(code).reshape(np.shape(modality))


def _coefficients(fitted: Fitted, method: BiasMethod, queries: int, active: Mask | None) -> Matrix:
    """Return each query's coefficients on its columns, ``(n, columns)``."""
    if not method.sets:
        return method.coefficients(np.zeros((queries, 0), dtype=bool))
    if active is None or np.shape(active) != (queries, method.sets):
        raise BadSpec(
            f"'{fitted.spec}' switches its bias on per query: pass active=fitted.activation(queries, documents), from "
            f"the folded documents, of shape ({queries}, {method.sets})."
        )
    return method.coefficients(np.asarray(active, dtype=bool))


def _active_documents(
    fitted: Fitted, x: Matrix, documents: Passages, sources: Pairs | None, query_modalities: tuple[str, ...]
) -> Mask:
    """Return which activation sets each document is in, ``(documents, query modalities, sets)``."""
    flags = []
    for modality in query_modalities:
        banks = [(fitted.references.vectors[modality], fitted.references.own(modality, sources))]
        if fitted.gallery is not None:
            banks.insert(0, (fitted.gallery, None))
        maps = [affine(fitted, modality, name) for name in documents.modalities]
        origin = np.array([m.column_origin for m in maps])[documents.modality_code]
        sharpness = np.array([m.sharpness for m in maps])[documents.modality_code]
        sets = []
        for (bank, own), best in zip(banks, fitted.thresholds[modality], strict=True):
            flag = np.empty(len(documents), dtype=bool)
            for block, similarity in similarity_blocks(x, bank, own, documents.starts):
                least = origin[block, None] + best / sharpness[block, None] - TIE
                flag[block] = (similarity >= least).any(axis=1)
            sets.append(flag)
        flags.append(np.stack(sets, axis=1))
    return np.stack(flags, axis=1)
