"""A copy on another engine holds and answers the same, goes on after a kill, and overwrites nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import postgres_server
from copying import check_alike, fill, stored, write_files
from isthmus import Collection, Document
from isthmus.cli import app
from isthmus.encoders import Encoder
from isthmus.errors import BadFile, BadInput, UnfinishedCopy
from isthmus.search import Copied
from isthmus.search import copy as copy_module
from isthmus.storage.base import Entry
from isthmus.storage.memory.published import MemoryVectors
from stock import FILE, looked_at, mixed
from test_reliability import line, process

ENGINES = ("folder", "memory", "folder+vectors")
SERVERS = ("postgres", "postgres-apart", "postgres-half", "shards", "shards-half")
install = pytest.mark.install
PAIRS = [
    *((one, other) for one in ENGINES for other in ENGINES),
    *(pytest.param("folder", other, marks=install) for other in SERVERS),
    *(pytest.param(one, "folder", marks=install) for one in SERVERS),
    *(pytest.param("memory", other, marks=install) for other in SERVERS[:2]),
    *(pytest.param(one, "memory", marks=install) for one in SERVERS[:2]),
    *(pytest.param(one, other, marks=install) for one, other in zip(SERVERS, SERVERS[1:] + SERVERS[:1], strict=True)),
    pytest.param("postgres", "postgres", marks=install),
]
Open = Callable[[str, str], Collection]
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents are read and committed five at a time."""
    monkeypatch.setattr(copy_module, "BATCH", 5)
    monkeypatch.setattr(copy_module, "PAGE", 5)


def place(engine: str, folder: Path) -> dict[str, Any]:
    """Return where a new collection of an engine is, as options of ``open``."""
    if engine.startswith("postgres"):
        where = {"postgres-apart": "folder", "postgres-half": "database-half"}
        apart = {"vectors": where[engine]} if engine in where else {}
        return {"path": postgres_server.server().collection(), **apart}
    if engine.startswith("shards"):
        return {"path": postgres_server.sharded(), "vectors": engine}
    vectors = {"vectors": MemoryVectors()} if engine.endswith("+vectors") else {}
    return {"path": ":memory:" if engine == "memory" else str(folder), **vectors}


