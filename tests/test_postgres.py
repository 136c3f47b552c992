"""A collection on a real PostgreSQL server: addresses, roles, migrations, many writers, words and filters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isthmus import Collection, Document, Query
from isthmus.errors import BadFile, BadInput, CannotReach, CannotWrite, IsthmusError
from isthmus.storage.postgres import address as addresses
from isthmus.storage.postgres import folded
from isthmus.storage.postgres.pool import VectorDumper
from isthmus.storage.protocols.published import RowFilter
from isthmus.storage.where import parse
from postgres_server import PASSWORD, server
from stock import Counting, mixed

psycopg = pytest.importorskip("psycopg")
DOCS = Path(__file__).parent.parent / "docs" / "postgres.md"
install = pytest.mark.install


@pytest.fixture
def url() -> str:
    return server().collection()


@pytest.fixture
def things(url: str, counting: Counting) -> Iterator[Collection]:
    with Collection.open(url, counting, calibration="center+nnn(k=4)", follow=False) as opened:
        opened.add(mixed(40))
        yield opened


def administered(*statements: str) -> None:
    with psycopg.connect(server().url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    "wrong",
    ["postgresql://h/d?collection=public", "postgresql://h/d?collection=a.b", "postgresql://h:x/d", "mysql://h/d"],
)
def test_an_address_that_names_no_collection_is_refused(wrong: str) -> None:
    with pytest.raises(BadInput, match="collection"):
        addresses.PostgresAddress.of(wrong)


@pytest.mark.parametrize(
    "given",
    ["postgresql://ada:s3cret@h/d?collection=c", "postgres://ada@h/d?password=s3cret&collection=c&sslmode=require"],
)
def test_a_password_is_shown_nowhere(given: str) -> None:
    address = addresses.PostgresAddress.of(given)
    assert "s3cret" not in f"{address} {address!r}"
    assert "s3cret" in address.url
    assert str(address) == "postgresql://ada@h/d?collection=c"


@install
def test_the_password_is_in_no_message_and_no_statistics(things: Collection, url: str) -> None:
    assert PASSWORD in url
    assert PASSWORD not in f"{things!r} {things.path} {things.stats()}"
    wrong = url.replace(PASSWORD, "another-pass")
    with pytest.raises(CannotReach, match="password authentication failed") as caught:
        Collection.open(wrong, "none")
    assert "another-pass" not in str(caught.value)


@install
def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(CannotReach, match=r"127.0.0.1:1/d.*cannot be reached.*Check that the server runs"):
        Collection.open("postgresql://ada@127.0.0.1:1/d", "none")


@install
def test_a_schema_with_other_tables_is_left_alone() -> None:
    administered("CREATE SCHEMA IF NOT EXISTS shop", "CREATE TABLE IF NOT EXISTS shop.orders (number int)")
    with pytest.raises(BadFile, match="not of an isthmus collection"):
        Collection.open(server().collection("shop"), "none")


@install
def test_what_is_stored_is_found_by_the_next_process(things: Collection, url: str, counting: Counting) -> None:
    before = [(hit.id, round(hit.score, 4)) for hit in things.search("a red cat", k=40)]
    things.close()
    with Collection.open(url, counting, create=False) as again:
        assert [(hit.id, round(hit.score, 4)) for hit in again.search("a red cat", k=40)] == before
        assert again.verify() == []


@install
def test_a_changed_vector_is_noticed(things: Collection) -> None:
    administered(f"UPDATE {schema_of(things)}.segments SET vector = vector || '\\x00' WHERE document = 1")
    assert any("does not match its checksum" in problem for problem in things.verify())


def schema_of(things: Collection) -> str:
    return str(things.path).partition("collection=")[2]


@install
def test_words_have_the_numbers_of_the_other_engines(url: str, counting: Counting, tmp_path: Path) -> None:
    texts = [
        "cats and cats",
        "the CAT file_name here",
        "Café résumé",
        "file and name",
        "!!!",
        "a\0b cat",
        "dogs cat cat",
    ]
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    queries = [["cat", "cats"], ["file_name"], ["cafe", "file_name", "cat"], ["nothing"], ["a", "b"]]
    with Collection.open(url, counting) as one, Collection.open(tmp_path / "c", counting) as other:
        for each in (one, other):
            each.add([*documents, Document("later", "a cat")])
            each.delete("later")
        for query in queries:
            mine, theirs = (each.store.words.search(query, 10) for each in (one, other))
            assert mine.documents == theirs.documents
            assert mine.share.tolist() == pytest.approx(theirs.share.tolist(), rel=1e-9)
            mine, theirs = (each.store.words.search(query, 10, parse({"id": ["d0", "d1"]})) for each in (one, other))
            assert (mine.documents, mine.share.tolist()) == (theirs.documents, pytest.approx(theirs.share.tolist()))
        assert list(one) == list(other)


ODD: list[dict[str, Any]] = [
    {"a": 2**53 + 1}, {"a": float(2**53)}, {"a": 10**30}, {"a": -(10**400)}, {"a": 0.1}, {"a": "é"}, {"a": "z\0"},
    {"a": ["x", 3, None]}, {"a": True}, {"a": "3"}, {"a": "03"}, {"b": {"c": {"d": "deep"}}}, {'q"u': "quo'te %s"}, {},
]  # fmt: skip
ASKED: list[dict[str, Any]] = [
    {"a": 2**53 + 1}, {"a": {"gt": 2**53}}, {"a": {"gte": float(2**53)}}, {"a": {"lt": 0}}, {"a": {"gt": "a"}},
    {"a": 10**30}, {"a": 1}, {"a": [0.1, "é"]}, {"a": "z\0"}, {"a": {"lte": float("inf")}}, {"a": float("nan")},
    {"a": {"not": {"gt": 2}}}, {"b.c.d": "deep"}, {'q"u': "quo'te %s"}, {"a": {"exists": False}}, {"a": None},
    {"a": [*map(str, range(40))]}, {"or": [{"a": "x"}, {"not": {"a": {"exists": True}}}]}, {"id": {"lt": "d3"}},
    {"id": {"gt": 3}}, {"modality": {"not": "text"}}, {"a": {"gt": 2, "lt": 4}},
]  # fmt: skip


@install
def test_filters_pass_what_they_pass_on_the_other_engines(url: str, counting: Counting, tmp_path: Path) -> None:
    documents = [Document(f"d{number}", "a cat", metadata=metadata) for number, metadata in enumerate(ODD)]
    with Collection.open(url, counting) as one, Collection.open(tmp_path / "c", counting) as other:
        one.add(documents)
        other.add(documents)
        assert [one.get(d.id).metadata for d in documents] == [other.get(d.id).metadata for d in documents]
        assert [one.ids(where) for where in ASKED] == [other.ids(where) for where in ASKED]
        assert one.add(documents).unchanged == tuple(document.id for document in documents)


ADD = """
import sys
from isthmus import Collection, Document
with Collection.open(sys.argv[1], "none") as things:
    for start in range(0, 60, 10):
        numbers = range(start, start + 10)
        things.add([Document(f"{sys.argv[2]}-{i}", "a text", vectors={"text": [1.0, i, 2.0]}) for i in numbers])
