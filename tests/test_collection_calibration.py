"""Scores of a collection are those of the equations, and its calibration follows its documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.calibration import Fitted, Statistics
from isthmus.encoders import Encoder
from isthmus.errors import BadInput, BadSpec, CannotFit, UnknownName
from isthmus.search import snapshot, snapshot_builder
from isthmus.storage.sqlite import calibrations
from stock import Counting, database, dense, mixed, own, pixels, unit, words

SPECS = [
    "none",
    "center",
    "standardize",
    "center+nnn(k=4)+standardize",
    "learned",
    "qbnorm(dynamic=true)",
    "center+standardize+qbnorm(beta=2.0,dynamic=true)",
]
ASKED = [
    Query(text="a red cat on the sofa"),
    Query(image=pixels(7_000)),
    Query(text="dog", image=pixels(8_000)),
    Query(text="house", image=pixels(9_000), weights={"text": 1, "image": 2}),
]


@pytest.fixture
def things(tmp_path: Path, encoder: Encoder) -> Iterator[Collection]:
    with Collection.open(tmp_path / "c", encoder, calibration="center", follow=False) as opened:
        opened.add(mixed(60))
        yield opened


def agree(things: Collection, encoder: Encoder, documents: Sequence[Document]) -> None:
    """Check every score of every document against the equations, but for those raised as identical pictures."""
    for query in ASKED:
        hits = things.search(query, k=len(documents) + 5, explain=True)
        raised = {hit.id for hit in hits if hit.explanation is not None and hit.explanation.raised is not None}
        expected = dense(things, encoder, documents, query)
        assert {hit.id for hit in hits} == expected.keys()
        assert len(raised) <= 1
        expected = {name: score for name, score in expected.items() if name not in raised}
        tolerance = 1e-5 * max(1.0, max(abs(score) for score in expected.values()))
        assert {hit.id: hit.score for hit in hits if hit.id not in raised} == pytest.approx(expected, abs=tolerance)
        best = sorted(expected.values(), reverse=True)[: 7 - len(raised)]
        first = [hit.score for hit in things.search(query, k=7)][len(raised) :]
        assert first == pytest.approx(best, abs=tolerance)


@pytest.mark.parametrize("spec", SPECS)
def test_scores_are_those_of_the_equations(tmp_path: Path, encoder: Encoder, spec: str) -> None:
    there = {document.id: document for document in mixed(90)}
    with Collection.open(tmp_path / "c", encoder, calibration=spec, follow=False) as things:
        things.add(there.values())
        agree(things, encoder, list(there.values()))
        later = [*mixed(20, seed=5), Document("d0-4", "quite another text"), Document("d0-6", image=pixels(77))]
        there |= {document.id: document for document in later}
        things.add(later)
        for gone in ("d0-0", "d0-1", "d5-3", "d5-19"):
            things.delete(gone)
            del there[gone]
        agree(things, encoder, list(there.values()))
        version = things.calibration and things.calibration.version
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        agree(things, encoder, list(there.values()))
        assert things.calibration is not None
        assert things.calibration.version == version


def test_scores_stay_when_worn_shelves_are_built_again(
    things: Collection, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "REBUILD", (5, 0.0))
    monkeypatch.setattr(snapshot_builder, "DRIFT", np.inf)
    things._snapshots.follows = True
    there = {document.id: document for document in mixed(60)}
    things.search("dog")
    before = things._snapshots.latest().built
    for seed in range(1, 5):
        more = mixed(6, seed=seed)
        things.add(more)
        things.delete(more[0].id)
        there |= {document.id: document for document in more[1:]}
        agree(things, encoder, list(there.values()))
        things._snapshots.wait()  # for what is built in the background
        agree(things, encoder, list(there.values()))
    now = things._snapshots.latest()
    assert sum(map(len, now.built)) > sum(map(len, before))
    assert not now.recent


@pytest.mark.parametrize("spec", SPECS)
def test_an_explanation_adds_up(things: Collection, spec: str) -> None:
    things.calibrate(spec)
    for query in ASKED:
        raw = [hit.id for hit in things.search(query, k=60, calibration="none")]
        for hit in things.search(query, k=60, explain=True):
            told = hit.explanation
            assert told is not None
            added = told.slope * (told.similarity + told.shift - told.bias) + told.offset
            assert added == pytest.approx(told.score, abs=1e-4)
            assert told.score + (told.raised or 0.0) == pytest.approx(hit.score, abs=1e-4)
            assert told.rank == hit.rank
            assert told.rank_before == raw.index(hit.id) + 1
            assert set(told.parts) == set(hit.modality.split("+"))


def test_calibration_none_is_raw_cosine(things: Collection, encoder: Encoder) -> None:
    things.calibrate("center+standardize")
    raw = [things.search(query, k=60, calibration="none") for query in ASKED]
    things.calibrate("none")
    for hits, plain in zip(raw, (things.search(query, k=60) for query in ASKED), strict=True):
        assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in plain]
        assert all(hit.score == pytest.approx(hit.similarity, abs=1e-6) for hit in hits)


def test_the_first_search_calibrates_and_later_ones_do_not(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="center+nnn(k=4)") as things:
        things.add(mixed(20))
        assert things.calibration is None
        things.search("dog")
        assert things.calibration is not None
        assert (things.calibration.version, str(things.calibration.fitted.spec)) == (1, "center+nnn(k=4)")
        things.search("cat")
    with Collection.open(tmp_path / "c", encoder) as things:
        things.search("dog")
        assert things.calibration is not None
        assert things.calibration.version == 1


def test_a_calibration_that_cannot_be_is_refused_and_the_old_one_stays(things: Collection) -> None:
    before = things.search("dog")
    for spec, error in (("centre", UnknownName), ("rrf", BadSpec), ("nnn(k=100000)", CannotFit), ("center+", BadSpec)):
        with pytest.raises(error):
            things.calibrate(spec)
    with pytest.raises(UnknownName, match="'d0-99x'"):
        things.calibrate("center", queries=[("dog", "d0-99x")])
    assert things.search("dog") == before
    assert things.stats().calibration is not None


def test_users_queries_come_first_and_know_their_answers(things: Collection) -> None:
    asked = [(f"a cat number {i}", f"d0-{i}") for i in range(0, 30, 3)]
    made = things.calibrate("center+nnn(k=4)", queries=[*asked, "no answer", Query(image=pixels(5))])
    for row, (_, name) in enumerate(asked):
        assert row in made.sources[name]
    assert not any(row in rows for rows in made.sources.values() for row in (10, 11))


def test_users_queries_may_be_vectors(tmp_path: Path) -> None:
    rows = unit(np.random.default_rng(0).normal(size=(30, 6)))
    with Collection.open(tmp_path / "c", "none") as things:
        things.add(own(rows))
        made = things.calibrate("nnn(k=4)", queries=[(Query(vectors={"text": row}), "v3") for row in rows[:5]])
        assert set(range(5)) <= set(made.sources["v3"])
        np.testing.assert_allclose(made.fitted.references.vectors["text"][:5], rows[:5], atol=1e-6)


def test_a_reference_query_never_meets_the_document_it_was_made_from(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, Any]] = []
    fold = Fitted.fold

    def noted(self: Fitted, documents: Any, *, sources: Any = None, **rest: Any) -> Any:
        calls.append((documents, sources))
        return fold(self, documents, sources=sources, **rest)

    monkeypatch.setattr(Fitted, "fold", noted)
    made = things.calibrate("center+nnn(k=4)")
    assert sum(map(len, made.sources.values())) > 60
    every = things._store.sample(list(range(1, 61)))
    expected = {(row, place) for place, name in enumerate(every.ids) for row in made.sources.get(name, ())}
    assert calls
    assert {tuple(pair) for pair in calls[0][1].tolist()} == expected


def test_drift_is_seen_and_followed_in_one_step(tmp_path: Path, encoder: Encoder) -> None:
    """While a re-fit runs, and when it takes over, every answer is wholly the old one or wholly the new one."""
    gate, begun = Event(), Event()

    def wait() -> None:
        if current_thread().name == "isthmus-maintenance":
            begun.set()
            gate.wait()

    asked = Query(vectors={"text": np.arange(1.0, 9.0)})
    counting = Counting(encoder, before_queries=wait)
    with Collection.open(tmp_path / "c", counting, calibration="center") as things:
        rng = np.random.default_rng(1)
        things.add([Document(f"a{i}", words(rng)) for i in range(40)])
        things.search(asked)
        assert not things.drifted
        things.add([Document(f"b{i}", "tree tree tree tree " + words(rng, 2)) for i in range(60)])
        old = _list(things, asked)
        assert begun.wait(60)
        assert things.drifted
        assert things.stats().refitting
        lists: list[list[tuple[str, float]]] = []
        searchers = [Thread(target=_search_on, args=(things, asked, lists)) for _ in range(3)]
        for searcher in searchers:
            searcher.start()
        assert _list(things, asked) == old
        gate.set()
        for searcher in searchers:
            searcher.join()
        new = _list(things, asked)
        assert new != old
        assert all(found in (old, new) for found in lists)
        assert new in lists
        assert (things.drifted, things.stats().last_error) == (False, "")
        assert things.calibration is not None
        assert things.calibration.version == 2


def _list(things: Collection, asked: Query) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in things.search(asked, k=100)]


def _search_on(things: Collection, asked: Query, lists: list[list[tuple[str, float]]]) -> None:
    """Search until the re-fit has ended, and once more."""
    going = True
    while going:
        going = things._snapshots.refitting
        lists.append(_list(things, asked))


def test_a_refit_that_fails_leaves_the_old_calibration_and_is_not_tried_for_ever(
    tmp_path: Path, encoder: Encoder
) -> None:
    tries = []

    def fail() -> None:
        if current_thread().name == "isthmus-maintenance":
            tries.append(1)
            raise CannotFit("no")

    asked = Query(vectors={"text": np.arange(1.0, 9.0)})
    with Collection.open(tmp_path / "c", Counting(encoder, before_queries=fail), calibration="center") as things:
        things.add([Document(f"a{i}", "a cat") for i in range(4)])
        things.search(asked)
        things.add([Document(f"b{i}", "the dog runs") for i in range(20)])
        for _ in range(3):
            assert len(things.search(asked, k=30)) == 24
            things._snapshots.wait()
        assert len(tries) == 1
        assert things.stats().last_error == "no"
        things.add([Document("c", "a house")])
        things.search(asked)
        things._snapshots.wait()
        assert len(tries) == 2


def test_means_of_a_training_split_are_subtracted_and_kept(tmp_path: Path, encoder: Encoder) -> None:
    """Given as documents, as vectors or as a fitted calibration; a re-fit keeps them, another calibration does not."""
    both = [document for document in mixed(60) if document.modality == "image+text"]
    others = [document for document in mixed(60) if document.modality != "image+text"]
    split = [Document(f"s{i}", "tree tree tree") for i in range(20)] + mixed(10)
    queries, documents = encoder.encode_queries(ASKED[:1]), encoder.encode_documents(others)

    def scores(fitted: Fitted) -> Any:
        return fitted.scores(queries, documents)

    with Collection.open(tmp_path / "c", encoder, calibration="center", follow=False) as things:
        things.add(others)
        plain = things.calibrate("center").fitted
        given = things.calibrate("center", means=split).fitted
        assert (plain.given_means, given.given_means) == (False, True)
        assert np.abs(scores(given) - scores(plain)).max() > 1e-3
        for origin in (encoder.encode_documents(split), given):
            np.testing.assert_allclose(
                scores(things.calibrate("center", means=origin).fitted), scores(given), atol=1e-6
            )
        things.add(both)  # a modality that was not fitted
        things.search(ASKED[0])
        assert things.calibration is not None
        refitted = things.calibration.fitted
        assert "image+text" in refitted.document_modalities
        assert refitted.given_means
        np.testing.assert_allclose(scores(refitted), scores(given), atol=1e-6)
        things.add([Document("v", vectors={"sound": np.arange(1.0, 9.0)})])  # a part without a given mean
        things.search(ASKED[0])
        assert not things.calibration.fitted.given_means


def test_means_need_a_shift_and_something_to_encode_them(things: Collection, tmp_path: Path) -> None:
    with pytest.raises(BadSpec, match="leave out means="):
        things.calibrate("auto", means=mixed(5))
    with pytest.raises(BadSpec, match="subtracts no means"):
        things.calibrate("standardize", means=mixed(5))
    with Collection.open(tmp_path / "v", "none") as vectors, pytest.raises(BadInput, match="no encoder"):
        vectors.add([Document("a", vectors={"text": np.arange(1.0, 9.0)})])
        vectors.calibrate("center", means=mixed(5))


def test_without_following_drift_stays_until_somebody_calibrates(things: Collection) -> None:
    things.search("dog")
    things.add([Document(f"b{i}", "tree tree tree") for i in range(90)])
    things.search("dog")
    assert things.drifted
    assert not things._snapshots.refitting
    things.calibrate("center")
    assert not things.drifted


@pytest.mark.parametrize("spec", ["center", "auto", "learned"])
def test_a_modality_that_comes_later_is_served(tmp_path: Path, encoder: Encoder, spec: str) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(tmp_path / "c", encoder, calibration=spec) as things:
        things.add([Document(f"t{i}", words(rng)) for i in range(30)])
        assert things.search("dog")
        things.add([Document("photo", image=pixels(1))])
        hit = things.search(Query(image=pixels(1)), k=31)
        assert "photo" in {one.id for one in hit}
        assert things.calibration_spec == spec
    with Collection.open(tmp_path / "c", encoder) as things:
        things.add([Document("both", "a cat", pixels(2))])
    with Collection.open(tmp_path / "c", encoder) as things:
        assert len(things.search("dog", k=50)) == 32


def test_a_lost_index_does_not_hide_a_new_modality(tmp_path: Path, encoder: Encoder) -> None:
    import shutil

    with Collection.open(tmp_path / "c", encoder, calibration="center") as things:
        things.add([Document("a", "a cat"), Document("b", "a dog")])
        things.search("dog")
        things.add([Document("photo", image=pixels(1))])
    shutil.rmtree(tmp_path / "c" / "index")
    with Collection.open(tmp_path / "c", encoder) as things:
        assert len(things.search("dog")) == 3


def test_statistics_of_the_store_are_those_of_its_vectors(tmp_path: Path, encoder: Encoder) -> None:
    rng = np.random.default_rng(7)
    there: dict[str, Document] = {}
    with Collection.open(tmp_path / "c", encoder) as things:
        for step in range(25):
            some = mixed(int(rng.integers(1, 6)), seed=step % 4)
            if rng.random() < 0.3 and there:
                gone = [str(name) for name in rng.choice(list(there), 3)]
                things.delete(gone)
                there = {name: document for name, document in there.items() if name not in gone}
            changed = [
                Document(d.id, words(rng, int(rng.integers(1, 30))), d.image) for d in some if rng.random() < 0.5
            ]
            for document in [*some, *changed]:
                things.add([document])
                there[document.id] = document
        vectors, owner = encoder.encode_passages(list(there.values()))
        expected, kept = Statistics.of(vectors, owner), things._store.statistics()
        assert kept.counts == expected.counts
        for part, moments in expected.parts.items():
            np.testing.assert_allclose(kept.parts[part].mean, moments.mean, atol=1e-6)
            np.testing.assert_allclose(kept.parts[part].variance, moments.variance, atol=1e-6)


def test_queries_are_kept_only_while_somebody_wants_them(things: Collection) -> None:
    things.search_many(["dog"] * 40)
    assert things.stats().logged is None
    things.log_queries()
    things.search_many([f"cat number {i}" for i in range(40)])
    things.search(Query(image=pixels(1)))
    things.search("half \ud800 a word")
    before = things.calibrate("nnn(k=4)").fitted
    assert things.stats().logged == 41
    things.search("one more")
    things.log_queries(on=False)
    things.search("never kept")
    things.calibrate("nnn(k=4)")
    assert things.stats().logged is None
    assert database(things).all("SELECT * FROM query_log") == []
    after = things.calibration
    assert after is not None
    assert len(before.references.rows["text"]) == len(after.fitted.references.rows["text"])  # the bank fills up
    assert not np.array_equal(before.references.vectors["text"], after.fitted.references.vectors["text"])


def test_probabilities_tell_a_question_with_an_answer_from_one_without(tmp_path: Path) -> None:
    """Every question has one document right beside it, all others are far away; then that document is removed."""
    rng = np.random.default_rng(0)
    rows = unit(rng.normal(size=(300, 48)))
    near = unit(rows + 0.25 * unit(rng.normal(size=rows.shape)))
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        documents = [Document(f"v{i}", vectors={"text": rows[i], "image": near[i]}) for i in range(300)]
        images = [Document(f"i{i}", vectors={"image": row}) for i, row in enumerate(unit(rng.normal(size=(100, 48))))]
        texts = [Document(f"t{i}", vectors={"text": row}) for i, row in enumerate(unit(rng.normal(size=(100, 48))))]
        things.add([*documents, *images, *texts])
        for row in (3, 50, 200):
            asked = Query(vectors={"text": rows[row]})
            plain = things.search(asked, k=20)
            told = [hit.probability for hit in plain]
            assert all(p is not None for p in told)
            assert told == sorted(told, reverse=True)  # type: ignore[type-var]
            assert things.search(asked, min_probability=0.5)[0].id == f"v{row}"
            things.delete(f"v{row}")
            assert things.search(asked, min_probability=0.5) == []
        for wish in ({"min_probability": 0.5}, {"hybrid": True}):
            with pytest.raises(BadInput, match="neither words nor probabilities"):
                things.search(asked, calibration="none", **wish)


def test_probabilities_need_somebody_to_learn_from(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none") as things:
        things.add(own(unit(np.random.default_rng(0).normal(size=(5, 4)))))
        asked = Query(vectors={"text": np.ones(4)})
        assert {hit.probability for hit in things.search(asked)} == {None}
        with pytest.raises(CannotFit, match="too few"):
            things.search(asked, min_probability=0.1)


def test_closing_does_not_begin_another_fit(tmp_path: Path, encoder: Encoder) -> None:
    things = Collection.open(tmp_path / "c", encoder, calibration="center")
    things.add([Document("a", "a cat"), Document("b", "a dog")])
    things.search("dog")
    things.add([Document(f"b{i}", "tree tree tree") for i in range(90)])
    things.close()
    assert not things._snapshots.refitting


def test_a_served_calibration_outlives_what_else_is_kept(things: Collection) -> None:
    for _ in range(calibrations.KEPT + 2):
        things.calibrate("none")
    assert len(things.search("dog")) == 10
    assert len(list((things.path / "index").iterdir())) == 1
    kept = database(things).one("SELECT count(*) FROM calibrations")
    assert kept == (calibrations.KEPT,)


def test_queries_given_once_serve_later_calibrations_until_others_are_given(things: Collection) -> None:
    mine = [("a cat on the sofa", "a0"), "tree"]
    known = next(iter(things)).id
    things.calibrate("center", queries=[(mine[0][0], known), "tree"])
    assert [(query.text, answer) for query, answer in things._snapshots.own_queries()] == [
        (mine[0][0], known),
        ("tree", None),
    ]
    things.calibrate("center")
    assert len(things._snapshots.own_queries()) == 2
    things.calibrate("center", queries=[])
    assert things._snapshots.own_queries() == []


def test_a_refit_in_the_background_does_not_undo_what_somebody_asked_for_meanwhile(
    tmp_path: Path, encoder: Encoder
) -> None:
    begun, go_on = Event(), Event()

    def wait() -> None:
        if current_thread().name == "isthmus-maintenance":
            begun.set()
            go_on.wait(30)

    asked = Query(vectors={"text": np.arange(1.0, 9.0)})
    with Collection.open(tmp_path / "c", Counting(encoder, before_queries=wait), calibration="center") as things:
        things.add([Document(f"a{i}", "a cat") for i in range(4)])
        things.search(asked)
        things.add([Document(f"b{i}", "the dog runs") for i in range(20)])
        things.search(asked)
        assert begun.wait(30)
        things.calibrate("none")
        go_on.set()
        things._snapshots.wait()
        assert things.calibration_spec == "none"
        assert things.calibration is not None
        assert str(things.calibration.fitted.spec) == "none"
        assert things.search(asked)[0].score == pytest.approx(things.search(asked)[0].similarity, abs=1e-6)


def test_who_may_only_read_calibrates_once_for_what_is_new(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "c", encoder, calibration="none", follow=False) as things:
        things.add([Document(f"{i}", "a cat") for i in range(5)])
        things.search("cat")
    with Collection.open(tmp_path / "c", encoder, follow=False) as things:
        things.add([Document("p", image=pixels(1))])
    with Collection.open(tmp_path / "c", encoder) as reader:
        reader._handle.database.writable = False
        assert len(reader.search("cat")) == 6
        first = reader._snapshots.current
        assert len(reader.search("dog")) == 6
        assert reader._snapshots.current is first


def test_raw_cosine_follows_what_is_added_and_taken_out(things: Collection, encoder: Encoder) -> None:
    asked = Query(text="a red cat on the sofa")
    things.search(asked, calibration="none")
    built = things._snapshots.raw().built[0].vectors  # type: ignore[union-attr]
    things.add([Document("new", "a red cat on the sofa")])
    things.delete([document.id for document in mixed(10)])
    found = things.search(asked, k=100, calibration="none")
    assert found[0].id == "new"
    assert len(found) == len(things) == 51
    assert [hit.score for hit in found] == pytest.approx([hit.similarity for hit in found], abs=1e-6)
    assert things._snapshots.raw().built[0].vectors is built  # type: ignore[union-attr]


def test_what_words_add_stands_in_the_explanation(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "c", calibration="center") as things:
        things.add(
            [Document(str(n), text) for n, text in enumerate(["a red cat", "the zebra runs", "an old house"] * 4)]
        )
        things.add([Document("rare", "a zebra in the snow"), Document("picture", image=pixels(3))])
        for hit in things.search("zebra snow", hybrid=True, explain=True, k=20):
            told = hit.explanation
            assert told is not None
            assert (told.words is None) == (hit.id == "picture")
            assert told.score + (told.words or 0.0) == pytest.approx(hit.score, abs=1e-5)


def test_an_earlier_calibration_is_served_again(things: Collection, encoder: Encoder) -> None:
    before = [(hit.id, hit.score) for hit in things.search("a red cat")]
    things.calibrate("none")
    assert [str(one.fitted.spec) for one in things.calibrations()] == ["center", "none"]
    assert [(hit.id, hit.score) for hit in things.search("a red cat")] != before
    again = things.use_calibration(things.calibrations()[0].version)
    assert (str(again.fitted.spec), things.calibration_spec) == ("center", "center")
    assert [(hit.id, hit.score) for hit in things.search("a red cat")] == before
    with Collection.open(things.path, encoder, follow=False) as reopened:
        assert [(hit.id, hit.score) for hit in reopened.search("a red cat")] == before
    with pytest.raises(UnknownName, match="No calibration has the number 99"):
        things.use_calibration(99)


def test_a_calibration_from_before_a_new_modality_is_not_served_again(tmp_path: Path, counting: Counting) -> None:
    with Collection.open(tmp_path / "c", counting, calibration="center", follow=False) as things:
        things.add([Document(f"t{i}", "a red cat") for i in range(4)])
        things.search("cat")
        things.add(mixed(9))
        things.search("cat")
        with pytest.raises(CannotFit, match="has no place for them"):
            things.use_calibration(things.calibrations()[0].version)
