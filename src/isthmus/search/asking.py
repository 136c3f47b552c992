"""One search, from queries to hits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.documents import Document, Query
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, CannotFit
from isthmus.search import filters, hybrid, lexical
from isthmus.search.hits import Explanation, Hit, Passage
from isthmus.search.keeper import Keeper
from isthmus.search.probability import FIELD, field_of
from isthmus.search.questions import query_vectors
from isthmus.search.ranking import Allowed, Ranking, ranked, wanted
from isthmus.search.served import Served
from isthmus.search.store import Piece, Store, assembled
from isthmus.types import Mask, Matrix, Rows, Vectors

ALIKE = 0.97  # the raw cosine from which two documents count as nearly the same
RANKS = 1000  # how far down the raw ranking is looked for a hit's rank before calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a search may be told; ``Collection.search`` says what each means."""

    k: int = 10
    offset: int = 0
    where: Mapping[str, Any] | None = None
    modalities: str | Sequence[str] | None = None
    hybrid: bool = False
    min_probability: float | None = None
    explain: bool = False
    group: bool = False
    raw: bool = False

    def __post_init__(self) -> None:
        for name, value, least in (("k", self.k, 1), ("offset", self.offset, 0)):
            if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
                raise BadInput(f"{name} is {value!r}; it must be a whole number of at least {least}.")
        p = self.min_probability
        if p is not None and (not isinstance(p, Real) or not 0 <= float(p) <= 1):
            raise BadInput(f"min_probability is {p!r}; it must lie between 0 and 1.")

    @property
    def depth(self) -> int:
        """How many documents have to be looked at to give what is asked."""
        return max(self.offset + self.k, FIELD + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A query's ranking with what goes beside it, before documents are fetched."""

    ranking: Ranking
    probability: Matrix | None
    words: Matrix | None = None


def search_many(
    keeper: Keeper, load: Callable[[], Encoder | None], asked: Sequence[Query], options: Options
) -> list[list[Hit]]:
    """Answer queries together."""
    served = keeper.raw() if options.raw else keeper.served()
    if not served.all_shelves:
        return [[] for _ in asked]
    vectors = query_vectors(asked, load, served.calibrated.fitted.dim)
    allowed = _allowed(keeper.store, options.where)
    depth = options.depth
    while True:
        answers = _answers(served, keeper.store, asked, vectors, options, allowed, depth)
        hits, short = _hits(keeper, served, vectors, answers, options, depth)
        if not short:
            return hits
        depth *= 4


def _allowed(store: Store, where: Mapping[str, Any] | None) -> Allowed | None:
    if where is None or where == {}:
        return None
    condition = filters.compiled(where)
    rows = np.array([row for (row,) in store.database.all(condition.sql, *condition.values)], dtype=np.int64)
    last = int(rows.max(initial=0))
    may = np.zeros(last + 1, dtype=bool)
    may[rows] = True

    def allowed(documents: Rows) -> Mask:
        return np.asarray(may[np.minimum(documents, last)] & (documents <= last))

    return allowed


def _answers(
    served: Served,
    store: Store,
    asked: Sequence[Query],
    vectors: Vectors,
    options: Options,
    allowed: Allowed | None,
    depth: int,
) -> list[Answer]:
    modalities = wanted(served, options.modalities)
    joined = served.calibrated.hybrid if options.hybrid else None
    if options.hybrid and joined is None and not options.raw:
        raise CannotFit(
            "This collection has too few texts to weigh words against vectors. Search without hybrid, or add documents."
        )
    together = ranked(served, vectors, depth, allowed=allowed, modalities=modalities)
    fields = _fields(served, vectors, together, everywhere=allowed is None and modalities is None)
    answers: list[Answer] = []
    for row, ranking in enumerate(together):
        query = asked[row]
        p = _probability(served, str(vectors.modality[row]), ranking.scores, fields[row])
        if joined is None or not query.text:
            answers.append(Answer(ranking, p))
            continue
        one = vectors.take(np.array([row]))
        said = lexical.search(store.database, query.text, hybrid.WORDS, options.where)
        found = hybrid.candidates(served, one, said, max(depth, hybrid.DEPTH), allowed, modalities)
        share = hybrid.shares_of(store, found, said, query.text)
        again, order = hybrid.reordered(joined, found, share)
        p = _probability(served, str(vectors.modality[row]), found.scores[order], fields[row])
        answers.append(Answer(again, p, share[order]))
    return answers


def _fields(served: Served, vectors: Vectors, found: Sequence[Ranking], *, everywhere: bool) -> list[float]:
    """Return each query's field over the whole collection: a filter does not change how likely a hit is right."""
    if not everywhere and served.calibrated.match is not None:
        found = ranked(served, vectors, FIELD + 1)
    return [field_of(ranking.scores) for ranking in found]


def _probability(served: Served, modality: str, scores: Matrix, field: float) -> Matrix | None:
    match = served.calibrated.match
    return None if match is None else match.probability(modality, scores, field)


def _hits(
    keeper: Keeper, served: Served, vectors: Vectors, answers: Sequence[Answer], options: Options, depth: int
) -> tuple[list[list[Hit]], bool]:
    """Return the hits, and whether grouping has left too few of them though there is more to look at."""
    store = keeper.store
    if options.min_probability is not None and any(answer.probability is None for answer in answers):
        raise CannotFit(
            "This collection cannot say how probable a match is: too few of its documents could be asked for. Leave "
            "min_probability out, or calibrate with queries whose answers you know."
        )
    answers = [_probable(answer, options.min_probability) for answer in answers]
    span = slice(options.offset, options.offset + options.k)
    looked_at = slice(0 if options.group else options.offset, None)
    rows = sorted({int(row) for answer in answers for row in answer.ranking.documents[looked_at]})
    pieces = store.pieces(rows)
    gone = set(rows) - pieces.keys()
    if gone:  # since the search began
        answers = [
            _some(answer, np.flatnonzero([row not in gone for row in answer.ranking.documents.tolist()]))
            for answer in answers
        ]
    fused = _fused(pieces)
    asked = Raw().queries(vectors, np.float32)
    kept = [_grouped(answer, fused) if options.group else (answer, {}) for answer in answers]
    pairs = zip(answers, kept, strict=True)
    if options.group and any(
        len(whole.ranking) >= depth and len(some.ranking) < span.stop for whole, (some, _) in pairs
    ):
        return [], True
    shown = sorted(
        {int(row) for answer, _ in kept for row in answer.ranking.documents[span]}
        | {row for _, others in kept for several in others.values() for row in several}
    )
    documents = store.documents(shown)
    before = _ranks_before(keeper, vectors) if options.explain else None
    out: list[list[Hit]] = []
    for at, (answer, others) in enumerate(kept):
        hits: list[Hit] = []
        for place in range(*span.indices(len(answer.ranking))):
            row, passage = int(answer.ranking.documents[place]), int(answer.ranking.passages[place])
            if row not in documents:
                continue  # deleted since the search began
            document = documents[row]
            similarity = float(fused[row][min(passage, len(fused[row]) - 1)] @ asked[at])
            hit = Hit(
                id=document.id,
                score=float(answer.ranking.scores[place]),
                similarity=similarity,
                probability=None if answer.probability is None else float(answer.probability[place]),
                modality=answer.ranking.modality[place],
                document=document,
                rank=place + 1,
                passage=_passage(document, pieces[row], passage),
                duplicates=tuple(documents[other].id for other in others.get(row, ()) if other in documents),
            )
            if before is not None:
                told = _explained(served, vectors, at, hit, pieces[row], answer, place, before[at].get(row))
                hit = replace(hit, explanation=told)
            hits.append(hit)
        out.append(hits)
    return out, False


def _probable(answer: Answer, least: float | None) -> Answer:
    if least is None or answer.probability is None:
        return answer
    return _some(answer, np.flatnonzero(answer.probability >= least))


def _some(answer: Answer, places: Rows) -> Answer:
    r = answer.ranking
    modality = [r.modality[place] for place in places]
    ranking = Ranking(r.documents[places], r.passages[places], r.scores[places], r.inner[places], modality)
    return Answer(
        ranking,
        None if answer.probability is None else answer.probability[places],
        None if answer.words is None else answer.words[places],
    )


def _fused(pieces: Mapping[int, Sequence[Piece]]) -> dict[int, Matrix]:
    """Return the raw fused unit vectors of documents, a row per passage."""
    if not pieces:
        return {}
    vectors, owner = assembled([pieces[row] for row in pieces])
    fused = Raw().documents(vectors, np.float32)
    first = np.searchsorted(owner, np.arange(1, len(pieces)))
    return dict(zip(pieces, np.split(fused, first), strict=True))


def _grouped(answer: Answer, fused: Mapping[int, Matrix]) -> tuple[Answer, dict[int, list[int]]]:
    """Keep the first of documents that are nearly the same; say which others it stands for."""
    kept: list[int] = []
    others: dict[int, list[int]] = {}
    for place, row in enumerate(answer.ranking.documents.tolist()):
        same = [
            first
            for first in kept
            if answer.ranking.modality[first] == answer.ranking.modality[place]
            and float(_mean(fused[int(answer.ranking.documents[first])]) @ _mean(fused[row])) >= ALIKE
        ]
        if same:
            others.setdefault(int(answer.ranking.documents[same[0]]), []).append(row)
        else:
            kept.append(place)
    return _some(answer, np.array(kept, dtype=np.intp)), others


def _mean(rows: Matrix) -> Matrix:
    mean = rows.mean(axis=0)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else mean)


