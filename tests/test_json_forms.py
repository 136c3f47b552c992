"""The JSON form of what a search returns: its keys are fixed, for the command line and for servers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.align.base import Aligned
from isthmus.search.hits import Explanation, Hit, Passage
from isthmus.search.json_forms import document_json, explanation_json, hit_json, indexed_json
from isthmus.search.source_events import Indexed
from isthmus.search.writer import Skipped

DOCUMENT = ["id", "text", "image", "parts", "metadata"]
HIT = ["rank", "id", "score", "similarity", "probability", "modality", "text", "image", "parts", "metadata"]
HIT += ["passage", "segments", "moment", "duplicates", "page"]
EXPLANATION = ["parts", "similarity", "shift", "bias", "slope", "offset", "score", "rank_before", "rank", "words"]
EXPLANATION += ["raised", "rank_by_score", "matched"]


@pytest.fixture
def explanation() -> Explanation:
    return Explanation({"text": 0.5}, 0.5, 0.1, 0.2, 2.0, 1.0, 1.8, 3, 1)


def test_the_keys_of_a_document() -> None:
    kept = document_json(Document("a", image=b"\x89PNG", metadata={"lang": "en"}))
    assert list(kept) == DOCUMENT
    assert kept == {
        "id": "a",
        "text": None,
        "image": None,
        "parts": [{"kind": "image", "content": None, "path": None}],
        "metadata": {"lang": "en"},
    }
    assert document_json(Document("b", "a cat", "cat.jpg"))["image"] == "cat.jpg"


def test_the_keys_of_a_hit(explanation: Explanation) -> None:
    document = Document("a", "a cat")
    plain = hit_json(Hit("a", 1.0, 0.5, None, "text", document, 1))
    assert list(plain) == HIT
    whole = Hit("a", 1.0, 0.5, 0.9, "text", document, 1, Passage(0, 0, 5, "a cat"), explanation, ("b",), 0.25)
    told = hit_json(whole)
    assert list(told) == [*HIT, "matched", "explanation"]
    assert told["passage"] == {"number": 0, "start": 0, "stop": 5, "text": "a cat", "part": 0, "from_picture": False}
    assert told["duplicates"] == ["b"]


def test_the_keys_of_an_explanation(explanation: Explanation) -> None:
    assert list(explanation_json(explanation)) == EXPLANATION
    aligned = Aligned(Query("a cat"), caption="a cat", seconds={"caption": 0.5})
    told = explanation_json(Explanation({}, 0.5, 0.1, 0.2, 2.0, 1.0, 1.8, None, 1, aligned=aligned))
    assert list(told) == [*EXPLANATION, "aligned"]
    assert list(told["aligned"]) == ["query", "caption", "fell_back", "untouched", "seconds", "counts"]


def test_the_keys_of_an_index_report() -> None:
    report = Indexed(added=2, skipped=[Skipped("x.swf", "isthmus does not read .swf files")])
    assert indexed_json(report, 2, "none") == {
        "added": 2,
        "updated": 0,
        "unchanged": 0,
        "removed": 0,
        "skipped": [{"id": "x.swf", "why": "isthmus does not read .swf files"}],
        "documents": 2,
        "calibration": "none",
        "pages": {"read": 0, "cached": 0, "unread": 0, "seconds": 0.0},
    }


def test_hits_of_a_search_are_json(things: Collection) -> None:
    found = things.search("a cat", explain=True)
    read = json.loads(json.dumps([hit_json(hit) for hit in found]))
    assert [hit["id"] for hit in read] == [hit.id for hit in found]
    assert np.isclose(read[0]["explanation"]["score"], found[0].score)
