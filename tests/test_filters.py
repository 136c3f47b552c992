"""A filter keeps the documents that a plain reading of it keeps, and a filtered search finds the best of them."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Collection, Document, Query
from isthmus.errors import BadInput, UnknownName
from stock import own, unit

NAMES = ["a", "b", "a.b", "b.a"]
SCALARS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -1.5, 2.0, 2**53 + 1, 2**63 - 1, -(2**63), 10**30, 1e30]),
    st.booleans(),
    st.sampled_from(["", "x", "y", "1", "1.0", "X", "x\0", "猫", "é", "\U0001f431", "%"]),
)
VALUES = st.one_of(SCALARS, st.none(), st.lists(st.one_of(SCALARS, st.none()), max_size=3))
METADATA = st.dictionaries(
    st.sampled_from(["a", "b"]), st.one_of(VALUES, st.dictionaries(st.sampled_from(["a", "b"]), VALUES)), max_size=2
)


def conditions() -> st.SearchStrategy[dict[str, Any]]:
    asked = st.one_of(SCALARS, st.none())
    ranged = st.dictionaries(st.sampled_from(["gt", "gte", "$lt", "lte"]), SCALARS, min_size=1, max_size=2)
    operators = st.one_of(
        asked,
        st.lists(asked, max_size=3),
        ranged,
        st.builds(lambda v: {"eq": v}, asked),
        st.builds(lambda v: {"$ne": v}, asked),
        st.builds(lambda v: {"not": v}, st.one_of(asked, st.lists(asked, max_size=2), ranged)),
        st.builds(lambda v: {"in": v}, st.lists(asked, max_size=3)),
        st.builds(lambda v: {"exists": v}, st.booleans()),
    )
    plain = st.dictionaries(st.sampled_from([*NAMES, "id", "modality"]), operators, max_size=2)
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.builds(lambda v: {"not": v}, inner),
            st.builds(lambda v: {"$or": v}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda v: {"and": v}, st.lists(inner, min_size=1, max_size=3)),
        ),
        max_leaves=4,
    )


def values_of(metadata: Mapping[str, Any], name: str, prefix: str = "") -> list[Any]:
    """List what a document says under a name, as the documentation has it."""
    found = []
    for key, value in metadata.items():
        if isinstance(value, Mapping):
            found += values_of(value, name, f"{prefix}{key}.")
        elif f"{prefix}{key}" == name:
            found += [one for one in (value if isinstance(value, list) else [value]) if one is not None]
    return [*found, *(float(one) for one in found if one in ("1", "1.0"))]  # what is plainly a number is one as well


def holds(where: Mapping[str, Any], document: Document, modality: str) -> bool:
    """Read a filter in plain Python."""
    for name, asked in where.items():
        word = name.removeprefix("$")
        if word == "not":
            kept = not holds(asked, document, modality)
        elif word in ("and", "or"):
            kept = {"and": all, "or": any}[word](holds(one, document, modality) for one in asked)
        else:
            there = {"id": [document.id], "modality": [modality]}.get(name) or values_of(document.metadata, name)
            kept = of_name(there, asked)
        if not kept:
            return False
    return True


def of_name(there: list[Any], asked: Any) -> bool:
    if not isinstance(asked, Mapping):
        return one_of(there, asked if isinstance(asked, list) else [asked])
    return all(operated(there, word.removeprefix("$"), value) for word, value in asked.items())


def operated(there: list[Any], word: str, asked: Any) -> bool:
    if word in ("not", "ne"):
        return not of_name(there, asked)
    if word == "exists":
        return bool(there) is asked
    if word in ("eq", "in"):
        return one_of(there, asked if word == "in" else [asked])
    alike = [one for one in there if isinstance(one, str) == isinstance(asked, str)]
    compare = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}[word]
    return any(compare(_key(one), _key(asked)) for one in alike)


def one_of(there: list[Any], several: list[Any]) -> bool:
    wanted = [_key(one) for one in several if one is not None]
    return (None in several and not there) or any(_key(one) in wanted for one in there)


def _key(value: Any) -> Any:
    """Compare as the store does: strings by their bytes, whole numbers beyond 64 bits as fractions."""
    if isinstance(value, str):
        return value.encode()
    return float(value) if isinstance(value, int) and abs(value) > 2**63 - 1 else value


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    with Collection.open(tmp_path_factory.mktemp("filters") / "c", "none", calibration="none") as opened:
        yield opened


@settings(max_examples=120)
@given(said=st.lists(METADATA, min_size=1, max_size=8), where=st.lists(conditions(), min_size=1, max_size=4))
def test_a_filter_keeps_what_a_plain_reading_keeps(
    things: Collection, said: list[dict[str, Any]], where: list[dict[str, Any]]
) -> None:
    things.delete(list(things.ids()))
    documents = [
        Document("x" if i == 1 else f"d{i}", metadata=metadata, vectors={("text", "image")[i % 2]: np.ones(2)})
        for i, metadata in enumerate(said)
    ]
    things.add(documents)
    for one in where:
        kept = [document.id for document in documents if holds(one, document, document.modality)]
        assert things.ids(one) == kept


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
def test_a_filtered_search_finds_the_best_of_what_is_left(crowd: Collection, share: float) -> None:
    rows = _crowd()
    left = np.flatnonzero(np.arange(5000) % int(1 / share) == 0)
    for asked in rows[[1, 77]]:
        best = left[np.argsort(-(rows[left] @ asked), kind="stable")[:10]]
        for where in ({"number": {"in": left.tolist()}}, {f"every{int(1 / share)}": True}):
            hits = crowd.search(Query(vectors={"text": asked}), k=10, where=where)
            assert [hit.id for hit in hits] == [f"v{row}" for row in best]


def _crowd() -> np.ndarray[Any, np.dtype[np.float32]]:
    return unit(np.random.default_rng(3).normal(size=(5000, 16)))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    with Collection.open(tmp_path_factory.mktemp("crowd") / "c", "none", calibration="none") as opened:
        said = [{"number": i, **{f"every{n}": i % n == 0 for n in (1000, 100, 10, 2)}} for i in range(5000)]
        opened.add(own(_crowd(), metadata=said))
        yield opened


def test_a_filter_may_hold_very_many_values(crowd: Collection) -> None:
    assert len(crowd.ids({"number": {"in": list(range(-40_000, 5000))}})) == 5000
    assert len(crowd.ids({"or": [{"number": i} for i in range(3000)]})) == 3000


def test_what_cannot_be_read_is_refused(crowd: Collection) -> None:
    wrong: list[tuple[Any, str]] = [
        ({"a": {}}, "empty"),
        ({"or": []}, "at least one"),
        ({"a": {"in": "text"}}, "list of values"),
        ({"a": {"gt": None}}, "cannot be compared"),
        ({"a": [[1]]}, "cannot be compared"),
        ("lang=en", "where is a str"),
        ({"or": ["lang"]}, "where is a str"),
    ]
    for where, said in wrong:
        with pytest.raises(BadInput, match=said):
            crowd.ids(where) if where else None
    with pytest.raises(UnknownName, match="Did you mean 'gte'"):
        crowd.ids({"a": {"gtee": 1}})
    assert crowd.ids({"\ud800": "\ud800"}) == []
    assert crowd.ids({"number": float("nan")}) == []


def test_an_empty_filter_keeps_everything(crowd: Collection) -> None:
    assert len(crowd.ids({})) == len(crowd.ids()) == 5000


def test_metadata_that_change_are_found_by_what_they_say_now(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        things.add(own(_crowd()[:5], metadata=[{"lang": "en"}] * 5))
        things.update("v2", metadata={"lang": "de"})
        things.delete("v3")
        asked = Query(vectors={"text": _crowd()[2]})
        assert [hit.id for hit in things.search(asked, where={"lang": "de"})] == ["v2"]
        assert {hit.id for hit in things.search(asked, where={"lang": "en"})} == {"v0", "v1", "v4"}
