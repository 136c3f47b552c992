"""Compare calibrations on one benchmark: fit each, search, measure, by slice, with intervals.

    Corpus ──fit each spec──▸ scores, block by block ──best k──▸ Run ──measures, slices──▸ rows

In addition to every calibration, ``auto`` and the per-query baselines (``minmax``, ``zscore``, ``rrf``) there is
``alone``: raw cosine, with each query searched only among documents of its right documents' modality, as with perfect
routing. It uses information that no calibration has, so it is a baseline and not a competitor.

Scores are computed from folded vectors, as in a search; methods that do not fold use their equations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from isthmus import calibration
from isthmus.calibration import Fitted, Spec
from isthmus.calibration.none import NoShift
from isthmus.calibration.pairs import PairsLike
from isthmus.calibration.passages import OwnerLike, Passages, best_columns
from isthmus.errors import BadInput
from isthmus.evaluate.fusion import several_parts, weighed
from isthmus.evaluate.intervals import RESAMPLES, interval
from isthmus.evaluate.measures import Measure, values
from isthmus.evaluate.runs import Ids, Qrels, run_of
from isthmus.evaluate.slices import slices
from isthmus.evaluate.table import Row
from isthmus.registry import lookup
from isthmus.types import Matrix, Vectors

ALONE = "alone"
AUTO = "auto"
OWN, TRAIN = "own", "train"  # origins of means
DEPTH = 1000  # depth of a ranking for measures without a cut, as at TREC
BLOCK_BYTES = 1 << 27  # of one block of scores in float64

Notice: TypeAlias = Callable[[str, Fitted | None], None]


def check_means(origin: str | Fitted | None) -> None:
    """Reject an unknown origin of means; None is the default."""
    if isinstance(origin, str):
        lookup({OWN: OWN, TRAIN: TRAIN}, origin, "origin of means")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class References:
    """The input of a fit: reference queries and, if they differ from the searched ones, their documents.

    ``sources``: the document that each query was made from, as for ``calibration.fit``; row numbers of ``documents`` if
    given, of the searched documents otherwise. ``owner``: the document of each row of ``documents``.
    ``positives``: labelled pairs, as for ``calibration.fit``; without them ``standardize`` uses pseudo-positives.
    ``gallery``: the bank of documents that ``dbnorm`` needs. ``means``: whose means shifts subtract from documents,
    "train" (of these ``documents``) or "own" (of the searched ones); default: "train" if there are ``documents``, else
    "own". Means of queries are then those of the reference queries. A fitted calibration provides both.
    """

    queries: Vectors
    sources: PairsLike | None = None
    documents: Vectors | None = None
    owner: OwnerLike | None = None
    gallery: Vectors | None = None
    positives: PairsLike | None = None
    means: str | Fitted | None = None

    def __post_init__(self) -> None:
        check_means(self.means)
        if self.means == TRAIN and self.documents is None:
            raise BadInput("means='train' needs documents of a training split, and there are none. Use 'own'.")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Corpus:
    """A benchmark as arrays: encoded documents and queries, their ids, the judgements, and references for calibrations.

    ``owner``: the document of each row of ``documents``; ids are those of documents, not of rows. ``types``: the type
    of each query that has one. ``excluded``: documents that are removed from the ranking of a query. A right document
    that is missing from the corpus still counts as right.
    """

    document_ids: Ids
    documents: Vectors
    query_ids: Ids
    queries: Vectors
    qrels: Qrels
    references: References
    owner: OwnerLike | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    benchmark: str = ""
    encoder: str = ""

    def __post_init__(self) -> None:
        passages = Passages.of(self.documents, self.owner)
        for name, ids, count in (
            ("document", self.document_ids, len(passages)),
            ("query", self.query_ids, len(self.queries)),
        ):
            if len(ids) != count:
                raise BadInput(f"There are {count} {name} vectors and {len(ids)} ids. Each {name} needs one id.")
            if len(set(ids)) < count:
                raise BadInput(f"Some {name} ids occur twice. Ids must be unique.")
        known, found = set(self.query_ids), set(self.document_ids)
        unknown = [query for query in self.qrels if query not in known]
        if unknown:
            raise BadInput(
                f"{len(unknown)} judged queries are not among the queries, the first of them {unknown[0]!r}."
            )
        right = [d for judged in self.qrels.values() for d, rel in judged.items() if rel > 0]
        if not any(document in found for document in right):
            raise BadInput("No right document is among the documents. Check that ids and judgements belong together.")

    @property
    def modality(self) -> dict[str, str]:
        """The modality of each document."""
        found = Passages.of(self.documents, self.owner).modality
        return {str(name): str(kind) for name, kind in zip(self.document_ids, found, strict=True)}

    def with_conditions(self, *, positives: str = "pseudo", sources: str = "apart") -> Corpus:
        """Return the corpus with its references used under other conditions, such as a paper's.

        ``positives``: where ``standardize`` takes its statistics from: ``pseudo``, each reference query's best document
        of a modality; ``labelled``, the document it was made from. ``sources``: ``apart``, a reference query never
        meets the document it was made from; ``as-published``, it does, as in the papers.
        """
        labelled, published = conditions(positives, sources)
        known = self.references
        pairs = known.sources if known.positives is None else known.positives
        if labelled and pairs is None:
            raise BadInput(
                f"The reference queries of {self.benchmark or 'this corpus'} have no known right documents. Use "
                "positives 'pseudo', or a benchmark whose other split has judgements."
            )
        used = replace(known, positives=pairs if labelled else None, sources=None if published else known.sources)
        return replace(self, references=used)

    def with_means(self, means: str | Fitted | None) -> Corpus:
        """Return the corpus with other means: "own", "train", those of a fitted calibration, or None, the default.

        A fitted calibration has no means for kinds of queries that it was not fitted on; references of such kinds are
        left out, if the references have no known documents, as those of the built-in bank.
        """
        known = self.references
        if isinstance(means, Fitted) and known.sources is None and known.positives is None:
            known = replace(known, queries=known.queries.take(np.isin(known.queries.modality, means.query_modalities)))
        return replace(self, references=replace(known, means=means))

    def fused(self, alpha: float) -> Corpus:
        """Return the corpus with documents of a text and other parts fused as ``α·text + (1 − α)·other``."""
        if not several_parts(self.documents).any():
            raise BadInput(
                f"No document of {self.benchmark or 'this corpus'} has one vector for its text and another for its "
                "picture: there is nothing to fuse."
            )
        known = self.references
        seen, bank = (None if each is None else weighed(each, alpha) for each in (known.documents, known.gallery))
        references = replace(known, documents=seen, gallery=bank)
        return replace(self, documents=weighed(self.documents, alpha), references=references)


def compare(
    corpus: Corpus,
    specs: Iterable[str | Spec],
    measures: Iterable[str | Measure] = ("nDCG@10",),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    notice: Notice | None = None,
) -> list[Row]:
    """Return a row for each spec, measure and slice, in this order; a spec keeps its name as written.

    ``notice(name, fitted)`` is called before a spec is measured: for progress, and to show what ``auto`` chose;
    ``fitted`` is None for ``alone``.
    """
    names = list(dict.fromkeys(map(_checked, specs)))
    wanted = list(dict.fromkeys(map(Measure.parse, measures)))
    if not names or not wanted:
        raise BadInput("Pass at least one calibration and one measure.")
    depth = max(measure.k or DEPTH for measure in wanted)
    parts = slices(corpus.qrels, modality=corpus.modality, types=corpus.types)
    out: list[Row] = []
    for name in names:
        fitted = None if name == ALONE else fit(corpus, name)
        if notice is not None:
            notice(name, fitted)
        run = None if fitted is None else ranked(corpus, fitted, depth)
        runs = {part: alone(corpus, qrels, depth) if run is None else run for part, qrels in parts.items()}
        for measure in wanted:
            for part, qrels in parts.items():
                found = interval(values(measure, runs[part], qrels), resamples=resamples, rng=seed)
                out.append(Row(corpus.benchmark, corpus.encoder, name, str(measure), part, *found))
    return out


def fit(corpus: Corpus, spec: str | Spec) -> Fitted:
    """Fit a calibration on the corpus's references, with the means that these name."""
    known = corpus.references

    def fitted(spec: str | Spec, means: Fitted | None = None) -> Fitted:
        return calibration.fit(
            spec,
            corpus.documents if known.documents is None else known.documents,
            known.queries,
            positives=known.positives,
            sources=known.sources,
            reference_documents=known.gallery,
            owner=corpus.owner if known.documents is None else known.owner,
            means=means,
        )

    given = known.means if isinstance(known.means, Fitted) else None
    if given is None and (known.means != OWN or known.documents is None):
        return fitted(spec)
    chosen = fitted(spec) if spec == AUTO else None  # it compares calibrations with the references' means
    spec = Spec.parse(spec) if chosen is None else chosen.spec
    if isinstance(spec.shift, NoShift):
        return fitted(spec) if chosen is None else chosen
    shift = Spec(spec.steps[:1])
    moved = fitted(spec, given or calibration.fit(shift, corpus.documents, known.queries, owner=corpus.owner))
    return moved if chosen is None else replace(moved, tuned=chosen.tuned, note=chosen.note)


