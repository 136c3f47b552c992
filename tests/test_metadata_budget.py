"""Metadata of one document is limited, by every way in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from isthmus import Collection, Document
from isthmus.budget import METADATA_BYTES, METADATA_FACTS
from isthmus.errors import BadInput
from isthmus.search.ingest import prepared
from isthmus.storage.facts import as_json, too_deep

FULL = {"tags": list(range(METADATA_FACTS))}


def test_metadata_up_to_the_limit_is_written() -> None:
    assert json.loads(as_json(FULL, "It")) == FULL
    room = METADATA_BYTES - len(json.dumps({"a": ""}))
    assert len(as_json({"a": "x" * room}, "It")) == METADATA_BYTES


@pytest.mark.parametrize(
    "metadata",
    [
        {**FULL, "one": "more"},
        {"a": "x" * METADATA_BYTES},
        {"a": "é" * (METADATA_BYTES // 4)},  # six characters of JSON each
        {"a": [None] * METADATA_BYTES},
        {"a": [[]] * METADATA_BYTES},
        {"years": ["2021"] * (METADATA_FACTS // 2 + 1)},  # a string that is a number is two values
    ],
)
def test_metadata_past_the_limit_is_refused(metadata: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="It has too much metadata: at most 1 MiB of JSON and 10,000 values"):
        as_json(metadata, "It")


def test_metadata_that_doubles_at_each_level_is_refused_before_it_is_written() -> None:
    value: list[object] = [1]
    for _ in range(40):
        value = [value, value]
    with pytest.raises(BadInput, match="too much metadata"):
        as_json({"a": value}, "It")


def test_depth_counts_objects_and_lists_even_empty_ones() -> None:
    flat: list[object] = [1, [], [1], {"a": 1}]
    nested: list[object] = [[[]], {"a": {}}, [1, [2]]]
    assert [too_deep(value, 1) for value in flat + nested] == [False] * 4 + [True] * 3


def test_a_row_with_too_much_metadata_is_skipped_and_in_python_it_is_an_error(tmp_path: Path, tiny: str) -> None:
    rows = [{"id": "a", "text": "x", "tags": list(range(300_000))}, {"id": "b", "text": "a cat", **FULL}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with Collection.open(tmp_path / "things.isthmus", tiny) as things:
        report = things.index(tmp_path / "rows.jsonl")
        assert [each.id for each in report.skipped] == ["a"]
        assert "too much metadata" in report.skipped[0].why
        assert things.get("b").metadata["tags"][-1] == METADATA_FACTS - 1
        assert len(things) == 1
    with pytest.raises(BadInput, match="Document 'c' has too much metadata"):
        prepared(Document("c", "x", metadata={"a": "x" * METADATA_BYTES}))