def copied(things: Collection, to: dict[str, Any], encoder: Encoder, stack: ExitStack) -> tuple[Copied, Collection]:
    """Copy to a place, and open the copy."""
    options = {name: value for name, value in to.items() if name == "vectors"}
    if to["path"] == ":memory:":
        opened = stack.enter_context(Collection.open(":memory:", encoder, follow=False))
        return things.copy_to(opened), opened
    done = things.copy_to(to["path"], **options)
    return done, stack.enter_context(Collection.open(to["path"], encoder, create=False, follow=False, **options))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_a_copy_on_any_engine_holds_and_answers_the_same(
    one: str, other: str, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("folded", "sharded") if "half" in one + other else ():  # few rows have indexes of 16 bits, too
        monkeypatch.setattr(f"isthmus.storage.postgres.{module}.EXACT_BELOW", 2)
    files = write_files(tmp_path / "files")
    with ExitStack() as stack:
        things = stack.enter_context(Collection.open(encoder=encoder, follow=False, **place(one, tmp_path / "a")))
        fill(things, files)
        done, copy = copied(things, place(other, tmp_path / "b"), encoder, stack)
        assert (done.documents, done.earlier, done.already, done.changed) == (len(things), 0, False, False)
        assert (done.calibrations, done.calibration, done.spec) == ((1, 2), 2, "center+nnn(k=4)")
        assert (done.files, done.queries) == (4, 4)
        check_alike(things, copy, files, encoder)


@pytest.fixture
def things(tmp_path: Path, encoder: Encoder) -> Iterator[Collection]:
    """A collection in the folder ``a``."""
    with Collection.open(tmp_path / "a", encoder, follow=False) as opened:
        fill(opened, write_files(tmp_path / "files"))
        yield opened


def stop_after(count: int) -> Callable[[str], Callable[[int, int], None]]:
    """Return a report of progress that interrupts once so many documents are copied."""

    def progress(done: int, _: int) -> None:
        if done >= count:
            raise KeyboardInterrupt

    return lambda _: progress


def unfinished(things: Collection, to: Path, count: int = 10) -> Path:
    with pytest.raises(KeyboardInterrupt):
        things.copy_to(to, progress=stop_after(count))
    return to


POINTS = {
    "prepared": 0,
    "inside 3": 5,
    "copying 15": 15,
    "copying 32": 32,
    "verifying": 32,
    "verifying 10": 32,
    "finishing": 32,
}


def kill(one: Path, encoder: str, other: str, point: str) -> None:
    """Copy in another process, and kill it at a point."""
    with process(one, encoder, "copy", other, point) as started:
        while line(started) != "there":
            assert started.poll() is None
        started.kill()
        started.wait()


@pytest.mark.parametrize("point", [*POINTS, "building the index"])
def test_killed_at_any_point_it_is_not_opened_and_the_same_command_goes_on(
    point: str, things: Collection, tmp_path: Path, tiny: str, encoder: Encoder
) -> None:
    copy = tmp_path / "b"
    kill(tmp_path / "a", tiny, str(copy), point)
    assert looked_at(copy) == []
    if point in POINTS:
        with pytest.raises(
            UnfinishedCopy, match=rf"unfinished copy of {tmp_path}/a: {POINTS[point]} of 32 documents. Finish"
        ):
            Collection.open(copy, encoder)
    done = things.copy_to(copy)
    assert done.earlier == POINTS.get(point, 32)
    assert done.already == (point not in POINTS)
    assert looked_at(copy) == []
    with Collection.open(copy, encoder, create=False, follow=False) as found:
        check_alike(things, found, tmp_path / "files", encoder)


@install
@pytest.mark.parametrize("point", ["prepared", "inside 3", "copying 15", "finishing"])
def test_killed_while_it_copies_to_a_server_it_goes_on(
    point: str, things: Collection, tmp_path: Path, tiny: str, encoder: Encoder
) -> None:
    import psycopg

    url = postgres_server.server().collection()
    kill(tmp_path / "a", tiny, url, point)
    with psycopg.connect(postgres_server.server().url) as connection:  # until the server has noticed
        name = f"isthmus writing {url.partition('collection=')[2]}"
        connection.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (name,))
    with pytest.raises(
        UnfinishedCopy, match=rf"unfinished copy of {tmp_path}/a: {POINTS[point]} of 32 documents. Finish"
    ):
        Collection.open(url, encoder)
    assert things.copy_to(url).earlier == POINTS[point]
    with Collection.open(url, encoder, create=False, follow=False) as found:
        check_alike(things, found, tmp_path / "files", encoder)


def test_a_copy_goes_on_with_what_has_changed_since(things: Collection, tmp_path: Path, encoder: Encoder) -> None:
    copy = unfinished(things, tmp_path / "b", 15)
    (tmp_path / "files" / "one.txt").unlink()
    (tmp_path / "files" / "three.txt").write_text("a boat")
    things.index(tmp_path / "files", ocr="never")  # which finds the others unchanged
    things.add([Document("d0-0", "replaced"), Document("new", "a map")])
    things.delete(["d0-1", "d0-29"])
    done = things.copy_to(copy)
    assert 0 < done.earlier < 15
    assert not done.changed
    with Collection.open(copy, encoder, create=False, follow=False) as found:
        assert stored(found) == stored(things)
        assert found.verify() == []


