"""``fit``: learn a calibration from documents and reference queries, step by step as the spec is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from isthmus.calibration.bank import NeighbourSearch, References, best_by_modality
from isthmus.calibration.dbnorm import DualBankNormalization
from isthmus.calibration.fitted import Fitted
from isthmus.calibration.folding import bias_columns
from isthmus.calibration.known import fit_learned
from isthmus.calibration.nnn import NearestNeighbourNormalization
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.rows import check_rows
from isthmus.calibration.shift import Shift
from isthmus.calibration.spec import Spec
from isthmus.calibration.standardize import Scale, Standardize
from isthmus.errors import BadVectors, CannotFit
from isthmus.types import Matrix, Vectors


def fit(
    spec: str | Spec,
    documents: Vectors,
    queries: Vectors,
    *,
    positives: PairsLike | None = None,
    reference_documents: Vectors | None = None,
    sources: PairsLike | None = None,
    weights: Mapping[str, float] | None = None,
    shift: Shift | None = None,
    neighbours: NeighbourSearch | None = None,
) -> Fitted:
    """Fit a calibration on documents and reference queries, both raw encoder vectors of any scale.

    ``positives``: labelled (query row, document row) pairs, or one document row per query with -1 for none.
    ``standardize`` takes its statistics from them instead of pseudo-positives; ``learned`` and ``auto`` need them.
    ``reference_documents``: the gallery bank of ``dbnorm``; documents that are not themselves searched.
    ``sources``: the document each reference query was generated from, in the same forms; the two never meet while
    biases and statistics are fitted. Without it the papers are followed: every query meets every document.
    ``weights``: how much of each part goes into a document's fusion; a document's own weights come first.
    ``shift``: the shift of another fitted calibration, to be used instead of fitting one here.
    ``neighbours``: a nearest-neighbour search for ``nnn`` and ``learned``.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> texts, images = rng.normal(size=(20, 8)) + 2, rng.normal(size=(20, 8)) - 2      # two cones
    >>> documents = Vectors.of(np.vstack([texts, images]), ["text"] * 20 + ["image"] * 20)
    >>> queries = Vectors.of(rng.normal(size=(30, 8)) + 2, "text")
    >>> fitted = fit("center+standardize+nnn(k=16)", documents, queries)
    >>> inner = fitted.fold_queries(queries).vectors @ fitted.fold(documents).vectors.T
    >>> scores = fitted.finish(inner, queries.modality, documents.modality)
    >>> bool(np.allclose(scores, fitted.scores(queries, documents), atol=1e-5))
    True
    """
    if isinstance(spec, str) and spec.strip() == "auto":
        from isthmus.calibration.tune import fit_auto

        return fit_auto(documents, queries, positives, sources, weights, reference_documents)
    spec = Spec.parse(spec)
    _check(documents, queries, reference_documents)
    known = Pairs.of(positives, queries=len(queries), documents=len(documents))
    made_from = None if sources is None else Pairs.of(sources, queries=len(queries), documents=len(documents))
    shift = shift or spec.shift.fit(documents, queries, weights or {})
    x_queries = shift.queries(queries, np.float32)
    fitted = Fitted(
        spec=spec,
        dim=documents.dim,
        query_modalities=queries.modalities,
        shift=shift,
        references=References.of(x_queries, queries),
        gallery=_gallery(spec, shift, reference_documents),
    )
    if spec.per_query is not None or (spec.scale is None and spec.learned is None and not spec.dynamic):
        check_rows(documents)
        return _checked_bias(fitted)
    x = shift.documents(documents, np.float32)
    if spec.learned is not None:
        return fit_learned(fitted, documents, x, known if len(known) else made_from, neighbours)
    if spec.scale is not None:
        values = _Values(fitted, documents, x, made_from, neighbours)
        fitted = replace(fitted, scale=_scale(spec.scale, values, known))
    if spec.dynamic:
        fitted = replace(fitted, thresholds=_thresholds(fitted, documents, x, made_from))
    return _checked_bias(fitted)


def _check(documents: Vectors, queries: Vectors, reference_documents: Vectors | None) -> None:
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


def _checked_bias(fitted: Fitted) -> Fitted:
    """Refuse a k that is larger than a bank now, not when documents are folded."""
    if isinstance(fitted.spec.bias, NearestNeighbourNormalization):
        for bank in fitted.references.vectors.values():
            fitted.spec.bias.neighbours(len(bank))
    return fitted


def _gallery(spec: Spec, shift: Shift, reference_documents: Vectors | None) -> Matrix | None:
    if not isinstance(spec.bias, DualBankNormalization):
        return None
    if reference_documents is None or not len(reference_documents):
        raise CannotFit(
            "dbnorm needs a gallery bank: pass reference_documents=, a sample of documents that are not themselves "
            "searched (a document must not be normalised by its own copy). Without one, use 'qbnorm'."
        )
    return shift.documents(reference_documents, np.float32)


class _Values:
    """What the steps before a scale give: similarities, minus the bias when it comes first."""

    def __init__(
        self, fitted: Fitted, documents: Vectors, x: Matrix, sources: Pairs | None, search: NeighbourSearch | None
    ) -> None:
        self.fitted, self.documents, self.x, self.sources = fitted, documents, x, sources
        self.minus = {modality: self._minus(modality, search) for modality in fitted.query_modalities}

    def _minus(self, modality: str, search: NeighbourSearch | None) -> Matrix:
        spec = self.fitted.spec
        if spec.bias is None or spec.scales_first:
            return np.zeros(len(self.x), dtype=np.float32)
        alpha = spec.bias.alpha if isinstance(spec.bias, NearestNeighbourNormalization) else 1.0
        ones = np.ones(len(self.x), dtype=np.float32)
        return alpha * bias_columns(self.fitted, self.x, modality, ones, self.sources, search)[:, 0]

    def best(self, modality: str) -> Matrix:
        """Return the pseudo-positives: the best value of each reference in each document modality."""
        own = self.fitted.references.own(modality, self.sources)
        bank = self.fitted.references.vectors[modality]
        return best_by_modality(self.x, self.documents, bank, self.minus[modality], own)

    def of_pairs(self, modality: str, known: Pairs) -> tuple[Matrix, Pairs]:
        """Return the values of the labelled pairs of this query modality."""
        pairs = known.of_queries(self.fitted.references.rows[modality])
        bank = self.fitted.references.vectors[modality]
        similarity = np.einsum("ij,ij->i", bank[pairs.queries], self.x[pairs.documents])
        return similarity - self.minus[modality][pairs.documents], pairs


def _scale(method: Standardize, values: _Values, known: Pairs) -> Scale:
    documents = values.documents
    positives: dict[tuple[str, str], Matrix] = {}
    for asked in values.fitted.query_modalities:
        if len(known):
            of_pairs, pairs = values.of_pairs(asked, known)
            codes = documents.modality_code[pairs.documents]
            by_modality = [of_pairs[codes == code] for code in range(len(documents.modalities))]
        else:
            by_modality = [best[np.isfinite(best)] for best in values.best(asked)]
        positives |= {(asked, found): best for found, best in zip(documents.modalities, by_modality, strict=True)}
    return method.fit(positives, "labelled pairs" if len(known) else "reference queries")


def _thresholds(fitted: Fitted, documents: Vectors, x: Matrix, sources: Pairs | None) -> dict[str, tuple[Matrix, ...]]:
    """Return the best score of every member of every bank: who reaches it is that member's best match."""
    out: dict[str, tuple[Matrix, ...]] = {}
    zeros = np.zeros(len(x), dtype=np.float32)
    for asked in fitted.query_modalities:
        maps = [(0.0, 1.0) if fitted.scale is None else fitted.scale.of(asked, M) for M in documents.modalities]
        mean, deviation = np.array(maps).T[:, :, None]
        banks = [(fitted.references.vectors[asked], fitted.references.own(asked, sources))]
        if fitted.gallery is not None:
            banks.insert(0, (fitted.gallery, None))
        out[asked] = tuple(
            ((best_by_modality(x, documents, bank, zeros, own) - mean) / deviation).max(axis=0) for bank, own in banks
        )
    return out
