"""Queries made from documents: what they say, what they leave, and that the filters hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isthmus import Document
from isthmus.errors import BadInput, UnknownName
from isthmus.evaluate import slices
from isthmus.evaluate.benchmarks.mr_right import KINDS as PUBLISHED
from isthmus.evaluate.builders import from_documents
from isthmus.queries import KINDS, Embedded, MadeQuery, about, corpus, made, published, without
from isthmus.queries.captions import nameless
from isthmus.queries.filters import kept, objection
from isthmus.queries.overlap import SHARE, SHARED, copied, longest_shared
from isthmus.queries.parse import Sentence
from isthmus.queries.published import after_verb
from isthmus.queries.unique import ambiguous
from isthmus.queries.words import sentences, tokens

PARSER = Embedded()
TEXT, IMAGE, MIXED = KINDS
BRIDGE = Document(
    "bridge",
    "The old bridge crosses the river at Basel. It was built of red stone, and replaced in 1905. Boats pass below.",
    "bridge.jpg",
)
CAPTION = "people walk over a stone bridge"
WORDS = [
    *("the", "a", "old", "red", "fox", "bridge", "river", "crosses", "sleeps", "in", "over", "and", "it", "is", "not"),
    *(
        "1905",
        "Basel,",
        "Smith.",
        "snow!",
        "猫が",
        "鼠を",
        "🦊",
        "👩\u200d👩\u200d👧",
        "İstanbul",
        "naïve",
        "don't",
        "it's",
    ),
    *("U.S.", "--", "(", ")", "\n", "\n\n", "\t", "'", '"', "_", "ß", "ﬁn"),
]
texts = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join) | st.text(max_size=200)
seeds = st.integers(0, 2**32 - 1)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def tags(text: str) -> list[str]:
    return [word.tag for word in PARSER.sentence(text).words]


# What is made


def test_the_three_kinds_are_those_of_the_published_benchmark() -> None:
    assert tuple(PUBLISHED.values()) == KINDS


def test_a_text_related_query_is_a_clause_of_the_text_and_can_be_taken_out() -> None:
    text, *_ = made(BRIDGE, rng=rng(), parser=PARSER)
    assert (text.kind, text.source_id) == (TEXT, "bridge")
    assert text.text == "The old bridge crosses the river at Basel"
    assert without(BRIDGE, text).text == ". It was built of red stone, and replaced in 1905. Boats pass below."


def test_a_mixed_query_is_one_of_each_in_either_order() -> None:
    orders = set()
    for seed in range(20):
        text, image, mixed = made(BRIDGE, CAPTION, rng=rng(seed), parser=PARSER)
        assert mixed.text in (f"{text.text} {image.text}", f"{image.text} {text.text}")
        assert mixed.removed == text.removed
        orders.add(mixed.text.startswith(image.text))
    assert orders == {True, False}


def test_a_document_is_asked_for_only_by_what_it_has() -> None:
    assert [query.kind for query in made(BRIDGE, rng=rng())] == [TEXT]
    assert [query.kind for query in made(Document("i", image="i.jpg"), CAPTION, rng=rng())] == [IMAGE]
    assert made(Document("i", image="i.jpg"), rng=rng()) == []
    assert made(Document("v", vectors={"audio": np.ones(2)}), "", rng=rng()) == []


def test_the_kinds_that_are_asked_for_do_not_change_what_the_others_say() -> None:
    every = {query.kind: query for query in made(BRIDGE, CAPTION, rng=rng(3))}
    for kind in KINDS:
        assert made(BRIDGE, CAPTION, rng=rng(3), kinds=[kind]) == [every[kind]]
    with pytest.raises(UnknownName, match="Did you mean 'mixed'"):
        made(BRIDGE, rng=rng(), kinds=["mxed"])


@pytest.mark.parametrize(
    "text",
    [
        "cat",
        "A red fox sleeps.",
        "机器学习是人工智能的一个分支。它使用数据来训练模型，使其能够做出预测。",
        "Die alte Brücke führt über den Fluss und wurde aus rotem Stein gebaut.",
        "🦊🦊🦊 fox 🦊",
        "x" * 500,
    ],
)
def test_short_and_foreign_texts_are_asked_for_by_some_of_their_words_and_lose_nothing(text: str) -> None:
    source = Document("d", text)
    for query in made(source, rng=rng(), parser=PARSER):
        assert query.removed is None
        assert len(query.text) <= SHARED
        assert without(source, query) is source


def test_chinese_gets_a_query_too() -> None:
    (query,) = made(Document("d", "机器学习是人工智能的一个分支。它使用数据来训练模型。"), rng=rng(), parser=PARSER)
    assert query.text[:2] in "机器学习是人工智能的一个分支它使用数据来训练模型"


def test_a_piece_is_not_taken_out_of_another_document() -> None:
    query = made(BRIDGE, rng=rng(), parser=PARSER)[0]
    with pytest.raises(BadInput, match="cannot be removed from 'other'"):
        without(Document("other", BRIDGE.text), query)
    with pytest.raises(BadInput, match="is not the one"):
        without(Document("bridge", "Another text of the same length, which does not say that."), query)


def test_only_the_first_sentences_of_a_long_text_are_parsed() -> None:
    @dataclass
    class Counting(Embedded):
        letters: int = 0

        def sentence(self, text: str, start: int = 0, end: int | None = None) -> Sentence:
            self.letters += (len(text) if end is None else end) - start
            return super().sentence(text, start, end)

    counting = Counting()
    long = Document("d", "The red fox sleeps in deep snow here. " * 3_000)
    assert made(long, rng=rng(), parser=counting)
    assert 0 < counting.letters < 1_000
    endless = Document("d", "fox " * 25_000)
    assert all(kept(query, without(endless, query)) for query in made(endless, rng=rng(), parser=PARSER))


# What holds for any text


@given(text=texts, caption=st.none() | texts, seed=seeds)
@settings(max_examples=300, deadline=None)
def test_whatever_the_text_kept_queries_copy_little_and_removal_removes_the_piece_alone(
    text: str, caption: str | None, seed: int
) -> None:
    source = Document("d", text, "d.jpg")
    for query in made(source, caption, rng=rng(seed), parser=PARSER):
        left = without(source, query)
        assert query.text == query.text.strip() != ""
        shared = SequenceMatcher(None, query.text, left.text or "", autojunk=False).find_longest_match().size
        assert shared <= SHARED or shared <= SHARE * len(query.text)
        if query.removed is None:
            assert left.text == (text if text.strip() else None)
        else:
            start, end = query.removed
            assert " ".join(text[start:end].split()) in query.text
            assert left.text == text[:start] + text[end:]
            assert (left.text or "").strip()


@given(text=texts, caption=st.none() | texts, seed=seeds)
@settings(max_examples=50, deadline=None)
def test_the_same_seed_makes_the_same_queries(text: str, caption: str | None, seed: int) -> None:
    source = Document("d", text, "d.jpg")
    assert made(source, caption, rng=rng(seed)) == made(source, caption, rng=rng(seed))


@given(text=texts, seed=seeds)
@settings(max_examples=100, deadline=None)
def test_a_query_about_a_text_that_stays_whole_repeats_little_of_it_in_one_piece(text: str, seed: int) -> None:
    said = about(text, rng(seed), PARSER)
    assert said == about(text, rng(seed), PARSER)
    assert said is None or (said and not copied(said, text))


@given(query=st.text("ab ", max_size=90), text=st.text("ab \n", max_size=200))
@settings(max_examples=200, deadline=None)
def test_the_longest_shared_piece_is_that_of_the_quadratic_search(query: str, text: str) -> None:
    one, other = " ".join(["", *query.split(), ""]), " ".join(["", *text.split(), ""])
    expected = SequenceMatcher(None, one, other, autojunk=False).find_longest_match().size
    assert longest_shared(one, other) == expected
    assert copied(one, other) == (expected > SHARED and expected > SHARE * len(one))


@given(text=texts)
@settings(max_examples=100, deadline=None)
def test_sentences_and_words_stand_where_they_say(text: str) -> None:
    end = 0
    for start, stop in sentences(text):
        assert end <= start < stop
        assert text[start:stop] == text[start:stop].strip()
        end = stop
        assert all(text[token.start : token.end] == token.text for token in tokens(text, start, stop))
    assert sum(len("".join(text[a:b].split())) for a, b in sentences(text)) == len("".join(text.split()))


# Filters


def test_more_than_40_letters_and_more_than_six_tenths_are_a_copy() -> None:
    piece = "the old stone bridge crosses the river at Basel"  # 47 letters
    source = Document("d", f"Today {piece} again.")
    assert objection(MadeQuery(TEXT, piece, "d"), source) == "copied"
    assert kept(MadeQuery(TEXT, piece[:SHARED], "d"), source)
    assert kept(MadeQuery(TEXT, f"{piece} where many people walk and look at boats", "d"), source)


def test_a_query_needs_a_noun_and_another_word_with_meaning() -> None:
    for text in ("it was there", "of the and", "bridge", "!!"):
        assert objection(MadeQuery(TEXT, text, "bridge"), BRIDGE, PARSER) == "no noun"
    assert kept(MadeQuery(TEXT, "red bridge", "bridge"), BRIDGE, PARSER)


def test_nobody_sees_a_name() -> None:
    assert objection(MadeQuery(IMAGE, "a bridge in Basel", "bridge"), BRIDGE, PARSER) == "a name"
    assert kept(MadeQuery(TEXT, "a bridge in Basel", "bridge"), BRIDGE, PARSER)


@pytest.mark.parametrize(
    ("caption", "left"),
    [
        ("A man with Barack Obama in Berlin.", "A man"),
        ("Angela Merkel speaks to a crowd", "speaks to a crowd"),
        ("a Boston street at night", "a street at night"),
        ("A boy holds Anna's red ball", "A boy holds red ball"),
        ("Two dogs, one brown, run on the beach .", "Two dogs, one brown, run on the beach"),
        ("Paris", ""),
        ("zwei Hunde am Strand von Rügen", "zwei Hunde am Strand von Rügen"),
    ],
)
def test_names_go_from_captions_with_what_led_to_them(caption: str, left: str) -> None:
    assert nameless(caption, PARSER) == left


# The tagger


def test_a_word_is_what_its_neighbours_make_it() -> None:
    assert tags("They work here")[1] == "VERB"
    assert tags("the work is done")[1] == "NOUN"
    assert tags("They want to run a race") == ["PRON", "VERB", "PART", "VERB", "DET", "NOUN"]
    assert tags("the beginning of winter")[1] == "NOUN"


def test_a_capital_makes_a_name_only_inside_a_sentence() -> None:
    assert tags("Dogs like Berlin")[::2] == ["NOUN", "PROPN"]
    assert tags("a British flag")[1] == "ADJ"
    assert tags("THE OLD BRIDGE CROSSES A RIVER") == ["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN"]


def test_the_lexicon_is_small_and_its_owners_are_named() -> None:
    folder = files("isthmus.queries")
    assert len((folder / "lexicon.xz").read_bytes()) < 300_000
    assert all(name in (folder / "LICENSES.md").read_text() for name in ("Brill", "Carnegie", "Antwerp", "Loria"))


def test_abbreviations_do_not_end_a_sentence() -> None:
    text = "Mr. J. Smith of the U.S. army met Dr. Jones, e.g. here. They spoke."
    assert [text[start:end] for start, end in sentences(text)] == [text[:-12], "They spoke."]


# A corpus


def test_a_corpus_has_queries_judgements_and_kinds_and_lost_what_they_repeat() -> None:
    found = corpus(
        [BRIDGE, Document("i", image="i.jpg")], lambda one: [CAPTION, f"boats below the {one.modality}"], seed=1
    )
    assert list(found.kinds.values()).count(IMAGE) == 2
    assert found.qrels == {key: {query.source_id: 1} for key, query in found.queries.items()}
    text = next(query for query in found.queries.values() if query.kind == TEXT)
    assert found.documents[0] == without(BRIDGE, text)
    assert set(slices(found.qrels, types=found.kinds)) == {"overall", *KINDS}


def test_what_is_drawn_for_a_document_does_not_depend_on_the_others() -> None:
    several = [Document(str(n), f"The red fox sleeps in deep snow. {BRIDGE.text}") for n in range(8)]
    whole, half = corpus(several, seed=5), corpus(several[::2], seed=5)
    assert half.queries == {key: query for key, query in whole.queries.items() if int(query.source_id) % 2 == 0}
    assert whole == corpus(several, seed=5)
    assert whole.queries != corpus(several, seed=6).queries


@pytest.mark.parametrize(
    ("title", "text", "snippet"),
    [
        (
            "Rhine",
            "The Rhine (German: Rhein) is one of the major rivers in Europe.",
            "one of the major rivers in Europe",
        ),
        ("Borani", "Borani, which is a starter, is an appetizer with spinach.", "an appetizer with spinach"),
        ("Old Bridge", "The old bridge was built of red stone in 1905, and stands.", "of red stone in 1905"),
        ("", "A man in a red shirt climbs a steep rock. He is tired.", "a steep rock"),
        ("Rain", "Rain in the north.", None),
        ("Rain", "In the north it rains.", None),
        ("", "", None),
    ],
)
def test_the_papers_query_is_what_follows_the_titles_verb(title: str, text: str, snippet: str | None) -> None:
    span = after_verb(text, title, PARSER)
    assert (span and text[slice(*span)]) == snippet


def test_the_papers_queries_are_of_three_kinds_and_leave_the_text_without_the_snippet() -> None:
    rhine = Document("r", "The Rhine is one of the major rivers in Europe. It is long.", "r.jpg", {"title": "Rhine"})
    found = published(rhine, "a river with boats", parser=PARSER)
    assert [query.kind for query in found] == list(KINDS)
    assert found[2].text == "one of the major rivers in Europe a river with boats"
    assert without(rhine, found[0]).text == "The Rhine is . It is long."
    assert [query.kind for query in published(rhine, parser=PARSER)] == [TEXT]
    made_so = corpus([rhine], {"r": "a river with boats"}, parser=PARSER, make=published)
    assert made_so.queries["r text-related"].text == "one of the major rivers in Europe"
    assert made_so.documents[0].text == "The Rhine is . It is long."
    with pytest.raises(UnknownName):
        published(rhine, kinds=["mixd"])


def test_a_query_is_ambiguous_if_two_documents_are_nearly_as_good() -> None:
    scores = np.array([[10.0, 4.0, 1.0], [10.0, 9.6, 1.0], [0.0, 0.0, 0.0]])
    assert ambiguous(scores).tolist() == [False, True, True]
    assert ambiguous(scores, margin=0.0).tolist() == [False, False, True]
    assert ambiguous(scores[:, :1]).tolist() == [False, False, False]
    with pytest.raises(BadInput, match="margin must be from 0 to 1"):
        ambiguous(scores, margin=1.5)


def test_where_texts_stay_whole_queries_that_repeat_too_much_are_left_out() -> None:
    text = "The magnificent old stone bridge crosses the deep river at Basel. Boats pass below it all day long."
    assert corpus([Document("d", text)], remove=False).queries == {}
    assert corpus([Document("d", text)]).queries.keys() == {f"d {TEXT}"}


def test_two_documents_of_one_id_are_refused() -> None:
    with pytest.raises(BadInput, match="Two documents have the id 'bridge'"):
        corpus([BRIDGE, BRIDGE])


def test_captions_must_be_words() -> None:
    with pytest.raises(BadInput, match="captions of 'bridge' must be strings"):
        corpus([BRIDGE], {"bridge": [3]})  # type: ignore[list-item]
    assert {query.kind for query in corpus([BRIDGE], {"bridge": []}).queries.values()} == {TEXT}


def test_any_documents_become_a_benchmark() -> None:
    benchmark = from_documents([BRIDGE, Document("i", image="i.jpg")], {"bridge": CAPTION})
    assert [question.kind for question in benchmark.questions] == list(KINDS)
    assert {key: set(right) for key, right in benchmark.qrels.items()} == {
        question.id: {"bridge"} for question in benchmark.questions
    }


# spaCy, by its interface


@dataclass
class Stub:
    """A token as spaCy gives it: only what is used."""

    i: int
    text: str
    idx: int
    pos_: str
    dep_: str
    head: int
    doc: list[Stub] = field(default_factory=list, repr=False)
    is_space: bool = False

    @property
    def children(self) -> list[Stub]:
        return [token for token in self.doc if token.head == self.i and token is not self]

    @property
    def left_edge(self) -> Stub:
        return min([self, *(child.left_edge for child in self.children)], key=lambda token: token.i)

    @property
    def right_edge(self) -> Stub:
        return max([self, *(child.right_edge for child in self.children)], key=lambda token: token.i)


PARSED = [  # word, part of speech, dependency, head
    ("The", "DET", "det", 2),
    ("old", "ADJ", "amod", 2),
    ("bridge", "NOUN", "nsubj", 4),
    ("slowly", "ADV", "advmod", 4),
    ("crosses", "VERB", "ROOT", 4),
    ("the", "DET", "det", 6),
    ("river", "NOUN", "dobj", 4),
    ("at", "ADP", "prep", 6),
    ("Basel", "PROPN", "pobj", 7),
    (".", "PUNCT", "punct", 4),
]


def stub(text: str) -> list[Stub]:
    doc: list[Stub] = []
    at = 0
    for i, (word, tag, dependency, head) in enumerate(PARSED):
        at = text.index(word, at)
        doc.append(Stub(i, word, at, tag, dependency, head, doc))
    return doc


def test_a_dependency_tree_gives_the_clause_from_subject_to_object() -> None:
    from isthmus.queries.spacy_parser import SpacyParser

    text = "Yes!  The old bridge slowly crosses the river at Basel."
    read = SpacyParser(stub).sentence(text, 6, len(text))
    assert [text[start:end] for start, end in read.clauses] == ["The old bridge slowly crosses the river at Basel"]
    assert "the river at Basel" in [text[start:end] for start, end in read.phrases]
    assert all(text[word.start : word.end] == word.text for word in read.words)


def test_a_spacy_pipeline_without_tags_is_refused() -> None:
    from isthmus.queries.spacy_parser import SpacyParser

    def untagged(text: str) -> list[Stub]:
        return [Stub(0, text, 0, "", "", 0)]

    with pytest.raises(BadInput, match="no parts of speech"):
        SpacyParser(untagged).sentence("fox")


@pytest.fixture(scope="module")
def trained() -> Any:
    """Return a real spaCy pipeline, trained on two sentences: enough to know them by heart."""
    spacy = pytest.importorskip("spacy")
    from spacy.tokens import Doc
    from spacy.training import Example

    pipeline = spacy.blank("en")
    pipeline.add_pipe("morphologizer")
    pipeline.add_pipe("parser", config={"min_action_freq": 1})
    words, pos, deps, heads = (list(column) for column in zip(*PARSED, strict=True))
    known = Doc(pipeline.vocab, words=words, pos=pos, deps=deps, heads=heads)
    short = Doc(
        pipeline.vocab,
        words=["It", "rains", "."],
        pos=["PRON", "VERB", "PUNCT"],
        deps=["nsubj", "ROOT", "punct"],
        heads=[1, 1, 1],
    )
    examples = [Example(pipeline.make_doc(doc.text), doc) for doc in (known, short)]
    optimizer = pipeline.initialize(lambda: examples)
    for _ in range(60):
        pipeline.update(examples, sgd=optimizer)
    return pipeline


def test_a_real_spacy_pipeline_makes_queries(trained: Any) -> None:
    from isthmus.queries.spacy_parser import SpacyParser

    text = "The old bridge slowly crosses the river at Basel . It rains ."
    (query,) = made(Document("d", f"{text} It rains . It rains ."), rng=rng(), parser=SpacyParser(trained))
    assert query.text == "The old bridge slowly crosses the river at Basel"


def test_a_spacy_pipeline_that_is_not_there_says_how_to_get_it() -> None:
    from isthmus.errors import MissingExtra
    from isthmus.queries.spacy_parser import SpacyParser

    with pytest.raises((BadInput, MissingExtra), match="spacy"):
        SpacyParser("en_no_such_pipeline")