def ranked(corpus: Corpus, fitted: Fitted, k: int = DEPTH) -> dict[str, dict[str, float]]:
    """Search every query under a fitted calibration and return the run."""
    return _run(corpus, scored(corpus, fitted), k, corpus.query_ids)


def alone(corpus: Corpus, qrels: Qrels | None = None, k: int = DEPTH) -> dict[str, dict[str, float]]:
    """Search every judged query by raw cosine among documents of its right documents' modalities, and return the run.

    ``qrels``: those of a slice; then the right documents are those of the slice.
    """
    qrels = corpus.qrels if qrels is None else qrels
    passages = Passages.of(corpus.documents, corpus.owner)
    code = dict(zip(map(str, corpus.document_ids), passages.modality_code.tolist(), strict=True))
    judged = np.array([row for row, query in enumerate(corpus.query_ids) if query in qrels], dtype=np.intp)
    names = [str(corpus.query_ids[row]) for row in judged]
    allowed = np.zeros((len(names), len(passages.modalities)), dtype=bool)
    for row, query in enumerate(names):
        allowed[row, [code[d] for d, rel in qrels[query].items() if rel > 0 and d in code]] = True
    raw = fit(corpus, "none")
    blocks = (
        (rows, np.where(allowed[rows][:, passages.modality_code], scores, -np.inf))
        for rows, scores in scored(corpus, raw, corpus.queries.take(judged))
    )
    return _run(corpus, blocks, k, names)


