"""Layouts of folded vectors: for one index per modality, or for one index of everything.

For query modality m and document modality M, with the columns, coefficients and maps of ``folding``:

    layout      document                                             query
    modality    [x, c_m for each m]                                  [q, −coefficient at its own m, 0 elsewhere]
    one         [slope_mM · x, slope_mM · c_m, one-hot M, length]    [q, −coefficient, offset_mM + balance_M, 0]

``finish`` maps the inner products of ``modality`` to scores; those of ``one`` are the scores. ``one`` serves queries of
one modality, because slopes differ by m. Offsets and the balance are on the query's side: they change without touching
an index, and each query may have its own.

``length`` makes rows equally long and never changes a score. Without it the rows of a modality with a large slope are
longer, and approximate indexes lose recall (Bachrach et al., *Speeding up the Xbox recommender system*, 2014, §3;
`docs/benchmarks.md` has the numbers).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from isthmus.calibration.bank import similarity_blocks
from isthmus.calibration.folding import affine, finish, fold_queries, width
from isthmus.errors import BadInput, BadSpec, UnknownModality, shown
from isthmus.registry import lookup
from isthmus.types import Folded, Mask, Matrix, Vectors

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted

MODALITY, ONE = "modality", "one"
LAYOUTS = {MODALITY: "one index per modality", ONE: "one index of everything, for one query modality"}


def served_modality(fitted: Fitted, layout: str, named: str | None, argument: str) -> str | None:
    """Return the query modality that a layout serves; None if it serves all. ``argument`` is what chooses it."""
    lookup(LAYOUTS, layout, "layout")
    if layout == MODALITY:
        if named is not None:
            raise BadInput(
                f"{argument} (--{argument}) is {shown(named)}, which belongs to the layout {ONE!r}. Leave it out, or "
                f"choose that layout (--layout {ONE})."
            )
        return None
    known = {name: name for name in fitted.query_modalities}
    if named is not None:
        return lookup(
            known, "+".join(sorted(named.split("+"))) if isinstance(named, str) else named, "fitted query modality"
        )
    if len(known) > 1:
        raise BadInput(
            f"The layout {ONE!r} serves one query modality. Choose it with {argument} (--{argument}), one of: "
            f"{', '.join(known)}."
        )
    return fitted.query_modalities[0]


def documents_in_one(fitted: Fitted, folded: Folded, modality: str) -> Folded:
    """Return folded documents as rows of layout ``one``.

    ``folded`` has the columns of this query modality, or those of all. A document modality that the fit did not see has
    no offset, so it needs no column.
    """
    names, code = np.unique(folded.modality, return_inverse=True)
    slope = np.array([affine(fitted, modality, str(name)).slope for name in names], dtype=np.float32)[code, None]
    columns, end = width(fitted), fitted.dim + width(fitted)
    has_all = folded.vectors.shape[1] > end
    place = fitted.dim + (columns * fitted.query_code(modality) if has_all else 0)
    out = np.empty((len(folded), end + len(fitted.document_modalities) + 1), dtype=np.float32)
    np.multiply(folded.vectors[:, : fitted.dim], slope, out=out[:, : fitted.dim])
    np.multiply(folded.vectors[:, place : place + columns], slope, out=out[:, fitted.dim : end])
    out[:, end:-1] = folded.modality[:, None] == np.array(fitted.document_modalities)
    out[:, -1] = np.sqrt(np.maximum(_square_length(fitted, modality) - np.vecdot(out[:, :-1], out[:, :-1]), 0))
    return Folded(out, folded.modality, folded.active, modality)


def _square_length(fitted: Fitted, modality: str) -> float:
    """Return what few rows exceed, whichever documents come: that of a unit vector and biases of 1, with any slope."""
    slopes = [affine(fitted, modality, name).slope for name in fitted.document_modalities]
    return max(slopes, default=1.0) ** 2 * (1 + width(fitted)) + 1


def queries_in_one(fitted: Fitted, queries: Vectors, active: Mask | None, modality: str) -> Folded:
    """Return ``[q, −coefficients, offsets, 0]`` of each query."""
    for other in queries.modalities:
        if other != modality:
            raise UnknownModality(
                f"these queries are {other}, but the documents were folded for {modality} queries. Fold the documents "
                f"with queries={other!r} into another index, or use layout='{MODALITY}', which serves both."
            )
    plain = fold_queries(fitted, queries, active, (modality,))
    nothing = np.zeros((len(queries), 1), dtype=np.float32)
    vectors = np.hstack([plain.vectors, offsets(fitted, queries, modality), nothing])
    return Folded(vectors, plain.modality, queries=modality)


def offsets(fitted: Fitted, queries: Vectors, modality: str) -> Matrix:
    """Return offset + balance for each query and each fitted document modality, ``(n, modalities)``."""
    names = fitted.document_modalities
    row = [affine(fitted, modality, name).offset + fitted.balance.get(name, 0.0) for name in names]
    return np.tile(np.array(row, dtype=np.float32), (len(queries), 1))


def activation(fitted: Fitted, queries: Vectors, documents: Folded) -> Mask:
    """Search each query's best document without the bias, and return the activation sets that contain it."""
    if documents.active is None:
        raise BadSpec(f"'{fitted.spec}' is not dynamic: no bias is switched on or off.")
    if not len(documents):
        raise BadInput("There are no documents to search for each query's best match.")
    unbalanced = fitted.with_balance({})  # a balance is a preference, not evidence of a best match
    off = np.zeros((len(queries), documents.active.shape[2]), dtype=bool)
    if documents.queries is None:
        plain = fold_queries(fitted, queries, off, fitted.query_modalities)
        codes = np.array([fitted.query_code(str(name)) for name in plain.modality], dtype=np.intp)
    else:
        plain = queries_in_one(unbalanced, queries, off, documents.queries)
        codes = np.zeros(len(queries), dtype=np.intp)  # it has the sets of one query modality
    out = np.empty_like(off)
    for rows, inner in similarity_blocks(plain.vectors, documents.vectors):
        if documents.queries is None:
            inner = finish(unbalanced, inner, plain.modality[rows], documents.modality)
        out[rows] = documents.active[inner.argmax(axis=1), codes[rows]]
    return out
