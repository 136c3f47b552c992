"""The results of a search: hits, passages and explanations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from isthmus.documents import Document
from isthmus.errors import shown
from isthmus.kinds import SECONDS, atoms, moment, stored

if TYPE_CHECKING:
    from isthmus.align import Aligned


@dataclass(frozen=True, slots=True)
class Passage:
    """The words that match best: ``text`` is ``document.parts[part].content[start:stop]``.

    ``from_picture``: they were read from a picture (OCR), and may have mistakes.
    """

    number: int  # of the row of the document that matched
    start: int
    stop: int
    text: str
    part: int = 0
    from_picture: bool = False


@dataclass(frozen=True, slots=True)
class MatchedSegment:
    """One of the vectors that matched together: its name, the numbers of its parts, and the span of the first of them.

    What a span measures depends on the kind: characters of a text, seconds of a sound. None: the whole part.
    """

    name: str
    parts: tuple[int, ...]
    start: float | None = None
    stop: float | None = None

    @property
    def moment(self) -> str | None:
        """When it is, of a sound or a video.

        >>> MatchedSegment("audio", (0,), 42.0, 47.0).moment
        '0:42–0:47'
        """
        timed = self.stop is not None and stored(atoms(self.name)[0]).span == SECONDS
        return moment(self.start or 0.0, self.stop or 0.0) if timed else None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a score was computed: ``score = slope · (similarity + shift − bias) + offset``, plus words and ``raised``."""

    parts: Mapping[str, float]  # the raw cosine of the query with each part of the document
    similarity: float
    shift: float  # what the shift added to the similarity
    bias: float  # what was subtracted because the document is near everything
    slope: float
    offset: float
    score: float
    rank_before: int | None  # by raw similarity, among the first 300 of each modality; None beyond 300
    rank: int
    words: float | None = None  # what words added to the score, in a hybrid search
    raised: float | None = None  # what was added because the document has the picture of the query
    aligned: Aligned | None = None  # how the query was aligned before the search
    rank_by_score: int | None = None  # its rank by score, if hits were reranked
    matched: float | None = None  # the score of the reranker
    no_probability: str | None = None  # why the hit has no P(match)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {value:.3f}" for name, value in self.parts.items())
        before = "beyond" if self.rank_before is None else f"rank {self.rank_before}"
        words = "" if self.words is None else f", words {self.words:+.2f} = {self.score + self.words:.2f}"
        raised = f"raised by {self.raised:.2f}" if self.raised and self.raised >= 0.005 else "first already"
        words += "" if self.raised is None else f", {raised}: the same as the query or nearly so"
        again = "" if self.rank_by_score is None else f"rank {self.rank_by_score} by score, "
        again += "" if self.matched is None else f"matched {self.matched:+.2f}, "
        return (
            f"{before} by raw similarity {self.similarity:.3f} ({parts}); shift {signed(self.shift, 3)}, bias "
            f"{signed(-self.bias, 3)}, then × {self.slope:.2f} {signed(self.offset, 2)} = score {self.score:.2f}"
            f"{words}; {again}now rank {self.rank}" + (f"; {self.no_probability}" if self.no_probability else "")
        )


def signed(value: float, places: int) -> str:
    """Write a number with its sign; what rounds to zero is +0.

    >>> signed(-0.0001, 3), signed(-0.5, 3)
    ('+0.000', '-0.500')
    """
    return f"{round(value, places) + 0.0:+.{places}f}"


class Hits(list["Hit"]):
    """The hits of a search, best first.

    ``missing``: the servers that did not answer a search with ``partial``, so hits may be missing; empty for a complete
    answer.
    """

    def __init__(self, hits: Iterable[Hit] = (), missing: Sequence[str] = ()) -> None:
        super().__init__(hits)
        self.missing = tuple(missing)


@dataclass(frozen=True, slots=True, repr=False)
class Hit:
    """A document that was found. ``probability`` is P(match), None if the collection has no P(match).

    ``matched`` is the score of the reranker; None without one, or if it could not score this hit. ``page`` is the
    number of the page, of a document that is one or has several.
    """

    id: str
    score: float
    similarity: float
    probability: float | None
    modality: str
    document: Document
    rank: int
    passage: Passage | None = None
    explanation: Explanation | None = None
    duplicates: tuple[str, ...] = field(default=())  # nearly the same documents further down, when grouped
    matched: float | None = None
    segments: tuple[MatchedSegment, ...] = ()  # what matched best in the document
    page: int | None = None

    @property
    def moment(self) -> str | None:
        """The time that matched best in a sound or a video, as in ``0:42–0:47``; None for other documents.

        What is said in a recording has it in its metadata (``isthmus.sources.speech``).
        """
        said = self.document.metadata.get("moment")
        found = next((segment.moment for segment in self.segments if segment.moment), None)
        return found or (said if isinstance(said, str) else None)

    def __repr__(self) -> str:
        """Return a short form, without the document."""
        p = "None" if self.probability is None else f"{self.probability:.3f}"
        what = f"id={shown(self.id)}, score={self.score:.3f}, probability={p}, modality={self.modality!r}"
        return f"Hit(rank={self.rank}, {what})"
