"""Rows become documents, whatever file they are in; a broken row is skipped alone."""

from __future__ import annotations

import csv
import json
import sys
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import budget
from isthmus._optional import need
from isthmus.documents import Document
from isthmus.sources import SkippedInput, SourceUnit, delimited, jsonl, open_source
from isthmus.sources.delimited import fields_of
from isthmus.sources.files import File
from isthmus.sources.rows import Table
from test_sources import PNG, read, write


def lines(*rows: object) -> str:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


def table(path: Path, columns: dict[str, Any]) -> Path:
    arrow = need("pyarrow", extra="parquet")
    need("pyarrow.parquet", extra="parquet").write_table(arrow.table(columns), str(path))
    return path


def one(row: dict[str, Any], tmp_path: Path) -> Document:
    documents, skipped = read(write(tmp_path, {"a.jsonl": lines(row)}) / "a.jsonl")
    assert skipped == {}
    return next(iter(documents.values()))


def test_a_row_has_an_id_alone_and_with_its_file_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": lines({"id": "x", "text": "1"}, {"_id": 7, "text": "2"}, {"text": "3"})})
    assert list(read(tmp_path / "a.jsonl")[0]) == ["x", "7", "a.jsonl#row=3"]
    assert list(read(tmp_path)[0]) == ["a.jsonl#x", "a.jsonl#7", "a.jsonl#row=3"]
    assert read(tmp_path)[0]["a.jsonl#x"].metadata["name"] == "a.jsonl"
    assert read(tmp_path / "a.jsonl")[0]["x"].metadata == {}


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"text": "t", "caption": "c"}, "t"),
        ({"text": " ", "caption": "c", "body": "b"}, "c"),
        ({"content": "x"}, "x"),
        ({"body": "x"}, "x"),
        ({"title": "T", "text": "t"}, "T\nt"),
        ({"title": "T"}, "T"),
        ({"title": "", "text": "t"}, "t"),
    ],
)
def test_the_text_of_a_row(row: dict[str, Any], text: str, tmp_path: Path) -> None:
    assert one(row, tmp_path).text == text


def test_other_fields_are_metadata(tmp_path: Path) -> None:
    row = {"text": "t", "year": 2020, "ok": False, "tags": ["a", 1], "deep": {"a": 1}, "none": None, "title": "T"}
    assert one(row | {"metadata": {"lang": "en", "year": 1999, "deep": {"b": [1]}}}, tmp_path).metadata == {
        "year": 1999,
        "ok": False,
        "tags": ["a", 1],
        "title": "T",
        "lang": "en",
        "deep": {"b": [1]},
    }


def test_a_rows_picture_is_a_path_from_its_file_or_the_picture_itself(tmp_path: Path) -> None:
    assert one({"image": "p/a.png"}, tmp_path / "deep").image == str(tmp_path / "deep/p/a.png")
    assert one({"image": "/far/a.png"}, tmp_path).image == "/far/a.png"
    assert one({"image": f"data:image/png;base64,{b64encode(PNG).decode()}"}, tmp_path).image == PNG
    assert one({"image": "data:,a%20b"}, tmp_path).image == b"a b"


