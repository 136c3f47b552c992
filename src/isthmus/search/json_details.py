"""The JSON form of what is asked for about one field or one hit: the values of a field, and a map."""

from __future__ import annotations

from typing import TypedDict

from isthmus.kinds import IMAGE, TEXT
from isthmus.search.hits import Hit
from isthmus.search.maps import Map, Shares
from isthmus.storage.values import FieldValues


class ValueCountJson(TypedDict):
    """A value, and how many documents have it."""

    value: str | float | None
    documents: int


class FieldValuesJson(TypedDict):
    """The most frequent values of a field, whether there are more, and the ranges of its numbers and dates."""

    name: str
    values: list[ValueCountJson]
    more: bool
    numbers: list[float | None] | None
    dates: list[str] | None


class WordShareJson(TypedDict):
    """A word, by the characters of the text before and at its end, and what it adds to the similarity."""

    start: int
    end: int
    share: float


class SharesJson(TypedDict):
    """What the words of a text and the patches of a picture, row by row, add to the similarity."""

    words: list[WordShareJson] | None
    patches: list[list[float]] | None


class MappedPartsJson(TypedDict):
    """The numbers of the document's parts that ``words`` and ``patches`` are of."""

    words: int | None
    patches: int | None


class MapJson(TypedDict):
    """Why a document matches a query: what each piece of both adds to their raw similarity."""

    id: str
    similarity: float
    document: SharesJson
    query: SharesJson
    parts: MappedPartsJson
    notes: list[str]


def values_json(found: FieldValues) -> FieldValuesJson:
    """Return the JSON form of the values of a field."""
    return {
        "name": found.name,
        "values": [{"value": one.value, "documents": one.documents} for one in found.top],
        "more": found.more,
        "numbers": None if found.numbers is None else list(found.numbers),
        "dates": None if found.dates is None else list(found.dates),
    }


def map_json(found: Map) -> MapJson:
    """Return the JSON form of a map."""
    return {
        "id": found.hit.id,
        "similarity": found.similarity,
        "document": _shares_json(found.document),
        "query": _shares_json(found.query),
        "parts": {"words": _part(found.hit, TEXT), "patches": _part(found.hit, IMAGE)},
        "notes": list(found.notes),
    }


def _shares_json(shares: Shares) -> SharesJson:
    words, patches = shares.words, shares.patches
    return {
        "words": None if words is None else [{"start": a, "end": b, "share": round(share, 6)} for a, b, share in words],
        "patches": None if patches is None else [[round(float(one), 6) for one in row] for row in patches],
    }


def _part(hit: Hit, kind: str) -> int | None:
    """Return the number of the first part of a kind that matched."""
    numbers = (number for segment in hit.segments for number in segment.parts)
    return next((number for number in numbers if hit.document.parts[number].kind == kind), None)