"""


@install
def test_many_processes_write_at_once_and_nothing_is_lost(url: str) -> None:
    Collection.open(url, "none").close()
    started = [subprocess.Popen([sys.executable, "-c", ADD, url, str(number)]) for number in range(3)]
    assert [one.wait() for one in started] == [0, 0, 0]
    with Collection.open(url, create=False) as things:
        assert len(things) == 180
        assert things.store.statistics().parts["text"].count == 180
        assert things.store.recounted().parts["text"].count == 180
        assert things.stats().changes == 18
        assert things.verify() == []


@install
def test_nobody_adds_while_another_indexes_and_the_message_names_it(things: Collection, url: str) -> None:
    with (
        things.store.sole_writer(),
        Collection.open(url, create=False) as other,
        pytest.raises(CannotWrite, match=r"is being written by isthmus \d+ on .*since"),
    ):
        other.add([Document("a", "a cat")])
    with things.store.writer(), Collection.open(url, create=False) as other:
        with pytest.raises(CannotWrite, match="is being written by"), other.store.sole_writer():
            pass
        with other.store.writer():
            pass


@install
def test_a_lock_that_another_role_holds_is_named_without_what_the_server_does_not_tell(things: Collection) -> None:
    name = schema_of(things)
    writer = roles()[1].replace("things", name).replace("'…'", f"'{PASSWORD}'").replace("isthmus_writer", f"w_{name}")
    administered(writer)
    with (
        things.store.sole_writer(),
        Collection.open(server().database(user=f"w_{name}", collection=name), create=False) as other,
        pytest.raises(CannotWrite, match=r"is being written by isthmus \d+ on \S+\. Many may add"),
    ):
        other.delete("d0-1")


@install
def test_two_processes_never_fit_at_once(things: Collection, url: str, counting: Counting) -> None:
    with things.store.fitting() as mine, Collection.open(url, counting, create=False) as other:
        assert mine
        with pytest.raises(CannotWrite, match="is being calibrated by another process"):
            other.calibrate("none")
        assert other.search("a red cat")  # calibrates for its own process
    assert things.calibrate("none").version >= 1


def tables_of(things: Collection) -> list[tuple[str]]:
    """Return the tables of publications."""
    found = "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE 'folded\\_%%'"
    return list(things.store.database.all(found, schema_of(things)))  # type: ignore[attr-defined]


def roles() -> tuple[str, str]:
    """Return the SQL of the documentation, by role."""
    return re.findall(r"```sql\n(.*?)```", DOCS.read_text(), re.DOTALL)[:2]  # type: ignore[return-value]


@install
def test_a_reader_searches_and_writes_nothing(things: Collection, counting: Counting) -> None:
    things.calibrate("center")
    expected = [hit.id for hit in things.search("a red cat")]
    name = schema_of(things)
    reader = roles()[0].replace("things", name).replace("'…'", f"'{PASSWORD}'").replace("isthmus_reader", f"r_{name}")
    administered(reader)
    with Collection.open(server().database(user=f"r_{name}", collection=name), counting) as reading:
        assert [hit.id for hit in reading.search("a red cat")] == expected
        assert reading.get("d0-1").id == "d0-1"
        assert reading.stats().documents == things.stats().documents
        with pytest.raises(CannotWrite, match="read-only"):
            reading.add([Document("a", "a cat")])
        with psycopg.connect(server().database(user=f"r_{name}")) as connection, pytest.raises(psycopg.Error):
            connection.execute(f"DELETE FROM {name}.documents")
    things.calibrate("none")  # in a new table
    with Collection.open(server().database(user=f"r_{name}", collection=name), counting) as reading:
        assert [hit.id for hit in reading.search("a red cat")] == [hit.id for hit in things.search("a red cat")]
        assert reading._snapshots.latest().is_published


@install
def test_a_writer_does_everything_but_make_and_drop_tables(
    things: Collection, counting: Counting, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "DROPPED", 7)
    name = schema_of(things)
    writer = roles()[1].replace("things", name).replace("'…'", f"'{PASSWORD}'").replace("isthmus_writer", f"w_{name}")
    administered(writer)
    things.calibrate("center")
    [owned] = tables_of(things)
    with Collection.open(server().database(user=f"w_{name}", collection=name), counting) as writing:
        writing.add([Document("a", "a cat")])
        writing.delete("d0-1")
        writing.calibrate("center")
        assert writing._snapshots.latest().is_published
        assert tables_of(writing) == [owned]  # emptied: only its owner may drop it
        assert writing.store.database.one(f"SELECT count(*) FROM {owned[0]}") == (0,)  # type: ignore[attr-defined]
        writing.log_queries()
        assert writing.search("cat")
        assert writing.reencode(other).encoded == 40
    with psycopg.connect(server().database(user=f"w_{name}")) as connection, pytest.raises(psycopg.Error):
        connection.execute(f"DROP TABLE {name}.documents")
    with Collection.open(server().collection(name), create=False) as owning:
        owning.calibrate("center")
        assert owned not in tables_of(owning)
        assert owning.store.database.one("SELECT count(*) FROM folded") == (0,)  # type: ignore[attr-defined]


@install
def test_threads_search_while_documents_are_added(things: Collection) -> None:
    with ThreadPoolExecutor(4) as pool:
        searches = [pool.submit(things.search, "a red cat", 5) for _ in range(40)]
        things.add(mixed(20, seed=3))
        assert all(len(one.result()) == 5 for one in searches)


@install
@pytest.mark.parametrize("vectors", ["database", "database-half"])
def test_hnsw_finds_what_exact_search_finds_also_with_a_filter(
    url: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_are_compared(monkeypatch)
    rows = np.random.default_rng(0).normal(size=(3000, 16)).astype(np.float32)
    documents = [
        Document(f"d{at}", vectors={"text" if at % 3 else "image": row}, metadata={"group": at % 50, "half": at % 2})
        for at, row in enumerate(rows)
    ]
    with Collection.open(url, "none", "center", vectors=vectors, follow=False) as things:
        things.add(documents)
        queries = [Query(vectors={"text": row}) for row in rows[:20] + 0.1]
        with psycopg.connect(server().url) as connection:
            for where in (None, {"half": 1}, {"group": 7}, {"group": {"lt": 3}}):
                expected = [[hit.id for hit in things.search(query, 10, where=where)] for query in queries]
                shown = "SELECT count(*) FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE '%%hnsw%%'"
                assert connection.execute(shown, (schema_of(things),)).fetchall() == [(2,)]
                assert all(len(set(found)) == 10 for found in expected)
                with monkeypatch.context() as patch:  # the same calibration, every row compared
                    patch.setattr(folded, "_settings", lambda _: "SET LOCAL enable_indexscan = off")
                    right = [[hit.id for hit in things.search(query, 10, where=where)] for query in queries]
                shared = [len({*one} & {*other}) for one, other in zip(expected, right, strict=True)]
                least = 1 if where in ({"group": 7}, {"group": {"lt": 3}}) else 0.97  # few rows are all compared
                assert sum(shared) >= least * 10 * len(queries)


@install
def test_a_filter_that_leaves_few_rows_finds_the_best_also_where_the_server_expects_many(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_are_compared(monkeypatch)
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(20, 16)), 100, axis=0) + rng.normal(size=(2000, 16)) / 3  # 20 clusters, in order
    counted: list[str] = []
    execute = psycopg.Connection.execute

    def watched(self: Any, statement: Any, *values: Any, **options: Any) -> Any:
        counted.extend(["counted"] * ("AS few" in str(statement)))
        return execute(self, statement, *values, **options)

    with Collection.open(url, "none", "center", follow=False) as things:
        documents = (
            Document(f"d{at}", vectors={"text": row}, metadata={"half": at % 2, "year": at})
            for at, row in enumerate(rows.astype(np.float32))
        )
        things.add(documents)
        query = Query(vectors={"text": rows[0]})  # far from the last cluster
        things.search(query, 10)
        monkeypatch.setattr(psycopg.Connection, "execute", watched)
        things.search(query, 10, where={"half": 0})
        assert not counted
        late = {"year": {"gte": 1900}}  # the server expects a third of any range
        found = [hit.id for hit in things.search(query, 10, where=late)]
        assert counted
        monkeypatch.setattr(folded, "_settings", lambda _: "SET LOCAL enable_indexscan = off")  # every row compared
        assert found == [hit.id for hit in things.search(query, 10, where=late)]
        assert {int(one[1:]) // 100 for one in found} == {19}


def few_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have small collections searched as large ones are."""
    for name, value in {"EXACT_BELOW": 200, "EXACT_FILTERED": 200, "EF": 100}.items():
        monkeypatch.setattr(folded, name, value)


