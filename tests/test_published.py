"""Folded vectors on a server: what a search promises while they are published, changed, dropped and lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadInput, BadSpec, CannotReach, UnknownName
from isthmus.search.published_index import PublishedIndex
from isthmus.storage.memory.published import MemoryVectors
from isthmus.storage.protocols import FoldedRows, RowFilter, ShardsDown
from isthmus.types import Matrix, Rows
from stock import Counting, mixed, pixels

SPEC = "center+nnn(k=4)"


class Recording(MemoryVectors):
    """A server in this process that counts, and can be switched off or interrupted."""

    def __init__(self, address: str = "memory://here/reference") -> None:
        super().__init__(address)
        self.searched = 0
        self.written: list[int] = []
        self.down = False
        self.before_search: Callable[[], object] = lambda: None
        self.writes_left = 10**9

    def _check(self) -> None:
        if self.down:
            raise CannotReach(f"{self.address} does not answer.")

    def about(self, key: str) -> Any:
        self._check()
        return super().about(key)

    def write(self, key: str, rows: FoldedRows) -> None:
        self._check()
        if not self.writes_left:
            raise CannotReach(f"{self.address} went away.")
        self.writes_left -= 1
        self.written += rows.rows[:, 0].tolist()
        super().write(key, rows)

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        self._check()
        self.searched += 1
        self.before_search()
        return super().search(key, modality, queries, k, where)

    def drop(self, key: str) -> None:
        self._check()
        super().drop(key)


@pytest.fixture
def server() -> Recording:
    return Recording()


def opened(folder: Path, encoder: object, vectors: object = None, **options: Any) -> Collection:
    options = {"calibration": SPEC, "follow": False, **options}
    return Collection.open(folder / "c", encoder, vectors=vectors, **options)  # type: ignore[arg-type]


@pytest.fixture
def things(tmp_path: Path, counting: Counting, server: Recording) -> Iterator[Collection]:
    with opened(tmp_path, counting, server) as made:
        made.add(mixed(40))
        yield made


def ids(things: Collection, query: str | Query = "a red cat", **options: Any) -> list[str]:
    return [hit.id for hit in things.search(query, 100, **options)]


def test_a_search_is_answered_by_the_server(things: Collection, server: Recording) -> None:
    assert len(ids(things)) == 40
    assert server.searched
    assert all(isinstance(index, PublishedIndex) for index in things.snapshot().built)
    (only,) = server.publications.values()
    assert sum(map(len, things.snapshot().built)) == len(only.rows)


def test_what_is_added_is_found_before_the_server_has_it_and_what_is_deleted_is_not(
    things: Collection, server: Recording
) -> None:
    ids(things)
    server.written.clear()
    things.add([Document("new", "a red cat")])
    things.delete(["d0-2"])
    things.update("d0-5", metadata={"lang": "en"})
    found = ids(things)
    assert "new" in found
    assert "d0-2" not in found
    assert ids(things, where={"lang": "en"}) == ["d0-5"]
    assert len(found) == len(set(found)) == 40
    assert server.written == []


def test_a_refresh_sends_only_what_changed(
    things: Collection, server: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids(things)
    server.written.clear()
    things.add([Document("new", "a red cat")])
    things.delete(["d0-2"])
    things.compact()
    (row,) = things.store.rows_of(["new"]).values()
    assert server.written == [row]
    (only,) = server.publications.values()
    assert {place[0] for place in only.rows} == set(things.store.rows())
    assert set(ids(things)) == {*before, "new"} - {"d0-2"}
    assert not things.snapshot().recent


def test_another_process_needs_no_address_and_answers_the_same(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids(things)
    monkeypatch.setattr("isthmus.storage.servers.KINDS", {"memory": lambda _: server})
    with opened(tmp_path, counting) as other:
        assert ids(other) == before
        things.delete([before[0]])
        assert ids(other) == before[1:]
        things.calibrate("center")
        assert ids(other) == ids(things)
        assert len(server.publications) == 1


def test_a_search_that_meets_a_removal_on_the_server_is_repeated(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting
) -> None:
    """All documents are replaced, and the old rows go from the server, just before it is searched."""
    with opened(tmp_path, counting, server) as other:
        ids(other)

        def replaced() -> None:
            server.before_search = lambda: None
            things.add([Document(one.id, "a red cat", metadata={"new": True}) for one in mixed(40)])
            things.compact()

        server.before_search = replaced
        hits = other.search("dog", 100)
        assert len(hits) == 40
        assert {hit.document.metadata.get("new") for hit in hits} == {True}


def test_a_search_that_meets_another_calibration_is_repeated(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting
) -> None:
    with opened(tmp_path, counting, server) as other:
        ids(other)

        def calibrated() -> None:
            server.before_search = lambda: None
            things.calibrate("center")

        server.before_search = calibrated
        hits = other.search("dog", 100)
        assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in things.search("dog", 100)]
        assert len(server.publications) == 1


def test_an_answer_never_mixes_two_calibrations(things: Collection, tmp_path: Path, counting: Counting) -> None:
    def scores() -> dict[str, float]:
        return {hit.id: round(hit.score, 4) for hit in things.search("a red cat", 100)}

    known = []
    for spec in ("center", SPEC):
        things.calibrate(spec)
        known.append(scores())
    with ThreadPoolExecutor(1) as pool:
        refits = pool.submit(lambda: [things.calibrate(spec) for spec in ("center", SPEC) * 5])
        while not refits.done():
            assert scores() in known
        refits.result()


def test_a_server_that_does_not_answer_is_an_error_and_loses_nothing(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting
) -> None:
    before = ids(things)
    server.down = True
    with pytest.raises(CannotReach, match="does not answer"):
        things.search("dog")
    assert things.add([Document("new", "a red cat")]).added == ("new",)
    assert things.get("new").text == "a red cat"
    assert things.verify() == ["memory://here/reference does not answer."]
    things.close()
    server.down = False
    with opened(tmp_path, counting, server) as again:
        assert set(ids(again)) == {*before, "new"}


def test_a_publication_that_was_interrupted_is_continued(
    things: Collection, server: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(things.store), "blocks", _small_blocks(type(things.store).blocks))
    before = ids(things)
    server.publications.clear()
    server.writes_left, server.written = 8, []
    with pytest.raises(CannotReach, match="went away"):
        things.search("a red cat")
    assert len(server.written) > 0
    server.writes_left = 10**9
    assert ids(things) == before
    assert len(set(server.written)) == 40
    assert len(server.written) < 2 * 40
    assert len(server.publications) == 1


def _small_blocks(blocks: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, after=-1, last=None, size=7: blocks(self, after, last, 7)


def test_a_calibration_that_could_not_be_published_is_not_served(things: Collection, server: Recording) -> None:
    before = [(hit.id, hit.score) for hit in things.search("dog", 100)]
    server.writes_left = 1
    with pytest.raises(CannotReach):
        things.calibrate("center")
    server.writes_left = 10**9
    assert [(hit.id, hit.score) for hit in things.search("dog", 100)] == before
    things.calibrate("center")
    assert len(server.publications) == 1


def test_a_calibration_that_was_interrupted_is_continued_by_the_next_process(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    things.calibrate("center")
    expected = [(hit.id, round(hit.score, 5)) for hit in things.search("dog", 100)]
    things.calibrate("none")
    monkeypatch.setattr(type(things.store), "blocks", _small_blocks(type(things.store).blocks))
    server.writes_left, server.written = 8, []
    with pytest.raises(CannotReach, match="went away"):
        things.calibrate("center")
    server.writes_left = 10**9
    things.close()
    with opened(tmp_path, counting, server) as again:
        assert len(server.publications) == 2
        again.calibrate("center")
        assert len(server.written) < 2 * 40
        assert len(set(server.written)) == 40
        assert [(hit.id, round(hit.score, 5)) for hit in again.search("dog", 100)] == expected
        assert len(server.publications) == 1
        assert again.verify() == []


@pytest.mark.parametrize("damage", ["lost", "foreign", "rows"])
def test_vectors_that_are_lost_or_not_its_own_are_published_again(
    things: Collection, server: Recording, damage: str
) -> None:
    before = ids(things)
    (key,) = server.publications
    if damage == "lost":
        server.publications.clear()
    elif damage == "foreign":
        server.begin(key, ["text"], 3)
    else:
        server.remove(key, np.array(things.store.rows()[:5]))
    found = things.verify()
    assert found
    assert all("published again" in one for one in found)
    assert things.verify() == []
    assert ids(things) == before
    things.compact()
    assert len(server.publications) == 1


def test_a_search_publishes_again_what_the_server_lost(things: Collection, server: Recording) -> None:
    before = ids(things)
    server.publications.clear()
    assert ids(things) == before


def test_a_killed_process_leaves_no_draft_behind(
    things: Collection, server: Recording, tmp_path: Path, counting: Counting
) -> None:
    ids(things)
    server.writes_left = 1
    with pytest.raises(CannotReach):
        things.calibrate("center")
    assert len(server.publications) == 2
    server.writes_left = 10**9
    with opened(tmp_path, counting, server):
        assert len(server.publications) == 1


def test_a_restored_store_does_not_use_vectors_of_a_later_state(
    tmp_path: Path, counting: Counting, server: Recording
) -> None:
    with opened(tmp_path, counting, server) as made:
        made.add(mixed(20))
        before = ids(made)
    copytree(tmp_path / "c", tmp_path / "copy")
    with opened(tmp_path, counting, server) as made:
        made.delete(before[:5])
        made.add([Document("later", "a red cat")])
        made.compact()
    rmtree(tmp_path / "c")
    copytree(tmp_path / "copy", tmp_path / "c")
    with opened(tmp_path, counting, server) as made:
        assert ids(made) == before


def test_reencoding_publishes_the_new_vectors(things: Collection, server: Recording, other: str) -> None:
    ids(things)
    things.reencode(other, force=True)
    assert len(ids(things)) == 40
    (only,) = server.publications.values()
    assert only.width > 12
    things.delete("d0-1")
    assert len(ids(things)) == 39


def test_reencoding_does_not_continue_a_calibration_of_the_old_vectors(
    things: Collection, server: Recording, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    things.calibrate("center")
    with monkeypatch.context() as patch:
        patch.setattr(type(things.store), "blocks", _small_blocks(type(things.store).blocks))
        server.writes_left = 8
        with pytest.raises(CannotReach, match="went away"):
            things.calibrate("center")
    server.writes_left = 10**9
    assert things.reencode(other, force=True).encoded == 40
    assert len(things.search("a red cat", k=100)) == 40
    assert things.calibration is not None
    assert things.calibration.fitted.dim == 12
    assert things.verify() == []
    things.calibrate("center")
    assert len(server.publications) == 1


def test_vectors_move_to_a_server_and_back(tmp_path: Path, counting: Counting, server: Recording) -> None:
    with opened(tmp_path, counting) as made:
        made.add(mixed(40))
        before = ids(made)
    with opened(tmp_path, counting, server) as made:
        assert ids(made) == before
        assert server.searched
    server.searched = 0
    with opened(tmp_path, counting, "folder") as made:
        assert ids(made) == before
    assert not server.searched
    with opened(tmp_path, counting) as made:
        assert ids(made) == before


def test_a_dynamic_calibration_is_refused_with_the_reason(things: Collection) -> None:
    with pytest.raises(BadSpec, match="vectors='folder'"):
        things.calibrate("qbnorm(dynamic=true)")
    assert len(ids(things)) == 40


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("things", BadInput, "not the address of a server"),
        ("qdrnt://host/things", UnknownName, "server of vectors"),
    ],
)
def test_a_wrong_address_is_refused_before_anything_is_made(
    tmp_path: Path, counting: Counting, address: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        opened(tmp_path, counting, address)
    assert list(tmp_path.iterdir()) == []


def test_equal_scores_stay_in_the_order_of_the_documents(tmp_path: Path, counting: Counting, server: Recording) -> None:
    with opened(tmp_path, counting, server) as made:
        made.add([Document(f"same-{at}", "a red cat") for at in range(9)] + mixed(10))
        among = {"id": [f"same-{at}" for at in range(9)]}
        assert [hit.id for hit in made.search("a red cat", 4, where=among)] == [f"same-{at}" for at in range(4)]


def test_a_picture_finds_its_own_document_on_a_server(things: Collection) -> None:
    assert things.search(Query(image=pixels(4)), 3)[0].id == "d0-4"
    assert "d0-4" not in ids(things, Query(image=pixels(4)), where={"number": {"not": 4}})
    assert all(hit.modality == "text" for hit in things.search(Query(image=pixels(4)), 9, modalities="text"))


def test_long_lists_of_rows_filter_the_answer_instead(
    things: Collection, monkeypatch: pytest.MonkeyPatch, server: Recording
) -> None:
    whole = ids(things)
    monkeypatch.setattr("isthmus.search.published_index.SENT", 2)
    monkeypatch.setattr(server, "pushes", lambda condition: False)
    things.delete(whole[:4])
    assert ids(things) == whole[4:]
    assert ids(things, where={"number": {"gte": 10}}) == [one for one in whole[4:] if int(one[3:]) >= 10]
    assert things.verify() == []


def test_a_server_that_returns_few_rows_says_so(things: Collection, server: Recording) -> None:
    ids(things)
    server.most = 18
    assert len(things.search("dog", 1)) == 1
    with pytest.raises(BadInput, match="at most 18 rows"):
        things.search("dog", 30)


class Shards(MemoryVectors):
    """A server of two shards, of which the second, with the odd documents, can be switched off."""

    down = False

    def search(self, key: str, modality: str, queries: Matrix, k: int, where: RowFilter) -> tuple[Matrix, Rows]:
        if not self.down:
            return super().search(key, modality, queries, k, where)
        if "two" not in where.without:
            raise ShardsDown("two does not answer.", ["two"])
        odd = [document for document, _ in self.publications[key].rows if document % 2]
        gone = np.union1d(where.gone, np.array(odd, np.int64))
        return super().search(key, modality, queries, k, replace(where, gone=gone))


def test_a_shard_that_is_down_is_an_error_and_a_partial_answer_names_it(tmp_path: Path, counting: Counting) -> None:
    server = Shards("memory://here/shards")
    with opened(tmp_path, counting, server) as things:
        things.add(mixed(40))
        whole = things.search("a red cat", 100, partial=True)
        assert (len(whole), whole.missing) == (40, ())
        server.down = True
        with pytest.raises(ShardsDown, match="two does not answer") as caught:
            things.search("a red cat", 100)
        assert caught.value.shards == ("two",)
        even = {name for name, row in things.store.rows_of(things.ids()).items() if not row % 2}
        for options in ({}, {"explain": True}, {"hybrid": True}, {"group": True}):
            some = things.search("a red cat", 100, partial=True, **options)  # type: ignore[arg-type]
            assert some.missing == ("two",)
            assert {hit.id for hit in some} <= even
        assert {hit.id for hit in things.search("a red cat", 100, partial=True)} == even


def test_rows_that_the_server_has_not_got_yet_are_in_a_partial_answer(tmp_path: Path, counting: Counting) -> None:
    server = Shards("memory://here/shards")
    with opened(tmp_path, counting, server) as things:
        things.add(mixed(20))
        things.search("a red cat")
        server.down = True
        things.add([Document("new-1", "a red cat"), Document("new-2", "a red cat")])
        assert {"new-1", "new-2"} <= {hit.id for hit in things.search("a red cat", 100, partial=True)}
