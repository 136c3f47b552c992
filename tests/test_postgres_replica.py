"""A collection on a streaming replica of a real PostgreSQL server: it is read, also when it is behind, until it is
promoted, when it takes writes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import numpy as np
import pytest

from isthmus import Collection
from isthmus.errors import CannotReach, CannotWrite
from isthmus.search.published_index import PublishedIndex
from isthmus.storage.postgres import schema
from isthmus.storage.postgres.address import PostgresAddress
from isthmus.storage.postgres.folded import PostgresFolded
from isthmus.storage.protocols import NotPublished, RowFilter
from postgres_server import PASSWORD, Server, replica, server
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.install


def said(there: Server, statement: str) -> object:
    with psycopg.connect(there.url, autocommit=True) as connection:
        found = connection.execute(statement).fetchone()
        return found[0] if found else None


@pytest.fixture
def name() -> str:
    return server().collection().partition("collection=")[2]


@pytest.fixture
def things(name: str, counting: Counting) -> Iterator[Collection]:
    with Collection.open(server().collection(name), counting, calibration="center", follow=False) as opened:
        opened.add(mixed(20))
        opened.search("a red cat")  # calibrates
        yield opened


@pytest.fixture
def second(things: Collection) -> Iterator[Server]:
    with replica() as made:
        yield made


def found(things: Collection) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 5)) for hit in things.search("a red cat", k=50)]


def test_a_replica_answers_as_the_primary_and_refuses_to_write(
    things: Collection, second: Server, name: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection.open(second.collection(name), counting, create=False) as reading:
        assert found(reading) == found(things)
        assert reading._snapshots.latest().is_published
        for change in (
            lambda: reading.add(mixed(1, seed=3)),
            lambda: reading.delete("d0-1"),
            lambda: reading.calibrate("none"),
        ):
            with pytest.raises(CannotWrite, match="is a replica, so name the primary server"):
                change()
    monkeypatch.setattr(schema, "read_only", lambda _: None)  # it became a replica after it was opened
    with (
        Collection.open(second.collection(name), counting, create=False) as reading,
        pytest.raises(CannotWrite, match="primary server"),
    ):
        reading.add(mixed(1, seed=3))


def test_folded_vectors_on_a_replica_that_lacks_documents_are_no_answer(
    things: Collection, second: Server, name: str
) -> None:
    """A URL may name several servers: the store is read on one, and the vectors are searched on another."""
    [index] = [one for one in things.snapshot().built if isinstance(one, PublishedIndex) and one.modality == "text"]
    behind = PostgresFolded(PostgresAddress.of(second.collection(name)), "database")
    asked = np.ones((1, things.snapshot().calibrated.fitted.dim), np.float32)
    assert behind.search(index.key, "text", asked, 50, RowFilter(index.last))[1][0, 0, 0] >= 0
    said(second, "SELECT pg_wal_replay_pause()")
    things.add(mixed(5, seed=7))
    things.compact()
    last = things.store.last()
    assert index.server.search(index.key, "text", asked, 50, RowFilter(last))[1][0, 0, 0] >= 0
    with pytest.raises(NotPublished):
        behind.search(index.key, "text", asked, 50, RowFilter(last))
    behind.close()


def test_a_replica_that_is_behind_answers_as_of_then_and_writes_when_it_is_promoted(
    things: Collection, second: Server, name: str, counting: Counting
) -> None:
    before = found(things)
    places = ",".join(f"127.0.0.1:{urlsplit(one.url).port}" for one in (server(), second))
    either = f"postgresql://postgres:{PASSWORD}@{places}/postgres?target_session_attrs=read-write&collection={name}"
    with (
        Collection.open(second.collection(name), counting, create=False, follow=False) as other,
        Collection.open(either, counting, create=False, follow=False) as primary,
    ):
        assert found(other) == found(primary) == before
        said(second, "SELECT pg_wal_replay_pause()")
        things.add(mixed(5, seed=7))
        things.calibrate("none")
        after, ids = found(things), things.ids()
        assert found(other) == before != after
        assert other.ids() == [f"d0-{at}" for at in range(20)]
        try:
            server().control("-m", "fast", "stop")  # sends what the replica does not have yet
            with pytest.raises(CannotReach):
                things.search("a red cat")
            assert said(second, "SELECT pg_promote(true, 60)")
            assert other.ids() == ids
            assert found(other) == after
            assert other.add(mixed(3, seed=8)).added
            assert other.calibrate("center").version > 2
            assert [one.version for one in other.calibrations()][:-1] == [1, 2]  # though the server skips numbers
            assert len(found(other)) == 28
            assert primary.add(mixed(2, seed=9)).added
            assert found(primary) == found(other) and len(other) == 30
            assert other.verify() == []
        finally:
            server().start()