def test_vectors_belong_to_parts(tmp_path: Path) -> None:
    def vectors(row: dict[str, Any]) -> dict[str, list[float]]:
        return {part: vector.tolist() for part, vector in one(row, tmp_path).vectors.items()}

    assert vectors({"vectors": {"text": [1, 2], "image": [3, 4]}}) == {"text": [1, 2], "image": [3, 4]}
    assert vectors({"text_vector": [1, 2], "image_vector": [3, 4]}) == {"text": [1, 2], "image": [3, 4]}
    assert vectors({"text": "t", "vector": [1, 2]}) == {"text": [1, 2]}
    assert vectors({"image": "a.png", "vector": [1, 2]}) == {"image": [1, 2]}
    assert vectors({"text": "t", "image": "a.png", "vector": [1, 2]}) == {"image+text": [1, 2]}


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ('{"text": "cut', "is not JSON"),
        ("[1]", "is a list, not an object"),
        ("{}", "has no text, caption"),
        ({"text": " "}, "has neither text nor image"),
        ({"text": 3}, "a text that is a int"),
        ({"id": [1], "text": "x"}, "an id that is a list"),
        ({"text": "a\0b"}, "NUL or half a surrogate pair"),
        ('{"text": "\\ud800"}', "NUL or half a surrogate pair"),
        ('{"text": "x", "more": "\\ud800"}', "NUL or half a surrogate pair"),
        ({"image": "https://example.org/a.png"}, "isthmus does not download"),
        ({"image": "data:image/png;base64,!"}, "not base64"),
        ({"image": 3}, "an image that is a int"),
        ({"vector": [1, 2]}, "a vector of no part"),
        ({"text": "x", "vector": [0, 0]}, "all zeros"),
        ({"text": "x", "vector": [[1], [1, 2]]}, ""),
        ({"text": "x", "vectors": [1]}, "vectors that are a list"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_a_bad_line_is_skipped_and_the_rest_is_read(bad: object, why: str, tmp_path: Path) -> None:
    write(tmp_path, {"a.jsonl": lines({"id": 1, "text": "x"}, bad, "", {"id": 4, "text": "x"})})
    documents, skipped = read(tmp_path / "a.jsonl")
    assert list(documents) == ["1", "4"]
    assert list(skipped) == ["a.jsonl, line 2"]
    assert why in skipped["a.jsonl, line 2"]


def test_a_line_in_another_encoding_is_skipped_alone(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"id": 1, "text": "x"}\r\n{"id": 2, "text": "caf\xe9"}\r\n{"id": 3, "text": "caf\xc3\xa9"}'
    documents, skipped = read(write(tmp_path, {"a.jsonl": data}) / "a.jsonl")
    assert [document.text for document in documents.values()] == ["x", "café"]
    assert "iconv -f WINDOWS-1252" in skipped["a.jsonl, line 2"]


def test_a_line_past_the_limit_is_skipped_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "ROW_CHARACTERS", 50)
    write(tmp_path, {"a.jsonl": lines({"id": 1, "text": "x"}, {"text": "x" * 170}, {"id": 3, "text": "x"})})
    documents, skipped = read(tmp_path / "a.jsonl")
    assert list(documents) == ["1", "3"]
    assert list(skipped) == ["a.jsonl, line 2"]


def test_a_json_file_is_a_list_of_rows_or_one(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": '[{"id": 1, "text": "x"}, {"text": "y"}, {}]', "b.json": '{"text": "z"}', "c.json": "3"})
    documents, skipped = read(tmp_path)
    assert list(documents) == ["a.json#1", "a.json#row=2", "b.json#row=1"]
    assert set(skipped) == {"a.json, row 3", "c.json"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_csv_is_read_with_its_own_delimiter_and_mark(delimiter: str, encoding: str, tmp_path: Path) -> None:
    text = 'id,text,year\r\n1,"a, ""b""; c\nd",2020\r\n\r\n2,é,\r\n'.replace(",", delimiter)
    documents, skipped = read(write(tmp_path, {"a.csv": text.encode(encoding)}) / "a.csv")
    assert documents["1"].text == f'a{delimiter} "b"; c\nd'
    assert documents["1"].metadata == {"year": "2020"}
    assert documents["2"].text == "é"
    assert skipped == {}


def test_a_tsv_has_tabs_whatever_else_is_in_it(tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"a.tsv": "id\ttext, with; commas,,\ttext\n1\t2\tx"}) / "a.tsv")
    assert documents["1"].text == "x"


def test_objects_and_vectors_in_a_csv_are_json(tmp_path: Path) -> None:
    text = 'id,text,vector,metadata\n1,x,"[1, 2]","{""lang"": ""en""}"\n2,x,[1,\n3,x,[1],{\n'
    documents, skipped = read(write(tmp_path, {"a.csv": text}) / "a.csv")
    assert documents["1"].vectors["text"].tolist() == [1, 2]
    assert documents["1"].metadata == {"lang": "en"}
    assert set(skipped) == {"a.csv, row 2", "a.csv, row 3"}


@pytest.mark.parametrize("bad", ["2,x,3,4", "2", '2,"x"y,3', "2,caf\udce9,3"])
def test_a_bad_row_of_a_csv_is_skipped_alone(bad: str, tmp_path: Path) -> None:
    data = f"id,text,year\n1,x,3\n{bad}\n4,x,3\n".encode(errors="surrogateescape")
    documents, skipped = read(write(tmp_path, {"a.csv": data}) / "a.csv")
    assert list(documents) == ["1", "4"]
    assert list(skipped) == ["a.csv, row 2"]