def scored(corpus: Corpus, fitted: Fitted, queries: Vectors | None = None) -> Iterator[tuple[slice, Matrix]]:
    """Yield queries (default: the corpus's own) and their scores of all documents, block by block."""
    queries = corpus.queries if queries is None else queries
    return in_blocks(fitted, queries, corpus.documents, corpus.owner, _sources(corpus))


def in_blocks(
    fitted: Fitted,
    queries: Vectors,
    documents: Vectors,
    owner: OwnerLike | None = None,
    sources: PairsLike | None = None,
) -> Iterator[tuple[slice, Matrix]]:
    """Yield queries and their scores of all documents, by block: folded if the calibration folds."""
    passages = Passages.of(documents, owner)
    step = max(1, BLOCK_BYTES // (8 * max(1, len(documents))))
    blocks = [slice(first, min(first + step, len(queries))) for first in range(0, len(queries), step)]
    if fitted.spec.per_query is not None:
        for rows in blocks:
            yield rows, fitted.scores(queries.take(rows), documents, owner=owner)
        return
    folded = fitted.fold(documents, sources=sources, owner=owner)
    active = fitted.activation(queries, folded) if fitted.spec.dynamic else None
    folded_queries = fitted.fold_queries(queries, active=active)
    found = passages.modality
    for rows in blocks:
        inner = best_columns(folded_queries.vectors[rows] @ folded.vectors.T, passages.starts)
        yield rows, fitted.finish(inner, folded_queries.modality[rows], found)


def _sources(corpus: Corpus) -> PairsLike | None:
    """Return the searched document of each reference query; none if the references have their own documents."""
    return corpus.references.sources if corpus.references.documents is None else None


def _run(corpus: Corpus, blocks: Iterable[tuple[slice, Matrix]], k: int, queries: Ids) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for rows, scores in blocks:
        out |= run_of(_without_excluded(corpus, scores, queries[rows]), queries[rows], corpus.document_ids, k)
    return out


def _without_excluded(corpus: Corpus, scores: Matrix, queries: Ids) -> Matrix:
    """Return the scores with −inf for the documents that a query excludes."""
    if not corpus.excluded:
        return scores
    place = {str(name): column for column, name in enumerate(corpus.document_ids)}
    scores = scores.copy()
    for row, query in enumerate(queries):
        scores[row, [place[name] for name in corpus.excluded.get(str(query), ()) if name in place]] = -np.inf
    return scores


def conditions(positives: str, sources: str) -> tuple[bool, bool]:
    """Return whether positives are labelled, and whether sources are used as published; reject other words.

    >>> conditions("labelled", "apart")
    (True, False)
    """
    return (
        lookup({"pseudo": False, "labelled": True}, positives, "kind of positives"),
        lookup({"apart": False, "as-published": True}, sources, "way to use sources"),
    )


def needs_gallery(specs: Iterable[str | Spec]) -> bool:
    """Return whether a spec needs a gallery bank.

    >>> needs_gallery(["none", "dbnorm", "auto"]), needs_gallery(["dbnorm(beta_gallery=0)", "alone"])
    (True, False)
    """
    parsed = [Spec.parse(spec) for spec in specs if spec not in (ALONE, AUTO)]
    return any(spec.correction is not None and spec.correction.needs_gallery for spec in parsed)


def _checked(spec: str | Spec) -> str:
    """Return the spec as written, or reject it before anything is fitted."""
    if spec not in (ALONE, AUTO):
        Spec.parse(spec)
    return str(spec)
