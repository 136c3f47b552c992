"""Collect the input of a diagnosis from a collection: samples, queries, rankings, pictures.

Queries are those that judge calibrations (``isthmus.search.references``), or the user's own. Each is ranked over the
whole collection, raw and calibrated. Its source is scored as in those trials, without the part it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.diagnose.diagnosis import TOP, CollectionState, Diagnosis, Evidence, Side, diagnose
from isthmus.diagnose.moves import rank
from isthmus.documents import Document, ImageLike, Query
from isthmus.encoders.images import Frame, read
from isthmus.errors import BadImage, BadInput
from isthmus.search import Collection
from isthmus.search.observations import own_scores
from isthmus.search.ranking import Ranking, ranked
from isthmus.search.references import Own, ReferenceCorpus
from isthmus.search.snapshot import Snapshot
from isthmus.types import Matrix, Rows

QUESTIONS = 1000  # of each modality, in addition to those with a known source
DEPTH = 100  # ranks that are searched for a source
AT_ONCE = 256  # queries per batch
THUMBNAIL = 160  # pixels a side
SHOWN = 3  # documents of a moved query, on each side


@dataclass(frozen=True, slots=True)
class Card:
    """A document as shown on the page: id, modality, the beginning of its text, and a small JPEG of its picture."""

    id: str
    modality: str
    text: str = ""
    picture: bytes | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a shown ranking; ``right`` marks the right document."""

    rank: int
    card: Card
    right: bool = False


