"""A collection with its vectors on three real PostgreSQL servers beside the coordinator: searches, faults, replicas."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import postgres_server
from isthmus import Collection, Document, Query
from isthmus.errors import BadInput, CannotReach, CannotWrite
from isthmus.storage.postgres import folded, shard_servers, sharded
from isthmus.storage.postgres.filters import Sql
from isthmus.storage.protocols import RowFilter, ShardsDown
from postgres_server import PASSWORD, Server, server, shard
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.install


@pytest.fixture
def url() -> str:
    return postgres_server.sharded()


@pytest.fixture
def things(url: str, counting: Counting) -> Iterator[Collection]:
    with Collection.open(url, counting, calibration="center+nnn(k=4)", follow=False) as opened:
        opened.add(mixed(40))
        opened.search("a red cat")
        yield opened


class Faults:
    """Kills shards with SIGKILL, and starts them again."""

    def __init__(self) -> None:
        self.down: set[int] = set()

    def kill(self, number: int) -> None:
        shard(number).kill()
        self.down.add(number)

    def start(self, number: int) -> None:
        shard(number).start()
        self.down.discard(number)


@pytest.fixture
def faults() -> Iterator[Faults]:
    made = Faults()
    yield made
    for number in sorted(made.down):
        made.start(number)


def schema_of(things: Collection) -> str:
    return str(things.path).partition("collection=")[2]


def place(one: Server) -> str:
    return one.url.rpartition("@")[2]


def there(things: Collection) -> dict[int, set[int]]:
    """Return the documents that each shard has, by asking it directly."""
    found: dict[int, set[int]] = {}
    for number in (1, 2, 3):
        with psycopg.connect(shard(number).url) as connection:
            names = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'rows%%'"
            ((name,),) = connection.execute(names, (schema_of(things),)).fetchall()
            found[number] = {
                row for (row,) in connection.execute(f"SELECT document FROM {schema_of(things)}.{name}").fetchall()
            }
    return found


def answers(things: Collection, **options: Any) -> list[tuple[str, float]]:
    return [(hit.id, round(hit.score, 4)) for hit in things.search("a red cat", 100, **options)]


def of_shards(things: Collection) -> sharded.PostgresSharded:
    publisher = things._handle.publisher
    assert publisher is not None
    assert isinstance(publisher.server, sharded.PostgresSharded)
    return publisher.server


def test_each_document_is_on_one_shard_and_all_are_found(things: Collection) -> None:
    one, two, three = there(things).values()
    assert one
    assert two
    assert three
    assert len(one) + len(two) + len(three) == len(one | two | three) == 40
    assert len(answers(things)) == 40
    assert things.verify() == []


def test_each_shard_gets_the_limit_and_uses_its_index(
    url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharded, "EXACT_BELOW", 500)
    rows = np.random.default_rng(0).normal(size=(6000, 64)).astype(np.float32)
    with Collection.open(url, "none", "center", follow=False) as things:
        things.add([Document(f"d{at}", vectors={"text": row}) for at, row in enumerate(rows)])
        things.search(Query(vectors={"text": rows[0]}))
        (record,) = things._handle.publisher.records()  # type: ignore[union-attr]
        with of_shards(things)._transaction() as (connection, several):
            width = of_shards(things)._checked(connection, record.key, several, 0)
            only = Sql(f"d.key = %s AND {folded.rows_passing('text', RowFilter(10**6)).text}", (record.key,))
            vector = np.pad(rows[0], (0, width - 64))
            statement, values = sharded.NearestSearch(only, vector, width, "vector", 10).on(several)
            plan = connection.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {statement}", values, prepare=False).fetchall()
            lines = [line.strip() for (line,) in plan]
        sent = [line.removeprefix("Remote SQL: ") for line in lines if line.startswith("Remote SQL")]
        assert len(sent) == 3
        assert sum("Async Foreign Scan" in line for line in lines) == 3
        assert not any(line.startswith(("Sort", "->  Sort", "->  Limit", "Filter")) for line in lines)
        for number, text in enumerate(sent, 1):
            assert re.search(r"ORDER BY .* LIMIT 10::bigint$", text)
            with psycopg.connect(shard(number).url) as connection:
                connection.execute("SET hnsw.iterative_scan = relaxed_order")
                used = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {text}").fetchall())
            assert re.search(r"Index Scan using rows_\w+ on rows_\w+", used), used


def test_hnsw_on_shards_finds_what_exact_search_finds_also_with_a_filter(
    url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EXACT_BELOW", "EXACT_FILTERED"):
        monkeypatch.setattr(sharded, name, 100)
    monkeypatch.setattr(folded, "EF", 50)
    rows = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    documents = [
        Document(f"d{at}", vectors={"text" if at % 3 else "image": row}, metadata={"group": at % 50, "half": at % 2})
        for at, row in enumerate(rows)
    ]
    queries = [Query(vectors={"text": row}) for row in rows[:20] + 0.1]
    usual, exactly = sharded.NearestSearch.on, list[bool]()

    def noted(*values: Any, exact: bool = False) -> Any:
        exactly.append(exact)
        return usual(*values, exact=exact)

    def on(*values: Any, exact: bool = True) -> Any:
        return usual(*values, exact=True)

    for vectors in ("shards", "shards-half"):
        with Collection.open(url, "none", "center", vectors=vectors, follow=False) as things:
            things.add(documents)
            for where in (None, {"half": 1}, {"group": 7}, {"group": {"lt": 3}}, {"group": list(range(20))}):
                exactly.clear()
                with monkeypatch.context() as patch:
                    patch.setattr(sharded.NearestSearch, "on", noted)
                    found = [[hit.id for hit in things.search(query, 10, where=where)] for query in queries]
                few = where in ({"group": 7}, {"group": {"lt": 3}})  # then all rows that pass are compared
                assert any(exactly) == few  # searches for P(match) have no filter
                with monkeypatch.context() as patch:  # the same publication, every row compared
                    patch.setattr(sharded.NearestSearch, "on", on)
                    right = [[hit.id for hit in things.search(query, 10, where=where)] for query in queries]
                assert all(len(set(one)) == 10 for one in found)
                shared = [len({*one} & {*other}) for one, other in zip(found, right, strict=True)]
                assert sum(shared) >= (1 if few else 0.97) * 10 * len(queries)


def test_a_shard_that_is_killed_is_named_and_a_partial_answer_has_the_others(
    things: Collection, faults: Faults
) -> None:
    before, on_two = answers(things), there(things)[2]
    lost = {name for name, row in things.store.rows_of(things.ids()).items() if row in on_two}
    faults.kill(2)
    with pytest.raises(ShardsDown, match=rf"^shard 2 \({place(shard(2))}\) of postgresql://.*cannot be reached") as no:
        things.search("a red cat")
    assert PASSWORD not in str(no.value)
    partial = things.search("a red cat", 100, partial=True)
    assert partial.missing == (f"shard 2 ({place(shard(2))})",)
    assert [(hit.id, round(hit.score, 4)) for hit in partial] == [one for one in before if one[0] not in lost]
    faults.start(2)
    assert answers(things) == before
    whole = things.search("a red cat", 100, partial=True)
    assert (len(whole), whole.missing) == (40, ())


def test_a_shard_that_is_killed_in_the_middle_of_a_search_is_named(
    things: Collection, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, before = sharded._found, answers(things)

    def found(*values: Any) -> Any:
        monkeypatch.setattr(sharded, "_found", usual)
        faults.kill(3)  # the search has begun on all shards
        return usual(*values)

    monkeypatch.setattr(sharded, "_found", found)
    with pytest.raises(ShardsDown, match=r"^shard 3 .*cannot be reached"):
        things.search("a red cat")
    monkeypatch.setattr(sharded, "_found", found)
    faults.start(3)
    partial = things.search("a red cat", 100, partial=True)
    assert [name.partition(" (")[0] for name in partial.missing] == ["shard 3"]
    assert 0 < len(partial) < 40
    faults.start(3)
    assert answers(things) == before


def test_two_shards_that_are_down_are_both_named(things: Collection, faults: Faults) -> None:
    one = len(there(things)[1])
    faults.kill(2)
    faults.kill(3)
    with pytest.raises(ShardsDown, match=r"^shard 2 .* and shard 3 .*cannot be reached"):
        things.search("a red cat")
    partial = things.search("a red cat", 100, partial=True)
    assert (len(partial), len(partial.missing)) == (one, 2)


def test_what_is_added_and_deleted_while_a_shard_is_down_is_acknowledged_and_found(
    things: Collection, faults: Faults
) -> None:
    faults.kill(1)
    assert len(things.add(mixed(20, seed=5)).added) == 20
    assert things.delete(["d0-1", "d0-2"]) == 2
    with pytest.raises(CannotReach, match="shard 1"):
        things.compact()
    faults.start(1)
    assert len(answers(things)) == 58
    things.compact()
    assert set().union(*there(things).values()) == set(things.store.rows())
    assert things.verify() == []


def test_a_write_that_only_some_shards_have_is_not_seen_and_is_written_again(
    things: Collection, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are sent to every shard; then one of them is killed, and the others commit."""
    new = things.add(mixed(20, seed=5)).added
    before, rows = answers(things), set(things.store.rows_of(new).values())
    database = of_shards(things)._database
    usual = type(database)._commit

    def commit(self: Any, connection: Any) -> None:
        monkeypatch.setattr(type(database), "_commit", usual)
        faults.kill(2)
        usual(self, connection)

    write = sharded.PostgresSharded.write

    def interrupted(*values: Any) -> None:
        monkeypatch.setattr(sharded.PostgresSharded, "write", write)
        monkeypatch.setattr(type(database), "_commit", commit)
        write(*values)

    monkeypatch.setattr(sharded.PostgresSharded, "write", interrupted)
    with pytest.raises(ShardsDown, match="shard 2"):
        things.compact()
    faults.start(2)
    assert any(rows & on_shard for on_shard in there(things).values())  # some committed
    assert not rows <= set().union(*there(things).values())  # not all did
    assert answers(things) == before
    things.compact()
    assert set().union(*there(things).values()) == set(things.store.rows())
    assert answers(things) == before
    assert things.verify() == []


