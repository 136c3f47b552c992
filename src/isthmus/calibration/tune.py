"""``tune``: try calibrations on reference queries they were not fitted on; ``auto`` is ``tune`` with a small grid.

In words: split the reference queries by the document they came from, fit every candidate on some, search with
the others, and measure the ranks of their right documents. Every document modality has equal weight, so a calibration
that favours texts over images does not win by the number of texts.

Not circular: a query never meets its own source while biases and statistics are fitted; the held-out
queries were not used to fit; and the right documents are known. Raw top-1 documents cannot be the answers: raw
cosine finds them all, so ``none`` would always win. ``tune`` uses pseudo-positives only on request
(``positives="pseudo"``), and then the best document *of each modality* in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from isthmus.calibration.bank import NeighbourSearch, similarity_blocks
from isthmus.calibration.fitted import Fitted
from isthmus.calibration.fitting import fit_spec
from isthmus.calibration.none import NoShift, Raw
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.passages import OwnerLike, Passages, best_columns
from isthmus.calibration.spec import Spec
from isthmus.errors import BadInput, CannotFit
from isthmus.types import Mask, Matrix, Rows, Vectors

Measure: TypeAlias = Callable[[Matrix, Mask], Matrix]


def ndcg_at_10(scores: Matrix, relevant: Mask) -> Matrix:
    """Return each query's nDCG@10 from dense scores and a mask of right documents, ``(n_queries,)``.

    Equal scores rank in the order of the documents.

    >>> ndcg_at_10(np.array([[0.9, 0.5, 0.7]]), np.array([[False, False, True]])).round(3)
    array([0.631])
    """
    depth = min(10, scores.shape[1])
    order = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
    discount = 1 / np.log2(np.arange(2, depth + 2))
    gain = np.take_along_axis(relevant, order, axis=1) @ discount
    ideal = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(relevant.sum(axis=1), depth)]
    return np.asarray(np.divide(gain, ideal, out=np.zeros_like(gain), where=ideal > 0))


def recall_at_1(scores: Matrix, relevant: Mask) -> Matrix:
    """Return 1 for each query whose first document is right, 0 for others, ``(n_queries,)``.

    Equal scores rank in the order of the documents. Chowdhury et al. (2024) choose their settings by it (Appendix B1).

    >>> recall_at_1(np.array([[0.9, 0.5], [0.1, 0.7]]), np.array([[True, False], [True, False]]))
    array([1., 0.])
    """
    first = scores.argmax(axis=1)[:, None]
    return np.take_along_axis(relevant, first, axis=1)[:, 0].astype(np.float64)


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one candidate on held-out queries; ``refused`` is the reason why it could not be fitted."""

    spec: Spec
    value: float
    by_modality: Mapping[str, float] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Every candidate's held-out value, and the best spec: the first of the highest."""

    trials: tuple[Trial, ...]

    @property
    def best(self) -> Spec:
        """The best spec; of equals, the first in the grid."""
        fitted = [trial for trial in self.trials if not trial.refused]
        if not fitted:
            reasons = "; ".join(f"{trial.spec}: {trial.refused}" for trial in self.trials)
            raise CannotFit(f"No candidate could be fitted. {reasons}")
        return max(fitted, key=lambda trial: trial.value).spec

    def __str__(self) -> str:
        return self.table(self.best)

    def table(self, kept: Spec) -> str:
        """Return a line per candidate, with a mark at the best."""
        modalities = list(dict.fromkeys(name for trial in self.trials for name in trial.by_modality))
        width = max(len(str(trial.spec)) for trial in self.trials)
        lines = [f"{'held out':<{width}}  macro  " + "  ".join(f"{name:>6}" for name in modalities)]
        for trial in self.trials:
            if trial.refused:
                lines.append(f"{trial.spec!s:<{width}}  not fitted: {trial.refused}")
                continue
            columns = "  ".join(f"{trial.by_modality[name]:>{max(6, len(name))}.3f}" for name in modalities)
            mark = " ◂" if trial.spec == kept else ""
            lines.append(f"{trial.spec!s:<{width}}  {trial.value:.3f}  {columns}{mark}")
        return "\n".join(lines)