@install
def test_a_search_without_a_filter_walks_the_graph_where_the_server_would_compare_all_rows(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "EXACT_BELOW", 200)
    rows = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)
    query = Query(vectors={"text": rows[0]})
    with Collection.open(url, "none", "center", follow=False) as things:
        things.add(Document(f"d{at}", vectors={"text": row}, metadata={"half": at % 2}) for at, row in enumerate(rows))
        assert [hit.id for hit in things.search(query, 1)] == ["d0"]
        [(key, width)] = things.store.database.all("SELECT key, width FROM publications")  # type: ignore[attr-defined]
        [(table,)] = tables_of(things)
        passing = folded.rows_passing("text", RowFilter(len(rows)))
        asked = (np.ones(width), folded.PublicationTable(table, width), "vector", 10, 10)
        statement, values = folded._statement(key, passing, asked)
        by_graph = {}
        with psycopg.connect(server().url) as connection:
            connection.adapters.register_dumper(np.ndarray, VectorDumper)
            connection.execute(f"SET search_path = {schema_of(things)}, public; SET random_page_cost = 1000")
            for planned in (folded.BY_COST, folded.BY_GRAPH):
                connection.execute(planned)
                plan = str(connection.execute(f"EXPLAIN {statement}", values, prepare=False).fetchall())
                by_graph[planned] = "Order By" in plan
        assert by_graph == {folded.BY_COST: False, folded.BY_GRAPH: True}
        monkeypatch.setattr(folded, "BY_GRAPH", "SELECT 1/0")  # that a search runs it
        with pytest.raises(IsthmusError, match="division by zero"):
            things.search(query, 1)


