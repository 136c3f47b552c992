"""What goes wrong with a real PostgreSQL server: a clear error, and nothing that was acknowledged is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from isthmus import Collection, Document
from isthmus.errors import BadFile, CannotReach, CannotWrite
from isthmus.storage.conflicts import WriteConflict
from postgres_server import server
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.install


@pytest.fixture
def url() -> str:
    return server().collection()


@pytest.fixture
def things(url: str, counting: Counting) -> Iterator[Collection]:
    with Collection.open(url, counting, calibration="center", follow=False) as opened:
        opened.add(mixed(20))
        yield opened


def schema_of(things: Collection) -> str:
    return str(things.path).partition("collection=")[2]


def end_connections() -> None:
    """End every connection of isthmus, as a network that breaks does."""
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'isthmus%'"
        )


def interrupted(things: Collection, monkeypatch: pytest.MonkeyPatch, fault: Callable[[], None]) -> list[Document]:
    """Add documents, with a fault after they are written and before they are committed; return them."""
    new = mixed(5, seed=7)
    usual = type(things.store).touched

    def touched(*values: Any) -> None:
        usual(*values)
        fault()

    with monkeypatch.context() as patch:
        patch.setattr(type(things.store), "touched", touched)
        with pytest.raises(CannotReach, match=r"Run it again|try again"):
            things.add(new)
    return new


def test_connections_that_were_dropped_while_idle_are_opened_again(things: Collection) -> None:
    before = [hit.id for hit in things.search("a red cat")]
    end_connections()
    assert [hit.id for hit in things.search("a red cat")] == before
    end_connections()
    assert things.add(mixed(3, seed=5)).added


def test_a_connection_dropped_during_a_write_changes_nothing(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = things.ids()
    new = interrupted(things, monkeypatch, end_connections)
    assert things.ids() == before
    assert len(things.add(new).added) == len(new)
    assert things.verify() == []


def test_a_connection_dropped_during_a_search_is_a_clear_error(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    things.search("a red cat")
    usual = type(things.store).documents

    def documents(*values: Any) -> Any:
        end_connections()
        return usual(*values)

    with monkeypatch.context() as patch:
        patch.setattr(type(things.store), "documents", documents)
        with pytest.raises(CannotReach, match=r"cannot be reached .*Check that the server runs"):
            things.search("a red cat")
    assert things.search("a red cat")


def test_a_server_that_is_killed_and_started_again_loses_nothing_acknowledged(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, found = things.ids(), [hit.id for hit in things.search("a red cat")]
    try:
        new = interrupted(things, monkeypatch, server().stop)
        with pytest.raises(CannotReach, match="cannot be reached"):
            things.search("a red cat")
        with pytest.raises(CannotReach, match="cannot be reached"):
            things.add(mixed(1, seed=8))
    finally:
        server().start()
    assert things.ids() == before
    assert [hit.id for hit in things.search("a red cat")] == found
    assert len(things.add(new).added) == len(new)
    assert things.verify() == []


def test_a_connection_lost_at_the_commit_says_that_it_may_be_stored(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = things.store.database
    usual = type(database)._commit  # type: ignore[attr-defined]

    def commit(self: Any, connection: Any) -> None:
        end_connections()
        usual(self, connection)

    monkeypatch.setattr(type(database), "_commit", commit)
    with pytest.raises(CannotReach, match=r"stored whole or not at all. Run it again"):
        things.add(mixed(2, seed=6))
    monkeypatch.undo()
    assert len(things.add(mixed(2, seed=6)).added) == 2


def test_a_batch_that_is_delivered_twice_changes_nothing(things: Collection) -> None:
    changes = things.stats().changes
    assert len(things.add(mixed(20)).unchanged) == 20
    assert things.stats().changes == changes


def test_a_deadlock_is_tried_again(things: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another transaction locks a document, then waits for ours, which waits for the document."""
    locked, waiting = Event(), Event()
    usual = type(things.store).remove
    tries: list[int] = []

    def other() -> None:
        with psycopg.connect(server().url) as connection:
            connection.execute(f"SET search_path TO {schema_of(things)}")
            connection.execute("SET deadlock_timeout = '10min'")  # ours is the one that is rolled back
            connection.execute("SELECT FROM documents WHERE id = 'd0-1' FOR UPDATE")
            locked.set()
            waiting.wait(30)
            connection.execute("SELECT FROM manifest WHERE name = 'sequence' FOR UPDATE")

    def remove(self: Any, connection: Any, ids: Any) -> Any:
        tries.append(1)
        connection.execute("SET LOCAL deadlock_timeout = '200ms'")
        waiting.set()
        return usual(self, connection, ids)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(other)
        assert locked.wait(30)
        monkeypatch.setattr(type(things.store), "remove", remove)
        assert things.delete("d0-1") == 1
        running.result()
    assert len(tries) > 1
    assert "d0-1" not in things