def tune(  # noqa: PLR0913 - the arguments of a fit, and how to measure it
    specs: Iterable[str | Spec],
    documents: Vectors,
    queries: Vectors,
    *,
    positives: PairsLike | Literal["pseudo"],
    measure: Measure = ndcg_at_10,
    folds: int = 2,
    reference_documents: Vectors | None = None,
    weights: Mapping[str, float] | None = None,
    means: Vectors | None = None,
    neighbours: NeighbourSearch | None = None,
    rng: np.random.Generator | int = 0,
    owner: OwnerLike | None = None,
    progress: Callable[[int, int], None] = lambda _, __: None,
) -> Tuned:
    """Evaluate each spec on held-out reference queries.

    ``positives``: the right documents, as pairs or one per query; they are ignored in the fit, like ``sources``.
    ``"pseudo"``: each query's best document of each modality by raw cosine, which shows how modalities should mix,
    but not the right order inside one.
    ``measure(scores, relevant)`` returns a number per query; it is averaged within each document modality of the
    right documents, then over modalities.
    ``means``: documents whose means ``center`` and ``dn`` subtract, as in ``fit``; other specs ignore them.
    ``owner``: which document each row is a passage of; ``positives`` then names documents by these numbers.
    ``progress(done, specs)`` is called after each.
    """
    tried = [Spec.parse(spec) for spec in ([specs] if isinstance(specs, str | Spec) else specs)]
    if not tried:
        raise BadInput("There are no specs. Pass at least one.")
    if folds < 2:
        raise BadInput(f"tune needs at least 2 folds to hold queries out, not {folds}.")
    passages = Passages.of(documents, owner)
    if isinstance(positives, str):
        if positives != "pseudo":
            raise BadInput(f"positives are pairs of rows or 'pseudo', not {positives!r}.")
        pairs, sources = _pseudo_positives(passages, queries, weights or {}), None
    else:
        pairs = sources = Pairs.of(positives, queries=len(queries), documents=len(passages))
    if not len(pairs):
        raise CannotFit("tune needs known right documents and got none. Pass positives=, or positives='pseudo'.")
    fold_of = folds_of(sources, queries, folds, np.random.default_rng(rng))
    court = Court(passages, queries, pairs, sources, measure, reference_documents, weights, means, neighbours)
    trials: list[Trial] = []
    for spec in tried:
        trials.append(court.trial(spec, fold_of))
        progress(len(trials), len(tried))
    return Tuned(tuple(trials))


Values: TypeAlias = dict[str, list[Matrix]]


@dataclass(frozen=True, slots=True, eq=False)
class Court:
    """Documents, the queries that measure calibrations, and the input of every fit."""

    documents: Passages
    queries: Vectors
    right: Pairs
    sources: Pairs | None
    measure: Measure
    reference_documents: Vectors | None
    weights: Mapping[str, float] | None
    means: Vectors | None
    neighbours: NeighbourSearch | None

    def trial(self, spec: Spec, fold_of: Rows) -> Trial:
        """Hold out each fold in turn, and average within and then over the modalities of the right documents."""
        try:
            folds = [self.held_out(spec, fold_of == fold) for fold in range(int(fold_of.max()) + 1)]
        except CannotFit as error:
            return Trial(spec, 0.0, refused=str(error))
        values = {name: [v for fold in folds for v in fold[name]] for name in self.documents.modalities}
        by_modality = {name: float(np.concatenate(v).mean()) for name, v in values.items() if v}
        if not by_modality:
            return Trial(spec, 0.0, refused="the queries with known answers have no others of their modality to fit on")
        return Trial(spec, float(np.mean(list(by_modality.values()))), by_modality)

    def held_out(self, spec: Spec, held: Mask) -> Values:
        """Fit on the other folds and return the held-out queries' values, by the right document's modality."""
        others = np.flatnonzero(~held)
        sources = self.sources and self.sources.of_queries(others)
        fitted = fit_spec(
            spec,
            self.documents.vectors,
            self.queries.take(others),
            reference_documents=self.reference_documents,
            sources=sources,
            weights=self.weights,
            means=None if isinstance(spec.shift, NoShift) else self.means,
            neighbours=self.neighbours,
            owner=self.documents.owner,
        )
        fittable = np.isin(self.queries.modality, fitted.query_modalities)
        held_out = np.flatnonzero(held & fittable)  # a query without references of its modality cannot be scored
        answers = self.right.of_queries(held_out)
        values: Values = {name: [] for name in self.documents.modalities}
        for rows, scores in self.scored(fitted, self.queries.take(held_out), sources):
            relevant = np.zeros(scores.shape, dtype=bool)
            mine = (answers.queries >= rows.start) & (answers.queries < rows.stop)
            relevant[answers.queries[mine] - rows.start, answers.documents[mine]] = True
            for code, name in enumerate(self.documents.modalities):
                of_modality = relevant & (self.documents.modality_code == code)
                judged = of_modality.any(axis=1)
                if judged.any():
                    values[name].append(self.measure(scores[judged], of_modality[judged]))
        return values

    def scored(self, fitted: Fitted, queries: Vectors, sources: Pairs | None) -> Iterator[tuple[slice, Matrix]]:
        """Yield blocks of scores, by folding where the spec folds."""
        if fitted.spec.per_query is not None:
            scores = fitted.scores(queries, self.documents.vectors, owner=self.documents.owner)
            yield slice(0, len(queries)), scores
            return
        yield from folded_scores(fitted, self.documents, queries, sources, self.neighbours)