def test_what_is_written_while_it_is_copied_is_not_in_the_copy(
    things: Collection, tmp_path: Path, encoder: Encoder
) -> None:
    before = stored(things)
    written = [0]

    def write(done: int, _: int) -> None:
        if len(written) < 4:
            written.append(done)
            things.add([Document("d0-8", f"written at {done}"), Document(f"new {done}", "a cat")])

    done = things.copy_to(tmp_path / "b", progress=lambda _: write)
    assert len(written) == 4
    assert done.changed
    with Collection.open(tmp_path / "b", encoder, create=False, follow=False) as found:
        assert stored(found) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "UPDATE segments SET vector = zeroblob(32) WHERE document = {row}",
            "vector of document 'd0-6' does not match",
        ),
        (
            "UPDATE parts SET content = 'x' WHERE document = {row}",
            "text of document 'd0-6' does not match its checksum",
        ),
        ("UPDATE documents SET metadata = 'null' WHERE id = 'd0-6'", "document 'd0-6' does not match its checksum"),
        ("DELETE FROM segments WHERE document = {row}", "document 'd0-6' has no vectors"),
        ("UPDATE units SET stamp = 'x'; UPDATE documents SET unit = 2 WHERE id = 'd0-6'", "where document 'd0-6' came"),
    ],
)
def test_a_damaged_row_of_the_copy_is_found_by_the_same_command(
    change: str, message: str, things: Collection, tmp_path: Path
) -> None:
    first = things.copy_to(tmp_path / "b")
    again = things.copy_to(tmp_path / "b")
    assert (again.already, again.sha256) == (True, first.sha256)
    changed(tmp_path / "b", change)
    with pytest.raises(
        BadFile, match=rf"{tmp_path}/b is not equal to {tmp_path}/a: .*{message}.*The copy was equal when"
    ):
        things.copy_to(tmp_path / "b")


def changed(folder: Path, statements: str) -> None:
    with sqlite3.connect(folder / FILE) as connection:
        connection.executescript(statements.format(row="(SELECT row FROM documents WHERE id = 'd0-6')"))
    connection.close()