def test_a_quote_that_never_closes_is_listed(tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"a.csv": 'id,text\n1,x\n2,"x\n3,x\n'}) / "a.csv")
    assert list(documents) == ["1"]
    assert list(skipped) == ["a.csv, row 2"]


def test_a_field_may_be_longer_than_the_csv_modules_own_limit(tmp_path: Path) -> None:
    documents, _ = read(write(tmp_path, {"a.csv": f"id,text\n1,{'x' * 200_000}\n"}) / "a.csv")
    assert len(documents["1"].text or "") == 200_000


@pytest.mark.parametrize("text", ["year,price\n1,2\n", "text,text\n1,2\n", 'id,te"xt\n', '"text\n'])
def test_a_csv_without_a_usable_header_is_skipped_as_a_whole(text: str, tmp_path: Path) -> None:
    documents, skipped = read(write(tmp_path, {"a.csv": text}))
    assert documents == {}
    assert len(skipped) <= 1


def test_parquet_holds_vectors_pictures_and_times(tmp_path: Path) -> None:
    arrow = need("pyarrow", extra="parquet")
    columns = {
        "id": [1, 2, 3],
        "text": ["a", None, "c"],
        "image": [{"bytes": PNG, "path": None}, {"bytes": None, "path": "b.png"}, None],
        "text_vector": arrow.array([[1.0, 2.0], None, [3.0, 4.0]], arrow.list_(arrow.float32())),
        "image_vector": arrow.array([None, [1.0, 2.0], None], arrow.large_list(arrow.float64())),
        "when": arrow.array([datetime(2020, 1, 2, tzinfo=UTC)] * 3, arrow.timestamp("ns", "UTC")),
        "price": [Decimal("1.5")] * 3,
        "raw": [b"x"] * 3,
        "tags": [["a", "b"]] * 3,
    }
    documents, skipped = read(table(tmp_path / "a.parquet", columns))
    assert {name: document.modality for name, document in documents.items()} == {
        "1": "image+text",
        "2": "image",
        "3": "text",
    }
    assert documents["1"].image == PNG
    assert documents["2"].image == str(tmp_path / "b.png")
    assert documents["3"].vectors["text"].tolist() == [3, 4]
    assert documents["2"].vectors["image"].tolist() == [1, 2]
    metadata = documents["1"].metadata
    assert str(metadata["when"]).startswith("2020-01-02")
    assert (metadata["price"], metadata["tags"]) == (1.5, ["a", "b"])
    assert "raw" not in metadata
    assert skipped == {}


def test_a_plain_picture_column_of_bytes_and_a_shared_vector(tmp_path: Path) -> None:
    arrow = need("pyarrow", extra="parquet")
    vectors = arrow.array([[1.0, 2.0], [0.0, 0.0]], arrow.list_(arrow.float32(), 2))
    columns = {"image": [PNG, PNG], "caption": ["x", None], "vector": vectors}
    documents, skipped = read(table(tmp_path / "a.parquet", columns))
    assert documents["a.parquet#row=1"].vectors["image+text"].tolist() == [1, 2]
    assert "all zeros" in skipped["a.parquet, row 2"]


@pytest.mark.parametrize("cut", [10, 60, -1])
def test_a_damaged_parquet_is_skipped(cut: int, tmp_path: Path) -> None:
    whole = table(tmp_path / "a.parquet", {"text": ["x"] * 100}).read_bytes()
    documents, skipped = read(write(tmp_path, {"a.parquet": whole[:cut]}))
    assert documents == {}
    assert "is not Parquet, or damaged" in skipped["a.parquet"]


def test_beir_puts_the_title_before_the_text(tmp_path: Path) -> None:
    rows = [{"_id": "d1", "title": "T", "text": "t", "metadata": {"url": "u"}}, {"_id": "d2", "title": "", "text": "t"}]
    write(tmp_path, {"corpus.jsonl": lines(*rows), "queries.jsonl": lines({"_id": "q", "text": "no"})})
    documents, skipped = read(tmp_path)
    assert {name: document.text for name, document in documents.items()} == {"d1": "T\nt", "d2": "t"}
    assert documents["d1"].metadata == {"title": "T", "url": "u"}
    assert skipped == {}
    source = open_source(tmp_path)
    assert source.root == str(tmp_path)
    assert [unit.key for unit in source.units() if isinstance(unit, SourceUnit)] == ["corpus.jsonl"]