@install
def test_a_calibration_that_is_replaced_leaves_no_vectors_and_no_index(
    url: str, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "EXACT_BELOW", 5)
    with Collection.open(url, counting, "center", follow=False) as things:
        things.add(mixed(40))
        assert len(things.search("a red cat", k=100)) == 40
        things.calibrate("center+nnn(k=4)")
        things.calibrate("none")
        things.search("a red cat")
        things.compact()
        [(table,)] = tables_of(things)
        counted = f"SELECT count(DISTINCT document), (SELECT count(*) FROM folded) FROM {table}"
        assert things.store.database.one(counted) == (40, 0)  # type: ignore[attr-defined]
        indexes = "SELECT count(*) FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE '%%hnsw%%'"
        assert things.store.database.one(indexes, schema_of(things))[0] == 3  # type: ignore[attr-defined]
        assert things.verify() == []


@install
def test_the_command_line_takes_the_url_and_never_shows_its_password(url: str, tiny: str, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for number, text in enumerate(["a cat sits on the red sofa", "the dog runs", "a tree", "a house"]):
        (tmp_path / "notes" / f"n{number}.txt").write_text(text)

    def isthmus(*words: str) -> str:
        done = subprocess.run([sys.executable, "-m", "isthmus", *words], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        assert PASSWORD not in said
        return said

    isthmus("index", str(tmp_path / "notes"), "--into", url, "--encoder", tiny)
    assert "n0.txt" in isthmus("search", "a cat", "--in", url)
    assert "n0.txt" in isthmus("search", "a cat", "--in", url, "--hybrid", "--json")
    isthmus("calibrate", "center", "--in", url)
    assert "4" in isthmus("stats", "--in", url, "--verify")
    isthmus("export", "--in", url, "--to", str(tmp_path / "x.npz"))
    isthmus("delete", "--in", url, "n3.txt")
    assert "no damage found" in isthmus("doctor", "--in", url)
    isthmus("compact", "--in", url)


def test_an_old_pgvector_counts_as_none(counting: Counting) -> None:
    name = f"old_{os.getpid()}"
    administered(f"CREATE DATABASE {name}")
    with psycopg.connect(server().database(name), autocommit=True) as connection:
        connection.execute(
            "CREATE EXTENSION vector; UPDATE pg_extension SET extversion = '0.7.4' WHERE extname = 'vector'"
        )
    url = server().database(name, collection="things")
    with Collection.open(url, counting, calibration="center", follow=False) as things:
        things.add(mixed(20))
        assert len(things.search("a red cat", k=20)) == 20
        assert not things.snapshot().is_published
    with Collection.open(server().collection(), counting, calibration="center", follow=False) as things:  # a newer one
        things.add(mixed(20))
        things.search("a red cat")
        assert things.snapshot().is_published
    with pytest.raises(BadInput, match=r"has no pgvector 0\.8 or later, so its vectors cannot be there"):
        Collection.open(url, counting, vectors="database")