@pytest.mark.parametrize("committed", [False, True])
def test_a_coordinator_that_is_killed_while_vectors_are_published_goes_on_after_its_restart(
    things: Collection, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    new = things.add(mixed(20, seed=5)).added
    before, rows = answers(things), set(things.store.rows_of(new).values())
    write = sharded.PostgresSharded.write

    def interrupted(*values: Any) -> None:
        if committed:
            write(*values)
        server().kill()
        if not committed:
            write(*values)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(sharded.PostgresSharded, "write", interrupted)
            with pytest.raises(CannotReach, match="cannot be reached"):
                things.compact()
    finally:
        server().start()
    assert bool(rows & set().union(*there(things).values())) == committed
    assert answers(things) == before
    things.compact()
    assert rows <= set().union(*there(things).values())
    assert answers(things) == before
    assert things.verify() == []


def test_a_calibration_that_is_replaced_leaves_no_rows_and_no_index_on_the_shards(
    things: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharded, "EXACT_BELOW", 2)
    monkeypatch.setattr(sharded, "DROPPED", 3)
    for spec in ("center", "none", "center+nnn(k=4)"):
        things.calibrate(spec)
    things.compact()
    (key,) = publications(things)
    for number in (1, 2, 3):
        with psycopg.connect(shard(number).url) as connection:
            names = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'rows%%'"
            ((name,),) = connection.execute(names, (schema_of(things),)).fetchall()
            there = connection.execute(
                f"SELECT key, count(DISTINCT modality) FROM {schema_of(things)}.{name} GROUP BY key"
            )
            ((found, modalities),) = there.fetchall()
            indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = %s AND indexdef LIKE '%%hnsw%%'"
            assert found == key
            assert connection.execute(indexes, (name,)).fetchone() == (modalities,)
    assert len(answers(things)) == 40


def test_calibrating_while_a_shard_is_down_fails_and_the_served_calibration_stays(
    things: Collection, faults: Faults
) -> None:
    before = answers(things)
    faults.kill(3)
    with pytest.raises(ShardsDown, match="shard 3"):
        things.calibrate("center")
    faults.start(3)
    assert answers(things) == before
    things.calibrate("center")
    assert len(answers(things)) == 40
    assert things.verify() == []


def test_a_filter_of_more_values_than_a_statement_takes_is_looked_up_first(things: Collection) -> None:
    """The statement would have the values once for each shard: 67,200 of 65,535."""
    several = [{"number": [at, *range(1000 + 20 * at, 1015 + 20 * at)]} for at in range(1400)]
    everything = {"number": {"exists": True}}
    assert answers(things, where={"or": several}) == answers(things, where=everything)
    with pytest.raises(BadInput, match="30,000 is the most"):
        things.search("a red cat", where={"or": 2 * several})


def test_rows_that_are_written_twice_are_there_once(things: Collection) -> None:
    (record,) = things._handle.publisher.records()  # type: ignore[union-attr]
    vectors, last = of_shards(things), things.store.last()
    where = RowFilter(last)
    counts = [vectors.count(record.key, name, where) for name in ("text", "image", "image+text")]
    publisher, calibrated = things._handle.publisher, things.calibration
    assert publisher is not None
    assert calibrated is not None
    for block in things.store.blocks():
        for piece in publisher._pieces(calibrated, block, things.store, None):
            vectors.write(record.key, piece)
    assert [vectors.count(record.key, name, where) for name in ("text", "image", "image+text")] == counts


def test_a_replica_that_was_promoted_takes_the_place_of_its_shard(things: Collection, url: str, faults: Faults) -> None:
    things.add(mixed(20, seed=5))
    things.compact()
    replica = shard(2).replica()
    waits_for_replica(shard(2))
    things.add(mixed(10, seed=6))
    things.delete(["d0-1"])
    things.compact()
    before = answers(things)
    with psycopg.connect(shard(2).url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")  # from its next start on
    faults.kill(2)
    with pytest.raises(ShardsDown, match="shard 2"):
        things.search("a red cat")
    replica.promote()
    assert shard_servers.move(url, 2, replica.url)
    published = publications(things)
    assert answers(things) == before
    assert publications(things) == published  # nothing was published again
    assert things.add(mixed(5, seed=9)).added
    things.compact()
    assert things.verify() == []
    assert shard_servers.states(url)[1] == shard_servers.ShardState(2, place(replica), None)


def publications(things: Collection) -> list[str]:
    return [record.key for record in things._handle.publisher.records()]  # type: ignore[union-attr]


def waits_for_replica(primary: Server) -> None:
    """Let every commit of a server wait until its replica has it."""
    with psycopg.connect(primary.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'replica'")
    primary.stop()
    primary.start()


def test_a_replica_that_is_behind_is_noticed_and_the_vectors_are_published_again(
    things: Collection, url: str, faults: Faults
) -> None:
    replica = shard(1).replica()
    replica.stop()  # what comes now it does not get
    things.add(mixed(20, seed=5))
    things.delete(["d0-1"])
    things.compact()
    before, old = answers(things), publications(things)
    faults.kill(1)
    replica.start()
    replica.promote()
    assert not shard_servers.move(url, 1, replica.url)
    assert answers(things) == before
    assert publications(things) != old
    assert things.verify() == []


def go_back(things: Collection, number: int) -> None:
    """Make a shard look as it was before the last change."""
    with psycopg.connect(shard(number).url, autocommit=True) as connection:
        names = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'marks%%'"
        ((name,),) = connection.execute(names, (schema_of(things),)).fetchall()
        connection.execute(f"UPDATE {schema_of(things)}.{name} SET change = change - 1")


def test_a_shard_that_goes_back_in_time_is_noticed_by_the_next_search(things: Collection, url: str) -> None:
    before, old = answers(things), publications(things)
    go_back(things, 1)
    assert answers(things) == before
    assert publications(things) != old


def test_verify_says_that_a_shard_lacks_changes_and_publishes_again(things: Collection, url: str) -> None:
    before = answers(things)
    go_back(things, 1)
    assert shard_servers.states(url)[0].problem == "lacks changes: the next search publishes the vectors again"
    (problem,) = things.verify()
    assert re.search(r"shard 1 \(.*\) lacks changes", problem)
    assert things.verify() == []
    assert answers(things) == before


def test_an_empty_server_takes_the_place_of_a_lost_shard(things: Collection, url: str) -> None:
    before = answers(things)
    assert not shard_servers.move(url, 3, shard(4).url)
    assert answers(things) == before
    assert things.verify() == []


def test_other_shards_take_the_place_of_all(things: Collection, url: str) -> None:
    before = answers(things)
    shard_servers.make(url, [shard(2).url, shard(3).url])
    assert answers(things) == before
    assert len(shard_servers.states(url)) == 2
    with psycopg.connect(shard(1).url) as connection:  # the first is left with nothing
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname = %s"
        assert connection.execute(tables, (schema_of(things),)).fetchone() == (0,)


def test_shards_that_cannot_be_used_are_refused_by_name(url: str) -> None:
    with pytest.raises(CannotReach, match=r"shard 1 \(127.0.0.1:1/d\) cannot be reached"):
        shard_servers.make(url, ["postgresql://ada:s3cret@127.0.0.1:1/d"])
    with pytest.raises(BadInput, match="has no shard 7: its shards are 1 to 3"):
        shard_servers.move(url, 7, shard(1).url)
    with pytest.raises(CannotReach, match=r"shard 2 \(127.0.0.1:1/d\) cannot be reached"):
        shard_servers.move(url, 2, "postgresql://ada:s3cret@127.0.0.1:1/d")
    with pytest.raises(BadInput, match=r"mysql.*is not the scheme"):
        shard_servers.make(url, ["mysql://h/d"])
    assert [state.problem for state in shard_servers.states(url)] == [None] * 3
    with pytest.raises(BadInput, match="has no shards"):
        Collection.open(server().collection(), "none", vectors="shards")


def test_vectors_move_from_one_database_to_shards_and_back(url: str, counting: Counting) -> None:
    one = server().collection()
    with Collection.open(one, counting, calibration="center", follow=False) as things:
        things.add(mixed(40))
        before = answers(things)
    shard_servers.make(one, [shard(number).url for number in (1, 2, 3)])
    with Collection.open(one, counting, follow=False) as things:
        assert answers(things) == before
        assert sum(map(len, there(things).values())) == 40
    with Collection.open(one, counting, vectors="database", follow=False) as things:
        assert answers(things) == before


def test_the_command_line_shows_and_moves_shards_and_says_what_is_partial(
    url: str, tiny: str, tmp_path: Path, faults: Faults
) -> None:
    (tmp_path / "notes").mkdir()
    for number, text in enumerate(["a cat sits on the red sofa", "the dog runs", "a tree", "a house"] * 5):
        (tmp_path / "notes" / f"n{number}.txt").write_text(f"{text} {number}")

    def isthmus(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", "isthmus", *words], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        return done

    assert isthmus("shards", "--in", url).stdout.count("answers") == 3
    isthmus("index", str(tmp_path / "notes"), "--into", url, "--encoder", tiny)
    faults.kill(3)
    asked = ("search", "a cat", "-k", "30", "--in", url)
    assert "shard 3" in isthmus(*asked, code=1).stderr
    partial = isthmus(*asked, "--partial")
    assert f"The answer is partial: shard 3 ({place(shard(3))}) did not answer." in partial.stderr
    form = json.loads(isthmus(*asked, "--partial", "--json").stdout)
    assert form["missing"] == [f"shard 3 ({place(shard(3))})"]
    assert 0 < len(form["hits"]) < 20
    states = json.loads(isthmus("shards", "--in", url, "--json").stdout)
    assert [state["problem"] is None for state in states] == [True, True, False]
    isthmus("shards", "--move", "3", shard(4).url, "--in", url)
    assert len(json.loads(isthmus(*asked, "--json").stdout)) == 20
    assert len(json.loads(isthmus("shards", shard(1).url, shard(2).url, "--in", url, "--json").stdout)) == 2
    assert len(json.loads(isthmus(*asked, "--json").stdout)) == 20


def administered(one: Server, *statements: str) -> None:
    with psycopg.connect(one.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def granted(page: str, name: str) -> list[str]:
    """Return the SQL of a page of the documentation, for roles with names of their own."""
    blocks = re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return [block.replace("'…'", f"'{PASSWORD}'").replace("isthmus_", f"{name}_") for block in blocks]


def test_roles_without_special_rights_make_shards_and_search_them(counting: Counting) -> None:
    """As the documentation grants them."""
    name = f"o{os.getpid()}"
    owner, at_shard, reader, shards_too = granted("sharding.md", name)[:4]
    administered(server(), owner.replace("library", "postgres"))
    for number in (1, 2):
        administered(shard(number), at_shard.replace("vectors", "postgres"))
    url = server().database(user=f"{name}_owner", collection=name)
    shard_servers.make(url, [shard(number).database(user=f"{name}_shard") for number in (1, 2)])
    with Collection.open(url, counting, calibration="center", follow=False) as things:
        things.add(mixed(40))
        expected = answers(things)
    administered(server(), reader.replace("things", name))
    with Collection.open(server().database(user=f"{name}_reader", collection=name), counting) as reading:
        assert answers(reading) == expected
        assert of_shards(reading).address == "shards"
        with pytest.raises(CannotWrite, match="read-only"):
            reading.add(mixed(1))
    administered(server(), granted("postgres.md", name)[1].replace("things", name), shards_too.replace("things", name))
    with Collection.open(server().database(user=f"{name}_writer", collection=name), counting, follow=False) as writing:
        writing.add(mixed(10, seed=4))
        writing.calibrate("center+nnn(k=4)")
        writing.delete(["d0-1"])
        writing.refresh()
        assert len(answers(writing)) == 49
        assert writing.verify() == []
