"""Re-ranking changes the places of hits and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.encoders import Encoder
from isthmus.encoders.base import Settings
from isthmus.errors import BadInput, UnknownName
from isthmus.search import Hit
from isthmus.search.reranking import order, reordered
from isthmus.types import Matrix
from stock import Counting, mixed, pixels
from tiny import write_encoder, write_fusion


@dataclass
class ById:
    """Likes documents by a hash of their ids; cannot tell of those whose number is a multiple of five."""

    seen: int = 0
    tells_all: bool = True

    def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
        assert query.text
        self.seen = len(documents)
        numbers = [int(document.metadata["number"]) for document in documents]
        return np.array([float(n * 7 % 11) if self.tells_all or n % 5 else np.nan for n in numbers])


@pytest.fixture(scope="module")
def fusion(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("rerank")
    write_fusion(root / "fusion", write_encoder(root / "towers"))
    return f"onnx:{root / 'fusion'}"


@pytest.fixture(scope="module")
def things(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    path = tmp_path_factory.mktemp("rerank") / "c"
    with Collection.open(path, tiny, calibration="center+nnn(k=8)+standardize", follow=False) as opened:
        opened.add(mixed(40))
        yield opened


def bare(hit: Hit) -> Hit:
    """A hit without what re-ranking may change."""
    return replace(hit, rank=0, matched=None, explanation=None)


@pytest.mark.parametrize("options", [{}, {"hybrid": True}, {"calibration": "none"}, {"group": True}])
@pytest.mark.parametrize(("k", "offset"), [(1, 0), (10, 0), (7, 5), (10, 35), (3, 60), (100, 0)])
def test_reranking_only_permutes(things: Collection, k: int, offset: int, options: dict[str, bool]) -> None:
    before = things.search("a red cat", offset + k, **options)  # type: ignore[arg-type]
    reranker = ById()
    after = things.search("a red cat", k, offset, rerank=reranker, **options)  # type: ignore[arg-type]
    assert reranker.seen == len(before)
    best_first = sorted(before, key=lambda hit: -(hit.document.metadata["number"] * 7 % 11))  # stable: ties stay
    assert [bare(hit) for hit in after] == [bare(hit) for hit in best_first[offset:]]
    assert [hit.rank for hit in after] == list(range(offset + 1, offset + 1 + len(after)))


@given(st.lists(st.one_of(st.floats(allow_nan=True, width=32), st.sampled_from([0.0, 1.0])), max_size=12))
def test_the_order_is_a_permutation_in_which_the_unjudged_stay_and_equals_keep_theirs(matched: list[float]) -> None:
    numbers = np.array(matched, dtype=np.float64)
    places = order(numbers, ["any"] * len(matched))
    assert sorted(places.tolist()) == list(range(len(matched)))
    unknown = np.isnan(numbers)
    assert (places[unknown] == np.flatnonzero(unknown)).all()
    judged = places[~unknown]
    for one, other in pairwise(judged):
        assert numbers[one] > numbers[other] or (numbers[one] == numbers[other] and one < other)


def test_a_hit_that_cannot_be_judged_stays_where_the_search_had_put_it(things: Collection) -> None:
    before = things.search("dog", 20)
    after = things.search("dog", 20, rerank=ById(tells_all=False))
    for hit in after:
        if hit.document.metadata["number"] % 5 == 0:
            assert hit.matched is None
            assert before[hit.rank - 1].id == hit.id


def test_a_matcher_orders_the_hits_of_any_encoder(things: Collection, fusion: str) -> None:
    before = things.search("a red cat", 12)
    hits = things.search("a red cat", 12, rerank=fusion, explain=True)
    assert {hit.id for hit in hits} == {hit.id for hit in before}
    logits = [hit.matched for hit in hits if hit.matched is not None]
    assert len(logits) == 12
    assert [hit.modality for hit in hits] == [hit.modality for hit in before]  # text does not drown images again
    for kind in {hit.modality for hit in hits}:
        told = [hit.matched for hit in hits if hit.modality == kind and hit.matched is not None]
        assert told == sorted(told, reverse=True)
    assert [hit.id for hit in hits] != [hit.id for hit in before]
    for hit in hits:
        assert hit.explanation is not None
        was = next(each for each in before if each.id == hit.id).rank
        assert (hit.explanation.rank, hit.explanation.rank_by_score, hit.explanation.matched) == (
            hit.rank,
            was,
            hit.matched,
        )
        assert f"rank {was} by score, matched {hit.matched:+.2f}, now rank {hit.rank}" in str(hit.explanation)
    many = things.search_many(["a red cat", "dog"], 12, rerank=fusion)
    assert [hit.id for hit in many[0]] == [hit.id for hit in hits]
    both = things.search(Query("a red cat", pixels(7)), 5, rerank=fusion)
    assert len(both) == 5


def test_each_encoder_is_loaded_once_for_all_that_a_collection_does(
    fusion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loads = encoders.open_named, Counter[str]()

    def counting(name: str, settings: Settings) -> Encoder:
        loads[name] += 1
        return load(name, settings)

    monkeypatch.setattr(encoders, "open_named", counting)
    write_fusion(tmp_path / "other", write_encoder(tmp_path / "below"), seed=3)
    other = f"onnx:{tmp_path / 'other'}"
    with Collection.open(tmp_path / "c", fusion, calibration="none") as things:
        things.add(mixed(6))
        for rerank in (fusion, other, fusion, other):
            assert len(things.search("dog", 6, rerank=rerank)) == 6
        hits = things.search(Query("a cat", pixels(7)), 6, align="caption", rerank=fusion)
        assert things.maps("a cat", hits)
        things.calibrate("center")
        assert loads == {fusion: 1, other: 1}
        things.reencode(other)
        assert len(things.search("dog", 6, rerank=other)) == 6
        assert loads == {fusion: 1, other: 2}  # re-encoding reads the files again: they may have changed


def test_a_query_without_words_is_refused(things: Collection) -> None:
    with pytest.raises(BadInput, match="rerank reads the words of a query, and query 1 has none"):
        things.search_many(["dog", Query(image=pixels(1))], rerank=ById())


@pytest.mark.parametrize(
    ("rerank", "kind", "said"),
    [
        ("tiny", BadInput, "has no matcher, so it cannot rerank"),
        ("onx:/tmp", UnknownName, "Did you mean 'onnx'"),
    ],
)
def test_what_cannot_rerank_is_refused(
    things: Collection, tiny: str, rerank: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        things.search("dog", rerank=tiny if rerank == "tiny" else rerank)


def test_a_reranker_that_gives_too_few_numbers_is_refused(things: Collection) -> None:
    class Short:
        def scores(self, query: Query, documents: Sequence[Document]) -> Matrix:
            return np.zeros(len(documents) - 1)

    with pytest.raises(BadInput, match=r"of shape \(9,\) for 10 documents"):
        things.search("dog", rerank=Short())
    assert reordered(Short(), Query("dog"), []) == []


def test_the_command_line_reranks(things: Collection, fusion: str) -> None:
    said = ["search", "a red cat", "--in", str(things.path), "-k", "5", "--rerank", fusion]
    found = json.loads(CliRunner().invoke(app, [*said, "--json"]).stdout)
    assert [hit["id"] for hit in found] == [hit.id for hit in things.search("a red cat", 5, rerank=fusion)]
    assert all("matched" in hit for hit in found)
    assert "by score, matched" in CliRunner().invoke(app, [*said, "--explain"]).stdout


class MatchingEncoder(Counting):
    """Any encoder with a matcher of its own."""

    def matcher(self) -> ById:
        return ById()


def test_any_encoder_with_a_matcher_reranks_by_its_name_each_modality_by_itself(tiny: str, tmp_path: Path) -> None:
    encoder = MatchingEncoder(encoders.load(tiny))
    with Collection.open(tmp_path / "c", encoder, calibration="none", follow=False) as own:
        own.add(mixed(20))
        plain, hits = own.search("a red cat", 20), own.search("a red cat", 20, rerank=encoder.name)
        assert [hit.modality for hit in hits] == [hit.modality for hit in plain]
        for modality in {hit.modality for hit in hits}:
            matched = [hit.matched or 0.0 for hit in hits if hit.modality == modality]
            assert matched == sorted(matched, reverse=True)
        assert [hit.id for hit in hits] != [hit.id for hit in plain]


@dataclass
class Likes(ById):
    """Orders words apart from everything with a picture."""

    def group(self, modality: str) -> str:
        return "picture" if "image" in modality else modality


def test_a_reranker_says_which_modalities_compare(things: Collection) -> None:
    before, after = things.search("dog", 20), things.search("dog", 20, rerank=Likes())
    assert [hit.modality == "text" for hit in after] == [hit.modality == "text" for hit in before]
    assert [hit.modality for hit in after] != [hit.modality for hit in before]


def test_an_unknown_reranker_is_told_what_there_is(tmp_path: Path, fusion: str) -> None:
    with Collection.open(tmp_path / "c", fusion, calibration="none") as things:
        things.add(mixed(3))
        with pytest.raises(UnknownName, match=r"No reranker is called 'foo'\. Name a model .* a cross-encoder"):
            things.search("dog", rerank="foo")
        with pytest.raises(UnknownName, match="'mini-fusion' is not part of isthmus any more"):
            things.search("dog", rerank="mini-fusion")