def folded_scores(
    fitted: Fitted,
    documents: Passages,
    queries: Vectors,
    sources: Pairs | None,
    neighbours: NeighbourSearch | None = None,
) -> Iterator[tuple[slice, Matrix]]:
    """Yield blocks of rows of queries and their scores of all documents, computed from the folded vectors."""
    folded = fitted.fold(documents.vectors, sources=sources, neighbours=neighbours, owner=documents.owner)
    active = fitted.activation(queries, folded) if fitted.spec.dynamic else None
    side = fitted.fold_queries(queries, active=active)
    for rows, inner in similarity_blocks(side.vectors, folded.vectors):
        best = best_columns(inner, documents.starts)
        yield rows, fitted.finish(best, side.modality[rows], documents.modality)


def folds_of(sources: Pairs | None, queries: Vectors, folds: int, rng: np.random.Generator) -> Rows:
    """Give each query a fold: those that share a document share a fold, and each query modality is spread over all.

    A query without a known answer cannot measure anything, so it is never held out: its fold is -1.
    """
    group = np.arange(len(queries)) if sources is None else _linked(sources, len(queries))
    first = np.unique(group, return_index=True)[1]  # one query represents each group
    judges = np.ones(len(first), dtype=bool) if sources is None else np.isin(first, sources.queries)
    fold_of_group = np.full(len(first), -1, dtype=np.intp)
    for code in range(len(queries.modalities)):
        mine = rng.permutation(np.flatnonzero(judges & (queries.modality_code[first] == code)))
        fold_of_group[mine] = np.arange(len(mine)) % folds
    return fold_of_group[group]


def _linked(pairs: Pairs, queries: int) -> Rows:
    """Return a group for each query: queries that share a document, directly or through others, share a group."""
    from scipy.sparse import coo_array  # late: `import isthmus` stays light
    from scipy.sparse.csgraph import connected_components

    size = queries + int(pairs.documents.max(initial=-1)) + 1
    links = coo_array((np.ones(len(pairs)), (pairs.queries, queries + pairs.documents)), shape=(size, size))
    label = connected_components(links, directed=False)[1][:queries]
    return np.asarray(np.unique(label, return_inverse=True)[1])


def _pseudo_positives(documents: Passages, queries: Vectors, weights: Mapping[str, float]) -> Pairs:
    raw = Raw(dict(weights))
    x = raw.documents(documents.vectors, np.float32)
    pairs = []
    for rows, to_rows in similarity_blocks(raw.queries(queries, np.float32), x):
        similarity = best_columns(to_rows, documents.starts)
        for code in range(len(documents.modalities)):
            of_modality = np.flatnonzero(documents.modality_code == code)
            nearest = of_modality[similarity[:, of_modality].argmax(axis=1)]
            pairs.append(np.column_stack([np.arange(rows.start, rows.stop), nearest]))
    return Pairs.of(np.concatenate(pairs), queries=len(queries), documents=len(documents))
