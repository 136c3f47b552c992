"""The JSON form of hits, documents, explanations and reports: one for ``--json`` and for every server.

Keys are stable: a key may be added, none is renamed or removed within a major version. Numbers may be non-finite;
the code that writes the JSON decides how to show them.

    hit          rank, id, score, similarity, probability, modality, text, image, parts, metadata, passage, segments,
                 moment, duplicates, page
                 and, if requested: matched (rerank), explanation (explain)
    document     id, text, image, parts: [{kind, content, path}], metadata; ``text`` joins all texts, ``image`` is the
                 path of the first picture, or null for one that the collection keeps
    explanation  the fields of ``Explanation``; with align also ``aligned``: what was searched instead of the query
    index report added, updated, unchanged, removed, skipped: [{id, why}], documents, calibration,
                 pages: {read, cached, unread, seconds}: text in pictures
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from isthmus.documents import Document
from isthmus.kinds import IMAGE, Part
from isthmus.search.hits import Explanation, Hit, MatchedSegment, Passage
from isthmus.search.source_events import Indexed

if TYPE_CHECKING:
    from isthmus.align import Aligned


class DocumentJson(TypedDict):
    """A document."""

    id: str
    text: str | None
    image: str | None
    parts: list[PartJson]
    metadata: dict[str, Any]


class PassageJson(TypedDict):
    """Where in a document's text the best match is: a slice of its characters."""

    number: int
    start: int
    stop: int
    text: str
    part: int
    from_picture: bool


class SegmentJson(TypedDict):
    """One of the vectors that matched together; what a span measures depends on the kind."""

    name: str
    parts: list[int]
    start: float | None
    stop: float | None


class PartJson(TypedDict):
    """A part of a document: ``content`` is its text, or null for what is a file or kept by the collection."""

    kind: str
    content: str | None
    path: str | None


class AlignedJson(TypedDict):
    """What was searched instead of the query, and what that cost."""

    query: str | None
    caption: str | None
    fell_back: str | None
    untouched: str | None
    seconds: dict[str, float]
    counts: dict[str, Any] | None


class ExplanationJson(TypedDict):
    """How a score came about; see ``Explanation``."""

    parts: dict[str, float]
    similarity: float
    shift: float
    bias: float
    slope: float
    offset: float
    score: float
    rank_before: int | None
    rank: int
    words: float | None
    raised: float | None
    rank_by_score: int | None
    matched: float | None
    no_probability: NotRequired[str]
    aligned: NotRequired[AlignedJson]


class HitJson(DocumentJson):
    """A hit: its document, and how well it matches."""

    rank: int
    score: float
    similarity: float
    probability: float | None
    modality: str
    passage: PassageJson | None
    segments: list[SegmentJson]
    moment: str | None
    duplicates: list[str]
    page: int | None
    matched: NotRequired[float]
    explanation: NotRequired[ExplanationJson]


class SkippedJson(TypedDict):
    """An input that was skipped, and why."""

    id: str
    why: str


class IndexedJson(TypedDict):
    """What an index run did."""

    added: int
    updated: int
    unchanged: int
    removed: int
    skipped: list[SkippedJson]
    documents: int
    calibration: str | None
    pages: PageCountsJson


class PageCountsJson(TypedDict):
    """Pictures that look like pages: how many were read, how many of these from the cache, how many were not."""

    read: int
    cached: int
    unread: int
    seconds: float


def document_json(document: Document) -> DocumentJson:
    """Return the JSON form of a document; a picture by its path."""
    parts = [_part_json(part) for part in document.parts]
    image = next((part["path"] for part in parts if part["kind"] == IMAGE), None)
    return {
        "id": document.id,
        "text": document.text,
        "image": image,
        "parts": parts,
        "metadata": dict(document.metadata),
    }


def _part_json(part: Part) -> PartJson:
    form = part.to_json(inline=False)
    return {"kind": part.kind, "content": form["content"], "path": form["path"]}


def hit_json(hit: Hit) -> HitJson:
    """Return the JSON form of a hit."""
    document = document_json(hit.document)
    form: HitJson = {
        "rank": hit.rank,
        "id": hit.id,
        "score": hit.score,
        "similarity": hit.similarity,
        "probability": hit.probability,
        "modality": hit.modality,
        "text": document["text"],
        "image": document["image"],
        "parts": document["parts"],
        "metadata": document["metadata"],
        "passage": None if hit.passage is None else _passage_json(hit.passage),
        "segments": [_segment_json(segment) for segment in hit.segments],
        "moment": hit.moment,
        "duplicates": list(hit.duplicates),
        "page": hit.page,
    }
    if hit.matched is not None:
        form["matched"] = hit.matched
    if hit.explanation is not None:
        form["explanation"] = explanation_json(hit.explanation)
    return form


def _passage_json(passage: Passage) -> PassageJson:
    return {
        "number": passage.number,
        "start": passage.start,
        "stop": passage.stop,
        "text": passage.text,
        "part": passage.part,
        "from_picture": passage.from_picture,
    }


def _segment_json(segment: MatchedSegment) -> SegmentJson:
    return {"name": segment.name, "parts": list(segment.parts), "start": segment.start, "stop": segment.stop}


def explanation_json(explanation: Explanation) -> ExplanationJson:
    """Return the JSON form of an explanation."""
    form: ExplanationJson = {
        "parts": dict(explanation.parts),
        "similarity": explanation.similarity,
        "shift": explanation.shift,
        "bias": explanation.bias,
        "slope": explanation.slope,
        "offset": explanation.offset,
        "score": explanation.score,
        "rank_before": explanation.rank_before,
        "rank": explanation.rank,
        "words": explanation.words,
        "raised": explanation.raised,
        "rank_by_score": explanation.rank_by_score,
        "matched": explanation.matched,
    }
    if explanation.no_probability is not None:
        form["no_probability"] = explanation.no_probability
    if explanation.aligned is not None:
        form["aligned"] = aligned_json(explanation.aligned)
    return form


def aligned_json(aligned: Aligned) -> AlignedJson:
    """Return the JSON form of an alignment; of the query that was searched, its words."""
    return {
        "query": aligned.query.text,
        "caption": aligned.caption,
        "fell_back": aligned.fell_back,
        "untouched": aligned.untouched,
        "seconds": dict(aligned.seconds),
        "counts": None if aligned.counts is None else asdict(aligned.counts),
    }


def indexed_json(report: Indexed, documents: int, calibration: str | None) -> IndexedJson:
    """Return the JSON form of what an index run did, and of the collection after it."""
    return {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "removed": report.removed,
        "skipped": [{"id": one.id, "why": one.why} for one in report.skipped],
        "documents": documents,
        "calibration": calibration,
        "pages": {
            "read": report.pages.read,
            "cached": report.pages.cached,
            "unread": report.pages.unread,
            "seconds": report.pages.seconds,
        },
    }
