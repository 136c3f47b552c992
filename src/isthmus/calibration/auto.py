"""``fit``: fit the calibration that a spec names, or, for ``auto``, the best of a small grid on held-out queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from isthmus.calibration.bank import NeighbourSearch
from isthmus.calibration.fitted import Fitted, must_be_vectors
from isthmus.calibration.fitting import fit_spec
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.passages import OwnerLike, Passages
from isthmus.calibration.spec import Spec
from isthmus.calibration.tune import tune
from isthmus.errors import BadSpec, CannotFit
from isthmus.types import Vectors

AUTO_GRID = (
    "none",
    "center",
    "standardize",
    "nnn(k=16)",
    "center+standardize",
    "center+nnn(k=16)",
    "nnn(k=16)+standardize",
    "center+nnn(k=16)+standardize",
    "learned",
    "center+learned",
)
FEWEST_TO_TUNE = 16
FEWEST_NEIGHBOURS = 16


def fit(
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
    """Fit a calibration on documents and reference queries, both raw encoder vectors of any scale.

    ``spec``: names joined by ``+``, or ``auto``.
    ``positives``: labelled (query row, document) pairs, or one document per query with -1 for none.
    ``standardize`` takes its statistics from them instead of pseudo-positives; ``learned`` and ``auto`` need them.
    ``reference_documents``: the gallery bank of ``dbnorm``: documents that are not searched.
    ``sources``: the document each reference query was generated from, in the same forms; biases and
    statistics ignore the pair of a query and its source. Without it they use every pair, as in the papers.
    ``weights``: how much of each part goes into a document's fusion; a document's own weights take precedence.
    ``means``: where ``center`` and ``dn`` take their means from, if not from ``documents`` and ``queries``: documents
    of a training split (queries keep the means of ``queries``), or another fitted calibration, for both.
    ``neighbours``: a nearest-neighbour search for ``nnn`` and ``learned``: by index (``index.FaissNeighbours``), or
    exactly on a GPU (``index.DeviceNeighbours("cuda")``), by which the statistics of ``standardize`` are found, too.
    ``owner``: which document each row is a passage of, 0, 0, 1, 2, 2 …; then ``positives`` and ``sources`` name
    documents by these numbers, a document's similarity is that of its best passage, and its weight in every mean is 1.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> texts, images = rng.normal(size=(20, 8)) + 2, rng.normal(size=(20, 8)) - 2      # two cones
    >>> documents = Vectors.of(np.vstack([texts, images]), ["text"] * 20 + ["image"] * 20)
    >>> queries = Vectors.of(rng.normal(size=(30, 8)) + 2, "text")
    >>> fitted = fit("center+standardize+nnn(k=16)", documents, queries)
    >>> fitted
    <Fitted center+standardize+nnn(k=16): 8 dimensions, 30 text reference queries>
    >>> inner = fitted.fold_queries(queries).vectors @ fitted.fold(documents).vectors.T
    >>> scores = fitted.finish(inner, queries.modality, documents.modality)
    >>> bool(np.allclose(scores, fitted.scores(queries, documents), atol=1e-5))
    True
    """
    if spec != "auto":
        return fit_spec(
            spec,
            documents,
            queries,
            positives=positives,
            reference_documents=reference_documents,
            sources=sources,
            weights=weights,
            means=means,
            neighbours=neighbours,
            owner=owner,
        )
    if means is not None:
        raise BadSpec("'auto' also chooses the shift: leave out means=, or name the calibration.")
    must_be_vectors(documents, "document")
    must_be_vectors(queries, "query")
    passages = Passages.of(documents, owner)
    given = (Pairs.of(pairs, queries=len(queries), documents=len(passages)) for pairs in (positives, sources))
    return _chosen(passages, queries, Pairs.both(*given), weights, neighbours)


def _chosen(
    passages: Passages,
    queries: Vectors,
    known: Pairs,
    weights: Mapping[str, float] | None,
    neighbours: NeighbourSearch | None,
) -> Fitted:
    """Fit the best of the grid on all queries; without known answers the default; if that fails, none."""
    documents, owner = passages.vectors, passages.owner

    def fitted(spec: str | Spec) -> Fitted:
        sources = known if len(known) else None
        return fit_spec(spec, documents, queries, sources=sources, weights=weights, neighbours=neighbours, owner=owner)

    why = f"{len(known)} known answers, {FEWEST_TO_TUNE} are needed to choose"
    if len(known) >= FEWEST_TO_TUNE:
        try:
            tuned = tune(
                AUTO_GRID, documents, queries, positives=known, weights=weights, neighbours=neighbours, owner=owner
            )
            return replace(fitted(tuned.best), tuned=tuned)
        except CannotFit as error:
            why = str(error)
    try:
        return replace(fitted(default_spec(queries)), note=f"auto took its default: {why}")
    except CannotFit as error:
        return replace(fitted("none"), note=f"auto took none: {error}")


def default_spec(queries: Vectors) -> str:
    """Return the spec of ``auto`` without known answers: the recommended one, with few enough neighbours."""
    fewest = min((int((queries.modality_code == code).sum()) for code in range(len(queries.modalities))), default=1)
    return f"center+nnn(k={min(FEWEST_NEIGHBOURS, fewest)})+standardize"
