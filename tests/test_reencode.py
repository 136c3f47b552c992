"""A collection moves to another encoder: the old vectors serve until all is done, then the new ones, in one step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from isthmus import Collection, Document, Query, encoders
from isthmus.cli import app
from isthmus.encoders import Encoder
from isthmus.encoders.base import Settings
from isthmus.errors import BadInput, CannotEncode, CannotWrite, UnknownName
from isthmus.search import ingest, writer
from isthmus.search.answers import Fetched
from isthmus.search.staging import Begun, Staging
from stock import Counting, Fusing, looked_at, mixed, pixels, unit
from test_reliability import line, process
from tiny import write_encoder

ASKED = [Query(text="a red cat"), Query(image=pixels(500)), Query(text="dog", image=pixels(501))]
SPEC = "center+nnn(k=4)"
Answers = list[list[tuple[str, float]]]

run = CliRunner().invoke


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a second encoder, of another dimension."""
    return f"onnx:{write_encoder(tmp_path_factory.mktemp('other') / 'other', dim=12)}"


@pytest.fixture(autouse=True)
def fusing(tiny: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an encoder that gives one vector for text and image."""

    def opener(_: str, settings: Settings) -> Encoder:
        return Fusing(encoders.load(tiny))

    monkeypatch.setattr(encoders, "KINDS", MappingProxyType({**encoders.KINDS, "fusing": opener}))
    return "fusing:tiny"


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH", 5)
    monkeypatch.setattr(ingest, "PICTURE", 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "c"
    made(folder, tiny, mixed(30))
    return folder


@pytest.fixture
def folder(tmp_path: Path, whole: Path) -> Path:
    """A calibrated collection of 30 documents, closed."""
    shutil.copytree(whole, tmp_path / "c")
    return tmp_path / "c"


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory, other: str) -> Answers:
    """What the same collection answers when it is made with the second encoder."""
    return made(tmp_path_factory.mktemp("right") / "c", other, mixed(30))


def made(folder: Path, encoder: str, documents: Sequence[Document]) -> Answers:
    with Collection.open(folder, encoder, calibration=SPEC, follow=False) as things:
        things.add(documents)
        return answers(things)


def answers(things: Collection) -> Answers:
    return [[(hit.id, hit.score) for hit in things.search(query, k=100)] for query in ASKED]


def alike(things: Collection, fresh: Path, encoder: str) -> None:
    """Check that a collection has the vectors of one made with this encoder from the same documents."""
    with Collection.open(fresh, encoder, calibration="none", follow=False) as right:
        right.add(things)
        for query in ASKED:
            found = {hit.id: hit.similarity for hit in things.search(query, k=100, calibration="none")}
            assert found == {hit.id: pytest.approx(hit.similarity, abs=1e-5) for hit in right.search(query, k=100)}


def interrupted(after: int) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        if done >= after:
            raise KeyboardInterrupt

    return progress


def counted(name: str) -> Counting:
    return Counting(encoders.load(name))


@pytest.mark.parametrize(("before", "after"), [("tiny", "fusing"), ("fusing", "tiny")])
def test_afterwards_it_is_as_if_it_had_been_made_with_the_new_encoder(
    tmp_path: Path, before: str, after: str, request: pytest.FixtureRequest
) -> None:
    old, new = request.getfixturevalue(before), request.getfixturevalue(after)
    made(tmp_path / "c", old, mixed(30))
    right = made(tmp_path / "right", new, mixed(30))
    with Collection.open(tmp_path / "c", follow=False) as things:
        done = things.reencode(new)
        assert (done.encoder, done.encoded, done.earlier, done.skipped) == (new, 30, 0, ())
        assert answers(things) == right
        assert things.encoder is not None
        assert things.encoder.identity == encoders.load(new).identity
    with Collection.open(tmp_path / "c", new, follow=False) as things:
        assert answers(things) == right
        assert things.verify() == []
        told = things.stats()
        assert (told.encoder["encoder"], told.encoder["dim"]) == (new, encoders.load(new).dim)
        assert told.reencoding is None
        assert max(told.drift.values()) == pytest.approx(0, abs=1e-9)
        assert things._opened.database.one("SELECT count(*) FROM calibrations") == (1,)
        things.update(Document("d0-2", text="a tree"))
        assert things.add(mixed(30)[3:]).unchanged
    assert looked_at(tmp_path / "c") == []
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "collection.sqlite",
        "index",
        "writer.json",
        "writer.lock",
    ]
    assert [path.name.split("-")[0] for path in (tmp_path / "c" / "index").iterdir()] == ["2"]


POINTS = ["after 15", "calibrating", "switching", "tidying"]


def test_killed_at_any_point_it_serves_one_of_both_and_the_same_command_goes_on(
    tmp_path: Path, whole: Path, tiny: str, other: str, right: Answers
) -> None:
    folders = {point: tmp_path / point for point in POINTS}
    for copy in folders.values():
        shutil.copytree(whole, copy)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda point: _killed(folders[point], tiny, other, point), POINTS))
    for point, done in {"after 15": 15, "calibrating": 30, "switching": 30}.items():
        with Collection.open(folders[point], follow=False) as things:
            assert things.stats().reencoding == Begun(other, done, 30)
            assert things.verify() == []
            counting = counted(other)
            assert things.reencode(counting).earlier == done
            assert sum(counting.took()) == sum(document.modality.count("+") + 1 for document in mixed(30)[done:])
            assert answers(things) == right
        assert looked_at(folders[point]) == []
    with Collection.open(folders["tidying"], follow=False) as things:
        assert answers(things) == right
        assert things.stats().reencoding is None
        assert things.reencode(other).already
        assert not (folders["tidying"] / "reencode").exists()
        assert [path.name.split("-")[0] for path in (folders["tidying"] / "index").iterdir()] == ["2"]


def _killed(folder: Path, tiny: str, other: str, point: str) -> None:
    """Re-encode in another process up to a point, search here meanwhile, kill it, and search again."""
    with Collection.open(folder, tiny, follow=False) as reader:
        before = answers(reader)
        with process(folder, tiny, "reencode", other, point) as started:
            while line(started) != "there":
                assert started.poll() is None
            during = answers(reader)
            with pytest.raises(CannotWrite, match=f"process {started.pid} on"):
                reader.add(mixed(3))
            started.kill()
            started.wait()
        assert (during == before) == (point != "tidying")
        assert answers(reader) == during


def test_run_again_it_encodes_only_what_was_not_done(folder: Path, other: str) -> None:
    counting = counted(other)
    seen: list[tuple[int, int]] = []
    with Collection.open(folder, follow=False) as things:
        old = answers(things)
        with pytest.raises(KeyboardInterrupt):
            things.reencode(counting, progress=interrupted(20))
        assert counting.took() == (13, 13)  # of twenty documents
        assert answers(things) == old
        assert str(things.stats().reencoding) == "20 of 30 documents re-encoded into tiny-image+text"
        done = things.reencode(counting, progress=lambda *step: seen.append(step))
        assert (done.encoded, done.earlier) == (10, 20)
        assert counting.took() == (7, 7)
        assert seen == [(20, 30), (25, 30), (30, 30)]
        assert answers(things) != old


def test_what_changed_between_two_runs_comes_out_right(tmp_path: Path, folder: Path, other: str) -> None:
    with Collection.open(folder, follow=False) as things, pytest.raises(KeyboardInterrupt):
        things.reencode(other, progress=interrupted(20))
    counting = counted(other)
    with Collection.open(folder, follow=False) as things:  # the old encoder's, as before
        things.delete(["d0-3", "d0-25"])
        things.update(Document("d0-0", text="a cat on the red sofa"))
        things.update("d0-1", metadata={"lang": "en"})
        things.add([Document("new", text="a dog runs", image=pixels(77)), Document("again", text=mixed(30)[6].text)])
        assert len(things.search("dog", k=100)) == 30
        assert things.stats().reencoding == Begun(other, 17, 30)  # two of those done have new rows, one is gone
        done = things.reencode(counting)
        assert (done.encoded, done.earlier) == (13, 17)
        rest = [one for one in mixed(30)[20:] if one.id != "d0-25"]
        texts = sum(one.text is not None for one in rest) + 2  # the new one and the changed; not the metadata alone
        assert counting.took() == (texts, sum(one.image is not None for one in rest) + 1)
        assert things.get("d0-1").metadata["lang"] == "en"
        alike(things, tmp_path / "fresh", other)
        assert things.verify() == []
    assert looked_at(folder) == []


def test_another_encoder_begins_anew_and_the_old_one_calls_it_off(
    folder: Path, tiny: str, other: str, fusing: str
) -> None:
    with Collection.open(folder, follow=False) as things:
        old = answers(things)
        for name, begun in ((other, other), (fusing, fusing)):
            with pytest.raises(KeyboardInterrupt):
                things.reencode(name, progress=interrupted(10))
            assert things.stats().reencoding == Begun(begun, 10, 30)
        done = things.reencode(tiny)
        assert (done.already, done.encoded) == (True, 0)
        assert things.stats().reencoding is None
        assert not (folder / "reencode").exists()
        assert answers(things) == old


def test_readers_are_served_exactly_by_the_old_until_the_one_step(
    tmp_path: Path, folder: Path, tiny: str, other: str, right: Answers
) -> None:
    with (
        Collection.open(folder, tiny, follow=False) as things,
        Collection.open(folder, tiny, follow=False) as reader,
    ):
        old = answers(reader)
        steps: list[bool] = []
        done = things.reencode(other, progress=lambda *_: steps.append(answers(reader) == answers(things) == old))
        assert (steps, done.encoded) == ([True] * 7, 30)
        assert answers(reader) == right
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
    folder: Path, tiny: str, other: str, right: Answers
) -> None:
    stop, both = Event(), (Event(), Event())
    trouble: list[BaseException] = []
    with Collection.open(folder, tiny) as things, Collection.open(folder, tiny) as reader:
        known = [answers(things)[2], right[2]]

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
        assert answers(reader) == answers(things) == right
    assert looked_at(folder) == []


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """A folder of three photos with captions, and a note."""
    (tmp_path / "photos").mkdir()
    for name in ("a", "b", "c"):
        Image.fromarray(pixels(ord(name))).save(tmp_path / "photos" / f"{name}.png")
    (tmp_path / "photos" / "note.txt").write_text("a red cat")
    return tmp_path / "photos"


def test_while_a_picture_is_gone_nothing_is_switched_and_it_is_named(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    counting = counted(other)
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        old = answers(things)
        (photos / "b.png").rename(tmp_path / "away.png")
        with pytest.raises(CannotEncode, match=r"1 of 4 documents .* stays as it was. 'b.png': .*b.png") as caught:
            things.reencode(counting)
        assert [name for name, _ in caught.value.skipped] == ["b.png"]
        assert answers(things) == old
        assert counting.took()[0] == 1
        (tmp_path / "away.png").rename(photos / "b.png")
        done = things.reencode(counting)
        assert (done.encoded, done.earlier, done.skipped) == (1, 3, ())
        assert counting.took() == (0, 1)
        alike(things, tmp_path / "fresh", other)


def test_dropped_documents_are_listed_and_come_back_with_their_files(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        things.add([Document("mine", image=str(photos / "c.png"), text="a dog")])
        kept = (photos / "b.png").read_bytes()
        (photos / "b.png").unlink()
        done = things.reencode(other, drop=True)
        assert (done.encoded, [one.id for one in done.skipped]) == (4, ["b.png"])
        assert {hit.id for hit in things.search("cat", k=10)} == {"a.png", "c.png", "note.txt", "mine"}
        assert things.stats().skipped == (("b.png", done.skipped[0].why),)
        assert things.verify() == []
        (photos / "b.png").write_bytes(kept)
        assert things.index(photos).added == 1
        assert things.stats().skipped == ()
        for path in photos.iterdir():
            path.unlink()
        things.delete(["mine", "note.txt"])
        with pytest.raises(CannotEncode, match="3 of 3 documents"):
            things.reencode(tiny, drop=True)  # a folder that is away takes no collection with it
        assert len(things) == 3
    assert looked_at(tmp_path / "c") == []


def test_a_picture_that_has_changed_is_encoded_as_it_is_now_and_its_copy_serves_one_that_is_gone(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    shutil.copy(photos / "a.png", photos / "copy.png")
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.index(photos)
        Image.fromarray(pixels(999)).save(photos / "b.png")
        with pytest.raises(KeyboardInterrupt):
            things.reencode(other, progress=interrupted(5))
        things.update("a.png", metadata={"lang": "en"})
        (photos / "a.png").unlink()
        counting = counted(other)
        assert things.reencode(counting).skipped == ()
        assert counting.took() == (0, 0)
        (hit,) = things.search(Query(image=pixels(999)), k=1)
        assert (hit.id, round(hit.similarity, 5)) == ("b.png", 1)
        assert things.index(photos).removed == 1
        assert counting.took() == (0, 0)


def test_vectors_that_documents_brought_give_way_where_there_is_something_to_encode(
    tmp_path: Path, tiny: str, other: str
) -> None:
    row = unit(np.arange(1.0, 9.0))
    with Collection.open(tmp_path / "c", tiny, calibration="none", follow=False) as things:
        things.add([Document("own", text="a cat", vectors={"text": row}), *mixed(3)])
        assert things.reencode(other).encoded == 4
        assert things.get("own").vectors == {}
        alike(things, tmp_path / "fresh", other)
        things.add([Document("sound", vectors={"audio": np.ones(12)}), Document("bare", vectors={"text": np.ones(12)})])
        with pytest.raises(CannotEncode, match="'sound': it is audio"):
            things.reencode(tiny)
        done = things.reencode(tiny, drop=True)
        assert {one.id: one.why for one in done.skipped} == {
            "sound": "it brought its own vector for its audio, and holds nothing that could be encoded.",
            "bare": "it brought its own vector for its text, and holds nothing that could be encoded.",
        }
        assert len(things.search("cat", k=10)) == 4


def test_a_collection_of_vectors_can_get_an_encoder(tmp_path: Path, tiny: str) -> None:
    with Collection.open(tmp_path / "c", "none", calibration="none", follow=False) as things:
        things.add([Document(f"v{i}", text=f"a cat {i}", vectors={"text": np.eye(3)[i]}) for i in range(3)])
        assert things.reencode(tiny).encoded == 3
        assert len(things.search("cat")) == 3
        alike(things, tmp_path / "fresh", tiny)


def test_an_encoder_that_reads_less_is_refused_before_anything_is_encoded(tmp_path: Path, folder: Path) -> None:
    words = counted(f"onnx:{write_encoder(tmp_path / 'words', parts='text')}")
    with Collection.open(folder, follow=False) as things:
        with pytest.raises(CannotEncode, match=r"20 of 30 .* it is image, and the encoder reads text only.*15 more"):
            things.reencode(words)
        assert words.took() == (0, 0)
        assert things.stats().reencoding is None
        assert len(things.reencode(words, drop=True).skipped) == 20
        assert things.stats().documents == {"text": 10}
        assert things.verify() == []


@pytest.mark.parametrize("asked", ["auto", SPEC])
def test_it_is_calibrated_as_it_was_told_to_be(folder: Path, other: str, asked: str) -> None:
    with Collection.open(folder, follow=False) as things:
        things.calibrate(asked, queries=[("a red dog", "d0-0")])
        things.reencode(other)
        assert things.asked_calibration == asked
        assert things.calibration is not None
        assert str(things.calibration.fitted.spec) == (SPEC if asked == SPEC else "center+nnn(k=16)+standardize")
        assert things._keeper.asked() == [(Query(text="a red dog"), "d0-0")]
        assert not things.drifted


def test_an_empty_collection_changes_its_encoder(tmp_path: Path, tiny: str, other: str) -> None:
    with Collection.open(tmp_path / "c", tiny, calibration=SPEC) as things:
        assert things.reencode(other).encoded == 0
        assert things.search("cat") == []
        things.add(mixed(6))
        assert len(things.search("cat")) == 6
        assert things.stats().encoder["dim"] == 12


def test_what_cannot_be_done_is_refused(folder: Path, other: str) -> None:
    with Collection.open(folder, follow=False) as things:
        with pytest.raises(UnknownName, match=r"No encoder is called 'minni'.* 'mini'"):
            things.reencode("minni")
        with pytest.raises(BadInput, match="'none' encodes nothing"):
            things.reencode("none")
        things._opened.database.writable = False
        with pytest.raises(CannotWrite, match="read-only"):
            things.reencode(other)
    with pytest.raises(ValueError, match=f"isthmus reencode --in {folder} --encoder {other}"):
        Collection.open(folder, other)


def test_damaged_beginnings_are_begun_anew(folder: Path, other: str) -> None:
    with Collection.open(folder, follow=False) as things:
        for damage in (b"", b"garbage " * 1000, b"cut"):
            with pytest.raises(KeyboardInterrupt):
                things.reencode(other, progress=interrupted(10))
            file = folder / "reencode" / "collection.sqlite"
            file.write_bytes(file.read_bytes()[:20_000] if damage == b"cut" else damage)
            assert things.stats().reencoding in (None, Begun(other, 0, 30))
        assert things.reencode(other).earlier == 0
        assert things.verify() == []


def verb(*arguments: str) -> tuple[int, str, str]:
    done = run(app, ["reencode", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_verb_says_what_it_did_and_that_there_is_nothing_to_do(
    folder: Path, tiny: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = verb("--in", str(folder), "--encoder", other)
    assert (code, out.splitlines()[0]) == (0, f"30 documents re-encoded into {other}.")
    assert f"calibration: {SPEC}" in out
    assert err.splitlines() == ["re-encoding …", err.splitlines()[1], "calibrating …"]
    assert "30 of 30 documents" in err
    assert verb("--in", str(folder), "--encoder", other)[:2] == (
        0,
        f"nothing to do: {folder} has the vectors of {other}.\n",
    )
    monkeypatch.setenv("ISTHMUS_COLLECTION", str(folder))
    monkeypatch.setenv("ISTHMUS_ENCODER", tiny)
    code, out, err = verb("--json")
    told = {"encoder": tiny, "encoded": 30, "earlier": 0, "skipped": [], "already": False}
    assert json.loads(out) == {**told, "documents": 30, "calibration": SPEC}
    assert (code, err) == (0, "")


def test_the_verb_can_be_interrupted_and_others_say_how_far_it_came(
    folder: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = Staging.keep
    kept: list[int] = []

    def interrupt(self: Staging, made: Any) -> None:
        if len(kept) == 3:
            raise KeyboardInterrupt
        kept.append(len(made))
        keep(self, made)

    with monkeypatch.context() as patch:
        patch.setattr(Staging, "keep", interrupt)
        code, out, err = verb("--in", str(folder), "--encoder", other)
    said = f"15 of 30 documents re-encoded into {other}"
    assert (code, out, err.splitlines()[-1]) == (1, "", f"interrupted: {said} are kept; the same command goes on.")
    on = f"{said}; run `isthmus reencode --in {folder} --encoder {other}` to go on"
    assert f"re-encoding  {on}" in run(app, ["stats", "--in", str(folder)]).stdout
    told = json.loads(run(app, ["stats", "--in", str(folder), "--json"]).stdout)
    assert told["reencoding"] == {"encoder": other, "done": 15, "documents": 30}
    examined = run(app, ["doctor", "--in", str(folder)])
    assert (examined.exit_code, on in examined.stdout) == (0, True)
    assert "(15 of them before)" in verb("--in", str(folder), "--encoder", other)[1]


def test_the_verbs_exit_codes_tell_what_was_wrong_and_what_was_deleted(
    tmp_path: Path, photos: Path, tiny: str, other: str
) -> None:
    place = str(tmp_path / "c")
    with Collection.open(place, tiny, calibration="none", follow=False) as things:
        things.index(photos)
    (photos / "b.png").unlink()
    with pytest.raises(CannotEncode, match="--drop"):  # one line and exit code 1
        verb("--in", place, "--encoder", other)
    with pytest.raises(UnknownName):  # exit code 2
        verb("--in", place, "--encoder", "onx:there")
    assert verb("--in", place)[0] == 2
    code, out, err = verb("--in", place, "--encoder", other, "--drop")
    assert (code, out.splitlines()[0]) == (3, f"3 documents re-encoded into {other} (3 of them before).")
    assert "1 deleted:\n  b.png: " in err


def test_many_documents_that_cannot_be_encoded_are_counted_by_reason(folder: Path, tmp_path: Path) -> None:
    done = run(app, ["reencode", "--in", str(folder), "--encoder", f"onnx:{write_encoder(tmp_path / 'words', 'text')}"])
    assert isinstance(done.exception, CannotEncode)
    assert "20 skipped:" in done.stderr