def test_a_deadlock_that_does_not_end_is_an_error(things: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def conflict(*_: Any) -> None:
        raise psycopg.errors.DeadlockDetected("deadlock detected")

    monkeypatch.setattr(type(things.store), "touched", conflict)
    with pytest.raises(WriteConflict, match=r"Nothing was changed. Try again"):
        things.delete("d0-1")
    assert "d0-1" in things


def test_a_statement_that_takes_too_long_is_a_clear_error(url: str, things: Collection, counting: Counting) -> None:
    things.search("cat")
    slow = f"{url}&options=-c%20statement_timeout%3D1"
    with (
        pytest.raises(CannotReach, match="statement_timeout"),
        Collection.open(slow, counting, create=False) as short,
    ):
        short.store.database.all("SELECT pg_sleep(5)")  # type: ignore[attr-defined]
    assert things.search("cat")


def test_a_full_disk_changes_nothing_and_searches_go_on(things: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise psycopg.errors.DiskFull("could not extend file: No space left on device")

    before = things.ids()
    with monkeypatch.context() as patch:
        patch.setattr(type(things.store), "touched", full)
        with pytest.raises(CannotWrite, match=r"disk is full.*Nothing acknowledged is lost"):
            things.add(mixed(3, seed=4))
    assert things.ids() == before
    assert things.search("a red cat")


def test_half_a_migration_is_rolled_back(things: Collection, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from isthmus.storage.postgres import migrations, schema

    def step(connection: Any) -> None:
        connection.execute("ALTER TABLE documents ADD COLUMN extra text")

    def fails(connection: Any) -> None:
        step(connection)
        connection.execute("SELECT 1 / 0")

    things.search("cat")
    monkeypatch.setattr(schema, "VERSION", 2)
    monkeypatch.setitem(migrations.MIGRATIONS, 1, fails)
    with pytest.raises(Exception, match="division by zero"):
        Collection.open(url, create=False)
    assert things.stats().schema == 1
    assert len(things.search("cat")) == 10
    monkeypatch.setitem(migrations.MIGRATIONS, 1, step)
    with Collection.open(url, create=False) as migrated:
        assert migrated.stats().schema == 2
        assert len(migrated) == 20
    monkeypatch.undo()
    with pytest.raises(BadFile, match="newer isthmus"):
        Collection.open(url, create=False)


def test_tables_that_were_dropped_are_not_written_to(things: Collection) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(things)} CASCADE")
    with pytest.raises(BadFile, match="was deleted"):
        things.add(mixed(1, seed=2))
    with pytest.raises(BadFile, match="was deleted"):
        things.search("cat")


def test_a_collection_that_was_replaced_is_not_written_to(things: Collection, url: str, counting: Counting) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema_of(things)}, {schema_of(things)}_reencode CASCADE")
    with Collection.open(url, counting), pytest.raises(CannotWrite, match="deleted or replaced while it was open"):
        things.add(mixed(1, seed=2))


def lost_rows(things: Collection) -> dict[str, str]:
    """Return the ways in which a publication's rows can be lost, by SQL."""
    schema = schema_of(things)
    with psycopg.connect(server().url) as connection:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'folded\\_%%'"
        ((table,),) = connection.execute(names, (schema,)).fetchall()
    return {
        "dropped": f"DROP TABLE {schema}.{table}",
        "left out of a backup": f"TRUNCATE {schema}.{table}",
        "not recorded": f"TRUNCATE {schema}.publications",
        "forgotten": f"DELETE FROM {schema}.manifest WHERE name = 'publications'",
    }


@pytest.mark.parametrize("how", ["dropped", "left out of a backup", "not recorded", "forgotten"])
@pytest.mark.parametrize("opened", ["before", "after"])
def test_folded_vectors_that_are_lost_are_published_again_by_the_next_search(
    things: Collection, url: str, counting: Counting, how: str, opened: str
) -> None:
    def found(one: Collection, **options: Any) -> list[tuple[str, float]]:
        return [(hit.id, round(hit.score, 4)) for hit in one.search("a red cat", 30, **options)]

    before = found(things)
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(lost_rows(things)[how])
    if opened == "after":
        things.close()
    with Collection.open(url, counting, create=False, follow=False) as again:
        searched = things if opened == "before" else again
        assert found(searched) == before
        assert found(searched, where={"missing": {"exists": True}}) == []
        assert found(again) == before
        assert again.verify() == []
