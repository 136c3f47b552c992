"""Searches while a collection is re-encoded: the old vectors answer until one step, then the new, never both."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread

import pytest

from isthmus import Collection, Document
from isthmus.search.results import Fetched
from moving import ASKED, SPEC, Answers, alike, answers, counted, made
from stock import Fusing, looked_at, mixed, pixels

pytestmark = pytest.mark.usefixtures("small_batches")


def test_readers_are_served_exactly_by_the_old_until_the_one_step(
    tmp_path: Path, thirty: Path, tiny: str, other: str, by_other: Answers
) -> None:
    with (
        Collection.open(thirty, tiny, follow=False) as things,
        Collection.open(thirty, tiny, follow=False) as reader,
    ):
        old = answers(reader)
        steps: list[bool] = []
        done = things.reencode(other, progress=lambda *_: steps.append(answers(reader) == answers(things) == old))
        assert (steps, done.encoded) == ([True] * 7, 30)
        assert answers(reader) == by_other
        assert reader.encoder is not None
        assert reader.encoder.dim == 12
        assert len(reader.search(ASKED[2], k=100, calibration="none", explain=True)) == 30
        reader.add([Document("more", text="a cat", image=pixels(3))])  # by the new encoder
        assert reader.verify() == []
        alike(things, tmp_path / "fresh", other)


@pytest.mark.parametrize("moment", ["before the query is encoded", "before documents are fetched", "raw"])
def test_a_search_that_meets_the_step_begins_again_and_mixes_nothing(
    tmp_path: Path, tiny: str, fusing: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both encoders have as many dimensions, so that nothing would fail by itself."""
    made(tmp_path / "c", tiny, mixed(30))
    raw = "none" if moment == "raw" else None
    counting = counted(tiny)
    with (
        Collection.open(tmp_path / "c", follow=False) as things,
        Collection.open(tmp_path / "c", counting, follow=False) as reader,
    ):
        reader.search(ASKED[2], calibration=raw)
        if moment == "before documents are fetched":
            fetch = Fetched.of

            def step(*given: object) -> object:
                monkeypatch.setattr(Fetched, "of", fetch)
                things.reencode(fusing)
                return fetch(*given)  # type: ignore[arg-type]

            monkeypatch.setattr(Fetched, "of", step)
        else:
            counting.before_queries = lambda: things.reencode(fusing)
        hits = reader.search(ASKED[2], k=100, calibration=raw, explain=True)
        assert hits == things.search(ASKED[2], k=100, calibration=raw, explain=True)
        assert {part for hit in hits for part in (hit.explanation.parts if hit.explanation else ())} == {
            "image",
            "image+text",
            "text",
        }
        assert isinstance(reader.encoder, Fusing)


@pytest.mark.parametrize("call", ["calibrate", "refresh"])
def test_a_calibration_that_meets_the_step_is_made_of_the_new_vectors(
    tmp_path: Path, tiny: str, other: str, call: str
) -> None:
    counting = counted(tiny)
    with (
        Collection.open(tmp_path / "c", tiny, calibration=SPEC, follow=False) as things,
        Collection.open(tmp_path / "c", counting, calibration=SPEC, follow=False) as reader,
    ):
        things.add(mixed(30))
        counting.before_queries = lambda: things.reencode(other)
        reader.calibrate(SPEC) if call == "calibrate" else reader.refresh()
        assert reader.calibration is not None
        assert reader.calibration.fitted.dim == 12
        assert answers(reader) == answers(things)
        assert things.verify() == []


def test_threads_that_search_meanwhile_see_one_or_the_other(
    thirty: Path, tiny: str, other: str, by_other: Answers
) -> None:
    stop, both = Event(), (Event(), Event())
    trouble: list[BaseException] = []
    with Collection.open(thirty, tiny) as things, Collection.open(thirty, tiny) as reader:
        known = [answers(things)[2], by_other[2]]

        def search(one: Collection) -> None:
            try:
                while not stop.is_set():
                    found = [(hit.id, hit.score) for hit in one.search(ASKED[2], k=100, explain=True)]
                    both[known.index(found)].set()
            except BaseException as error:  # noqa: BLE001 - shown below
                trouble.append(error)
                both[0].set()
                both[1].set()

        searchers = [Thread(target=search, args=(one,)) for one in (things, things, reader)]
        for searcher in searchers:
            searcher.start()
        assert both[0].wait(60)
        things.reencode(other)
        assert both[1].wait(60)
        stop.set()
        for searcher in searchers:
            searcher.join()
        assert trouble == []
        assert answers(reader) == answers(things) == by_other
    assert looked_at(thirty) == []