def _passage(document: Document, pieces: Sequence[Piece], number: int) -> Passage | None:
    if not document.text:
        return None
    mine = [piece for piece in pieces if piece.part == "text" and piece.passage == number]
    start, stop = (mine[0].start, mine[0].stop) if mine else (None, None)
    start, stop = (0, len(document.text)) if start is None or stop is None else (start, stop)
    return Passage(number, start, stop, document.text[start:stop])


def _ranks_before(keeper: Keeper, vectors: Vectors) -> list[dict[int, int]]:
    lists = ranked(keeper.raw(), vectors, RANKS)
    return [{int(row): rank + 1 for rank, row in enumerate(one.documents)} for one in lists]


def _explained(
    served: Served,
    vectors: Vectors,
    at: int,
    hit: Hit,
    pieces: Sequence[Piece],
    answer: Answer,
    place: int,
    before: int | None,
) -> Explanation:
    fitted = served.calibrated.fitted
    query = vectors.take(np.array([at]))
    asked = str(query.modality[0])
    passage = int(answer.ranking.passages[place])
    single, _ = assembled([_of_passage(pieces, passage)])
    unit = Raw().queries(query, np.float64)[0]
    parts = {part: float(unit @ (matrix[0] / np.linalg.norm(matrix[0]))) for part, matrix in single.parts.items()}
    shifted = float(fitted.shift.documents(single, np.float64)[0] @ fitted.shift.queries(query, np.float64)[0])
    inner = float(answer.ranking.inner[place])
    ends = fitted.finish(np.array([[0.0, 1.0]]), asked, hit.modality)[0]
    share = None if answer.words is None or np.isnan(answer.words[place]) else float(answer.words[place])
    return Explanation(
        parts=parts,
        similarity=hit.similarity,
        shift=shifted - hit.similarity,
        bias=shifted - inner,
        slope=float(ends[1] - ends[0]),
        offset=float(ends[0]),
        score=float(ends[0] + (ends[1] - ends[0]) * inner),
        rank_before=before,
        rank=hit.rank,
        words=share,
    )


def _of_passage(pieces: Sequence[Piece], number: int) -> list[Piece]:
    split = {piece.part for piece in pieces if piece.passage}
    return [replace(piece, passage=0) for piece in pieces if piece.part not in split or piece.passage == number]