def test_a_change_with_a_right_checksum_is_found_and_the_copy_stays_unfinished(
    things: Collection, tmp_path: Path, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = copy_module._write

    def lossy(source: Any, target: Any, batch: list[Entry], record: Any) -> None:
        kept(source, target, [rounded(one) if one.document.id == "d0-6" else one for one in batch], record)

    monkeypatch.setattr(copy_module, "_write", lossy)
    with pytest.raises(BadFile, match=r"not equal .*: 'd0-6' differ. The copy stays unfinished"):
        things.copy_to(tmp_path / "b")
    with pytest.raises(UnfinishedCopy, match="unfinished copy"):
        Collection.open(tmp_path / "b", encoder)


def rounded(entry: Entry) -> Entry:
    return replace(entry, segments=[replace(one, vector=one.vector.astype(np.float16)) for one in entry.segments])


def test_a_damaged_source_is_named_and_its_copy_stays_unfinished(things: Collection, tmp_path: Path) -> None:
    changed(tmp_path / "a", "UPDATE segments SET vector = zeroblob(32) WHERE document = {row}")
    with pytest.raises(BadFile, match=rf"{tmp_path}/a/{FILE} is damaged: the 'text' vector of document 'd0-6'"):
        things.copy_to(tmp_path / "b")
    things.delete("d0-6")
    assert things.copy_to(tmp_path / "b").documents == len(things)


def test_nothing_is_overwritten(things: Collection, tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "other", encoder, follow=False) as other:
        other.add(mixed(3))
        before = stored(other)
        with pytest.raises(BadInput, match=r"other holds a collection that is not a copy of .*name a new place"):
            things.copy_to(tmp_path / "other")
        with pytest.raises(BadInput, match="holds a collection that is not a copy"):
            things.copy_to(other)
        assert stored(other) == before
        begun = unfinished(things, tmp_path / "b")
        with pytest.raises(BadInput, match=rf"unfinished copy of {tmp_path}/a, not of {tmp_path}/other"):
            other.copy_to(begun)
        things.copy_to(begun)
        with pytest.raises(BadInput, match=rf"finished copy of {tmp_path}/a, not of {tmp_path}/other"):
            other.copy_to(begun)
    with Collection.open(begun, encoder, follow=False) as copy:
        copy.delete("d0-6")
    with pytest.raises(BadInput, match=r"finished copy of .*, and one of the two has changed since"):
        things.copy_to(begun)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(BadInput, match="is not a collection and is not empty"):
        things.copy_to(tmp_path / "full")
    with pytest.raises(BadInput, match="cannot be copied to itself"):
        things.copy_to(tmp_path / "a")


def test_a_source_that_was_reencoded_does_not_go_on_with_old_vectors(
    things: Collection, tmp_path: Path, other: str
) -> None:
    copy = unfinished(things, tmp_path / "b")
    things.reencode(other, drop=True, force=True)
    with pytest.raises(BadInput, match=r"was re-encoded or replaced since the unfinished copy .* Delete that copy"):
        things.copy_to(copy)


def test_wrong_arguments_are_refused_before_anything_is_made(things: Collection, tmp_path: Path, other: str) -> None:
    with pytest.raises(BadInput, match="Each :memory: is a new collection"):
        things.copy_to(":memory:")
    with pytest.raises(BadInput, match="Did you mean 'qdrant'"):
        things.copy_to(tmp_path / "b", vectors="qdrnt://here/x")
    with Collection.open(":memory:", other) as opened:
        with pytest.raises(BadInput, match="belongs to a path"):
            things.copy_to(opened, vectors="folder")
        with pytest.raises(BadInput, match=r"was opened with the encoder .* Open it with that encoder"):
            things.copy_to(opened)
    assert not (tmp_path / "b").exists()


def test_an_empty_collection_can_be_copied(tmp_path: Path, encoder: Encoder) -> None:
    with Collection.open(tmp_path / "a", encoder) as things:
        done = things.copy_to(tmp_path / "b")
    assert (done.documents, done.calibration) == (0, 0)
    with Collection.open(tmp_path / "b", encoder, create=False, follow=False) as copy:
        copy.add(mixed(3))
        assert len(copy.search("a cat")) == 3


def test_two_do_not_write_the_same_copy_at_once(things: Collection, tmp_path: Path) -> None:
    refused: list[str] = []

    def meanwhile(*_: int) -> None:
        code, _out, err = verb(str(tmp_path / "a"), str(tmp_path / "b"))
        refused.append(err if code == 1 else "")

    assert things.copy_to(tmp_path / "b", progress=lambda _: meanwhile).documents == 32
    assert len(refused) > 4
    assert all(f"{tmp_path}/b is being written by process" in err for err in refused)


def verb(*arguments: str) -> tuple[int, str, str]:
    done = run(app, ["copy", *arguments])
    if isinstance(done.exception, (BadInput, BadFile, OSError)):
        return 1, done.stdout, f"{done.stderr}{done.exception}"
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_the_verb_says_what_was_copied_and_that_it_is_equal(things: Collection, tmp_path: Path) -> None:
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    code, out, err = verb(one, other)
    assert (code, err.splitlines()) == (0, ["copying …", "verifying …", "building the index …"])
    said = out.splitlines()
    assert said[0] == f"{other} is equal to {one}:"
    assert [text.split(",")[0].strip() for text in said[1:4]] == ["32 documents", "44 parts", "53 vectors"]
    assert said[4] == "Calibration 2: center+nnn(k=4), with 1 earlier calibration."
    code, out, err = verb(one, other, "--json")
    found = json.loads(out)
    assert (code, err, found["already"], found["documents"]) == (0, "", True, 32)
    assert [text.split()[-1] for text in said[1:4]] == list(found["sha256"].values())
    assert verb(one, other)[1].startswith(f"{other} is still equal to {one}:")
    changed(tmp_path / "b", "UPDATE segments SET vector = zeroblob(32) WHERE document = {row}")
    assert verb(one, other)[0] == 1


def test_the_verb_can_be_interrupted(things: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = copy_module._write
    batches: list[int] = []

    def interrupt(*arguments: Any) -> None:
        batches.append(len(batches))
        if len(batches) == 3:
            raise KeyboardInterrupt
        kept(*arguments)

    monkeypatch.setattr(copy_module, "_write", interrupt)
    code, out, err = verb(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (code, out, err.splitlines()[-1]) == (130, "", "Interrupted. Run the same command to continue.")
    code, out, _ = verb(str(tmp_path / "a"), str(tmp_path / "b"))
    assert code == 0
    assert "(10 copied in earlier runs)" in out
