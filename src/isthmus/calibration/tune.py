"""``tune``: choose a calibration on reference queries it was not fitted on; ``auto`` is ``tune`` with a small grid.

In words: split the reference queries by the document they came from, fit every candidate on some, ask the
others, and see where their right documents land. Every document modality counts alike, so a calibration that
serves texts and drowns images does not win by the number of texts.

Not circular: a query never meets its own source while biases and statistics are fitted; the queries that
judge were not used to fit; and right documents are known ones. Raw top-1 documents are no judges: raw
cosine finds them all, so ``none`` would always win. ``tune`` takes pseudo-positives only when told so
(``positives="pseudo"``), and then the best document *of each modality* in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from isthmus.calibration.bank import similarity_blocks
from isthmus.calibration.none import Raw
from isthmus.calibration.pairs import Pairs, PairsLike
from isthmus.calibration.spec import Spec
from isthmus.errors import BadInput, CannotFit
from isthmus.types import Mask, Matrix, Rows, Vectors

if TYPE_CHECKING:
    from isthmus.calibration.fitted import Fitted

Measure: TypeAlias = Callable[[Matrix, Mask], Matrix]

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
WITHOUT_KNOWN_ANSWERS = "center+nnn+standardize"
FEWEST_TO_TUNE = 16


def grid(name: str, settings: Mapping[str, Iterable[float]]) -> list[str]:
    """Return the specs of every combination of settings.

    >>> grid("nnn", {"k": [1, 2], "alpha": [0.5]})
    ['nnn(k=1,alpha=0.5)', 'nnn(k=2,alpha=0.5)']
    """
    return [
        f"{name}({','.join(f'{key}={value}' for key, value in zip(settings, values, strict=True))})"
        for values in product(*settings.values())
    ]


# The grids that Chowdhury et al. (2024) search, appendix on hyperparameters.
NNN_PAPER_GRID = tuple(
    grid("nnn", {"k": [2**i for i in range(10)], "alpha": [round(0.25 + 0.125 * i, 3) for i in range(11)]})
)
DN_PAPER_GRID = tuple(grid("dn", {"lam": [round(0.125 * i, 3) for i in range(1, 17)]}))
QBNORM_PAPER_GRID = tuple(grid("qbnorm", {"beta": [float(b) for b in (1, 2, 5, 10, 20, 40, 80, 160)]}))


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


@dataclass(frozen=True, slots=True)
class Trial:
    """How one candidate did on held-out queries; ``refused`` says why it could not be fitted."""

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
        """The spec that did best; of equals, the one that stands first in the grid."""
        fitted = [trial for trial in self.trials if not trial.refused]
        if not fitted:
            reasons = "; ".join(f"{trial.spec}: {trial.refused}" for trial in self.trials)
            raise CannotFit(f"No candidate could be fitted. {reasons}")
        return max(fitted, key=lambda trial: trial.value).spec

    def __str__(self) -> str:
        modalities = list(dict.fromkeys(name for trial in self.trials for name in trial.by_modality))
        width = max(len(str(trial.spec)) for trial in self.trials)
        lines = [f"{'held out':<{width}}  macro  " + "  ".join(f"{name:>6}" for name in modalities)]
        for trial in self.trials:
            if trial.refused:
                lines.append(f"{trial.spec!s:<{width}}  not fitted: {trial.refused}")
                continue
            columns = "  ".join(f"{trial.by_modality[name]:>{max(6, len(name))}.3f}" for name in modalities)
            mark = " ◂" if trial.spec == self.best else ""
            lines.append(f"{trial.spec!s:<{width}}  {trial.value:.3f}  {columns}{mark}")
        return "\n".join(lines)


def tune(
    specs: Iterable[str | Spec],
    documents: Vectors,
    queries: Vectors,
    *,
    positives: PairsLike | Literal["pseudo"],
    measure: Measure = ndcg_at_10,
    folds: int = 2,
    reference_documents: Vectors | None = None,
    weights: Mapping[str, float] | None = None,
    rng: np.random.Generator | None = None,
) -> Tuned:
    """Try each spec on held-out reference queries and return how they did.

    ``positives``: the right documents, as pairs or one per query; ``"pseudo"``: each query's best document of each
    modality by raw cosine, which can only tell how modalities mix, not which order inside one is right.
    ``measure(scores, relevant)`` gives a number per query; it is averaged within each document modality of the
    right documents, then over modalities.
    """
    if folds < 2:
        raise BadInput(f"tune needs at least 2 folds to hold queries out, not {folds}.")
    pseudo = isinstance(positives, str)
    if isinstance(positives, str):
        if positives != "pseudo":
            raise BadInput(f"positives are pairs of rows or 'pseudo', not {positives!r}.")
        pairs = _pseudo_positives(documents, queries, weights or {})
    else:
        pairs = Pairs.of(positives, queries=len(queries), documents=len(documents))
    if not len(pairs):
        raise CannotFit("tune judges by known right documents and got none. Pass positives=, or positives='pseudo'.")
    fold_of = _folds(pairs, len(queries), folds, rng or np.random.default_rng(0), by_query=pseudo)
    trials = []
    for text in specs:
        spec = Spec.parse(text)
        try:
            values = [
                _held_out(
                    spec, documents, queries, pairs, fold_of == fold, measure, pseudo, reference_documents, weights
                )
                for fold in range(folds)
            ]
        except CannotFit as error:
            trials.append(Trial(spec, 0.0, refused=str(error)))
            continue
        by_modality = _averaged(documents, values)
        trials.append(Trial(spec, float(np.mean(list(by_modality.values()))), by_modality))
    return Tuned(tuple(trials))


def fit_auto(
    documents: Vectors,
    queries: Vectors,
    positives: PairsLike | None,
    sources: PairsLike | None,
    weights: Mapping[str, float] | None,
    reference_documents: Vectors | None,
) -> Fitted:
    """Choose from ``AUTO_GRID`` on held-out queries and fit the winner on all; without known answers, the default."""
    from isthmus.calibration.fitting import fit

    given = positives if positives is not None else sources
    known = Pairs.of(given, queries=len(queries), documents=len(documents))
    if len(known) < FEWEST_TO_TUNE:
        return fit(WITHOUT_KNOWN_ANSWERS, documents, queries, sources=sources, weights=weights)
    tuned = tune(
        AUTO_GRID, documents, queries, positives=known, weights=weights, reference_documents=reference_documents
    )
    return replace(fit(tuned.best, documents, queries, sources=known, weights=weights), tuned=tuned)


Values: TypeAlias = dict[str, list[Matrix]]


def _held_out(
    spec: Spec,
    documents: Vectors,
    queries: Vectors,
    pairs: Pairs,
    held: Mask,
    measure: Measure,
    pseudo: bool,
    reference_documents: Vectors | None,
    weights: Mapping[str, float] | None,
) -> Values:
    """Fit on the other folds and return the held-out queries' values, by the right document's modality."""
    from isthmus.calibration.fitting import fit

    others, asked = np.flatnonzero(~held), np.flatnonzero(held)
    sources = None if pseudo else pairs.of_queries(others)
    fitted = fit(
        spec,
        documents,
        queries.take(others),
        reference_documents=reference_documents,
        sources=sources,
        weights=weights,
    )
    answers = pairs.of_queries(asked)
    values: Values = {name: [] for name in documents.modalities}
    for rows, scores in _scored(fitted, queries.take(asked), documents, sources):
        relevant = np.zeros(scores.shape, dtype=bool)
        mine = (answers.queries >= rows.start) & (answers.queries < rows.stop)
        relevant[answers.queries[mine] - rows.start, answers.documents[mine]] = True
        for code, name in enumerate(documents.modalities):
            of_modality = relevant & (documents.modality_code == code)
            judged = of_modality.any(axis=1)
            values[name].append(measure(scores[judged], of_modality[judged]))
    return values


def _scored(
    fitted: Fitted, queries: Vectors, documents: Vectors, sources: Pairs | None
) -> Iterable[tuple[slice, Matrix]]:
    """Yield blocks of scores, by folding where the spec folds."""
    if fitted.spec.per_query is not None:
        yield slice(0, len(queries)), fitted.scores(queries, documents)
        return
    folded = fitted.fold(documents, sources=sources)
    active = fitted.activation(queries, folded) if fitted.spec.dynamic else None
    asked = fitted.fold_queries(queries, active=active)
    for rows, inner in similarity_blocks(asked.vectors, folded.vectors):
        yield rows, fitted.finish(inner, asked.modality[rows], folded.modality)


def _averaged(documents: Vectors, folds: list[Values]) -> dict[str, float]:
    values = {name: np.concatenate([v for fold in folds for v in fold[name]]) for name in documents.modalities}
    return {name: float(v.mean()) for name, v in values.items() if len(v)}


def _folds(pairs: Pairs, queries: int, folds: int, rng: np.random.Generator, *, by_query: bool) -> Rows:
    """Give each query a fold; queries that came from the same document share one."""
    group = np.arange(queries)
    if not by_query:
        group[pairs.queries[::-1]] = queries + pairs.documents[::-1]  # the first known document names the group
    _, group = np.unique(group, return_inverse=True)
    shuffled = rng.permutation(group.max() + 1)
    return np.asarray(shuffled[group] % folds)


def _pseudo_positives(documents: Vectors, queries: Vectors, weights: Mapping[str, float]) -> Pairs:
    raw = Raw(dict(weights))
    x = raw.documents(documents, np.float32)
    pairs = []
    for rows, similarity in similarity_blocks(raw.queries(queries, np.float32), x):
        for code in range(len(documents.modalities)):
            of_modality = np.flatnonzero(documents.modality_code == code)
            nearest = of_modality[similarity[:, of_modality].argmax(axis=1)]
            pairs.append(np.column_stack([np.arange(rows.start, rows.stop), nearest]))
    return Pairs.of(np.concatenate(pairs), queries=len(queries), documents=len(documents))