def test_a_long_table_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "a.jsonl").open("w") as file:
        file.writelines(f'{{"id": {i}, "text": "some words {i}", "year": {i % 50}}}\n' for i in range(100_000))
    unit = next(open_source(tmp_path / "a.jsonl").units())
    assert isinstance(unit, SourceUnit)
    tracemalloc.start()
    try:
        found = unit.read()
        for _ in range(2_000):
            next(found)
        assert tracemalloc.get_traced_memory()[1] < 2**20 < (tmp_path / "a.jsonl").stat().st_size / 4
    finally:
        tracemalloc.stop()
    before = sys.getallocatedblocks()
    for _ in range(97_900):  # not traced, which would take ten times as long
        next(found)
    assert sys.getallocatedblocks() - before < 1_000
    assert sum(1 for _ in found) == 100


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["id", "_id", "text", "title", "image", "metadata", "vectors", "vector", "text_vector", "year"])


@given(st.dictionaries(NAMES, VALUES, max_size=6))
def test_any_row_is_a_document_that_json_can_hold_or_is_skipped(row: dict[str, Any]) -> None:
    found = Table(File("/a.jsonl", "a.jsonl", 1, 1, 1), "line").found(row, 1)
    if isinstance(found, Document):
        assert json.loads(json.dumps(found.metadata, allow_nan=False)) == found.metadata
        (found.id + (found.text or "")).encode()
        assert all(np.isfinite(vector).all() for vector in found.vectors.values())


def test_a_row_whose_text_is_blank_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text,year\n1,a cat,2020\n2,,2021\n")
    (unit,) = open_source(tmp_path / "a.csv").units()
    assert isinstance(unit, SourceUnit)
    good, bad = unit.read()
    assert isinstance(good, Document)
    assert isinstance(bad, SkippedInput)
    assert "its text is blank" in bad.why


def test_a_row_with_very_many_fields_is_skipped_before_it_is_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Guarded:
        def __init__(self, lines: Iterator[str], **options: Any) -> None:
            self.rows = genuine(lines, **options)

        def __iter__(self) -> Guarded:
            return self

        def __next__(self) -> list[str]:
            row = next(self.rows)
            assert len(row) <= budget.COLUMNS + 1
            return row

    genuine = csv.reader
    monkeypatch.setattr(csv, "reader", Guarded)
    many = budget.COLUMNS * 2
    rows = ["one,1", "x," * many, "two,2", f'"{"a, " * many}",3', f'"he said\n""{"a, " * many}""\n",4', '"a\n",' * many]
    (tmp_path / "a.csv").write_text("text,n\n" + "\n".join(rows) + "\n")
    found = [f for unit in open_source(tmp_path).units() for f in cast("SourceUnit", unit).read()]
    assert [f.metadata["n"] for f in found if isinstance(f, Document)] == ["1", "2", "3", "4"]
    skipped = [f.why for f in found if isinstance(f, SkippedInput)]
    assert skipped[0] == skipped[1] == "has more than 10,000 columns"


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_outside_quotes_are_counted(delimiter: str) -> None:
    for line, inside, wanted in [
        ("a,b,c\n", False, 2),
        ('"a,b",c,"d""e,",\n', False, 3),
        ('a"b,c",d\n', False, 2),  # a quote inside a field is a character
        ('x,y"",z",a,b\n', True, 2),
        ("x,y,z\n", True, 0),
        ('"a,b\n', False, 0),
        (",,,,\n", False, 4),
    ]:
        assert fields_of(line.replace(",", delimiter), delimiter, 9, inside=inside) == wanted, line
    assert fields_of(delimiter * 10**6, delimiter, 9) <= 11


def test_a_quote_that_is_never_closed_ends_the_table_and_its_lines_are_not_taken_for_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "ROW_LINES", 100)
    (tmp_path / "a.csv").write_text("text,n\none,1\n" + '"two\n' + "x\n" * 1000)
    found = [f for unit in open_source(tmp_path).units() for f in cast("SourceUnit", unit).read()]
    assert [f.text for f in found if isinstance(f, Document)] == ["one"]
    assert [(f.where, f.why) for f in found if isinstance(f, SkippedInput)] == [
        ("a.csv, row 2", "has more than 100 lines"),
        ("a.csv", "was read in part, and the rest was skipped: row 2 has no end"),
    ]
