"""What a real PostgreSQL server limits: the time of a statement, connections, the disk. A clear error, nothing lost."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import CannotReach, CannotWrite
from isthmus.search import snapshot_builder
from isthmus.storage import conflicts
from isthmus.storage.postgres import address, database, explain, folded, pool
from postgres_server import PASSWORD, ordinary_folder, server
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
        opened.search("a red cat")  # calibrates
        yield opened


def schema_of(things: Collection) -> str:
    return str(things.path).partition("collection=")[2]


def test_the_server_notices_a_process_that_has_vanished_within_a_minute(things: Collection) -> None:
    asked = "SELECT current_setting('tcp_keepalives_' || name)::integer FROM unnest(%s::text[]) AS name"
    names = ["idle", "interval", "count"]
    idle, interval, count = (value for (value,) in things.store.database.all(asked, names))  # type: ignore[attr-defined]
    assert (idle, interval, count) == (30, 10, 3)


def test_the_times_in_the_docs_are_those_of_the_code() -> None:
    page = (Path(__file__).parent.parent / "docs/reliability.md").read_text(encoding="utf-8")
    table = page.partition("### What waits, and how long")[2].partition("\n## ")[0]
    stated = [int(number) for number in re.findall(r"\| (\d+) (?:s|times)\b", table)]
    patience = int(folded.PATIENCE.removesuffix("s"))
    assert stated == [
        address.SECONDS,
        60,
        database.WAIT,
        pool.WAIT,
        snapshot_builder.LONGEST_WAIT,
        patience,
        conflicts.TRIES,
    ]


@pytest.mark.parametrize("name", ["IdleInTransactionSessionTimeout", "TransactionTimeout"])
def test_a_transaction_that_the_server_ends_is_a_clear_error(name: str) -> None:
    error = getattr(psycopg.errors, name)("terminating connection due to a timeout")
    assert re.search(r"things: the server ended a transaction .*Try again", str(explain.explained(error, "things")))
    assert isinstance(explain.explained(error, "things"), CannotReach)


@pytest.mark.parametrize("table", ["documents", "publications"])
def test_a_search_that_takes_longer_than_its_role_may_is_a_clear_error(
    things: Collection, url: str, counting: Counting, table: str
) -> None:
    slow = f"{url}&options=-c%20statement_timeout%3D1s"
    with Collection.open(slow, counting, create=False) as short:
        before = [hit.id for hit in short.search("a red cat")]
        with psycopg.connect(server().url) as connection:
            connection.execute(f"LOCK TABLE {schema_of(things)}.{table} IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(CannotReach, match=r"statement timeout.*Try again, or raise statement_timeout"):
                short.search("a red cat")
        assert [hit.id for hit in short.search("a red cat")] == before


def test_an_add_that_takes_longer_than_its_role_may_changes_nothing(
    things: Collection, url: str, counting: Counting
) -> None:
    before, new = things.ids(), mixed(5, seed=3)
    with Collection.open(f"{url}&options=-c%20statement_timeout%3D1s", counting, create=False) as short:
        with psycopg.connect(server().url) as connection:
            connection.execute(f"LOCK TABLE {schema_of(things)}.words IN ACCESS EXCLUSIVE MODE")  # written last
            with pytest.raises(CannotReach, match=r"statement timeout.*Try again, or raise statement_timeout"):
                short.add(new)
        assert things.ids() == before
        assert len(short.add(new).added) == 5
        assert short.verify() == []


def test_more_searches_at_once_than_connections_is_a_clear_error(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "WAIT", 0.1)
    before = [hit.id for hit in things.search("a red cat")]
    with ExitStack() as held:
        for _ in range(pool.SIZE):
            held.enter_context(things.store.database.held())
        with pytest.raises(CannotReach, match=r"all connections of this process are in use.*Search from fewer threads"):
            things.search("a red cat")
    assert [hit.id for hit in things.search("a red cat")] == before


def test_a_server_that_takes_no_more_connections_says_so(things: Collection, counting: Counting) -> None:
    name = schema_of(things)
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE few_{name} LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT 1")
        connection.execute(f"GRANT USAGE ON SCHEMA {name} TO few_{name}")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO few_{name}")
    url = server().database(user=f"few_{name}", collection=name)
    with (
        Collection.open(url, counting, create=False) as one,
        pytest.raises(CannotReach, match=r"takes no more connections .*Close some, or raise max_connections"),
    ):
        Collection.open(url, counting, create=False)
        one.search("a red cat")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of a few megabytes, as a tablespace of the server; only root can make one."""
    if server().data is None:
        pytest.skip("the server is not ours")
    folder = ordinary_folder()
    options = f"size=10m,uid={folder.stat().st_uid},mode=0700"
    try:
        mounted("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
    except (FileNotFoundError, subprocess.CalledProcessError):
        shutil.rmtree(folder)
        pytest.skip("a disk of its own for the server cannot be mounted here")
    try:
        yield folder
    finally:
        mounted("umount", "--lazy", str(folder))
        shutil.rmtree(folder)


def mounted(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def test_a_disk_that_is_full_loses_nothing_and_grows(small_disk: Path) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        url = f"{server().collection()}&options=-c%20default_tablespace%3Dsmall"
        vectors = np.random.default_rng(0).normal(size=(4000, 1024)).astype(np.float32)
        with Collection.open(url, "none", "none", follow=False) as things:
            stored: list[str] = []
            with pytest.raises(CannotWrite, match=r"disk is full.*Nothing acknowledged is lost"):
                for start in range(0, 4000, 100):
                    some = range(start, start + 100)
                    things.add([Document(f"d{at}", vectors={"text": vectors[at]}) for at in some])
                    stored += [f"d{at}" for at in some]
            assert stored
            assert things.ids() == stored
            assert things.verify() == []
            with pytest.raises(CannotWrite, match="disk is full"):
                things.calibrate("center")  # its vectors do not fit beside the raw ones
            assert len(things.search(Query(vectors={"text": vectors[0]}), k=5)) == 5
            mounted("mount", "-o", "remount,size=64m", str(small_disk))
            assert things.calibrate("center").version
            things.add([Document("last", vectors={"text": vectors[-1]})])
            assert things.search(Query(vectors={"text": vectors[-1]}), k=1)[0].id == "last"
            assert things.verify() == []
        name = url.partition("collection=")[2].partition("&")[0]
        connection.execute(f"DROP SCHEMA {name}, {name}_reencode CASCADE")
        connection.execute("DROP TABLESPACE small")
