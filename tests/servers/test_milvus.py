"""Milvus, killed and started again: what was acknowledged is in the store, and the server is brought up to date."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
from pymilvus import MilvusClient, MilvusException

from isthmus import Collection, Document, Query
from isthmus.errors import CannotReach
from isthmus.storage.protocols import NotPublished, RowFilter
from isthmus.storage.servers.address import ServerAddress
from isthmus.storage.servers.milvus import MilvusVectors
from stock import Counting, mixed
from vector_servers import NAMES, Milvus

SPEC = "center+nnn(k=4)"
RECOVERY = 600  # seconds that a server may take after a restart; as a rule, a few


def found(things: Collection) -> set[str]:
    return {hit.id for hit in things.search("a red cat", 100)}


def _when_it_answers(things: Collection) -> set[str]:
    """Search again until the server has recovered: it waits for the leases of its former self to end."""
    give_up = monotonic() + RECOVERY
    while monotonic() < give_up:
        with suppress(CannotReach):
            return found(things)
    return found(things)


def test_a_server_that_is_killed_loses_nothing_acknowledged(tmp_path: Path, counting: Counting, milvus: Milvus) -> None:
    address = milvus.address(next(NAMES), timeout=20)  # a call of a server that is down takes so long
    with Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=address) as things:
        things.add(mixed(40))
        assert found(things) == set(things.ids())
        things.add([Document("new", "a red cat")])
        things.delete(["d0-1"])
        things.compact()  # acknowledged by the server a moment ago
        milvus.kill()
        with pytest.raises(CannotReach, match="Nothing is lost"):
            things.search("a red cat")
        things.add([Document("while it was down", "a red cat")])
        things.delete(["d0-2"])
        with pytest.raises(CannotReach):
            things.calibrate("center")
        milvus.start_again()
        assert _when_it_answers(things) == set(things.ids())
        assert things.verify() == []
        things.calibrate("center")
        assert found(things) == set(things.ids())
        assert len(things.ids()) == 40


def test_two_processes_share_a_server(tmp_path: Path, counting: Counting, tiny: str, milvus: Milvus) -> None:
    address = milvus.address(next(NAMES))
    code = f"""
from isthmus import Collection, Document
with Collection.open({str(tmp_path / "c")!r}, {tiny!r}, follow=False) as things:
    assert things.stats().vectors == {address!r}
    things.add([Document("other", "a red cat")])
    things.delete(["d0-1"])
    things.calibrate("center")
    things.compact()
    print(len(things.search("a red cat", 100)))
"""
    with Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=address) as things:
        things.add(mixed(20))
        assert len(found(things)) == 20
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.strip()) == (0, "20"), done.stderr
        assert found(things) == set(things.ids())
        assert "other" in found(things)
        assert things.snapshot().is_published


class AnsweringByCode:
    """A client whose first call fails with a code, and whose messages say something else."""

    def __init__(self, code: int) -> None:
        self.errors = [MilvusException(code=code, message="channel not found, not loaded, does not exist")]
        self.loaded: list[str] = []

    def load_collection(self, name: str, timeout: float) -> None:
        self.loaded.append(name)

    def query(self, name: str, **_: object) -> list[dict[str, int]]:
        if self.errors:
            raise self.errors.pop()
        return [{"count(*)": 7}]

    def flush(self, name: str, timeout: float) -> None: ...

    def describe_index(self, name: str, field: str, timeout: float) -> dict[str, object]:
        return {"state": "Finished"}  # as servers and clients do that count no pending rows


def counted_by(code: int) -> tuple[int, list[str]]:
    vectors, client = MilvusVectors(ServerAddress.parse("milvus://127.0.0.1:1/things")), AnsweringByCode(code)
    vectors._client = client
    return vectors.count("1-a", "text", RowFilter(1)), client.loaded


def test_errors_are_told_apart_by_their_codes() -> None:
    assert counted_by(101) == (7, ["things_1_a"])  # of a server that was started again
    for missing in (100, 200):
        with pytest.raises(NotPublished, match="no collection things_1_a"):
            counted_by(missing)
    for other in (1, 65535):
        with pytest.raises(CannotReach, match="channel not found"):
            counted_by(other)


def test_a_server_that_counts_no_pending_rows_is_not_waited_for() -> None:
    vectors = MilvusVectors(ServerAddress.parse("milvus://127.0.0.1:1/things"))
    assert vectors._seal("1-a", AnsweringByCode(0)) is None  # type: ignore[func-returns-value]


def test_what_another_client_drops_or_releases_is_there_again(
    tmp_path: Path, counting: Counting, milvus: Milvus
) -> None:
    with (
        Collection.open(tmp_path / "c", counting, SPEC, follow=False, vectors=milvus.address("handled")) as things,
        closing(MilvusClient(milvus.url)) as other,
    ):
        things.add(mixed(20))
        assert found(things) == set(things.ids())
        [name] = [name for name in other.list_collections() if name.startswith("handled")]
        other.release_collection(name)
        assert found(things) == set(things.ids())
        things.delete(["d0-1"])
        other.drop_collection(name)
        assert found(things) == set(things.ids())
        assert things.verify() == []


@pytest.mark.parametrize("share", [1, 2, 10, 100])
def test_the_default_index_finds_what_exact_search_finds_with_and_without_a_filter(
    tmp_path: Path, milvus: Milvus, share: int
) -> None:
    rng = np.random.default_rng(share)
    rows, asked = rng.normal(size=(3000, 32)).astype(np.float32), rng.normal(size=(20, 32)).astype(np.float32)
    documents = [Document(str(n), vectors={"text": row}, metadata={"of": n % share}) for n, row in enumerate(rows)]
    queries, where = [Query(vectors={"text": row}) for row in asked], {"of": 0}

    def tops(vectors: str, name: str) -> list[set[str]]:
        with Collection.open(tmp_path / name, "none", follow=False, vectors=vectors) as things:
            things.add(documents)
            things.calibrate("nnn(k=4)", queries=queries)
            return [{hit.id for hit in hits} for hits in things.search_many(queries, k=10, where=where)]

    wanted = tops("folder", "exact")
    found = tops(f"{milvus.url.replace('http', 'milvus')}/{next(NAMES)}?timeout=60", "served")
    assert np.mean([len(one & right) / 10 for one, right in zip(found, wanted, strict=True)]) >= 0.97