@dataclass(frozen=True, slots=True)
class MovedQuery:
    """A query whose right document moved: its words, the document, and the first lines before and after."""

    words: str
    source: Card
    target: str  # its modality without the text or picture that the query was made from
    before: int
    after: int
    raw: tuple[Line, ...]
    calibrated: tuple[Line, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """A diagnosis, and the documents that are shown with its numbers."""

    diagnosis: Diagnosis
    cards: Mapping[int, Card]  # the worst hubs, by number
    up: tuple[MovedQuery, ...]
    down: tuple[MovedQuery, ...]
    sampled: int
    own: bool  # whether the queries are the user's


def examine(
    things: Collection,
    queries: Sequence[str | Query | tuple[str | Query, str]] | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Examination:
    """Diagnose a collection; ``queries`` are your own, with the id of the right document if you know it.

    ``progress`` is called with (done, total), counted in rankings: two of each query, raw and calibrated.
    """
    if not len(things):
        raise BadInput(f"{things.path} is empty: there is nothing to diagnose. Index something first.")
    own = [(Query.of(q[0]), q[1]) if isinstance(q, tuple) else (Query.of(q), None) for q in queries or ()]
    for _, name in own:
        if name is not None:
            things.get(name)  # an unknown id is an error with the nearest known one
    return things.retry_if_reencoded(lambda: _examined(things, own, progress or _ignore))


def _ignore(done: int, total: int) -> None:
    """Show no progress."""


def _examined(things: Collection, own: Own, progress: Callable[[int, int], None]) -> Examination:
    served, raw = things.snapshot(), things.snapshot(raw=True)
    gathered = things.references(own)
    ranked_queries = _RankedQueries(things, gathered.real if own else gathered.trial, len(own))
    sides = ranked_queries.sides(raw, served, progress)
    evidence = ranked_queries.evidence(gathered.real, served, sides)
    fitted = served.calibrated.fitted
    stats = things.stats()
    state = CollectionState(
        place=str(things.path),
        spec=str(fitted.spec),
        made=served.calibrated.made,
        note=fitted.note,
        drift=stats.drift,
        drifted=things.drifted,
    )
    found = diagnose(evidence, state)
    shown = _Shown(things, ranked_queries)
    cards = {hub.document: shown.card(hub.document) for hub in (*found.hubs.worst, *found.hubs.worst_after)}
    up, down = (shown.moved(found, evidence, which) for which in (found.moves.up, found.moves.down))
    return Examination(found, cards, up, down, len(evidence.sampled), bool(own))


class _RankedQueries:
    """The queries, and the numbers of the documents in their rankings."""

    def __init__(self, things: Collection, corpus: ReferenceCorpus, own: int) -> None:
        self.things, self.corpus = things, corpus
        self.rows = np.arange(own) if own else _picked(corpus)
        rows_of = things.store.rows_of(
            corpus.ids[place] for place in np.unique(corpus.sources[self.rows]) if place >= 0
        )
        named = ((int(place), rows_of.get(corpus.ids[place], -1)) for place in np.unique(corpus.sources) if place >= 0)
        stored = dict(named)
        self.sources = np.array([stored.get(int(place), -1) for place in corpus.sources[self.rows]], dtype=np.intp)
        self.judges = corpus.judges[self.rows] & (self.sources >= 0)
        self.copies = [things.store.copies(int(row)) if row >= 0 else set() for row in self.sources]
        self.numbers: dict[int, int] = {}  # row in the store → number
        self.modality: list[str] = []

    def sides(self, raw: Snapshot, served: Snapshot, progress: Callable[[int, int], None]) -> tuple[Side, Side]:
        """Rank every query both ways; vectors are added later."""
        n = len(self.rows)
        first = self._side(raw, lambda done: progress(done, 2 * n))
        return first, self._side(served, lambda done: progress(n + done, 2 * n))

    def _side(self, served: Snapshot, tell: Callable[[int], None]) -> Side:
        lists = np.full((len(self.rows), TOP), -1, dtype=np.intp)
        scores = np.full((len(self.rows), DEPTH), -np.inf)
        for start in range(0, len(self.rows), AT_ONCE):
            some = self.rows[start : start + AT_ONCE]
            several = ranked(served, self.corpus.queries.take(some), DEPTH + 1)
            for at, ranking in enumerate(several, start):
                self._without_source(ranking, at, lists, scores)
            tell(start + len(some))
        ranks = np.zeros(len(self.rows), dtype=np.intp)
        known = np.flatnonzero(self.judges)
        if len(known):
            ranks[known] = rank(own_scores(served, self.corpus, self.rows[known]), scores[known])
        return Side(np.empty((0, 0)), lists, ranks)

    def _without_source(self, ranking: Ranking, at: int, lists: Rows, scores: Matrix) -> None:
        kept = [place for place, row in enumerate(ranking.documents.tolist()) if row not in self.copies[at]][:DEPTH]
        scores[at, : len(kept)] = ranking.scores[kept]
        for place, line in enumerate(kept[:TOP]):
            lists[at, place] = self.number(int(ranking.documents[line]), ranking.modality[line])

    def number(self, row: int, modality: str) -> int:
        if row not in self.numbers:
            self.numbers[row] = len(self.modality)
            self.modality.append(modality)
        return self.numbers[row]

    def evidence(self, real: ReferenceCorpus, served: Snapshot, sides: tuple[Side, Side]) -> Evidence:
        first = np.searchsorted(real.owner, np.arange(len(real.ids)))
        vectors = [
            _by_document(shift.documents(real.documents, np.float32), first, len(real.owner))
            for shift in (Raw(), served.calibrated.fitted.shift)
        ]
        starts = np.searchsorted(self.corpus.owner, np.arange(len(self.corpus.ids)))
        targets = self.corpus.documents.modality[starts[np.maximum(self.corpus.sources[self.rows], 0)]]
        raw, calibrated = (Side(matrix, side.lists, side.ranks) for matrix, side in zip(vectors, sides, strict=True))
        return Evidence(
            raw=raw,
            calibrated=calibrated,
            sampled=real.documents.modality[first],
            modality=np.array(self.modality, dtype=str),
            corpus=self.things.store.counts(),
            query_modality=self.corpus.queries.modality[self.rows],
            target=np.where(self.judges, targets, ""),
        )


def _picked(corpus: ReferenceCorpus) -> Rows:
    """Return every query that judges, and some of the others of each modality."""
    picked = [np.flatnonzero(corpus.judges)]
    for name in corpus.queries.modalities:
        others = np.flatnonzero((corpus.queries.modality == name) & ~corpus.judges)
        picked.append(others[np.linspace(0, len(others) - 1, min(len(others), QUESTIONS)).astype(np.intp)])
    return np.sort(np.concatenate(picked))


def _by_document(rows: Matrix, first: Rows, n: int) -> Matrix:
    """Return the mean of each document's passages."""
    lengths = np.diff(np.append(first, n))
    return np.asarray(np.add.reduceat(rows, first, axis=0) / lengths[:, None])


class _Shown:
    """Documents as cards, each fetched once."""

    def __init__(self, things: Collection, queries: _RankedQueries) -> None:
        self.things, self.queries = things, queries
        self.rows = {number: row for row, number in queries.numbers.items()}
        self.made: dict[int, Card] = {}

    def card(self, number: int) -> Card:
        return self._of_row(self.rows[number], self.queries.modality[number])

    def _of_row(self, row: int, modality: str) -> Card:
        if row not in self.made:
            document = self.things.store.documents([row]).get(row)
            self.made[row] = _card(document, modality) if document else Card("(deleted)", modality)
        return self.made[row]

    def moved(self, found: Diagnosis, evidence: Evidence, which: Iterable[int]) -> tuple[MovedQuery, ...]:
        moved = []
        for place in which:
            at = int(found.questions[place])
            target = str(evidence.target[at])
            source = self._of_row(int(self.queries.sources[at]), target)
            lines = [self._lines(side, at, source) for side in (evidence.raw, evidence.calibrated)]
            ranks = int(evidence.raw.ranks[at]), int(evidence.calibrated.ranks[at])
            words = self.queries.corpus.words[self.queries.rows[at]]
            moved.append(MovedQuery(words, source, target, *ranks, *lines))
        return tuple(moved)

    def _lines(self, side: Side, at: int, source: Card) -> tuple[Line, ...]:
        others = [self.card(int(number)) for number in side.lists[at] if number >= 0]
        place = int(side.ranks[at])
        cards = [(card, False) for card in others[: place - 1]] + [(source, True)] * (place <= len(others) + 1)
        cards += [(card, False) for card in others[place - 1 :]]
        return tuple(Line(number, card, right) for number, (card, right) in enumerate(cards[:SHOWN], 1))


def _card(document: Document, modality: str) -> Card:
    words = " ".join((document.text or "").split())
    picture = None if document.image is None else thumbnail(document.image)
    return Card(document.id, modality, words if len(words) <= 140 else words[:139].rstrip() + "…", picture)


def thumbnail(image: ImageLike) -> bytes | None:
    """Return a small square JPEG of a picture; None if it cannot be read."""
    from PIL import Image

    try:
        pixels = read(image, Frame(THUMBNAIL, "crop"))
    except BadImage:
        return None
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=72, optimize=True)
    return file.getvalue()
