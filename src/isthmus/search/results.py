"""From rankings to hits: filter by P(match), group near-duplicates, and fetch the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isthmus.calibration.none import Raw
from isthmus.documents import Document
from isthmus.kinds import TEXT, atoms
from isthmus.search.explain import Scored, fused_vectors, with_explanations
from isthmus.search.hits import Hit, MatchedSegment, Passage
from isthmus.search.page_texts import page_of, read_parts
from isthmus.search.ranking import Ranking
from isthmus.search.snapshot import Snapshot
from isthmus.storage.protocols import Store
from isthmus.storage.segments import Segment, combination
from isthmus.types import Matrix, Rows, Vectors

ALIKE = 0.97  # the raw cosine from which two documents count as nearly the same


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """A query's ranking with probabilities and word scores, before documents are fetched.

    ``others``: rows of near-duplicates that were grouped, by the row of the document that is shown.
    """

    ranking: Ranking
    probability: Matrix | None
    words: Matrix | None = None
    others: Mapping[int, list[int]] | None = None
    raised: Matrix | None = None  # what was added because the document has the part of the query, or NaN

    def take(self, places: Rows) -> Answer:
        """Return the answer at these places."""
        return replace(
            self,
            ranking=self.ranking.take(places),
            probability=None if self.probability is None else self.probability[places],
            words=None if self.words is None else self.words[places],
            raised=None if self.raised is None else self.raised[places],
        )

    def probable(self, least: float | None) -> Answer:
        """Leave out documents with a lower P(match)."""
        if least is None or self.probability is None:
            return self
        return self.take(np.flatnonzero(self.probability >= least))


def grouped(answer: Answer, store: Store) -> Answer:
    """Keep the first of near-duplicates, and record the others."""
    rows = answer.ranking.documents.tolist()
    means = {row: mean_direction(fused) for row, fused in fused_vectors(store.segments(rows)).items()}
    kept: list[int] = []
    others: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row not in means:
            continue  # deleted since the search began
        kind = answer.ranking.modality[place]
        alike = (rows[at] for at in kept if answer.ranking.modality[at] == kind)
        first = next((other for other in alike if float(means[other] @ means[row]) >= ALIKE), None)
        if first is None:
            kept.append(place)
        else:
            others.setdefault(first, []).append(row)
    return replace(answer.take(np.array(kept, dtype=np.intp)), others=others)


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """What the hits of some answers need: documents, their vectors, and the queries' raw vectors."""

    snapshot: Snapshot
    queries: Vectors
    asked: Matrix
    documents: Mapping[int, Document]
    segments: Mapping[int, Sequence[Segment]]
    fused: Mapping[int, Matrix]
    before: Sequence[Mapping[int, int]] | None  # ranks by raw cosine, where explanations are wanted

    @classmethod
    def of(
        cls,
        store: Store,
        snapshot: Snapshot,
        queries: Vectors,
        answers: Sequence[Answer],
        before: Sequence[Mapping[int, int]] | None,
    ) -> Fetched:
        """Fetch the documents and vectors of all answers at once."""
        rows = {int(row) for answer in answers for row in answer.ranking.documents}
        grouped_rows = {row for answer in answers for several in (answer.others or {}).values() for row in several}
        segments = store.segments(sorted(rows))
        documents = store.documents(sorted(rows | grouped_rows))
        raw = Raw().queries(queries, np.float32)
        return cls(snapshot, queries, raw, documents, segments, fused_vectors(segments), before)

    def hits(self, at: int, answer: Answer, offset: int) -> list[Hit]:
        """Return the hits of one query; the first has rank ``offset`` + 1."""
        rows = enumerate(answer.ranking.documents.tolist())
        places = [place for place, row in rows if row in self.documents and row in self.fused]  # others were deleted
        hits = [self._hit(at, answer, place, offset) for place in places]
        if self.before is None:
            return hits
        scored = [self._scored(at, answer, place, hit) for place, hit in zip(places, hits, strict=True)]
        return with_explanations(self.snapshot, self.queries.take(np.array([at])), scored)

    def _hit(self, at: int, answer: Answer, place: int, offset: int) -> Hit:
        row, number = int(answer.ranking.documents[place]), int(answer.ranking.passages[place])
        document, fused = self.documents[row], self.fused[row]
        others = (answer.others or {}).get(row, ())
        best = combination(self.segments[row], number)
        return Hit(
            id=document.id,
            score=float(answer.ranking.scores[place]),
            similarity=float(fused[min(number, len(fused) - 1)] @ self.asked[at]),
            probability=None if answer.probability is None else float(answer.probability[place]),
            modality=answer.ranking.modality[place],
            document=document,
            rank=offset + place + 1,
            passage=_passage(document, best, number),
            segments=tuple(_matched(document, segment) for segment in best),
            page=page_of(document.metadata, _texts_first(best)),
            duplicates=tuple(self.documents[other].id for other in others if other in self.documents),
        )

    def _scored(self, at: int, answer: Answer, place: int, hit: Hit) -> Scored:
        row, number = int(answer.ranking.documents[place]), int(answer.ranking.passages[place])
        before = None if self.before is None else self.before[at].get(row)
        return Scored(
            hit,
            combination(self.segments[row], number),
            float(answer.ranking.inner[place]),
            before,
            words=_known(answer.words, place),
            raised=_known(answer.raised, place),
        )


def _known(values: Matrix | None, place: int) -> float | None:
    """Return a value; None where it is missing."""
    return None if values is None or np.isnan(values[place]) else float(values[place])


def mean_direction(rows: Matrix) -> Matrix:
    """Return the unit mean of a document's vectors."""
    mean = rows.mean(axis=0)
    length = np.linalg.norm(mean)
    return np.asarray(mean / length if length > 0 else mean)


def _passage(document: Document, best: Sequence[Segment], number: int) -> Passage | None:
    """Return the words that match best; None for a document without any."""
    if not document.text:
        return None
    texts = [at for at, part in enumerate(document.parts) if part.kind == TEXT]
    mine = next((segment for segment in best if TEXT in atoms(segment.name) and segment.parts[0] in texts), None)
    part = texts[0] if mine is None else mine.parts[0]
    content = document.parts[part].content
    start, stop = (None, None) if mine is None else (mine.start, mine.stop)
    start, stop = (0, len(content)) if start is None or stop is None else (int(start), int(stop))
    return Passage(number, start, stop, content[start:stop], part, part in read_parts(document.metadata))


def _texts_first(best: Sequence[Segment]) -> list[int]:
    """Return the parts that matched, those of words first."""
    return [segment.parts[0] for segment in sorted(best, key=lambda segment: TEXT not in atoms(segment.name))]


def _matched(document: Document, segment: Segment) -> MatchedSegment:
    there = tuple(number for number in segment.parts if number < len(document.parts))
    return MatchedSegment(segment.name, there, segment.start, segment.stop)
