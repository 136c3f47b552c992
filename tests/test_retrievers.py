"""Retrievers: each finds what its equation says, and all keep the same manners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus import Collection, Document, calibration, samples
from isthmus.align import Retriever
from isthmus.align.base import Found
from isthmus.align.retrievers import Bm25, Cached, Dense, Hybrid, OfCollection, best
from isthmus.encoders import Encoder
from isthmus.errors import BadInput
from isthmus.words import query_words
from tiny import WORDS

TEXTS = ["a cat sits on the red sofa", "the dog runs", "", "a dog and a cat", "a dog and a cat", "house of tree"]
IDS = [f"d{row}" for row in range(len(TEXTS))]
WRITTEN = [(name, text) for name, text in zip(IDS, TEXTS, strict=True) if text]


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Iterator[Collection]:
    with Collection.open(tmp_path_factory.mktemp("few") / "things", encoder, calibration="none") as opened:
        opened.add([Document(name, text) for name, text in WRITTEN])
        yield opened


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> Iterator[Collection]:
    """The texts of the sample folder, a few with odd words in them."""
    texts = {path.name: path.read_text("utf-8") for path in sorted((samples.folder() / "notes").iterdir())}
    texts |= {"odd": "snake_case and naïve cafés, 3.5 km²; Ⅷ 猫 and snake case", "blank": " "}
    with Collection.open(tmp_path_factory.mktemp("notes") / "notes", encoder, calibration="none") as opened:
        opened.add([Document(name, text) for name, text in texts.items() if text.strip()])
        yield opened


@pytest.fixture(
    scope="module", params=["dense", "dense, calibrated", "bm25", "hybrid", "collection", "collection hybrid", "cached"]
)
def retriever(request: pytest.FixtureRequest, encoder: Encoder, things: Collection) -> Retriever:
    names, texts = zip(*WRITTEN, strict=True)
    references = encoder.encode_queries(["a cat", "the red house", "dog"])
    documents = encoder.encode_documents([Document(name, text) for name, text in WRITTEN])
    fitted = calibration.fit("center+nnn(k=2)", documents, references)
    made: dict[str, Callable[[], Retriever]] = {
        "dense": lambda: Dense(encoder, names, texts),
        "dense, calibrated": lambda: Dense(encoder, names, texts, calibration=fitted),
        "bm25": lambda: Bm25(IDS, TEXTS),
        "hybrid": lambda: Hybrid(Dense(encoder, names, texts), Bm25(IDS, TEXTS)),
        "collection": lambda: OfCollection(things, calibration="none"),
        "collection hybrid": lambda: OfCollection(things, hybrid=True),
        "cached": lambda: Cached(Bm25(IDS, TEXTS)),
    }
    return made[request.param]()


def test_every_retriever_answers_best_first_in_the_order_asked_and_the_same_again(retriever: Retriever) -> None:
    asked = ["a red cat", "dog", "tree"]
    together = retriever.search(asked, 3)
    assert [len(found) <= 3 for found in together] == [True] * 3
    for text, found in zip(asked, together, strict=True):
        scores = [score for _, score in found]
        assert scores == sorted(scores, reverse=True)
        assert len({name for name, _ in found}) == len(found)
        assert [name for name, _ in retriever.search([text], 3)[0]] == [name for name, _ in found]
    assert retriever.search(asked, 3) == together
    assert retriever.name


def test_every_retriever_bears_a_k_beyond_the_corpus_blank_queries_and_none(retriever: Retriever) -> None:
    assert len(retriever.search(["a cat"], 1000)[0]) <= len(WRITTEN)
    assert retriever.search(["", " \n", "dog"], 2)[:2] == [[], []]
    assert retriever.search(["", "dog"], 2)[1]
    assert retriever.search([], 2) == []


def test_every_retriever_refuses_a_bare_string_and_a_k_of_nothing(retriever: Retriever) -> None:
    with pytest.raises(BadInput, match=r"search\(\[text\]\)"):
        retriever.search("dog")
    with pytest.raises(BadInput, match="at least 1"):
        retriever.search(["dog"], 0)


def test_equal_documents_stand_in_the_order_given(retriever: Retriever) -> None:
    names = [name for name, _ in retriever.search(["a dog and a cat"], 10)[0]]
    assert names.index("d3") + 1 == names.index("d4")


def test_dense_is_the_cosine_of_the_best_passage(encoder: Encoder) -> None:
    long = "the red sofa " * 8 + "dog runs on grass " * 5  # several passages
    names, texts = ["long", "short"], [long, "a house"]
    vectors, owner = encoder.encode_passages([Document(name, text) for name, text in zip(names, texts, strict=True)])
    asked = ["dog on grass", "house"]
    queries = encoder.encode_queries(asked).parts["text"]
    similarity = queries @ vectors.parts["text"].T
    assert (owner == 0).sum() > 1
    for row, found in enumerate(Dense(encoder, names, texts).search(asked)):
        expected = [similarity[row][owner == document].max() for document in (0, 1)]
        assert dict(found) == pytest.approx(dict(zip(names, expected, strict=True)), abs=1e-6)


def test_dense_agrees_with_a_collection_of_the_same_documents(encoder: Encoder, notes: Collection) -> None:
    documents = list(notes)
    dense = Dense(encoder, [one.id for one in documents], documents)
    asked = ["red house", "a cat and the dog"]
    for ours, theirs in zip(
        dense.search(asked, 20), OfCollection(notes, calibration="none").search(asked, 20), strict=True
    ):
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-5)


def test_a_calibrated_dense_retriever_gives_the_calibrations_scores(encoder: Encoder) -> None:
    documents = encoder.encode_documents([Document(name, text) for name, text in WRITTEN])
    queries = encoder.encode_queries(["a red cat"])
    fitted = calibration.fit("center+nnn(k=2)+standardize", documents, encoder.encode_queries(["dog", "sofa", "tree"]))
    found = Dense(encoder, *zip(*WRITTEN, strict=True), calibration=fitted).search(["a red cat"], 10)[0]
    expected = fitted.scores(queries, documents)[0]
    assert dict(found) == pytest.approx({name: expected[row] for row, (name, _) in enumerate(WRITTEN)}, abs=1e-4)


ODD = ["snake_case", "cafe", "CAFÉS naive", "km 3", "the the cats cat", "wolves", "猫", "_", '" OR', "viii Ⅷ"]


def test_bm25_is_fts5s_to_the_last_bit(notes: Collection) -> None:
    documents = list(notes)
    bm25 = Bm25([one.id for one in documents], [str(one.text) for one in documents])
    rows = notes._store.rows_of(one.id for one in documents)
    asked = [*ODD, *(one.query for one in samples.queries()), *(str(one.text)[:400] for one in documents[:20])]
    for text, found in zip(asked, bm25.search(asked, 30), strict=True):
        theirs = notes.store.words.search(query_words(text), 30)
        assert [rows[name] for name, _ in found] == theirs.documents, text
        scores = np.array([score for _, score in found])
        if len(scores):
            most = scores[0] / theirs.share[0]
            np.testing.assert_allclose(scores / most, theirs.share, rtol=1e-12)
    assert sum(map(bool, bm25.search(asked))) > 50


LETTERS = [word for word in WORDS if word.isalpha()]  # a sign that is no letter is no word to FTS5


@given(
    st.lists(st.lists(st.sampled_from(LETTERS), max_size=6), min_size=1, max_size=8),
    st.lists(st.sampled_from([*LETTERS, "cats", "absent"]), min_size=1, max_size=5),
)
def test_bm25_is_the_formula(documents: Sequence[Sequence[str]], query: Sequence[str]) -> None:
    stems = {"cats": "cat", "runs": "run", "sits": "sit", "house": "hous"}  # what Porter makes of our words
    texts = [[stems.get(word, word) for word in words] for words in documents]
    asked = [stems.get(word, word) for word in dict.fromkeys(query)]
    written = [words for words in texts if words]
    mean = sum(map(len, written)) / max(1, len(written))
    expected: dict[str, float] = {}
    for row, words in enumerate(texts):
        for word in asked:
            n, f = sum(word in each for each in written), words.count(word)
            idf = max(np.log((len(written) - n + 0.5) / (n + 0.5)), 1e-6)
            if f:
                part = idf * f * 2.2 / (f + 1.2 * (0.25 + 0.75 * len(words) / mean))
                expected[str(row)] = expected.get(str(row), 0.0) + part
    names = [str(row) for row in range(len(documents))]
    found = Bm25(names, [" ".join(words) for words in documents]).search([" ".join(query)], 99)[0]
    assert dict(found) == pytest.approx(expected, rel=1e-9)


def test_bm25_reads_half_a_surrogate_pair_as_any_other_sign() -> None:
    assert [name for name, _ in Bm25(["a"], ["cat \ud83d dog"]).search(["\ud83d dog"])[0]] == ["a"]


@dataclass
class Fixed:
    """Says what it was told to, and notes what it was asked."""

    names: Sequence[str]
    name: str = "fixed"
    asked: list[str] = field(default_factory=list)

    def search(self, texts: Sequence[str], k: int = 10) -> list[Found]:
        self.asked += texts
        return [[(name, -float(rank)) for rank, name in enumerate(self.names)][:k] for _ in texts]


def test_a_hybrid_list_is_by_reciprocal_ranks_and_ties_go_to_the_first_list() -> None:
    found = Hybrid(Fixed(["a", "b", "c"]), Fixed(["b", "d", "a"])).search(["?"], 4)[0]
    expected = {"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "c": 1 / 63}
    assert list(dict(found)) == list(expected)
    assert dict(found) == pytest.approx(expected)
    assert [name for name, _ in Hybrid(Fixed(["x"]), Fixed(["y"])).search(["?"])[0]] == ["x", "y"]


def test_a_hybrid_list_looks_deeper_than_it_shows() -> None:
    a, b = Fixed([*"uvwxyz"]), Fixed([*"zyxwvu"])
    assert {len(found) for found in Hybrid(a, b, depth=1).search(["?"], 2)} == {2}
    assert len(Hybrid(a, b).search(["?"], 1)[0]) == 1


def test_a_cached_retriever_searches_a_text_once_per_k_and_forgets_the_oldest() -> None:
    inner = Fixed([*"abc"])
    cached = Cached(inner, limit=2)
    assert cached.search(["p", "q", "p"], 2) == inner.search(["p", "q", "p"], 2)
    inner.asked.clear()
    cached.search(["q", "p"], 2)
    assert inner.asked == []
    assert len(cached.search(["p"], 3)[0]) == 3  # pushes out q
    cached.search(["p", "q"], 2)
    assert inner.asked == ["p", "q"]
    assert (cached.requested, cached.searched) == (8, 4)


def test_ids_name_one_document_each() -> None:
    with pytest.raises(BadInput, match="needs one id"):
        Bm25(["a"], ["x", "y"])
    with pytest.raises(BadInput, match="twice"):
        Bm25(["a", "a"], ["x", "y"])


def test_an_empty_corpus_finds_nothing(encoder: Encoder) -> None:
    assert Bm25([], []).search(["cat"]) == [[]]
    assert Dense(encoder, [], []).search(["cat"]) == [[]]


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 15))
def test_the_best_are_those_of_a_stable_sort(values: list[int], k: int) -> None:
    expected = sorted(range(len(values)), key=lambda row: -values[row])[:k]
    assert best(np.array(values, dtype=float), k).tolist() == expected


def test_documents_with_pictures_are_found_by_words(encoder: Encoder) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (9, 9, 3), dtype=np.uint8)
    documents = [Document("p", image=picture), Document("both", "a cat", picture), Document("t", "a cat")]
    found = Dense(encoder, ["p", "both", "t"], documents).search(["a cat"], 3)[0]
    assert found[0][0] == "t"
    assert found[0][1] == pytest.approx(1.0, abs=1e-5)
    assert len(found) == 3
